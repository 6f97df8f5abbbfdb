"""Texts of others: bounded, links not followed, what is left out said."""

import os

import pytest

from pinchpoint.model.errors import InputError
from pinchpoint.store import texts
from pinchpoint.store.texts import read_texts

MARKS = (b"pmd thread",)


@pytest.fixture
def report(tmp_path):
    """An unpacked report: one text that matters, one that does not, a link, a pipe, a binary file."""
    folder = tmp_path / "sos_commands" / "openvswitch"
    folder.mkdir(parents=True)
    (folder / "pmd-stats-show").write_text("pmd thread numa_id 0 core_id 2:\n  packets received: 1\n")
    (folder / "other").write_text("nothing of a switch\n")
    (tmp_path / "link").symlink_to(folder / "pmd-stats-show")
    (tmp_path / "loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00" * 50)
    return tmp_path


def test_texts_with_a_mark_are_read_by_their_name_in_the_folder(report):
    found = read_texts(report, MARKS)
    assert list(found.texts) == ["sos_commands/openvswitch/pmd-stats-show"]
    assert found.truncated == {}


def test_one_file_is_read_by_its_own_name(report):
    file = report / "sos_commands" / "openvswitch" / "pmd-stats-show"
    assert list(read_texts(file, MARKS).texts) == ["pmd-stats-show"]
    assert read_texts(report / "link", MARKS).texts, "a file that was named is read, also by a link"
    with pytest.raises(InputError, match="No such file"):
        read_texts(report / "absent", MARKS)


def test_a_long_text_is_cut_at_a_line_and_that_is_said(report, monkeypatch):
    monkeypatch.setattr(texts, "MOST_BYTES", 40)
    monkeypatch.setattr(texts, "HEAD_BYTES", 40)
    found = read_texts(report, MARKS)
    assert list(found.texts.values()) == ["pmd thread numa_id 0 core_id 2:"]
    assert found.truncated["sos_commands/openvswitch/pmd-stats-show"].startswith("first ")


def test_all_texts_together_have_an_end(report, monkeypatch):
    (report / "second").write_text("pmd thread\n" * 10)
    monkeypatch.setattr(texts, "MOST_IN_ALL", 60)
    assert sum(map(len, read_texts(report, MARKS).texts.values())) <= 60


def test_too_many_files_are_refused(report, monkeypatch):
    monkeypatch.setattr(texts, "MOST_FILES", 2)
    with pytest.raises(InputError, match="more than 2 files"):
        read_texts(report, MARKS)
