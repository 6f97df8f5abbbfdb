"""Workloads over kernel sockets: the same engine process, without ports.

`run_workload` is one workload; `Workloads` runs several in one engine, and can be stopped.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from pinchpoint.engine import protocol
from pinchpoint.engine.process import EngineProcess, Progress
from pinchpoint.engine.sockets import SocketsRequest, SocketsResult, SocketsSample
from pinchpoint.host.interface import Host
from pinchpoint.model.errors import EngineError, PinchpointError, RequirementError, UnreachableError

Listener = Callable[[SocketsSample], None]
OVERHEAD_S = 1.0  # of a repeat: threads, namespaces, cache-line probes


class Workloads(EngineProcess):
    """One engine process that runs workloads one after the other."""

    def __enter__(self) -> "Workloads":
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

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
        if result.trial != request.trial:
            raise EngineError(f"the engine answered for trial {result.trial} instead of {request.trial}")
        return result

    def _refusal(self, error: protocol.Error) -> PinchpointError:
        if error.code == "link_down":
            return UnreachableError(f"engine: {error.message}", error.hint)
        if error.code == "port_open" and error.hint is not None:
            return RequirementError(f"engine: {error.message}", error.hint)
        return super()._refusal(error)


def longest_s(request: SocketsRequest) -> float:
    """The most seconds that a workload may take: every connection and every last transaction just within its timeout.

    Standing connections are opened one by one; warm-up and window both wait for what they began, and
    three timeouts without a success end a run.
    """
    standing = 0 if request.kind == "crr" else request.connections
    waiting_s = request.timeout_s * (standing + 3)
    return request.repeats * (request.warm_up_s + request.duration_s + waiting_s + OVERHEAD_S)


def run_workload(
    request: SocketsRequest,
    host: Host,
    command: Sequence[str] | None = None,
    listener: Listener | None = None,
    log: Path | None = None,
) -> SocketsResult:
    """Start an engine on `host` (`command`: the installed one), run one workload, end the engine.

    `log` takes the engine's stderr. Raises as `Workloads.run`.
    """
    with Workloads(host, command=command, log=log) as engine:
        return engine.run(request, listener)
