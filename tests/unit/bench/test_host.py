"""Single actions: removal is idempotent and touches only what is ours."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from pinchpoint.bench import host
from pinchpoint.bench.resource import ENVIRONMENT_MARK, Daemon, Hugepages, MarkedProcesses, RunDirectory
from pinchpoint.model.errors import BenchError, RequirementError

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)",
]


def test_a_failed_command_tells_its_own_words():
    with pytest.raises(host.CommandFailed) as caught:
        host.run_command(["ls", "/no/such/place"])
    assert "/no/such/place" in caught.value.output


def test_a_missing_program_is_a_requirement():
    with pytest.raises(RequirementError, match="no-such-program"):
        host.run_command(["no-such-program"])


def test_only_processes_with_the_mark_are_ended():
    ours = subprocess.Popen(SLEEP, env={ENVIRONMENT_MARK: "b1"})
    other = subprocess.Popen(SLEEP, env={ENVIRONMENT_MARK: "b11"})
    try:
        host.remove(MarkedProcesses("b1"))
        assert ours.wait(timeout=5) is not None
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_process_that_ignores_sigterm_is_killed():
    with subprocess.Popen(STUBBORN, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it ignores SIGTERM from here on
        host.end_processes([process.pid], grace_s=0.2)
        assert process.wait(timeout=5) == -9


ENDS_ITSELF = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); print(flush=True); time.sleep(60)"
ORDERLY = [sys.executable, "-c", f"import signal, sys, time; {ENDS_ITSELF}"]


def test_a_frozen_process_ends_in_order():
    with subprocess.Popen(ORDERLY, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        host.freeze(process.pid)
        host.end_processes([process.pid], grace_s=10.0)
        assert process.wait(timeout=5) == 7, "SIGKILL would give -9"


def test_a_process_that_is_frozen_again_and_again_is_ended_all_the_same():
    with subprocess.Popen(STUBBORN, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        over = threading.Event()

        def freeze_on() -> None:
            while not over.is_set():
                host.freeze(process.pid)
                over.wait(0.001)

        freezer = threading.Thread(target=freeze_on)
        freezer.start()
        try:
            host.end_processes([process.pid], grace_s=0.1)
        finally:
            over.set()
            freezer.join()
        assert process.wait(timeout=5) == -9


def test_a_frozen_process_runs_again_once_it_is_thawed():
    with subprocess.Popen(SLEEP) as process:
        try:
            host.freeze(process.pid)
            assert os.waitpid(process.pid, os.WUNTRACED | os.WSTOPPED)[0] == process.pid
            host.thaw(process.pid)
            assert os.waitpid(process.pid, os.WCONTINUED)[0] == process.pid
        finally:
            process.kill()


def test_a_process_that_stays_is_told_by_its_id(monkeypatch):
    monkeypatch.setattr(host, "KILL_TIMEOUT_S", 0.05)
    monkeypatch.setattr(host.os, "kill", lambda _pid, _number: None)  # as in uninterruptible sleep
    with pytest.raises(BenchError, match=rf"process {os.getpid()}\b"):
        host.end_processes([os.getpid()], grace_s=0.05)


def test_marked_processes_are_looked_for_until_none_is_found(monkeypatch):
    rounds = iter([[11], [12, 13], []])
    ended = []
    monkeypatch.setattr(host, "marked_pids", lambda _bench: next(rounds))
    monkeypatch.setattr(host, "end_processes", lambda pids, grace_s: ended.append(pids))
    host.remove(MarkedProcesses("b1"))
    assert ended == [[11], [12, 13]]


def test_looking_for_marked_processes_ends_and_says_so(monkeypatch):
    monkeypatch.setattr(host, "marked_pids", lambda _bench: [11])
    monkeypatch.setattr(host, "end_processes", lambda pids, grace_s: None)
    with pytest.raises(BenchError, match="bench b1"):
        host.remove(MarkedProcesses("b1"))


def test_a_run_directory_that_cannot_be_removed_is_told(tmp_path, monkeypatch):
    def refuse(path, ignore_errors=False):
        if not ignore_errors:
            raise PermissionError(1, "Operation not permitted", path)

    monkeypatch.setattr(host.shutil, "rmtree", refuse)
    with pytest.raises(PermissionError):
        host.remove(RunDirectory(str(tmp_path)))


def test_a_pid_file_that_names_a_stranger_ends_nothing(tmp_path):
    stranger = subprocess.Popen(SLEEP)
    pidfile = tmp_path / "x.pid"
    pidfile.write_text(str(stranger.pid))
    try:
        host.remove(Daemon("x", ("x",), str(pidfile), "x.log", "b1"))
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize(
    ("present", "left"),
    [(522, 10), (600, 88), (300, 10), (10, 10), (4, 4)],
    ids=["as reserved", "others added", "partly gone", "never reserved", "fewer than before"],
)
def test_hugepages_are_given_back_but_never_more_than_were_taken(tmp_path, monkeypatch, present, left):
    pool = tmp_path / "nr_hugepages"
    pool.write_text(str(present))
    monkeypatch.setattr(host, "NR_HUGEPAGES", pool)
    host.remove(Hugepages(before=10, after=522))
    assert int(pool.read_text()) == left


def test_hugepages_that_an_ending_process_still_holds_are_waited_for(tmp_path, monkeypatch):
    pool, free = tmp_path / "nr_hugepages", tmp_path / "free_hugepages"
    pool.write_text("10")
    free.write_text("400")
    monkeypatch.setattr(host, "NR_HUGEPAGES", pool)
    monkeypatch.setattr(host, "FREE_HUGEPAGES", free)
    whole = tmp_path / "whole"
    whole.write_text("512")
    given_back = threading.Timer(0.2, whole.replace, [free])
    given_back.start()
    host.create(Hugepages(before=10, after=522))
    assert (pool.read_text(), free.read_text()) == ("522", "512")


def test_a_signal_while_a_command_is_being_started_leaves_it_not_running(monkeypatch, tmp_path):
    made = subprocess.Popen

    def struck(*arguments, **options):
        process = made(*arguments, **options)
        signal.raise_signal(signal.SIGINT)  # before the caller knows of it
        return process

    monkeypatch.setattr(subprocess, "Popen", struck)
    done = tmp_path / "done"
    with pytest.raises(KeyboardInterrupt):
        host.run_command(["sh", "-c", f"sleep 0.3; touch {done}"])
    time.sleep(0.6)
    assert not done.exists(), "what it did nobody would undo"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
