"""The journal: every action is on disk before it is done."""

import errno
import fcntl
import multiprocessing
import os
import subprocess
from pathlib import Path

import pytest

from pinchpoint.bench.actions import named_after
from pinchpoint.bench.builder import Builder, clean
from pinchpoint.bench.journal import Journal, journals, machine_lock, read
from pinchpoint.bench.resource import Command, RunDirectory, TextFile
from pinchpoint.host import locked
from pinchpoint.host.local import Local
from pinchpoint.host.processes import ENVIRONMENT_MARK
from pinchpoint.model.errors import BenchError, RequirementError


def test_present_is_what_began_and_has_not_been_removed(tmp_path):
    journal = Journal.start("b1", Local(), tmp_path)
    first, second = RunDirectory("/x/1"), RunDirectory("/x/2")
    journal.record("create", first)
    journal.record("create", second)
    journal.record("removed", first)
    assert journal.present() == (second,)


def test_a_torn_last_line_is_an_action_that_never_began(tmp_path):
    journal = Journal.start("b1", Local(), tmp_path)
    journal.record("create", RunDirectory("/x/1"))
    journal.record("create", RunDirectory("/x/2"))
    whole = journal.path.read_bytes()
    second_begins = whole.index(b"\n") + 1
    for end in range(second_begins, len(whole)):
        journal.path.write_bytes(whole[:end])
        assert journal.present() == (RunDirectory("/x/1"),)


def test_a_damaged_line_inside_is_told_with_its_place(tmp_path):
    path = tmp_path / "b1.journal"
    path.write_text('{"op":"create","resource":{"kind":\n')
    (entry,) = read(path, Local())
    assert "b1.journal:1: not a journal entry" in entry.words


def test_clean_undoes_what_a_damaged_journal_still_names_and_says_what_it_cannot_read(tmp_path):
    state, named = tmp_path / "state", tmp_path / "named"
    for folder in (state, state / "b1", named):
        folder.mkdir()
    path = state / "b1.journal"
    entry = f'{{"op":"create","resource":{{"kind":"run_directory","path":"{named}"}}}}'
    path.write_text(f"\0\0\0\n{entry}\n")
    (said,) = clean(Local(), state).failures
    assert "b1.journal:1: not a journal entry" in said
    assert "vm.nr_hugepages" in said
    assert not named.exists()
    assert [place.name for place in state.iterdir()] == []
    assert clean(Local(), state).failures == ()


OF_ANOTHER_VERSION = [
    '{"op":"create","resource":{"kind":"volcano","height_m":3776},"version":2}',
    '{"op":"create","resource":{"kind":"run_directory","path":"/x/1","owner":"later"},"version":2}',
    '{"op":"create","resource":{"kind":"run_directory","path":"/x/1"},"version":2}',
]


@pytest.mark.parametrize("line", OF_ANOTHER_VERSION)
def test_a_line_of_another_version_is_read_as_far_as_any_version_can(tmp_path, line):
    path = tmp_path / "b1.journal"
    path.write_text(f"{line}\n")
    journal = Journal.take_over(path, Local())
    assert journal.present() == ()
    (foreign,) = journal.foreign()
    assert (foreign.version, foreign.resource.kind) == (2, line.split('"')[9])


def test_a_journal_without_a_version_is_of_the_first(tmp_path):
    path = tmp_path / "b1.journal"
    path.write_text('{"op":"create","resource":{"kind":"run_directory","path":"/x/1"}}\n')
    assert Journal.take_over(path, Local()).present() == (RunDirectory("/x/1"),)


@pytest.mark.parametrize("line", OF_ANOTHER_VERSION)
def test_clean_removes_by_name_what_another_version_built_and_says_what_it_did_not_understand(tmp_path, line):
    state = tmp_path / "state"
    state.mkdir()
    (state / "b1").mkdir()
    path = state / "b1.journal"
    path.write_text(f"{line}\n")
    sleeper = subprocess.Popen(["sleep", "60"], env={**os.environ, ENVIRONMENT_MARK: "b1"})
    cleaned = clean(Local(), state)
    assert sleeper.wait(10) < 0
    assert not (state / "b1").exists()
    assert not path.exists()
    (said,) = cleaned.failures
    assert "version 2" in said
    assert line.split('"')[9] in said
    assert clean(Local(), state).failures == ()


@pytest.mark.parametrize("there", [True, False])
def test_files_that_a_guest_was_to_copy_are_found_by_name(tmp_path, there):
    class Machine(Local):
        def exists(self, path):
            return there and path == "/tmp/pinchpoint-b1"

    assert (RunDirectory("/tmp/pinchpoint-b1") in named_after("b1", tmp_path, Machine())) is there


def test_a_live_runs_journal_cannot_be_taken_over(tmp_path):
    owner = Journal.start("b1", Local(), tmp_path)
    assert Journal.take_over(owner.path, Local()) is None
    owner.leave()
    assert Journal.take_over(owner.path, Local()) is not None


def test_a_state_folder_that_cannot_be_made_is_a_requirement(tmp_path):
    with pytest.raises(RequirementError, match="No such file or directory"):
        Journal.start("b1", Local(), tmp_path / "missing" / "pinchpoint")


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_state_folder_that_takes_no_file_is_a_requirement_in_the_systems_words(tmp_path, monkeypatch, code):
    def refuse(path, *_):
        raise OSError(code, os.strerror(code), str(path))

    monkeypatch.setattr(locked.os, "open", refuse)
    with pytest.raises(RequirementError, match=os.strerror(code)) as caught:
        Journal.start("b1", Local(), tmp_path)
    assert caught.value.hint


def test_a_journal_that_exists_is_never_replaced(tmp_path):
    path = tmp_path / "b1.journal"
    path.write_text("another's")
    with pytest.raises(RequirementError, match="File exists"):
        Journal.start("b1", Local(), tmp_path)
    assert path.read_text() == "another's"
    assert [path.name for path in tmp_path.iterdir()] == ["b1.journal"]


def test_nobody_sees_a_journal_before_its_owner_holds_the_lock(tmp_path, monkeypatch):
    seen = []

    def look_then_lock(descriptor, how):
        seen.append(journals(Local(), tmp_path))
        fcntl_flock(descriptor, how)

    fcntl_flock = fcntl.flock
    monkeypatch.setattr(locked.fcntl, "flock", look_then_lock)
    Journal.start("b1", Local(), tmp_path)
    assert seen == [()]
    assert [path.name for path in tmp_path.iterdir()] == ["b1.journal"]


def test_clean_deletes_what_an_owner_left_that_died_before_its_journal_had_a_name(tmp_path):
    (tmp_path / "b1.new").touch()
    assert clean(Local(), tmp_path) == ((), (), ())
    assert list(tmp_path.iterdir()) == []


def test_who_takes_over_cuts_off_a_torn_last_line(tmp_path):
    owner = Journal.start("b1", Local(), tmp_path)
    owner.record("create", RunDirectory("/x/1"))
    owner.leave()
    with owner.path.open("ab") as file:
        file.write(b'{"op":"cre')
    journal = Journal.take_over(owner.path, Local())
    journal.record("removed", RunDirectory("/x/1"))
    assert journal.present() == ()


def test_an_entry_that_finds_no_space_is_not_there_at_all(tmp_path, monkeypatch):
    journal = Journal.start("b1", Local(), tmp_path)
    journal.record("create", RunDirectory("/x/1"))
    write = os.write

    def no_space(descriptor, line):
        monkeypatch.setattr(locked.os, "write", full)
        return write(descriptor, line[:5])

    def full(_descriptor, _line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(locked.os, "write", no_space)
    with pytest.raises(BenchError, match="No space left"):
        journal.record("create", RunDirectory("/x/2"))
    monkeypatch.undo()
    journal.record("create", RunDirectory("/x/3"))
    assert journal.present() == (RunDirectory("/x/1"), RunDirectory("/x/3"))


def test_a_journal_that_ends_while_it_is_listed_is_left_out(tmp_path, monkeypatch):
    Journal.start("b1", Local(), tmp_path)
    monkeypatch.setattr(Path, "glob", lambda folder, _pattern: [folder / "b1.journal", folder / "gone.journal"])
    assert journals(Local(), tmp_path) == (tmp_path / "b1.journal",)


def test_who_takes_over_a_journal_that_has_ended_makes_no_new_one(tmp_path):
    with pytest.raises(FileNotFoundError):
        Journal.take_over(tmp_path / "b1.journal", Local())
    assert list(tmp_path.iterdir()) == []


def test_a_second_run_on_a_machine_is_told_to_wait(tmp_path):
    with (
        machine_lock(Local(), tmp_path),
        pytest.raises(RequirementError, match="another run is active") as caught,
        machine_lock(Local(), tmp_path),
    ):
        pass
    assert "pinchpoint clean" in caught.value.hint
    with machine_lock(Local(), tmp_path):
        pass


def _lock_and_die(folder):
    machine_lock(Local(), folder).__enter__()
    os.kill(os.getpid(), 9)


def test_a_dead_runs_lock_is_free(tmp_path):
    process = multiprocessing.get_context("fork").Process(target=_lock_and_die, args=(tmp_path,))
    process.start()
    process.join()
    assert process.exitcode == -9
    with machine_lock(Local(), tmp_path):
        assert (tmp_path / "run.lock").exists()


def test_a_failed_action_takes_down_what_was_built(tmp_path):
    builder = Builder("b1", Local(), tmp_path / "state")
    folder = tmp_path / "bench"
    with pytest.raises(BenchError, match="no-such-file"):
        builder.apply([RunDirectory(str(folder)), Command(("ls", "/no-such-file"))])
    assert not folder.exists()
    assert journals(Local(), tmp_path / "state") == ()


def test_undo_leaves_nothing(tmp_path):
    builder = Builder("b1", Local(), tmp_path / "state")
    folder = tmp_path / "bench"
    builder.apply([RunDirectory(str(folder)), TextFile(f"{folder}/rules.txt", ("a",), (("b {i}", 2, 5),))])
    assert (folder / "rules.txt").read_text() == "a\nb 5\nb 6\n"
    builder.undo()
    assert not folder.exists()
    assert journals(Local(), tmp_path / "state") == ()


def _build_and_die(state, folder):
    builder = Builder("b1", Local(), state)
    builder.apply([RunDirectory(str(folder))])
    # The process ends here without undo, as after SIGKILL: the lock goes with it.


def test_clean_removes_what_a_dead_run_left_and_spares_live_ones(tmp_path):
    state = tmp_path / "state"
    dead, live = tmp_path / "dead", tmp_path / "live"
    process = multiprocessing.get_context("fork").Process(target=_build_and_die, args=(state, dead))
    process.start()
    process.join()
    assert dead.exists()
    owner = Builder("b2", Local(), state)
    owner.apply([RunDirectory(str(live))])
    removed, alive, failures = clean(Local(), state)
    assert removed == (f"b1: mkdir {dead}",)
    assert alive == ("b2",)
    assert failures == ()
    assert not dead.exists()
    assert live.exists()
    owner.undo()
