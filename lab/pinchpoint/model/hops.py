"""The hop graph: where frames are counted on their way through a device, as each kind of device declares it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Party(StrEnum):
    """Who is responsible for a drop."""

    DUT = "dut"  # the device has no room, or no time
    RULES = "rules"  # the device was told to
    HOST = "host"  # the kernel, where it is not the device
    ENGINE = "engine"  # the generator
    WIRE = "wire"  # the link between two NICs: it carries no more, or damages frames


class DropKind(StrEnum):
    """What was short, or said so: the same word whatever a device calls its counter."""

    RECEIVE_RING = "receive ring"  # before the device's thread
    TRANSMIT_RING = "transmit ring"  # behind it, before whoever receives
    KERNEL_QUEUE = "kernel queue"  # a backlog or a socket's buffer
    BUFFERS = "packet buffers"
    SLOW_PATH = "slow path"  # what it was asked and did not answer in time
    TRACKING = "connection tracking"
    MTU = "MTU"
    POLICER = "policer"
    METER = "meter"
    RULE = "rule"
    SOURCE = "reverse path filter"
    NEIGHBOUR = "unknown neighbour"
    MALFORMED = "malformed frame"
    OTHER = "other"


PORT = "{port}"
"""In a counter's name: runs over the ports of the bench that send or receive."""


DROPPED_BY: Final = "dropped by/"
"""How counters of dropped frames begin whose name goes on with the rule that dropped them, as its device prints it."""


@dataclass(frozen=True)
class DropCounter:
    """A counter of dropped frames. `counter` may hold `{port}`, or end in `*` for every counter that begins so."""

    counter: str
    reason: str  # `{port}` as in `counter`, `{counter}` the last part of the counter's name in words
    party: Party
    kind: DropKind = DropKind.OTHER
    is_apart: bool = False  # whether the total of the place's `rest` leaves these frames out


LESS: Final = "-"
"""Before the name of a counter that is added up with others: its frames are among theirs, and are taken off."""


@dataclass(frozen=True)
class Place:
    """One place on the path. Names of counters may hold `{port}`, or `*` for any one part."""

    name: str
    entered: tuple[str, ...]  # counters of frames that came here, added up; none: its neighbours of this name count
    left: tuple[str, ...]  # counters of frames that went on; none likewise
    drops: tuple[DropCounter, ...] = ()
    rest: DropCounter | None = None  # a total of drops; what of it `drops` do not name has this reason
    ports: frozenset[str] | None = None  # over which `{port}` runs here; None: over all


@dataclass(frozen=True)
class Refused:
    """What it means that a port took fewer frames than the engine had for it."""

    reason: str  # `{port}` as in counters
    party: Party
    kind: DropKind = DropKind.RECEIVE_RING


@dataclass(frozen=True)
class HopGraph:
    """Places in the order in which a frame passes them, between the engine's sending and its receiving.

    Neighbours of one name are one place whose ports count differently.
    """

    refused: Refused
    places: tuple[Place, ...]
    settles: tuple[str, ...] = ()  # beginnings of names of counters that may be read again until the account closes
    refused_at: Mapping[str, Refused] = field(default_factory=dict)  # ports where it means something else
    late: tuple[str, ...] = ()  # beginnings of names of counters that the device publishes about once a second

    def refusal(self, port: str) -> Refused:
        """What it means that this port took fewer frames."""
        return self.refused_at.get(port, self.refused)

    def is_read(self, name: str) -> bool:
        """Whether the account reads a counter of that name."""
        return name.startswith(self.settles)
