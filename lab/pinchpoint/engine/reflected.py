"""An engine that sends back what its ports receive, so that whoever sent it can time the way there and back.

Two hosts have two clocks; a round trip is timed by one (RFC 2681, 2.1).
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from pinchpoint.engine import protocol
from pinchpoint.engine.process import GRACE_S, SAME_WHEEL, EngineProcess
from pinchpoint.host.interface import Host
from pinchpoint.model.errors import EngineError

_READY = b"ready"


class _Reflected(msgspec.Struct):
    dropped: int


class _Port(msgspec.Struct):
    rx_missed: int | None


class _Account(msgspec.Struct):
    """What is read of the reflector's own."""

    reflected: list[_Reflected]
    ports: list[_Port]


class Reflector(EngineProcess):
    """`pinchpoint-engine reflect` on the ports that one worker of an engine had: Ethernet and IP addresses swapped."""

    _BYE = b""  # it ends at the end of its stdin

    def __init__(
        self,
        request: protocol.Open,
        worker: protocol.WorkerRequest,
        host: Host,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path | None,
    ) -> None:
        own = [port for port in request.ports if port.name in worker.ports]
        rings = ("--rx-ring", str(own[0].rx_ring), "--tx-ring", str(own[0].tx_ring))
        how = ["--core", str(worker.core), "--idle", "spin", "--link-timeout", f"{request.link_timeout_s}s"]
        how += [f"--eal={' '.join(_eal(request, own))}"] if any(port.backend == "dpdk" for port in own) else []
        words = ("reflect", *map(_port, own), *how, *rings, "--swap", "ip", "--until-eof", "--json")
        super().__init__(host, command=(*command, *words), environment=environment, log=log)
        self._ready_s = request.link_timeout_s

    def open(self) -> None:
        """Start it and wait for its links. Raises EngineError."""
        self._start()
        if (line := self._read_line(time.monotonic() + self._ready_s + GRACE_S)).strip() != _READY:
            raise EngineError(f"the reflector said {line[:200]!r} where {_READY!r} was expected", SAME_WHEEL)

    def lost(self) -> int:
        """Frames that its ports had no room for, or that it could not send. Raises EngineError."""
        self._write(b"counters")
        line = self._read_line(time.monotonic() + GRACE_S)
        try:
            account = msgspec.json.decode(line, type=_Account)
        except msgspec.DecodeError as error:
            raise EngineError(f"the reflector's account is none: {error}: {line[:200]!r}", SAME_WHEEL) from error
        return sum(port.dropped for port in account.reflected) + sum(port.rx_missed or 0 for port in account.ports)


def _eal(request: protocol.Open, own: Sequence[protocol.PortRequest]) -> Iterator[str]:
    """The engine's arguments of DPDK with the NICs and the share of the memory that these ports have."""
    devices = {port.device for port in own}
    words = iter(request.eal_args)
    for word in words:
        if word == "-a":
            address = next(words)
            yield from (word, address) if address in devices else ()
        elif word == "-m":
            yield from (word, str(int(next(words)) * len(own) // len(request.ports)))
        else:
            yield word


def _port(request: protocol.PortRequest) -> str:
    """A port as the commands have it."""
    at = f"@{request.netns}" if request.netns else ""
    return f"{request.backend}:{request.device}{at}"
