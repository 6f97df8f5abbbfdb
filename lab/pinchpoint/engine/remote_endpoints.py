"""One workload over kernel sockets whose two ends are two engines', each on a machine of its own.

The server listens before any client connects, and serves until `stop`. Each end counts by its own clock:
transactions, their times and retransmits are the client's; what streams brought, and when, is the server's.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import msgspec

from pinchpoint.engine.process import EngineProcess
from pinchpoint.engine.sockets import (
    ServedWindow,
    SocketsListening,
    SocketsRequest,
    SocketsResult,
    SocketsRun,
    SocketsServed,
)
from pinchpoint.engine.workload import OVERHEAD_S, Workloads
from pinchpoint.model.errors import EngineError, PinchpointError

_T = TypeVar("_T")
_WHOLE = 0.9  # of the client's window that the server has to count: its rate is over its own time


class ServerEngine(Workloads):
    """An engine that has servers alone, one after the other."""

    def listen(self, request: SocketsRequest) -> str:
        """Begin to serve; returns the address for the client. Raises as `Workloads.run`."""
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


def _same_trial(trial: str, request: SocketsRequest) -> None:
    if trial != request.trial:
        raise EngineError(f"the engine answered for trial {trial} instead of {request.trial}")


@dataclass(frozen=True)
class _Half:
    """One end and where it is, for people."""

    name: str  # "the client on gen"
    host: str

    def do(self, what: Callable[[], _T]) -> _T:
        """Do it; an error names the end."""
        try:
            return what()
        except PinchpointError as error:
            error.add_note(self.name)
            raise


class Apart:
    """What `Workloads` is for two ends in one process, for two processes."""

    def __init__(self, client: Workloads, server: ServerEngine, client_on: str, server_on: str) -> None:
        """`client_on` and `server_on` are their machines, for people."""
        self._client, self._server = client, server
        self._client_at = _Half(f"the client on {client_on}", client_on)
        self._server_at = _Half(f"the server on {server_on}", server_on)
        self._address = ""

    def open(self) -> Mapping[str, str]:
        """Start both; facts with the name of the machine. Raises EngineError."""
        halves: tuple[tuple[_Half, EngineProcess], ...] = (
            (self._client_at, self._client),
            (self._server_at, self._server),
        )
        return {f"engine on {half.host}": half.do(engine.agree).engine for half, engine in halves}

    def begin(self, request: SocketsRequest) -> None:
        """Let the server listen, so that `run` begins with the client. Raises as `Workloads.run`."""
        wanted = msgspec.structs.replace(request, client=None)
        self._address = self._server_at.do(partial(self._server.listen, wanted))

    def run(self, request: SocketsRequest) -> SocketsResult:
        """The client's work to its end, then the server's account. Raises as `Workloads.run`, naming the end."""
        wanted = msgspec.structs.replace(request, server=None, listen=None, target=self._address)
        serve = partial(self._server.served, request)
        try:
            result = self._client_at.do(partial(self._client.run, wanted))
        except BaseException:
            with suppress(PinchpointError):  # what failed first is what counts
                serve()
            raise
        return joined(result, self._server_at.do(serve), self._server_at.name)

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
    status, reason = client.status, client.reason
    if status == "completed" and served.status == "aborted":
        status, reason = "aborted", f"{server}: {served.reason}"
    elif status == "completed" and served.window is None:
        status, reason = "aborted", f"{server} had not begun its window when the client's ended"
    elif status == "completed" and served.window and (told := _short(client, served.window)):
        status, reason = "aborted", f"{server} {told}"
    return msgspec.structs.replace(
        client,
        status=status,
        reason=reason,
        server=served.server,
        runs=tuple(_run(run, served.window) for run in client.runs) if served.window else (),
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
    return msgspec.structs.replace(
        run,
        received_bytes=window.received_bytes,
        goodput_bps=window.goodput_bps,
        per_second=window.per_second,
        trend=window.trend,
    )
