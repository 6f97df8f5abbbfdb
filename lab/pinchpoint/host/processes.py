"""Processes of a bench, on any host: found by the mark in their environment, frozen, ended."""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from pinchpoint.host.interface import PROC, TICKS_PER_S, CommandFailed, Host
from pinchpoint.model.errors import BenchError, RequirementError

ENVIRONMENT_MARK = "PINCHPOINT_BENCH"  # every process of a bench carries this variable
KILL_TIMEOUT_S = 5.0  # hugepages take a moment to be freed
EXEC_TIMEOUT_S = 1.0  # for one program to take the place of another in a process
_GONE = (None, "Z", "X")
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD of the flags in /proc/PID/stat
_SESSION, _FLAGS, _STARTED = 3, 6, 19  # of the words after the name: proc(5) counts from the process id


def marked_pids(host: Host, bench_id: str) -> Iterator[int]:
    """The processes that carry the bench's mark, this one excepted; one that has just been started is waited for."""
    mark, own = _mark(bench_id), None if host.name else str(os.getpid())
    for name in host.names(PROC):
        if not name.isdigit() or name == own:
            continue
        environment = _environment(host, int(name))
        is_unclear = (not environment and _starts(host, name)) or _is_overwritten(environment)
        if mark in environment or (is_unclear and is_marked(host, int(name), bench_id)):
            yield int(name)


def _starts(host: Host, name: str) -> bool:
    """Whether a process is so young that the program it becomes may not have its environment yet (execve(2))."""
    try:
        words = host.read(f"{PROC}/{name}/stat").rpartition(")")[2].split()
        up_s = float(host.read(f"{PROC}/uptime").split()[0])
        is_young = up_s - int(words[_STARTED]) / TICKS_PER_S < EXEC_TIMEOUT_S
        return is_young and not int(words[_FLAGS]) & _KERNEL_THREAD
    except (OSError, ValueError, IndexError):
        return False


def is_marked(host: Host, pid: int, bench_id: str) -> bool:
    """Whether a process carries the bench's mark. One that is replaced by another program has no environment yet."""
    deadline = time.monotonic() + EXEC_TIMEOUT_S
    while not (environment := _environment(host, pid)) and alive(host, [pid]) and time.monotonic() < deadline:
        time.sleep(0.002)
    return _mark(bench_id) in environment or (_is_overwritten(environment) and _is_within(host, pid, bench_id))


def _is_overwritten(environment: Sequence[bytes]) -> bool:
    """Whether a process has written its title over its environment, as some daemons do: none of its words is NAME=."""
    return bool(environment) and not any(b"=" in word for word in environment)


def _is_within(host: Host, pid: int, bench_id: str) -> bool:
    """Whether a process is in a network namespace of the bench (ip-netns(8), identify)."""
    try:
        names = host.run(["ip", "netns", "identify", str(pid)]).split()
    except (CommandFailed, RequirementError):
        return False  # it has ended
    return any(name.startswith(f"pp-{bench_id}-") for name in names)


def _mark(bench_id: str) -> bytes:
    return f"{ENVIRONMENT_MARK}={bench_id}".encode()


def _environment(host: Host, pid: int) -> list[bytes]:
    """The words of a process's environment; none of one that has gone or is not ours to read.

    Of one that has overwritten it with less than a word, one empty word.
    """
    try:
        environ = host.read_bytes(f"{PROC}/{pid}/environ")
        return [word for word in environ.split(b"\0") if word] or ([b""] if environ else [])
    except OSError:
        return []


def end_processes(host: Host, pids: Sequence[int], grace_s: float) -> None:
    """SIGTERM, then SIGKILL after `grace_s`; returns when all are gone. Raises BenchError naming those that stay.

    SIGCONT follows SIGTERM and is repeated: a process that was frozen takes no signal but SIGKILL, and whoever
    froze it may do so again until it has ended itself.
    """
    host.signal(pids, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while (left := alive(host, pids)) and time.monotonic() < deadline:
        host.signal(left, signal.SIGCONT)
        time.sleep(0.01)
    host.signal(alive(host, pids), signal.SIGKILL)
    deadline = time.monotonic() + KILL_TIMEOUT_S
    while (left := alive(host, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    if left:
        names = ", ".join(map(str, left))
        raise BenchError(f"still running {KILL_TIMEOUT_S:g} s after SIGKILL: process {names}", "pinchpoint clean")


def freeze(host: Host, pid: int) -> None:
    """Take a process off its cores, all threads of it, until `thaw`. One that has gone is no error."""
    host.signal([pid], signal.SIGSTOP)


def thaw(host: Host, pid: int) -> None:
    """Let a frozen process run again; of one that runs nothing changes. One that has gone is no error."""
    host.signal([pid], signal.SIGCONT)


def alive(host: Host, pids: Sequence[int]) -> list[int]:
    """Those of which any thread still runs: the first one may be a zombie while others still hold the memory."""
    return [pid for pid in pids if any(_state(host, thread) not in _GONE for thread in _threads(host, pid))]


def children(host: Host, pid: int) -> Iterator[int]:
    """The processes that a process has started and not lost."""
    for name in filter(str.isdigit, host.names(PROC)):
        try:
            parent = int(host.read(f"{PROC}/{name}/stat").rpartition(")")[2].split()[1])
        except OSError:
            continue  # it ended between listing and reading
        if parent == pid:
            yield int(name)


def session(host: Host, pid: int) -> list[int]:
    """The processes of the session that a process leads, itself included."""
    pids = []
    for name in filter(str.isdigit, host.names(PROC)):
        with suppress(OSError, ValueError, IndexError):
            if int(host.read(f"{PROC}/{name}/stat").rpartition(")")[2].split()[_SESSION]) == pid:
                pids.append(int(name))
    return pids


def _threads(host: Host, pid: int) -> list[str]:
    try:
        return [f"{PROC}/{pid}/task/{name}" for name in host.names(f"{PROC}/{pid}/task")]
    except OSError:
        return []


def _state(host: Host, thread: str) -> str | None:
    try:
        return host.read(f"{thread}/stat").rpartition(")")[2].split()[0]
    except OSError:
        return None
