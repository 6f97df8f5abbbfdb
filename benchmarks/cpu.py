"""Processors: what a program takes of them (proc(5), sched-stats.rst), and where this one runs.

The machine is shared, so a rate for each second of CPU time tells more than one for
each second. Where frames are taken in a soft interrupt that the kernel has handed to
its ksoftirqd thread, that thread's time belongs to the sender's.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

PROC = Path("/proc")


def group_members(group: int) -> list[int]:
    """The processes of one process group."""
    members = []
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            members.append(int(entry.name))
    return members


class CpuMeter:
    """Inside its block, takes the CPU time of `processes` and of the ksoftirqd threads of `cores`."""

    def __init__(self, processes: list[int], cores: tuple[int, ...] = ()) -> None:
        self._tasks = [PROC / str(process) for process in processes]
        self._ksoftirqd = [PROC / str(thread) for core in cores for thread in _ksoftirqd(core)]
        self.share = 0.0  # CPU seconds per second
        self.kernel_share: float | None = None  # of them

    def __enter__(self) -> "CpuMeter":
        self._before = self._read()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        at_s, own_ns, soft_ns, user, system = (
            now - before for now, before in zip(self._read(), self._before, strict=True)
        )
        self.share = (own_ns + soft_ns) / 1e9 / at_s
        ticks = user + system
        if ticks and own_ns + soft_ns:
            # Ticks tell how a program's own time divides; a ksoftirqd's is all the kernel's.
            self.kernel_share = (own_ns * system / ticks + soft_ns) / (own_ns + soft_ns)

    def _read(self) -> tuple[float, int, int, int, int]:
        own_ns = user = system = 0
        for process in self._tasks:
            for thread_ns, thread_user, thread_system in _threads(process):
                own_ns, user, system = own_ns + thread_ns, user + thread_user, system + thread_system
        soft_ns = sum(thread_ns for thread in self._ksoftirqd for thread_ns, _, _ in _threads(thread))
        return time.monotonic(), own_ns, soft_ns, user, system


def _threads(process: Path) -> Iterator[tuple[int, int, int]]:
    """(ns on a CPU, ticks in user mode, ticks in the kernel) of every thread."""
    try:
        tasks = list((process / "task").iterdir())
    except OSError:
        return
    for task in tasks:
        try:
            run_ns = int((task / "schedstat").read_text().split()[0])
            fields = (task / "stat").read_text().rpartition(")")[2].split()
        except (OSError, IndexError, ValueError):
            continue  # it ended between listing and reading
        yield run_ns, int(fields[11]), int(fields[12])


def _ksoftirqd(core: int) -> Iterator[int]:
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if (entry / "comm").read_text().strip() == f"ksoftirqd/{core}":
                yield int(entry.name)
        except OSError:
            continue


def end_on_signals() -> None:
    """From now on SIGTERM and SIGHUP unwind as Ctrl-C does, so that nothing started is left."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))


def keep_off(core: int) -> None:
    """From now on this process and those it starts stay off `core`, if there are others."""
    present = os.sched_getaffinity(0)
    os.sched_setaffinity(0, present - {core} or present)


def present() -> int:
    """Processors of this machine."""
    return os.cpu_count() or 1
