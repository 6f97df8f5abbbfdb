"""Single actions: removal is idempotent and touches only what is ours."""

import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pinchpoint.bench.actions import create, daemon_pid, remove
from pinchpoint.bench.resource import Daemon, Hugepages, MarkedProcesses, RunDirectory, TapLinks
from pinchpoint.host import hugepages, processes
from pinchpoint.host.interface import CommandFailed
from pinchpoint.host.local import Local
from pinchpoint.host.processes import ENVIRONMENT_MARK, end_processes, freeze, marked_pids, thaw
from pinchpoint.model.errors import BenchError, DutError, RequirementError

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)",
]


def test_a_failed_command_tells_its_own_words():
    with pytest.raises(CommandFailed) as caught:
        Local().run(["ls", "/no/such/place"])
    assert "/no/such/place" in caught.value.output


def test_a_command_is_out_of_the_terminals_reach_and_in_the_labs_session():
    """A kernel with autogroups weighs sessions: a new one would have priority 0 whatever the command has."""
    words = Local().run(["cat", "/proc/self/stat"]).rpartition(")")[2].split()
    group, session = int(words[2]), int(words[3])
    assert group != os.getpgid(0)
    assert session == os.getsid(0)


def test_a_missing_program_is_a_requirement():
    with pytest.raises(RequirementError, match="no-such-program"):
        Local().run(["no-such-program"])


def test_only_processes_with_the_mark_are_ended():
    ours = subprocess.Popen(SLEEP, env={ENVIRONMENT_MARK: "b1"})
    other = subprocess.Popen(SLEEP, env={ENVIRONMENT_MARK: "b11"})
    try:
        remove(MarkedProcesses("b1"), Local())
        assert ours.wait(timeout=5) is not None
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


class Titled(Local):
    """A host on which a process has written its title over its environment."""

    def __init__(self, pid, left):
        self.pid, self.left = pid, left

    def read_bytes(self, path, offset=0):
        return self.left if path == f"/proc/{self.pid}/environ" else super().read_bytes(path, offset)

    def run(self, argv, *rest, **more):
        return "pp-b1-dut\n" if list(argv) == ["ip", "netns", "identify", str(self.pid)] else ""


@pytest.mark.parametrize("left", [b"\0" * 40, b"-c nginx.conf\0\0\0"])
def test_a_process_that_has_overwritten_its_environment_is_its_namespace_s(left):
    with subprocess.Popen(SLEEP, env={ENVIRONMENT_MARK: "b2"}) as process:
        host = Titled(process.pid, left)
        assert list(marked_pids(host, "b1")) == [process.pid]
        assert list(marked_pids(host, "b2")) == []
        process.kill()


def test_a_process_that_ignores_sigterm_is_killed():
    with subprocess.Popen(STUBBORN, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it ignores SIGTERM from here on
        end_processes(Local(), [process.pid], grace_s=0.2)
        assert process.wait(timeout=5) == -9


ENDS_ITSELF = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); print(flush=True); time.sleep(60)"
ORDERLY = [sys.executable, "-c", f"import signal, sys, time; {ENDS_ITSELF}"]


def test_a_frozen_process_ends_in_order():
    with subprocess.Popen(ORDERLY, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        freeze(Local(), process.pid)
        end_processes(Local(), [process.pid], grace_s=10.0)
        assert process.wait(timeout=5) == 7, "SIGKILL would give -9"


def test_a_process_that_is_frozen_again_and_again_is_ended_all_the_same():
    with subprocess.Popen(STUBBORN, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        over = threading.Event()

        def freeze_on() -> None:
            while not over.is_set():
                freeze(Local(), process.pid)
                over.wait(0.001)

        freezer = threading.Thread(target=freeze_on)
        freezer.start()
        try:
            end_processes(Local(), [process.pid], grace_s=0.1)
        finally:
            over.set()
            freezer.join()
        assert process.wait(timeout=5) == -9


def test_a_frozen_process_runs_again_once_it_is_thawed():
    with subprocess.Popen(SLEEP) as process:
        try:
            freeze(Local(), process.pid)
            assert os.waitpid(process.pid, os.WUNTRACED | os.WSTOPPED)[0] == process.pid
            thaw(Local(), process.pid)
            assert os.waitpid(process.pid, os.WCONTINUED)[0] == process.pid
        finally:
            process.kill()


def test_a_process_that_stays_is_told_by_its_id(monkeypatch):
    monkeypatch.setattr(processes, "KILL_TIMEOUT_S", 0.05)
    monkeypatch.setattr(os, "kill", lambda _pid, _number: None)  # as in uninterruptible sleep
    with pytest.raises(BenchError, match=rf"process {os.getpid()}\b"):
        end_processes(Local(), [os.getpid()], grace_s=0.05)


def test_marked_processes_are_looked_for_until_none_is_found(monkeypatch):
    rounds = iter([[11], [12, 13], []])
    ended = []
    monkeypatch.setattr(processes, "marked_pids", lambda _host, _bench: next(rounds))
    monkeypatch.setattr(processes, "end_processes", lambda _host, pids, grace_s: ended.append(pids))
    remove(MarkedProcesses("b1"), Local())
    assert ended == [[11], [12, 13]]


def test_looking_for_marked_processes_ends_and_says_so(monkeypatch):
    monkeypatch.setattr(processes, "marked_pids", lambda _host, _bench: [11])
    monkeypatch.setattr(processes, "end_processes", lambda _host, pids, grace_s: None)
    with pytest.raises(BenchError, match="bench b1"):
        remove(MarkedProcesses("b1"), Local())


def test_a_run_directory_that_cannot_be_removed_is_told(tmp_path, monkeypatch):
    def refuse(path, ignore_errors=False):
        if not ignore_errors:
            raise PermissionError(1, "Operation not permitted", path)

    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(PermissionError):
        remove(RunDirectory(str(tmp_path)), Local())


def test_a_pid_file_that_names_a_stranger_ends_nothing(tmp_path):
    stranger = subprocess.Popen(SLEEP)
    pidfile = tmp_path / "x.pid"
    pidfile.write_text(str(stranger.pid))
    try:
        remove(Daemon("x", ("x",), str(pidfile), "x.log", "b1"), Local())
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.fixture
def pool(tmp_path, monkeypatch):
    """The kernel's files of a pool: sets (pages in it, free, reserved), reads its size back."""
    nr, kernel, proc = tmp_path / "nr_hugepages", tmp_path / "kernel", tmp_path / "proc"
    kernel.mkdir()
    proc.mkdir()
    monkeypatch.setattr(hugepages, "NR_HUGEPAGES", str(nr))
    monkeypatch.setattr(hugepages, "KERNEL", str(kernel))
    monkeypatch.setattr(hugepages, "PROC", str(proc))

    def show(file, pages):
        """At once, as the kernel does: whoever reads meanwhile finds no empty file."""
        (tmp_path / "new").write_text(str(pages))
        (tmp_path / "new").replace(file)

    def write(total, free=0, reserved=0):
        show(nr, total)
        show(kernel / "resv_hugepages", reserved)
        show(kernel / "free_hugepages", free)
        return lambda: int(nr.read_text())

    return write


@pytest.mark.parametrize(
    ("present", "left"),
    [(522, 10), (600, 88), (300, 10), (10, 10), (4, 4)],
    ids=["as reserved", "others added", "partly gone", "never reserved", "fewer than before"],
)
def test_hugepages_are_given_back_but_never_more_than_were_taken(pool, present, left):
    read = pool(present)
    remove(Hugepages(before=10, after=522), Local())
    assert read() == left


@pytest.mark.parametrize("needed", [0, 522], ids=["as many as are added", "all that the bench needs"])
def test_hugepages_that_an_ending_process_still_holds_are_waited_for(pool, needed):
    read = pool(10, free=400)
    given_back = threading.Timer(0.2, pool, [522, needed or 512])
    given_back.start()
    began = time.monotonic()
    create(Hugepages(before=10, after=522, needed=needed), Local())
    assert time.monotonic() - began >= 0.15
    assert read() == 522


def test_pages_that_a_mapping_has_reserved_are_not_available(pool):
    pool(600, free=512, reserved=100)
    assert hugepages.pool(Local()) == (600, 412)


def holds(proc, pid, pages, environment=b""):
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "status").write_text(f"Name:\tx\nHugetlbPages:\t{pages * 2048:8d} kB\nCpusAllowed:\t3\n")
    (proc / str(pid) / "environ").write_bytes(environment)
    (proc / str(pid) / "comm").write_text(f"dpdk-{pid}\n")


def test_pages_that_nobody_gives_back_end_the_wait_with_their_holders_and_the_mend(pool, monkeypatch):
    pool(600, free=88)
    monkeypatch.setattr(hugepages, "FREED_TIMEOUT_S", 0.05)
    holds(Path(hugepages.PROC), 41, 12, b"A=1\0" + f"{ENVIRONMENT_MARK}=abc".encode())
    holds(Path(hugepages.PROC), 42, 500)
    holds(Path(hugepages.PROC), 43, 0)
    with pytest.raises(RequirementError, match="the engine: 88 of 128 hugepages of 2 MiB are free") as caught:
        hugepages.wait_for(Local(), 128, "the engine")
    assert "dpdk-42 (process 42, 500 pages), dpdk-41 (process 41, 12 pages)" in caught.value.message
    assert "43" not in caught.value.message
    assert caught.value.hint == "end the processes that are no longer needed: kill 42"


@pytest.mark.parametrize(
    ("environment", "mend"),
    [(f"{ENVIRONMENT_MARK}=abc".encode(), "pinchpoint clean"), (None, "rm /dev/hugepages/rtemap_*")],
    ids=["a dead run's process", "files that no process maps"],
)
def test_the_mend_fits_what_holds_the_pages(pool, monkeypatch, environment, mend):
    pool(600)
    monkeypatch.setattr(hugepages, "FREED_TIMEOUT_S", 0.0)
    if environment:
        holds(Path(hugepages.PROC), 41, 12, environment)
    with pytest.raises(RequirementError) as caught:
        hugepages.wait_for(Local(), 1, "the engine")
    assert mend in caught.value.hint


# The first thread ends at once and is a zombie; the process lives on in another one.
WITHOUT_FIRST = [
    sys.executable,
    "-c",
    "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); "
    "print(flush=True); ctypes.CDLL(None).syscall(60, 0)",
]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the number of exit(2) is that of x86-64")
def test_a_process_whose_first_thread_has_ended_is_not_gone(monkeypatch):
    monkeypatch.setattr(processes, "KILL_TIMEOUT_S", 0.05)
    with subprocess.Popen(WITHOUT_FIRST, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        stat = Path(f"/proc/{process.pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.005)
        with monkeypatch.context() as patch, pytest.raises(BenchError, match="still running"):
            patch.setattr(os, "kill", lambda _pid, _number: None)
            end_processes(Local(), [process.pid], grace_s=0.05)
        process.kill()


def test_a_signal_while_a_command_is_being_started_leaves_it_not_running(monkeypatch, tmp_path):
    made = subprocess.Popen

    def struck(*arguments, **options):
        process = made(*arguments, **options)
        signal.raise_signal(signal.SIGINT)  # before the caller knows of it
        return process

    monkeypatch.setattr(subprocess, "Popen", struck)
    done = tmp_path / "done"
    with pytest.raises(KeyboardInterrupt):
        Local().run(["sh", "-c", f"sleep 0.3; touch {done}"])
    time.sleep(0.6)
    assert not done.exists(), "what it did nobody would undo"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_process_that_is_just_being_replaced_by_another_program_is_not_gone(tmp_path):
    """Between two programs of one process its environment is empty for a moment; this one is replaced all the time."""
    endless = tmp_path / "endless"
    endless.write_text('#!/bin/sh\nexec "$0"\n')
    endless.chmod(0o755)
    pidfile = tmp_path / "pid"
    daemon = Daemon("endless", (str(endless),), str(pidfile), str(tmp_path / "log"), "replaced", (0,))
    process = subprocess.Popen([endless], env={**os.environ, ENVIRONMENT_MARK: daemon.bench_id})
    pidfile.write_text(str(process.pid))
    try:
        assert {daemon_pid(daemon, Local()) for _ in range(300)} == {process.pid}
    finally:
        process.kill()
        process.wait()
    with pytest.raises(DutError, match="endless is gone"):
        daemon_pid(daemon, Local())


class Slow(Local):
    """A machine on which a program has its environment only when it is looked at the second time (execve(2))."""

    def __init__(self):
        self.looked = set()

    def read_bytes(self, path, offset=0):
        if path.endswith("/environ") and path not in self.looked:
            self.looked.add(path)
            return b""
        return super().read_bytes(path, offset)


def test_a_process_that_has_just_been_started_is_found_though_it_has_no_environment_yet():
    sleeper = subprocess.Popen(["sleep", "60"], env={**os.environ, ENVIRONMENT_MARK: "young"})
    try:
        assert list(marked_pids(Slow(), "young")) == [sleeper.pid]
    finally:
        sleeper.kill()
        sleeper.wait()


def test_taps_of_another_host_are_not_looked_for_on_this_machine():
    class Far(Local):
        name = "far"

        def exists(self, path):
            return True

    remove(TapLinks("pp-there-dut"), Far())
