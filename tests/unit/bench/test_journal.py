"""The journal: every action is on disk before it is done."""

import multiprocessing

import pytest

from pinchpoint.bench.builder import Builder, clean
from pinchpoint.bench.journal import Journal, journals, read
from pinchpoint.bench.resource import Command, RunDirectory, TextFile
from pinchpoint.model.errors import BenchError


def test_present_is_what_began_and_has_not_been_removed(tmp_path):
    journal = Journal.start("b1", tmp_path)
    first, second = RunDirectory("/x/1"), RunDirectory("/x/2")
    journal.record("create", first)
    journal.record("create", second)
    journal.record("removed", first)
    assert journal.present() == (second,)


def test_a_torn_last_line_is_an_action_that_never_began(tmp_path):
    journal = Journal.start("b1", tmp_path)
    journal.record("create", RunDirectory("/x/1"))
    journal.record("create", RunDirectory("/x/2"))
    whole = journal.path.read_bytes()
    second_begins = whole.index(b"\n") + 1
    for end in range(second_begins, len(whole)):
        journal.path.write_bytes(whole[:end])
        assert journal.present() == (RunDirectory("/x/1"),)


def test_a_damaged_line_inside_is_told_with_its_place(tmp_path):
    path = tmp_path / "b1.journal"
    path.write_text('{"op":"create","resource":{"kind":"volcano"}}\n')
    with pytest.raises(BenchError, match=r"b1\.journal:1"):
        list(read(path))


def test_a_live_runs_journal_cannot_be_taken_over(tmp_path):
    owner = Journal.start("b1", tmp_path)
    assert Journal.take_over(owner.path) is None
    owner.leave()
    assert Journal.take_over(owner.path) is not None


def test_a_failed_action_takes_down_what_was_built(tmp_path):
    builder = Builder("b1", tmp_path / "state")
    folder = tmp_path / "bench"
    with pytest.raises(BenchError, match="no-such-file"):
        builder.apply([RunDirectory(str(folder)), Command(("ls", "/no-such-file"))])
    assert not folder.exists()
    assert journals(tmp_path / "state") == ()


def test_undo_leaves_nothing(tmp_path):
    builder = Builder("b1", tmp_path / "state")
    folder = tmp_path / "bench"
    builder.apply([RunDirectory(str(folder)), TextFile(f"{folder}/rules.txt", ("a",), (("b {i}", 2, 5),))])
    assert (folder / "rules.txt").read_text() == "a\nb 5\nb 6\n"
    builder.undo()
    assert not folder.exists()
    assert journals(tmp_path / "state") == ()


def _build_and_die(state, folder):
    builder = Builder("b1", state)
    builder.apply([RunDirectory(str(folder))])
    # The process ends here without undo, as after SIGKILL: the lock goes with it.


def test_clean_removes_what_a_dead_run_left_and_spares_live_ones(tmp_path):
    state = tmp_path / "state"
    dead, live = tmp_path / "dead", tmp_path / "live"
    process = multiprocessing.get_context("fork").Process(target=_build_and_die, args=(state, dead))
    process.start()
    process.join()
    assert dead.exists()
    owner = Builder("b2", state)
    owner.apply([RunDirectory(str(live))])
    removed, alive = clean(state)
    assert removed == (f"b1: mkdir {dead}",)
    assert alive == ("b2",)
    assert not dead.exists()
    assert live.exists()
    owner.undo()
