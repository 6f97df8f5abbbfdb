"""Processes of a bench, on any host: found by the mark in their environment, frozen, ended; what they use (proc(5))."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from pinchpoint.host.interface import PROC, TICKS_PER_S, Host, names_in, printed_by
from pinchpoint.model.errors import BenchError, DutError

_T = TypeVar("_T")
ENVIRONMENT_MARK = "PINCHPOINT_BENCH"  # every process of a bench carries this variable
KILL_TIMEOUT_S = 5.0  # hugepages take a moment to be freed
MOST_ROUNDS = 10  # of ending marked processes: one may have started another before it ended
EXEC_TIMEOUT_S = 1.0  # for one program to take the place of another in a process
_ENDED = ("Z", "X")  # states in which a thread takes no time and no memory any more
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD of the flags in /proc/PID/stat
# Of the words after the name: proc_pid_stat(5) counts from the process id.
_PARENT, _SESSION, _FLAGS, _USER, _SYSTEM, _STARTED, _CPU = 1, 3, 6, 11, 12, 19, 36


def stat(host: Host, place: str) -> list[str]:
    """The words of a process's `stat`, or of a thread's, that follow its name. Raises OSError."""
    return host.read(f"{place}/stat").rpartition(")")[2].split()


def ticks_and_cpu(words: Sequence[str]) -> tuple[int, int]:
    """Of `stat`: (ticks in user and kernel, CPU it ran on last). Raises ValueError or IndexError."""
    return int(words[_USER]) + int(words[_SYSTEM]), int(words[_CPU])


def field(text: str, name: str) -> str:
    """The value of a line `NAME: VALUE`, as many files of /proc have them; empty if there is none."""
    parted = (line.partition(":") for line in text.splitlines())
    return next((value.strip() for key, _, value in parted if key.strip() == name), "")


def kib(text: str, name: str) -> int:
    """Such a value in kB; 0 where it is absent, as of a process that has ended."""
    return int((field(text, name) or "0").split()[0])


def soon(holds: Callable[[], bool], within_s: float, every_s: float = 0.01) -> bool:
    """Whether something holds within that time; it is looked at again and again."""
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True


def insisted(do: Callable[[], _T], error: type[Exception], within_s: float, every_s: float) -> _T:
    """Its result, asked for every `every_s`; an error of that kind only where it is still raised after `within_s`."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            return do()
        except error:
            if time.monotonic() > deadline:
                raise
        time.sleep(every_s)


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
        words = stat(host, f"{PROC}/{name}")
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
    names = printed_by(host, "ip", "netns", "identify", str(pid)).split()  # none where it has ended
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
    if not soon(lambda: not alive(host, pids), KILL_TIMEOUT_S):
        names = ", ".join(map(str, alive(host, pids)))
        raise BenchError(f"still running {KILL_TIMEOUT_S:g} s after SIGKILL: process {names}", "pinchpoint clean")


def end_marked(host: Host, bench_id: str) -> None:
    """End all processes of a bench. Raises BenchError if they keep starting new ones, or stay."""
    for _ in range(MOST_ROUNDS):
        if not (pids := list(marked_pids(host, bench_id))):
            return
        end_processes(host, pids, grace_s=2.0)
    told = f"processes of bench {bench_id} keep starting new ones after {MOST_ROUNDS} rounds of kills"
    raise BenchError(told, "pinchpoint clean")


def freeze(host: Host, pid: int) -> None:
    """Take a process off its cores, all threads of it, until `thaw`. One that has gone is no error."""
    host.signal([pid], signal.SIGSTOP)


def thaw(host: Host, pid: int) -> None:
    """Let a frozen process run again; of one that runs nothing changes. One that has gone is no error."""
    host.signal([pid], signal.SIGCONT)


def alive(host: Host, pids: Sequence[int]) -> list[int]:
    """Those of which any thread still runs: the first one may be a zombie while others still hold the memory."""
    tasks = {pid: f"{PROC}/{pid}/task" for pid in pids}
    return [pid for pid, task in tasks.items() if any(_runs(host, f"{task}/{name}") for name in names_in(host, task))]


def children(host: Host, pid: int) -> Iterator[int]:
    """The processes that a process has started and not lost."""
    return _of_stat(host, _PARENT, pid)


def session(host: Host, pid: int) -> list[int]:
    """The processes of the session that a process leads, itself included."""
    return list(_of_stat(host, _SESSION, pid))


def _of_stat(host: Host, word: int, value: int) -> Iterator[int]:
    for name in filter(str.isdigit, host.names(PROC)):
        with suppress(OSError, ValueError, IndexError):  # it ended between listing and reading
            if int(stat(host, f"{PROC}/{name}")[word]) == value:
                yield int(name)


def _runs(host: Host, thread: str) -> bool:
    try:
        return stat(host, thread)[0] not in _ENDED
    except OSError:
        return False


class Process:
    """A daemon by its pid file. One without a pid file holds no memory and takes no time."""

    def __init__(self, host: Host, name: str, pidfile: str | None) -> None:
        self._host, self._name, self._folder = host, name, ""
        if pidfile is None:
            return
        try:
            self._folder = f"{PROC}/{int(host.read(pidfile))}"
        except (OSError, ValueError) as error:
            raise self._gone(error) from error

    def resident_bytes(self) -> int:
        """Memory that it really holds. Raises DutError if it is gone."""
        try:
            return kib(self._host.read(f"{self._folder}/status"), "VmRSS") * 1024 if self._folder else 0
        except OSError as error:
            raise self._gone(error) from error

    def cpu_s(self) -> float:
        """Processor time of all its threads since it started. Raises DutError if it is gone."""
        if not self._folder:
            return 0.0
        try:
            return ticks_and_cpu(stat(self._host, self._folder))[0] / TICKS_PER_S
        except OSError as error:
            raise self._gone(error) from error

    def _gone(self, error: Exception) -> DutError:
        return DutError(f"{self._name} is gone: {error}", "see its log")


class OwnMemory:
    """The most memory that this process holds from now on (clear_refs, and VmHWM in status)."""

    def __init__(self, folder: str = f"{PROC}/self") -> None:
        self._folder = Path(folder)
        try:
            (self._folder / "clear_refs").write_text("5", encoding="ascii")
            self._anew = True
        except OSError:  # a kernel without CONFIG_PROC_PAGE_MONITOR
            self._anew = False

    def peak_bytes(self) -> int | None:
        """None where the kernel tells only the most since the process began, which may be of an earlier build."""
        if not self._anew:
            return None
        return kib((self._folder / "status").read_text(encoding="utf-8"), "VmHWM") * 1024 or None
