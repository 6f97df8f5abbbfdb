import pytest
from sample import sample_run
from served import answered, keep, workshop

from pinchpoint.model.errors import InputError
from pinchpoint.serve.index import Wanted
from pinchpoint.store.folder import read_tags, write_tags


@pytest.fixture
def folder(tmp_path):
    return keep(tmp_path / "runs", "one", sample_run())


def files(folder):
    return {path.name: path.read_bytes() for path in folder.path.iterdir() if path.name != "tags.json"}


def test_a_tag_changes_no_file_of_the_run(folder, tmp_path):
    before = files(folder)
    answered(tmp_path, "tag", run="one", add="nightly")
    assert read_tags(folder) == ("nightly",) and files(folder) == before


def test_a_tag_is_taken_away_again(folder, tmp_path):
    write_tags(folder, ["a", "b"])
    answered(tmp_path, "tag", run="one", remove="a")
    assert read_tags(folder) == ("b",)


@pytest.mark.parametrize("tag", ["<b>", "-x", "", "a" * 41, "a\nb"])
def test_what_is_no_tag_is_refused(folder, tag):
    with pytest.raises(InputError, match="cannot be a tag"):
        write_tags(folder, [tag])


def test_a_file_that_is_no_list_of_tags_is_named(folder):
    (folder.path / "tags.json").write_text('{"a": 1}')
    with pytest.raises(InputError, match=r"tags\.json"):
        read_tags(folder)


def test_a_run_whose_tags_are_damaged_is_shown_and_listed_with_the_error(folder, tmp_path):
    (folder.path / "tags.json").write_text("[")
    parts = workshop(tmp_path / "runs")
    page = parts.pages.run("", "one")
    assert "tags.json cannot be read" in page and "remove the file" in page
    parts.pages.index.refresh()
    (row,) = parts.pages.index.list(Wanted()).rows
    assert row.state == "finished" and row.number and "tags.json cannot be read" in row.error


def test_runs_are_found_by_their_tag(folder, tmp_path):
    keep(tmp_path / "runs", "two", sample_run())
    index = workshop(tmp_path / "runs").pages.index
    index.refresh()
    write_tags(folder, ["nightly", "a"])
    assert index.refresh() == 1
    (row,) = index.list(Wanted(tag="nightly")).rows
    assert row.id == "one" and row.tagged == ("a", "nightly")
    assert index.list(Wanted(text="nightly")).total == 1
    assert index.list(Wanted()).choices["tag"] == ("a", "nightly")
