"""An engine that sends back what its ports receive, so that whoever sent it can time the way there and back.

Two hosts have two clocks; a round trip is timed by one (RFC 2681, 2.1).
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pinchpoint.engine import protocol
from pinchpoint.engine.process import GRACE_S, EngineProcess
from pinchpoint.model.errors import EngineError

_READY = b"ready"


class Reflector(EngineProcess):
    """`pinchpoint-engine reflect` on ports that an engine had: Ethernet and IP addresses change places."""

    def __init__(
        self,
        request: protocol.Open,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path | None,
    ) -> None:
        ports = [_port(one) for one in request.ports]
        core, ring = request.workers[0].core, request.ports[0]
        rings = ("--rx-ring", str(ring.rx_ring), "--tx-ring", str(ring.tx_ring))
        words = ("reflect", *ports, "--core", str(core), *rings, "--swap", "ip", "--until-eof", "--json")
        super().__init__(command=(*command, *words), environment=environment, log=log)
        self._ready_s = request.link_timeout_s

    def open(self) -> None:
        """Start it and wait for its links. Raises EngineError."""
        self._start()
        if (line := self._read_line(time.monotonic() + self._ready_s + GRACE_S)).strip() != _READY:
            raise EngineError(f"the reflector said {line[:200]!r} where {_READY!r} was expected")


def _port(request: protocol.PortRequest) -> str:
    """A port as the commands have it."""
    at = f"@{request.netns}" if request.netns else ""
    return f"{request.backend}:{request.device}{at}"


@contextmanager
def reflecting(reflector: Reflector) -> Iterator[None]:
    """The ports send back within the block."""
    try:
        reflector.open()
        yield
    finally:
        reflector.close()
