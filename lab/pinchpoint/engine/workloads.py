"""Workloads over kernel sockets: the same engine process, without ports.

`Workloads` is one engine, which has both ends of a workload or one of them; `Apart` is two engines with an end each;
`Pairs` are several of either at once, each one client thread and one server thread: a workload on many cores.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress

import msgspec

from pinchpoint.engine import protocol
from pinchpoint.engine.process import EngineProcess, Progress, named
from pinchpoint.engine.sockets import (
    ServedWindow,
    SocketsListening,
    SocketsRequest,
    SocketsResult,
    SocketsRun,
    SocketsSample,
    SocketsServed,
)
from pinchpoint.host.priority import session_preferred
from pinchpoint.model.errors import EngineError, PinchpointError, RequirementError, UnreachableError

Listener = Callable[[SocketsSample], None]
OVERHEAD_S = 1.0  # of a repeat: threads, namespaces, cache-line probes
LOOK_S = 0.1  # how often a stop is looked for, and asked for again: one may have come before the workload began
_WHOLE = 0.9  # of the client's window that the server has to count: its rate is over its own time


class Workloads(EngineProcess):
    """One engine process that runs workloads one after the other, or the servers of another engine's clients."""

    def open(self) -> Mapping[str, str]:
        """Start the engine; returns facts for the record. Raises EngineError."""
        return {"engine": self.agree().engine}

    def begin(self, request: SocketsRequest) -> None:
        """Nothing: both ends of a workload begin with `run`."""

    def run(self, request: SocketsRequest, listener: Listener | None = None) -> SocketsResult:
        """One workload to its end; `listener` gets its samples as they come.

        A path or a peer that goes away is no error but a result that was `aborted`, with its reason.
        Raises UnreachableError if the client does not reach the server, RequirementError if this machine lacks
        something (a namespace, an address, rights), EngineError if the engine refuses a value, fails or dies.
        """

        def heard(sample: Progress) -> None:
            if not isinstance(sample, SocketsSample) or sample.trial != request.trial:
                raise EngineError(f"the engine sent a sample of {sample.trial} while {request.trial} ran")
            if listener is not None:
                listener(sample)

        result = self._ask(request, SocketsResult, longest_s(request), heard)
        _same_trial(result.trial, request)
        return result

    def listen(self, request: SocketsRequest) -> str:
        """Begin to serve; returns the address for the client. Raises as `run`."""
        told = self._ask(request, SocketsListening, OVERHEAD_S)
        # One that had ended by itself answers the last `stop` with an error, which was passed over until here.
        self._may_be_late = False
        _same_trial(told.trial, request)
        return told.address

    def served(self, request: SocketsRequest) -> SocketsServed:
        """Stop serving; returns its account. Raises EngineError."""
        self.stop()
        account = self._answer(SocketsServed, OVERHEAD_S)
        _same_trial(account.trial, request)
        return account

    def _refusal(self, error: protocol.Error) -> PinchpointError:
        if error.code == "link_down":
            return UnreachableError(f"engine: {error.message}", error.hint)
        if error.code == "port_open" and error.hint is not None:
            return RequirementError(f"engine: {error.message}", error.hint)
        return super()._refusal(error)


def _same_trial(trial: str, request: SocketsRequest) -> None:
    if trial != request.trial:
        raise EngineError(f"the engine answered for trial {trial} instead of {request.trial}")


def longest_s(request: SocketsRequest) -> float:
    """The most seconds that a workload may take: every connection and every last transaction just within its timeout.

    Standing connections are opened one by one; warm-up and window both wait for what they began, and
    three timeouts without a success end a run.
    """
    waiting_s = request.timeout_s * (3 + (0 if request.kind == "crr" else request.connections))
    return request.repeats * (request.warm_up_s + request.duration_s + waiting_s + OVERHEAD_S)


class Apart:
    """What `Workloads` is for two ends in one process, for two processes, each on a machine of its own.

    The server listens before any client connects, and serves until `stop`. Each end counts by its own clock:
    transactions, their times and retransmits are the client's; what streams brought, and when, is the server's.
    """

    def __init__(self, client: Workloads, server: Workloads, client_on: str, server_on: str) -> None:
        """`client_on` and `server_on` are their machines, for people."""
        self._client, self._server = client, server
        self._client_on, self._server_on = client_on, server_on
        self._client_at, self._server_at = f"the client on {client_on}", f"the server on {server_on}"
        self._address = ""

    def open(self) -> Mapping[str, str]:
        """Start both; facts with the name of the machine. Raises EngineError."""
        return {
            f"engine on {self._client_on}": named(self._client_at, self._client.agree).engine,
            f"engine on {self._server_on}": named(self._server_at, self._server.agree).engine,
        }

    def begin(self, request: SocketsRequest) -> None:
        """Let the server listen, so that `run` begins with the client. Raises as `Workloads.run`."""
        wanted = msgspec.structs.replace(request, client=None)
        self._address = named(self._server_at, self._server.listen, wanted)

    def run(self, request: SocketsRequest) -> SocketsResult:
        """The client's work to its end, then the server's account. Raises as `Workloads.run`, naming the end."""
        wanted = msgspec.structs.replace(request, server=None, listen=None, target=self._address)
        try:
            result = named(self._client_at, self._client.run, wanted)
        except BaseException:
            with suppress(PinchpointError):  # what failed first is what counts
                self._server.served(request)
            raise
        return joined(result, named(self._server_at, self._server.served, request), self._server_at)

    def stop(self) -> None:
        """End the client early; `run` then ends the server."""
        self._client.stop()

    def close(self) -> None:
        """End both engines, whatever one of them does."""
        with ExitStack() as stack:
            stack.callback(self._server.close)
            stack.callback(self._client.close)


def joined(client: SocketsResult, served: SocketsServed, server: str) -> SocketsResult:
    """One account of two. What only one process with both ends can know, the cores' distance, is None.

    `server` names it in the reason of a window that it did not serve.
    """
    window, unserved = served.window, ""
    if served.status == "aborted":
        unserved = f"{server}: {served.reason}"
    elif window is None:
        unserved = f"{server} had not begun its window when the client's ended"
    elif short := _short(client, window):
        unserved = f"{server} {short}"
    is_cut = client.status == "completed" and bool(unserved)
    return msgspec.structs.replace(
        client,
        status="aborted" if is_cut else client.status,
        reason=unserved if is_cut else client.reason,
        server=served.server,
        runs=tuple(_run(run, window) for run in client.runs) if window else (),
    )


def _short(client: SocketsResult, window: ServedWindow) -> str:
    """By how much the server's window was the shorter one; empty if both are as long."""
    asked_s = max((run.duration_s for run in client.runs), default=0.0)
    if window.received_bytes is None or window.duration_s >= _WHOLE * asked_s:
        return ""
    return f"counted for {window.duration_s:.2f} s of the client's {asked_s:.2f} s"


def _run(run: SocketsRun, window: ServedWindow) -> SocketsRun:
    """The client's run with what the server knows of it: of streams what arrived, by the server's clock.

    Which of its connections is which of the client's is not known: they need not be accepted in the order opened.
    """
    run = msgspec.structs.replace(run, server=window.thread)
    if window.received_bytes is None:
        return run
    arrived = {name: getattr(window, name) for name in ("received_bytes", "goodput_bps", "per_second", "trend")}
    return msgspec.structs.replace(run, **arrived)


class Pairs:
    """Pairs of threads that run one workload each, together; `stop` ends them all. To be closed.

    Each pair is a process of its own, so that none shares a lock or an allocator with another.
    """

    def __init__(self, count: int, make: Callable[[], Workloads | Apart]) -> None:
        """`make` makes each pair: one engine, or two where its ends are apart."""
        self._engines = [make() for _ in range(count)]
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="pair")
        self.stop_requested = False

    def open(self) -> Mapping[str, str]:
        """Start the engines; returns facts for the record. Raises EngineError."""
        try:
            facts = [engine.open() for engine in self._engines]
        except BaseException:
            self.close()
            raise
        return facts[0]

    def run(self, requests: Sequence[SocketsRequest]) -> tuple[SocketsResult, ...]:
        """All workloads begun together, to the end of the last; if one fails, the others are stopped first.

        Raises as `Workloads.run`.
        """
        if len(requests) != len(self._engines):
            raise EngineError(f"{len(requests)} workloads for {len(self._engines)} engines")
        for engine, request in zip(self._engines, requests, strict=True):
            engine.begin(request)
        futures = [
            self._pool.submit(_run_pair, engine, request)
            for engine, request in zip(self._engines, requests, strict=True)
        ]
        with session_preferred():
            self._watch(futures)
        return tuple(future.result() for future in futures)

    def stop(self) -> None:
        """End the running workloads early; `run` then returns what they counted. For signal handlers."""
        self.stop_requested = True
        # `run` asks every engine that has not ended yet, within LOOK_S.

    def close(self) -> None:
        """End all engines; may be called twice."""
        for engine in self._engines:
            engine.close()
        self._pool.shutdown(wait=True)

    def _watch(self, futures: "Sequence[Future[SocketsResult]]") -> None:
        left = set(futures)
        while left:
            _, left = wait(left, timeout=LOOK_S, return_when=FIRST_COMPLETED)
            # Again each time: an engine that had not been asked yet has ignored the first stop.
            if self.stop_requested or any(_ended_early(future) for future in futures):
                for engine, future in zip(self._engines, futures, strict=True):
                    if future in left:
                        with suppress(EngineError):  # it has died, which its own future tells
                            engine.stop()


def _ended_early(future: "Future[SocketsResult]") -> bool:
    """Whether a pair failed or was aborted: the others' sum would be of fewer pairs."""
    return future.done() and (future.exception() is not None or future.result().status != "completed")


def _run_pair(engine: Workloads | Apart, request: SocketsRequest) -> SocketsResult:
    return engine.run(request)
