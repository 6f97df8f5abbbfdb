"""What a device that balances declares beyond what every device does."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from pinchpoint.model.limits import Limit
from pinchpoint.model.scenario import Mode, Scheduler


class Option(StrEnum):
    """Keys of [service] that some kinds cannot follow."""

    LOCAL_PORTS = "local_ports"
    MAX_CONNECTIONS = "max_connections"
    OPENING_S = "opening_s"
    ESTABLISHED_S = "established_s"
    CLOSED_S = "closed_s"


@dataclass(frozen=True)
class Services:
    """What a kind of device can do as a balancer."""

    schedulers: tuple[Scheduler, ...]
    modes: tuple[Mode, ...]
    options: tuple[Option, ...] = ()
    terminates: bool = False  # it ends each connection and opens one of its own: no frame passes through it


class Balancer(Protocol):
    """A balancer that stands."""

    def limits(self) -> tuple[Limit, ...]:
        """Every resource that bounds its connections, as read back from the running device."""

    def flush(self) -> None:
        """Forget all connections. Raises BenchError where it cannot."""

    def tracked(self) -> int | None:
        """Connections that it remembers, closed ones included; the proof of a flush. None: it does not say."""
