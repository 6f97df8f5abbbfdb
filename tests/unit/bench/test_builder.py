"""Faults while building and taking down: one never keeps the rest standing, and all are told."""

import errno
import os
import signal
from types import SimpleNamespace

import pytest

from pinchpoint.bench import actions
from pinchpoint.bench.builder import Builder, clean
from pinchpoint.bench.journal import Journal, journals
from pinchpoint.bench.resource import Command, Hugepages, RunDirectory, TextFile
from pinchpoint.host import hugepages
from pinchpoint.host.local import Local
from pinchpoint.model.errors import BenchError


@pytest.fixture
def bench(tmp_path):
    """Three folders to build, and where the journal stands."""
    folders = [tmp_path / name for name in ("first", "second", "third")]
    return SimpleNamespace(
        state=tmp_path / "state", folders=folders, resources=[RunDirectory(str(path)) for path in folders]
    )


@pytest.fixture
def stuck(monkeypatch, bench):
    """Makes the removal of the second folder fail until it is called."""
    remove = actions.remove

    def refuse(resource, host):
        if resource == bench.resources[1]:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), resource.path)
        remove(resource, host)

    monkeypatch.setattr(actions, "remove", refuse)
    return monkeypatch.undo


def test_what_the_system_says_while_building_is_told_with_the_action(bench):
    file = TextFile(f"{bench.folders[0]}/no/such/folder/rules.txt", ("a",))
    builder = Builder("b1", Local(), bench.state)
    with pytest.raises(BenchError, match=r"write .*rules\.txt.*: No such file or directory"):
        builder.apply([bench.resources[0], file])
    assert not bench.folders[0].exists()
    assert journals(Local(), bench.state) == ()


def test_one_failed_removal_keeps_nothing_else_standing_and_is_told(bench, stuck):
    builder = Builder("b1", Local(), bench.state)
    builder.apply(bench.resources)
    with pytest.raises(BenchError, match="second: Device or resource busy") as caught:
        builder.undo()
    assert caught.value.hint == "pinchpoint clean"
    assert [folder.exists() for folder in bench.folders] == [False, True, False]
    stuck()
    assert clean(Local(), bench.state) == ((f"b1: mkdir {bench.folders[1]}",), (), ())
    assert not bench.folders[1].exists()


def test_after_a_failed_build_and_a_failed_removal_the_first_error_is_raised_and_the_other_noted(bench, stuck):
    builder = Builder("b1", Local(), bench.state)
    with pytest.raises(BenchError, match="no-such-file") as caught:
        builder.apply([*bench.resources, Command(("ls", "/no-such-file"))])
    (note,) = caught.value.__notes__
    assert "second: Device or resource busy" in note
    assert "pinchpoint clean" in note


def test_a_journal_that_takes_no_more_keeps_nothing_standing(bench, monkeypatch):
    builder = Builder("b1", Local(), bench.state)
    builder.apply(bench.resources)

    def full(_journal, _op, _resource):
        raise BenchError("No space left on device")

    monkeypatch.setattr(Journal, "record", full)
    builder.undo()
    assert not any(folder.exists() for folder in bench.folders)
    assert journals(Local(), bench.state) == ()


def dead_run(bench_id, state, *resources):
    builder = Builder(bench_id, Local(), state)
    builder.apply(resources)
    builder._journal.leave()


def test_clean_goes_on_after_a_journal_it_cannot_read(bench):
    dead_run("b1", bench.state, bench.resources[0])
    (bench.state / "b0.journal").write_text("no entry\n")
    (bench.state / "b2.journal").mkdir()
    dead_run("b3", bench.state, bench.resources[2])
    removed, alive, failures = clean(Local(), bench.state)
    assert {f"b1: mkdir {bench.folders[0]}", f"b3: mkdir {bench.folders[2]}"} <= set(removed)
    assert alive == ()
    told = "\n".join(failures)
    assert "b0.journal:1: not a journal entry" in told
    assert "b2.journal: Is a directory" in told


def test_signals_wait_until_clean_is_done(bench, monkeypatch):
    dead_run("b1", bench.state, *bench.resources)
    remove, seen = actions.remove, []

    def interrupt(resource, host):
        signal.raise_signal(signal.SIGINT)  # to this thread: another one, of the test runner, blocks none
        seen.append(resource)
        remove(resource, host)

    monkeypatch.setattr(actions, "remove", interrupt)
    with pytest.raises(KeyboardInterrupt):
        clean(Local(), bench.state)
    assert len(seen) == 3
    assert journals(Local(), bench.state) == ()


@pytest.mark.parametrize("clock", [1, -1], ids=["right", "set back"])
def test_clean_removes_the_newest_bench_first_so_that_the_hugepages_of_both_are_given_back(bench, monkeypatch, clock):
    pool = bench.state.parent / "nr_hugepages"
    pool.write_text("10")
    monkeypatch.setattr(hugepages, "NR_HUGEPAGES", pool)
    monkeypatch.setattr(hugepages, "wait_for", lambda *_: None)
    for place, (bench_id, pages) in enumerate((("older", (10, 60)), ("newer", (60, 100)))):
        builder = Builder(bench_id, Local(), bench.state)
        builder.apply([Hugepages(*pages)])
        builder._journal.leave()  # as its owner's death would
        os.utime(bench.state / f"{bench_id}.journal", (clock * place, clock * place))
    removed = clean(Local(), bench.state).removed
    assert [line.partition(":")[0] for line in removed] == ["newer", "older"]
    assert pool.read_text() == "10"
