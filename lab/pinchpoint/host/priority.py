"""Where this process itself runs, and before which others. What it starts inherits both."""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final

from pinchpoint.host.interface import PROC, Host
from pinchpoint.model.errors import PinchpointError

HIGHEST = -20  # nice(2)
_OWN_SESSION: Final = Path(PROC, "self", "autogroup")  # sched(7)


@contextmanager
def kept_off(cpus: Collection[int], host: Host) -> Iterator[None]:
    """Inside, who reads counters on the host does not run on `cpus`, if there are others, nor what it starts.

    Where a thread of the device polls, a reader of its counters would take the core from it.
    """
    before = host.cpus()
    host.keep_to(sorted(before - set(cpus) or before))
    try:
        yield
    finally:
        with suppress(PinchpointError):  # of a host that is lost: what failed first is what counts
            host.keep_to(sorted(before))


@contextmanager
def preferred() -> Iterator[None]:
    """Inside, this process and those it starts come before what else runs here, where this process may ask for that.

    The bench's daemons and the engine poll cores that other programs of the host may share. All of the bench has
    one priority, so that nothing of it comes before the rest.
    """
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, HIGHEST)
    try:
        yield
    finally:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, before)


@contextmanager
def beside(process: int | None) -> Iterator[None]:
    """Inside, this process gets its turns although a bench to which `process` belongs fills all CPUs.

    A bench comes before what else runs here; whoever reads its counters would wait for seconds. The turns are of the
    lowest real-time priority (sched(7)). Beside other processes, and where this one may not ask, nothing changes.
    """
    if not _is_of_a_bench(process):
        yield
        return
    before, lowest = (os.sched_getscheduler(0), os.sched_getparam(0)), os.sched_get_priority_min(os.SCHED_RR)
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(lowest))
    try:
        yield
    finally:
        with suppress(PermissionError):
            os.sched_setscheduler(0, *before)


def _is_of_a_bench(process: int | None) -> bool:
    with suppress(OSError):  # it has ended
        return process is not None and os.getpriority(os.PRIO_PROCESS, process) == HIGHEST
    return False


@contextmanager
def session_preferred() -> Iterator[None]:
    """Inside, the session of this process has its priority: a kernel with autogroups weighs sessions first (sched(7)).

    For the time in which frames are sent, and only where nothing else of the session is busy. Whatever the user runs in
    it would be raised as well, above the kernel's own threads and beside the device's: within the session the priority
    of this process is enough.
    """
    lower_left_session()
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    with nullcontext() if busy_beside(os.getsid(0), nice) else _session_at(nice):
        yield


def lower_left_session() -> bool:
    """Make the session of this process an ordinary one if a run that was killed left it raised. Returns whether it did.

    Whatever else runs on the machine would starve beside it.
    """
    if session_nice() != HIGHEST:
        return False
    _set_session(0)
    return True


def busy_beside(session: int, nice: int, folder: Path = Path(PROC)) -> bool:
    """Whether a process of a session is about to run that comes after `nice`; what the bench starts does not."""
    for place in folder.iterdir():
        if not place.name.isdigit():
            continue
        try:
            words = (place / "stat").read_text(errors="replace").rpartition(")")[2].split()
            state, of, priority = words[0], int(words[3]), int(words[16])
        except (OSError, IndexError, ValueError):
            continue  # it has ended
        if of == session and state == "R" and priority > nice:
            return True
    return False


@contextmanager
def session_as_new() -> Iterator[None]:
    """Inside, the session of this process weighs as much as a new one.

    A daemon that detaches itself begins in a new session. Beside a raised one it would take seconds to start.
    """
    with _session_at(0):
        yield


def share_priority(host: Host, pid: int) -> None:
    """Give the session of `pid`, which is one of its own, this process's priority."""
    with suppress(OSError):  # it has ended, or the kernel has no autogroups
        host.write(f"{PROC}/{pid}/autogroup", str(os.getpriority(os.PRIO_PROCESS, 0)))


def session_nice(file: Path = _OWN_SESSION) -> int | None:
    """The priority of this process's session, as a nice value; None: it has none, as on a kernel without autogroups."""
    with suppress(OSError):
        words = file.read_text(encoding="ascii").split()
        return int(words[-1]) if words else None
    return None


@contextmanager
def _session_at(nice: int) -> Iterator[None]:
    before = session_nice()
    if before is None:
        yield
        return
    _set_session(nice)
    try:
        yield
    finally:
        _set_session(before)


def _set_session(nice: int) -> None:
    with suppress(OSError):  # this process may not
        _OWN_SESSION.write_text(str(nice), encoding="ascii")
