"""What a device that balances declares beyond what every device does."""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol, runtime_checkable

from pinchpoint.host.processes import soon
from pinchpoint.model import units
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import Backend, Family, Mode, Range, Scenario, Scheduler, Service, weights


class Option(StrEnum):
    """Keys of [service] that some kinds cannot follow."""

    LOCAL_PORTS = "local_ports"
    MAX_CONNECTIONS = "max_connections"
    OPENING_S = "opening_s"
    ESTABLISHED_S = "established_s"
    CLOSED_S = "closed_s"
    HEALTH_S = "health_s"
    PROXY_PROTOCOL = "proxy_protocol"
    VLAN = "vlan"


TRACKING: Final = (
    Option.LOCAL_PORTS, Option.MAX_CONNECTIONS, Option.OPENING_S, Option.ESTABLISHED_S, Option.CLOSED_S,
)  # fmt: skip
"""What bounds connections."""


_ADVICE: Final = {
    "local-ports": ((Option.LOCAL_PORTS, "widen"), (Option.CLOSED_S, "shorten")),
    "connection-table": ((Option.MAX_CONNECTIONS, "raise"), (Option.CLOSED_S, "shorten")),
}


class Reconfiguration(StrEnum):
    """What a balancer that runs may be asked to do."""

    ADD = "add"
    REMOVE = "remove"
    RELOAD = "reload"


@dataclass(frozen=True)
class Services:
    """What a kind of device can do as a balancer."""

    schedulers: tuple[Scheduler, ...]
    modes: tuple[Mode, ...]
    options: tuple[Option, ...] = ()
    is_required: bool = False  # the kind does nothing else
    terminates: bool = False  # it ends each connection and opens one of its own: no frame passes through it
    in_turn_by_worker: bool = False  # with round-robin, each worker deals in a turn of its own
    has_weights: bool = False  # of backends
    weighs_pairs: bool = False  # each pair of local address and backend has its share, and no cycle is promised
    most_virtual: int = 1  # virtual servers
    has_udp: bool = False  # it balances requests and answers that are datagrams
    families: tuple[Family, ...] = (Family.IPV4,)
    changes: tuple[Reconfiguration, ...] = ()  # those that `Rebalanced` of its kind follows

    def advice(self, cause: str) -> tuple[str, ...]:
        """What keys of [service], of those that it follows, mend of a cause."""
        return tuple(f"{verb} service.{option}" for option, verb in _ADVICE.get(cause, ()) if option in self.options)


@runtime_checkable
class Balancer(Protocol):
    """A balancer that stands."""

    def limits(self) -> tuple[Limit, ...]:
        """Every resource that bounds its connections, as read back from the running device."""

    def flush(self) -> None:
        """Forget all connections. Raises BenchError where it cannot."""

    def tracked(self) -> int | None:
        """Connections that it remembers, closed ones included; the proof of a flush. None: it does not say."""


@runtime_checkable
class Doubling(Protocol):
    """A balancer of which one resource can be doubled while it runs; an optional capability."""

    def doubled(self, resource: Resource) -> AbstractContextManager[str]:
        """Inside, it bears twice as many connections per second by this resource: more places, or half the time.

        Yields what was changed, as read back. Raises BenchError where the resource cannot be doubled.
        """


@runtime_checkable
class Rebalanced(Protocol):
    """A balancer that can be changed while it runs; the measure `change` does it under traffic.

    A kind that can: add these three methods to what its `Live.balancer()` returns, and name in `Services.changes`
    those that work. One that is not named is never called and may raise NotImplementedError. Nothing else is
    needed: `Live.rebalanced()` finds them. A kind without `balancer()` overrides `Live.rebalanced()` instead.

    Each does what an operator would do, by the program's own means (a runtime socket, a signal, an atomic
    transaction), and returns when the new state is in force for new connections. Connections that are open are left
    to the program: what becomes of them is measured. Backends are numbered as in the scenario, from 0. Each may be
    called again and again, `remove` and `add` in turn; the bench ends with all backends there.

    All raise BenchError where the program refuses.
    """

    def remove(self, backend: int) -> None:
        """Deal no new connections to it."""

    def add(self, backend: int) -> None:
        """Deal new connections to it again."""

    def reload(self) -> None:
        """Load the same configuration again: what an operator does after editing a file."""


def served(scenario: Scenario) -> Service:
    """The [service] of a kind for which it is required."""
    assert scenario.service is not None, "checked as the file was read"
    return scenario.service


BY_TUPLE: Final = (Scheduler.ROUND_ROBIN, Scheduler.HASH)
"""What most kinds can."""


def cycle(backends: Sequence[Backend]) -> list[Backend]:
    """One cycle of weighted round robin: each backend as often as its weight, spread evenly."""
    each = enumerate(weights(backends))
    places = [((turn + 0.5) / weight, number) for number, weight in each for turn in range(weight)]
    return [backends[number] for _, number in sorted(places)]


def is_full(service: Service) -> bool:
    """Whether sources are translated, too."""
    return service.mode is Mode.FULL_NAT


def timeouts(
    service: Service, opening: Sequence[str], established: Sequence[str], closed: Sequence[str]
) -> dict[str, float]:
    """Seconds by state of a connection, of those that the scenario sets; a kind has its own words for the states."""
    seconds = ((opening, service.opening_s), (established, service.established_s), (closed, service.closed_s))
    return {state: value for states, value in seconds if value is not None for state in states}


KERNELS_PORTS = Range(1024, 64_512)
"""What source NAT takes where rules give no ports."""


def local_ports(service: Service) -> Range:
    """Ports of each local address that source NAT may take."""
    return service.local_ports or KERNELS_PORTS


def local_pool(service: Service, ports: Range | None = None) -> tuple[int, str]:
    """How many connections have a local port at once, and of what that is the product; `ports`: None, source NAT's."""
    of_each = (ports or local_ports(service)).count
    factors = ((len(service.locals), "address"), (of_each, "port"), (len(service.backends), "backend"))
    return math.prod(count for count, _ in factors), " x ".join(units.counted(*factor) for factor in factors)


def await_forgotten(tracked: Callable[[], int], within_s: float, poll_s: float) -> int:
    """Wait until no connection is tracked; returns how many still are once the time is over."""
    return 0 if soon(lambda: not tracked(), within_s, poll_s) else tracked()
