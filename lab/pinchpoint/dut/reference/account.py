"""What a running reference device prints of itself: its counters, which may lie, and the truth; its hop graphs."""

import time
from collections.abc import Mapping
from itertools import pairwise
from typing import ClassVar, Final, Generic, TypeVar

import msgspec

from pinchpoint.bench.actions import ask_relay
from pinchpoint.bench.resource import Relay
from pinchpoint.dut.device import OwnCounters
from pinchpoint.host.interface import Host
from pinchpoint.model.errors import DutError
from pinchpoint.model.hops import DropCounter, DropKind, HopGraph, Party, Place, Refused
from pinchpoint.observe.snapshot import Snapshot

TABLE_USED: Final = "reference/table/used"
LOCAL_USED: Final = "reference/local/used"
REFUSED_TABLE: Final = "reference/port/*/table_full"
REFUSED_LOCAL: Final = "reference/port/*/no_local_port"
_PORT: Final = "reference/port/{port}/"
_STATES: Final = ("opening", "established", "closed")
Rows = Mapping[str, tuple[str, Party, DropKind]]
"""What a place drops: by the counter of a port, the reason, who is responsible, and what was short."""

_RING: Final = {"ring": ("ring of the device behind {port} full", Party.DUT, DropKind.RECEIVE_RING)}
_FULL: Final = {"full": ("transmit ring of {port} full", Party.ENGINE, DropKind.TRANSMIT_RING)}
_CHECKED: Final = {
    "malformed": ("a header does not fit behind {port}", Party.RULES, DropKind.MALFORMED),
    "checksum": ("wrong checksum of an IP header behind {port}", Party.RULES, DropKind.MALFORMED),
    "fragments": ("fragment behind {port}", Party.RULES, DropKind.MALFORMED),
    "hop_limit": ("time to live over behind {port}", Party.RULES, DropKind.MALFORMED),
    "other": ("not of the service, behind {port}", Party.RULES, DropKind.RULE),
    "too_long": ("too long for the port opposite {port}", Party.RULES, DropKind.MTU),
}
_TRACKED: Final = {
    "no_connection": ("of no connection, behind {port}", Party.DUT, DropKind.TRACKING),
    "table_full": ("no place in the table, behind {port}", Party.DUT, DropKind.TRACKING),
    "no_local_port": ("no local port, behind {port}", Party.DUT, DropKind.TRACKING),
    "planted": ("SYN dropped on purpose behind {port}", Party.DUT, DropKind.OTHER),
    "no_next_hop": ("nobody told where the backend is, behind {port}", Party.HOST, DropKind.OTHER),
}
_RECEIVED: Final = {
    "rx": ("lost behind the ring of {port}", Party.DUT, DropKind.OTHER),
    "too_long": ("too long for the port opposite {port}", Party.RULES, DropKind.MTU),
}
_LOOKED_UP: Final = {
    "table": ("lost in the table behind {port}", Party.DUT, DropKind.OTHER),
    "rules": ("dropped by a rule behind {port}", Party.RULES, DropKind.RULE),
}
_SENT: Final = {"tx": ("lost before {port}", Party.DUT, DropKind.OTHER), **_FULL}


def _graph(counters: tuple[str, ...], places: Mapping[str, Rows]) -> HopGraph:
    """Places in a row, each between two neighbours of the counters."""
    steps = zip(places.items(), pairwise(counters), strict=True)
    made = (Place(name, (_PORT + came,), (_PORT + left,), _drops(rows)) for (name, rows), (came, left) in steps)
    return HopGraph(Refused("receive ring of {port} full", Party.DUT), tuple(made), ("reference/port/",))


def _drops(rows: Rows) -> tuple[DropCounter, ...]:
    return tuple(DropCounter(_PORT + name, *row) for name, row in rows.items())


FORWARDER: Final = _graph(
    ("received", "accepted", "queued", "forwarded", "sent"),
    {"device receives": _RECEIVED, "device ring": _RING, "device table": _LOOKED_UP, "device sends": _SENT},
)
"""Receives, queues, looks up, sends; each place has its own drop counters."""
BALANCER: Final = _graph(
    ("received", "queued", "checked", "forwarded", "sent"),
    {"device ring": _RING, "device checks": _CHECKED, "device table": _TRACKED, "device sends": _FULL},
)
"""The same of a balancer, which checks what it receives."""


class Drops(msgspec.Struct, frozen=True):
    """Frames dropped, by place."""

    rx: int
    too_long: int
    ring: int
    table: int
    rules: tuple[int, ...]
    tx: int
    full: int  # the other port did not take them


class Direction(msgspec.Struct, frozen=True):
    """received = sent + waiting + drops, in frames, of the truth; what the device says may not add up."""

    received: int
    sent: int
    waiting: int
    drops: Drops
    new_flows: int
    software_frames: int


class Account(msgspec.Struct, frozen=True, tag="forward"):
    """Of a forwarder, since it started. The first direction is from the first port."""

    WORDS: ClassVar[str] = "reference device"

    elapsed_s: float
    busy_share: float  # in turns that moved frames
    offloaded: bool  # as the device says
    directions: tuple[Direction, Direction]  # likewise
    truth: tuple[Direction, Direction]

    def counters(self, names: tuple[str, str]) -> dict[str, int]:
        """`reference/port/NAME/COUNTER`, frames: what came at the port it came from, what left at the other."""
        counters = dict[str, int]()
        for direction, source, target in zip(self.directions, names, reversed(names), strict=True):
            drops, came, left = direction.drops, f"reference/port/{source}/", f"reference/port/{target}/"
            accepted = direction.received - drops.rx - drops.too_long
            counters |= {
                came + "received": direction.received,
                came + "rx": drops.rx,
                came + "too_long": drops.too_long,
                came + "ring": drops.ring,
                came + "table": drops.table,
                came + "rules": sum(drops.rules),
                came + "new_flows": direction.new_flows,
                came + "software_frames": direction.software_frames,
                left + "tx": drops.tx,
                left + "full": drops.full,
                left + "sent": direction.sent,
                # Frames that went on from each place, as far as this device counts them.
                came + "accepted": accepted,
                came + "queued": accepted - drops.ring,
                left + "forwarded": direction.sent + drops.tx + drops.full,
            }
        return counters

    def gauges(self) -> dict[str, float]:
        """`reference/offloaded`."""
        return {"reference/offloaded": float(self.offloaded)}


class BalancerDirection(msgspec.Struct, frozen=True):
    """received = sent + consumed + waiting + all of drops, in frames."""

    received: int
    sent: int
    consumed: int  # ARP that was for it
    waiting: int
    drops: dict[str, int]


class Space(msgspec.Struct, frozen=True):
    """Of which every connection occupies a place."""

    size: int
    used: int


class Balanced(msgspec.Struct, frozen=True, tag="balance"):
    """Of a balancer, since it started. The first direction is from the clients' port."""

    WORDS: ClassVar[str] = "reference balancer"

    elapsed_s: float
    busy_share: float  # in turns that moved frames
    directions: tuple[BalancerDirection, BalancerDirection]
    connections: dict[str, int]
    table: Space
    local_ends: Space | None  # of all backends together; None without full-NAT
    dealt: tuple[int, ...]  # connections, by backend
    closed_timeout_s: float

    def counters(self, names: tuple[str, str]) -> dict[str, int]:
        """As of a forwarder; `reference/connections/NAME`, `reference/dealt/BACKEND`."""
        counters = {f"reference/connections/{name}": n for name, n in self.connections.items() if name not in _STATES}
        counters |= {f"reference/dealt/{number}": count for number, count in enumerate(self.dealt)}
        for direction, source, target in zip(self.directions, names, reversed(names), strict=True):
            came, left = f"reference/port/{source}/", f"reference/port/{target}/"
            drops = dict.fromkeys(("ring", *_CHECKED, *_TRACKED, "full"), 0) | direction.drops
            received = direction.received - direction.consumed
            queued = received - drops["ring"]
            counters |= {came + name: drops[name] for name in ("ring", *_CHECKED, *_TRACKED)}
            counters |= {
                came + "received": received,
                came + "queued": queued,
                came + "checked": queued - sum(drops[name] for name in _CHECKED),
                left + "forwarded": direction.sent + drops["full"],
                left + "full": drops["full"],
                left + "sent": direction.sent,
            }
        return counters

    def gauges(self) -> dict[str, float]:
        """Places in use."""
        local = {LOCAL_USED: float(self.local_ends.used)} if self.local_ends else {}
        return {TABLE_USED: float(self.table.used), **local}


Told = TypeVar("Told", Account, Balanced)


def parse(line: str, kind: type[Told]) -> Told:
    """A line of the account file. Raises DutError."""
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.DecodeError as error:
        raise DutError(f"the {kind.WORDS}'s account cannot be read: {error}: {line[:200]}") from error


class Ports(OwnCounters, Generic[Told]):
    """What the device says of its ports, and a balancer of its connections."""

    def __init__(self, host: Host, relay: Relay, names: tuple[str, str], kind: type[Told]) -> None:
        self._host, self._relay, self._names, self._kind = host, relay, names, kind
        self.name = kind.WORDS

    def account(self) -> Told:
        """The account so far. Raises DutError."""
        return parse(ask_relay(self._relay, self._host), self._kind)

    def snapshot(self) -> Snapshot:
        """See `counters` and `gauges` of its account; `reference/busy_ns`: time in turns that moved frames."""
        at_s, told = time.monotonic(), self.account()
        busy_ns = round(told.busy_share * told.elapsed_s * 1e9)
        return Snapshot(at_s, {**told.counters(self._names), "reference/busy_ns": busy_ns}, told.gauges())
