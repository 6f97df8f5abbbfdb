"""A run folder keeps what was measured, whatever happens in between."""

import fcntl
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sample import sample_run

from pinchpoint.model.errors import InputError, StoreError
from pinchpoint.store.folder import RunFolder

_NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)
INFO, RESULT, TRIALS = sample_run()


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "runs", "snat", _NOON)


def test_a_new_folder_is_named_after_the_run_and_the_utc_second(folder: RunFolder) -> None:
    assert folder.run_id == "snat-20260102T120000Z"
    assert folder.path.is_dir()


def test_a_taken_name_gets_a_number_and_nothing_is_reused(tmp_path: Path) -> None:
    made = [RunFolder.create(tmp_path, "snat", _NOON) for _ in range(3)]
    assert [folder.run_id[-3:] for folder in made] == ["00Z", "Z-2", "Z-3"]
    assert len({folder.path for folder in made}) == 3


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "a b", "-x", "a\0", "x" * 129, "é"])
def test_an_unsafe_name_is_refused(folder: RunFolder, name: str) -> None:
    with pytest.raises(InputError, match="cannot be used as a file name"):
        RunFolder.create(folder.path, name)
    with pytest.raises(InputError, match="cannot be used as a file name"):
        folder.attach(name, "text")


def test_opening_something_else_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"not a run folder \(it has no run\.json\)"):
        RunFolder.open(tmp_path)


def test_everything_written_is_read_again_after_opening(folder: RunFolder) -> None:
    folder.write_info(INFO)
    folder.write_result(RESULT)
    for trial in TRIALS:
        folder.append(trial)
    again = RunFolder.open(folder.path)
    assert (again.read_info(), again.read_result(), again.read_trials()) == (INFO, RESULT, TRIALS)


def test_a_new_folder_has_no_trials_and_no_result(folder: RunFolder) -> None:
    assert folder.read_trials() == ()
    assert folder.read_result() is None


def test_a_trial_is_synced_before_append_returns(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int]] = []
    real = os.fsync

    def spy(descriptor: int) -> None:
        status = os.fstat(descriptor)
        seen.append(("folder" if stat.S_ISDIR(status.st_mode) else "file", status.st_size))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    folder.append(TRIALS[0])
    size = (folder.path / "trials.jsonl").stat().st_size
    assert seen[0] == ("file", size)
    assert seen[1][0] == "folder"
    folder.append(TRIALS[1])
    assert seen[2] == ("file", (folder.path / "trials.jsonl").stat().st_size)


def test_a_result_is_replaced_by_rename_after_syncing_it(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write_result(RESULT)
    before = (folder.path / "result.json").read_bytes()
    steps: list[str] = []
    real = os.fsync

    def spy(descriptor: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        steps.append(f"{kind}:{'old' if (folder.path / 'result.json').read_bytes() == before else 'new'}")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    folder.write_result(replace(RESULT, finished=False))
    assert steps == ["file:old", "folder:new"]
    assert [path.name for path in folder.path.iterdir()] == ["result.json"]


def test_a_torn_last_line_is_ignored_and_cut_off_before_the_next_trial(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # a thousand of them take seconds, and no power is lost here
    small = [replace(trial, streams=(), observed={}, threads=()) for trial in TRIALS[:3]]
    for trial in small[:2]:
        folder.append(trial)
    path = folder.path / "trials.jsonl"
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for end in range(first, len(whole)):
        with path.open("r+b") as file:  # opened to be emptied, ext4 would write it to the disk each time
            file.truncate(first)
            file.seek(first)
            file.write(whole[first:end])
        assert folder.read_trials() == (small[0],)
        folder.append(small[2])
        assert folder.read_trials() == (small[0], small[2])


def test_a_torn_first_line_is_ignored_too(folder: RunFolder) -> None:
    path = folder.path / "trials.jsonl"
    path.write_bytes(b'{"schema":1,"id":"sna')
    assert folder.read_trials() == ()
    folder.append(TRIALS[0])
    assert folder.read_trials() == (TRIALS[0],)


def test_a_torn_line_longer_than_one_read_is_cut_off_whole(folder: RunFolder) -> None:
    folder.append(TRIALS[0])
    with (folder.path / "trials.jsonl").open("ab") as file:
        file.write(b"\0" * 200_000)
    folder.append(TRIALS[1])
    assert folder.read_trials() == TRIALS[:2]


def test_a_broken_line_in_the_middle_is_an_error_with_its_number(folder: RunFolder) -> None:
    for trial in TRIALS[:3]:
        folder.append(trial)
    path = folder.path / "trials.jsonl"
    lines = path.read_bytes().split(b"\n")
    lines[1] = lines[1].replace(b'"offered":', b'"offred":', 1)
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(InputError, match=r"trials\.jsonl, line 2: .*offred"):
        folder.read_trials()


def test_a_full_disk_is_an_error_that_names_the_file_and_what_to_do(folder: RunFolder) -> None:
    (folder.path / "trials.jsonl").symlink_to("/dev/full")
    with pytest.raises(StoreError, match=r"cannot write .*trials\.jsonl: No space left") as raised:
        folder.append(TRIALS[0])
    assert raised.value.hint == "free some space, then resume the run"


_UNTIL_FULL = """
import resource, signal, sys
from pathlib import Path
from pinchpoint.model.errors import StoreError
from pinchpoint.store.folder import RunFolder
from sample import sample_run
info, result, trials = sample_run()
folder = RunFolder(Path(sys.argv[1]))
folder.append(trials[0])
folder.write_result(result)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
size = (folder.path / 'trials.jsonl').stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, -1))
for write in (lambda: folder.append(trials[1]), lambda: folder.write_result(result)):
    try:
        write()
    except StoreError as error:
        print(error.message.rpartition("/")[2])
"""


def test_a_write_that_fails_half_way_leaves_what_was_there(folder: RunFolder) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", _UNTIL_FULL, str(folder.path)],
        env=environment, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["trials.jsonl: File too large", "result.json: File too large"]
    assert (folder.path / "trials.jsonl").read_bytes().count(b"\n") == 1
    assert (folder.path / "trials.jsonl").read_bytes().endswith(b"\n")
    assert folder.read_result() == RESULT
    assert sorted(path.name for path in folder.path.iterdir()) == ["result.json", "trials.jsonl"]


def test_a_folder_that_has_gone_is_an_error_that_says_so(folder: RunFolder) -> None:
    folder.path.rmdir()
    writes: tuple[Callable[[], object], ...] = (
        lambda: folder.append(TRIALS[0]),
        lambda: folder.write_info(INFO),
        lambda: folder.write_page("report.html", ""),
        lambda: folder.attach("a.log", ""),
    )
    for write in writes:
        with pytest.raises(StoreError, match=r"cannot write .*") as raised:
            write()
        assert raised.value.hint is not None and "gone" in raised.value.hint


def test_a_root_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(StoreError, match="cannot write"):
        RunFolder.create(tmp_path / "runs", "snat")


def test_two_runs_cannot_append_to_the_same_folder_at_once(folder: RunFolder) -> None:
    folder.append(TRIALS[0])
    with (folder.path / "trials.jsonl").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        with pytest.raises(StoreError) as raised:
            folder.append(TRIALS[1])
    assert raised.value.hint is not None and "another pinchpoint" in raised.value.hint
    assert folder.read_trials() == TRIALS[:1]


def test_attachments_never_overwrite_each_other(folder: RunFolder) -> None:
    paths = [folder.attach("vswitchd.log", text) for text in ("one", "two", "three")]
    assert [path.name for path in paths] == ["vswitchd.log", "vswitchd-2.log", "vswitchd-3.log"]
    assert [path.read_text() for path in paths] == ["one", "two", "three"]
    assert folder.attach("README", "x").name == "README"


def test_a_page_replaces_an_earlier_one(folder: RunFolder) -> None:
    for text in ("<p>", "<b>"):
        assert folder.write_page("report.html", text) == folder.path / "report.html"
    assert (folder.path / "report.html").read_text() == "<b>"


def test_a_kill_during_appends_loses_at_most_the_last_line(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "killed", _NOON)
    endless = (
        "import sys; from pathlib import Path; from itertools import cycle\n"
        "from pinchpoint.store.folder import RunFolder; from sample import sample_run\n"
        "folder = RunFolder(Path(sys.argv[1]))\n"
        "for trial in cycle(sample_run()[2]): folder.append(trial); print(1, flush=True)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", endless, str(folder.path)], env=environment, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        reported = sum(1 for _ in zip(range(20), process.stdout, strict=False))
        process.send_signal(signal.SIGKILL)
        reported += len(process.stdout.readlines())
    assert reported <= len(folder.read_trials()) <= reported + 1
