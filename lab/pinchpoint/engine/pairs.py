"""Several engines at once, each one client thread and one server thread: a workload on many cores.

Each pair is a process of its own, so that none shares a lock or an allocator with another.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from pinchpoint.engine.sockets import SocketsRequest, SocketsResult
from pinchpoint.host.priority import session_preferred
from pinchpoint.model.errors import EngineError

LOOK_S = 0.1  # how often a stop is looked for, and asked for again: one may have come before the workload began


@dataclass(frozen=True)
class PairRun:
    """One pair's account, and the span in which it must lie; nanoseconds of CLOCK_MONOTONIC."""

    result: SocketsResult
    asked_ns: int
    answered_ns: int


class Pair(Protocol):
    """What runs one workload after the other: `Workloads` and `Apart` have it."""

    def open(self) -> Mapping[str, str]:
        """Start what it takes; returns facts for the record."""

    def begin(self, request: SocketsRequest) -> None:
        """Do what has to be done before any pair's client connects."""

    def run(self, request: SocketsRequest) -> SocketsResult:
        """One workload to its end."""

    def stop(self) -> None:
        """End the running workload early; `run` then returns its account."""

    def close(self) -> None:
        """End the engines of the pair; may be called twice."""


class Pairs:
    """Engines that run one workload each, together; `stop` ends them all."""

    def __init__(self, count: int, make: Callable[[], Pair]) -> None:
        """`make` makes each pair: one engine, or two where its ends are apart."""
        self._engines: list[Pair] = [make() for _ in range(count)]
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="pair")
        self._running = False
        self.stop_requested = False

    def __enter__(self) -> "Pairs":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> Mapping[str, str]:
        """Start the engines; returns facts for the record. Raises EngineError."""
        try:
            facts = [engine.open() for engine in self._engines]
        except BaseException:
            self.close()
            raise
        return facts[0]

    def run(self, requests: Sequence[SocketsRequest]) -> tuple[PairRun, ...]:
        """All workloads begun together, to the end of the last; if one fails, the others are stopped first.

        Raises as `Workloads.run`.
        """
        if len(requests) != len(self._engines):
            raise EngineError(f"{len(requests)} workloads for {len(self._engines)} engines")
        for engine, request in zip(self._engines, requests, strict=True):
            engine.begin(request)
        self._running = True
        try:
            futures = [
                self._pool.submit(_run_pair, engine.run, request)
                for engine, request in zip(self._engines, requests, strict=True)
            ]
            with session_preferred():
                self._watch(futures)
            return tuple(future.result() for future in futures)
        finally:
            self._running = False

    def stop(self) -> None:
        """End the running workloads early; `run` then returns what they counted. For signal handlers."""
        self.stop_requested = True
        # `run` asks every engine that has not ended yet, within LOOK_S.

    def close(self) -> None:
        """End all engines; may be called twice."""
        for engine in self._engines:
            engine.close()
        self._pool.shutdown(wait=True)

    def _watch(self, futures: "Sequence[Future[PairRun]]") -> None:
        left = set(futures)
        while left:
            _, left = wait(left, timeout=LOOK_S, return_when=FIRST_COMPLETED)
            # Again each time: an engine that had not been asked yet has ignored the first stop.
            if self.stop_requested or any(_ended_early(future) for future in futures):
                self._stop_engines(left, futures)

    def _stop_engines(self, left: "set[Future[PairRun]]", futures: "Sequence[Future[PairRun]]") -> None:
        for engine, future in zip(self._engines, futures, strict=True):
            if future in left:
                try:
                    engine.stop()
                except EngineError:
                    continue  # it has died, which its own future tells


def _ended_early(future: "Future[PairRun]") -> bool:
    """Whether a pair failed or was aborted: the others' sum would be of fewer pairs."""
    return future.done() and (future.exception() is not None or future.result().result.status != "completed")


def _run_pair(run: Callable[[SocketsRequest], SocketsResult], request: SocketsRequest) -> PairRun:
    asked_ns = time.monotonic_ns()
    result = run(request)
    return PairRun(result, asked_ns, time.monotonic_ns())
