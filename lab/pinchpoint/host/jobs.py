"""Work of many processes or links, in a thread beside an agent's answers, and the time that it takes there.

The lab asks meanwhile how far it is, and looks at what is made. Nothing but the standard library may be imported here.
"""

import json
import resource
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from pinchpoint.host.guest_line import to_bytes, to_text
from pinchpoint.host.interface import Environment
from pinchpoint.host.many import run_fed, run_many
from pinchpoint.host.netlink import Links
from pinchpoint.model.errors import BenchError

_END_S: Final = 10.0  # for work that is stopped to end: a group of links is removed in one go
Reach = Callable[[int], None]


def pack(arguments: Mapping[str, object]) -> str:
    """What a piece of work is given, as it goes over the line: commands and rules are alike."""
    return to_text(zlib.compress(json.dumps(arguments, default=list).encode(), 1))


def _unpacked(text: str) -> Any:
    return json.loads(zlib.decompress(to_bytes(text)))


def children_s() -> float:
    """Processor time of all processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _many(reach: Reach, *, commands: Iterable[Sequence[str]], concurrency: int, environment: Environment) -> None:
    run_many(commands, concurrency, environment, reach)


def _fed(
    reach: Reach,
    *,
    argv: Sequence[str],
    lines: Iterable[str],
    environment: Environment,
    timeout_s: float,
    pipe_bytes: int | None,
) -> None:
    run_fed(argv, lines, environment, reach, timeout_s=timeout_s, pipe_bytes=pipe_bytes)


def _veths(reach: Reach, *, netns: str, peer_netns: str, pairs: Sequence[tuple[str, str]]) -> None:
    with Links(netns) as links:
        links.create_veths(pairs, peer_netns, reach)


def _groups(reach: Reach, *, netns: str, count: int) -> None:
    with Links(netns) as links:
        links.remove_groups(count, reach)


def _kind(_: Reach, *, netns: str, kind: str, names: Collection[str]) -> None:
    with Links(netns) as links:
        links.remove_kind(kind, frozenset(names))


_KINDS: Final[Mapping[str, Callable[..., None]]] = {
    "many": _many,
    "fed": _fed,
    "veths": _veths,
    "groups": _groups,
    "kind": _kind,
}


def work(kind: str, reach: Reach, arguments: Mapping[str, Any]) -> None:
    """Do a piece of work to its end; `reach` hears how far it is, and what it raises ends it."""
    _KINDS[kind](reach, **arguments)


class _Stopped(Exception):
    """The lab wants no more of it, or is gone."""


class _Job:
    """One piece of work in a thread, timed from its first action to its end."""

    def __init__(self, kind: str, packed: str) -> None:
        self._kind, self._arguments = kind, _unpacked(packed)
        self._done, self._seconds = 0, 0.0
        self._is_stopped = False
        self._error: Exception | None = None
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._began = time.monotonic()
        try:
            work(self._kind, self._reach, self._arguments)
        except Exception as error:  # whatever it is, the lab has to hear of it
            self._error = error
        self._seconds = time.monotonic() - self._began

    def _reach(self, done: int) -> None:
        if self._is_stopped:
            raise _Stopped
        self._done = done

    def state(self) -> tuple[bool, int, float]:
        """Whether it has ended, how much is done, and the seconds that it took. Raises what ended it."""
        if self._thread.is_alive():
            return False, self._done, 0.0
        if self._error is not None:
            raise self._error
        return True, self._done, self._seconds

    def stop(self) -> None:
        """End it where it is, with its processes."""
        self._is_stopped = True
        self._thread.join(_END_S)


class Jobs:
    """What an agent works at, by number."""

    def __init__(self) -> None:
        self._running: dict[int, _Job] = {}
        self._count = 0

    def begin(self, kind: str, packed: str) -> int:
        """Begin what `pack` was given; returns its number."""
        self._count += 1
        self._running[self._count] = _Job(kind, packed)
        return self._count

    def state(self, job: int) -> tuple[bool, int, float]:
        """See `_Job`; one that has ended is forgotten."""
        if job not in self._running:
            raise BenchError(f"no job {job}")
        state = None
        try:
            state = self._running[job].state()
        finally:
            if state is None or state[0]:
                del self._running[job]
        return state

    def stop(self, job: int | None = None) -> None:
        """End one, or all."""
        for number in list(self._running) if job is None else [job]:
            with suppress(KeyError):
                self._running.pop(number).stop()
