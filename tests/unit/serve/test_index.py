import shutil
import sqlite3
from dataclasses import replace

import pytest
from sample import sample_run
from sample_study import study_run
from served import keep

from pinchpoint.model.comparison import ComparisonRequest
from pinchpoint.model.errors import InputError
from pinchpoint.serve.index import Index, Wanted
from pinchpoint.serve.shelf import Shelf


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A shelf of three runs and its index, which each test copies."""
    place = tmp_path_factory.mktemp("kept")
    root = place / "runs"
    info, result, trials = sample_run()
    keep(root, "first", (info, result, trials), started="2026-01-02T03:04:05Z")
    guarded = tuple({**scenario, "dut": {**scenario["dut"], "kind": "bridge"}} for scenario in info.scenarios)
    keep(
        root,
        "second",
        (info, result, trials),
        started="2026-02-02T03:04:05Z",
        scenarios=guarded,
        host={"processor": "other"},
    )
    keep(root, "third", study_run(), started="2026-03-02T03:04:05Z")
    Index(Shelf(root), place / "index").refresh()
    return place


@pytest.fixture
def index(kept, tmp_path):
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    return Index(Shelf(tmp_path / "runs"), tmp_path / "index")


def listed(index, **wanted):
    return [row.id for row in index.list(Wanted(**wanted)).rows]


def test_the_newest_run_is_first(index):
    assert listed(index) == ["third", "second", "first"]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({"kind": "bridge"}, ["second"]),
        ({"study": "synthetic-study"}, ["third"]),
        ({"host": "other"}, ["second"]),
        ({"verdict": "forwarding core"}, ["third", "second", "first"]),
        ({"since": "2026-02-02"}, ["third", "second"]),
        ({"until": "2026-02-02"}, ["second", "first"]),
        ({"text": "SNAT-255 bridge"}, ["second"]),
        ({"text": "nothing of the kind"}, []),
        ({"text": "%"}, []),
        ({"text": "' or 1=1 --"}, []),
        ({"page": 2}, []),
    ],
)
def test_each_filter_finds_its_runs(index, wanted, names):
    assert listed(index, **wanted) == names


def test_a_comparison_is_called_by_both_its_sides(tmp_path):
    keep(tmp_path / "runs", "both", sample_run(), comparison=ComparisonRequest("plain", "tuned", 6))
    kept = Index(Shelf(tmp_path / "runs"), tmp_path / "index")
    kept.refresh()
    (row,) = kept.list(Wanted()).rows
    assert row.title == "plain against tuned"


def test_choices_are_what_the_runs_have(index):
    choices = index.list(Wanted()).choices
    assert choices["kind"] == ("bridge", "ovs") and choices["study"] == ("synthetic-study",)


def test_only_what_changed_is_read_again(index):
    assert index.refresh() == 0
    folder = index.shelf.run("first")
    folder.write_result(replace(folder.read_result(), finished=False))
    assert index.refresh() == 1
    assert [row.state for row in index.list(Wanted(text="first")).rows if row.id == "first"] == ["unfinished"]


def test_a_run_that_is_gone_is_forgotten(index):
    (index.shelf.root / "first").rename(index.shelf.root.with_name("elsewhere"))
    index.refresh()
    assert "first" not in listed(index)
    assert "first" not in index.having("snat-255", 9)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"started": 1, "scenarios": []}', "\xff"])
def test_a_run_that_cannot_be_read_is_listed_with_the_reason(index, text):
    folder = index.shelf.root / "broken"
    folder.mkdir()
    (folder / "run.json").write_text(text, encoding="latin-1")
    index.refresh()
    (row,) = [row for row in index.list(Wanted()).rows if row.id == "broken"]
    assert row.state == "unreadable" and "run.json" in row.error


@pytest.mark.parametrize("spoiled", [b"no index", b""])
def test_a_spoiled_index_is_made_anew(index, spoiled):
    for path in index.path.parent.glob("index*"):
        if path.is_file():
            path.unlink()
    index.path.write_bytes(spoiled)
    assert index.refresh() == 3


def test_an_index_of_another_version_is_made_anew(index):
    base = sqlite3.connect(index.path)
    base.execute("pragma user_version = 999")
    base.close()
    assert index.refresh() == 3


def test_scenarios_and_their_metrics_are_known(index):
    assert index.scenarios()["snat-255"] == 2
    assert index.metrics("snat-255")[0] == "NDR"
    assert index.having("snat-255", 1) == ("second",)


@pytest.mark.parametrize("name", ["..", ".", "", "../runs/first", "first/../second", "/etc", "a\0b", ".hidden", "nope"])
def test_a_name_that_is_no_run_opens_nothing(index, name):
    with pytest.raises(InputError):
        index.shelf.run(name)


def test_links_lead_nowhere(index, tmp_path):
    outside = keep(tmp_path / "outside", "secret", sample_run())
    (index.shelf.root / "linked").symlink_to(outside.path)
    with pytest.raises(InputError):
        index.shelf.run("linked")
    trials = index.shelf.root / "first" / "trials.jsonl"
    trials.unlink()
    trials.symlink_to(outside.path / "trials.jsonl")
    with pytest.raises(InputError):
        index.shelf.run("first")
    index.refresh()
    assert "linked" not in listed(index)


@pytest.mark.parametrize("name", ["report.html", "../second/run.json", "attachments/x", "measurements.jsonl"])
def test_only_known_files_are_served(index, name):
    with pytest.raises(InputError):
        index.shelf.file("first", name)
