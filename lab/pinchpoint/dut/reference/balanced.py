"""What a running reference balancer prints of itself, and its counters."""

import time
from typing import Final

import msgspec

from pinchpoint.bench.actions import ask_relay
from pinchpoint.bench.resource import Relay
from pinchpoint.host.interface import Host
from pinchpoint.model.errors import DutError
from pinchpoint.model.hops import DropCounter, DropKind, HopGraph, Party, Place, Refused
from pinchpoint.observe.snapshot import Snapshot

TABLE_USED: Final = "reference/table/used"
LOCAL_USED: Final = "reference/local/used"
REFUSED_TABLE: Final = "reference/port/*/table_full"
REFUSED_LOCAL: Final = "reference/port/*/no_local_port"
_PORT: Final = "reference/port/{port}/"


class Direction(msgspec.Struct, frozen=True):
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
    """Since it started. The first direction is from the clients' port."""

    elapsed_s: float
    busy_share: float  # in turns that moved frames
    directions: tuple[Direction, Direction]
    connections: dict[str, int]
    table: Space
    local_ends: Space | None  # of all backends together; None without full-NAT
    dealt: tuple[int, ...]  # connections, by backend
    closed_timeout_s: float


def parse(line: str) -> Balanced:
    """A line of the account file. Raises DutError."""
    try:
        return msgspec.json.decode(line, type=Balanced)
    except msgspec.DecodeError as error:
        raise DutError(f"the reference balancer's account cannot be read: {error}: {line[:200]}") from error


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


def counters(directions: tuple[Direction, Direction], names: tuple[str, str]) -> dict[str, int]:
    """`reference/port/NAME/COUNTER`: frames. What came is counted at the port it came from, what left at the other."""
    counters = dict[str, int]()
    for direction, source, target in zip(directions, names, reversed(names), strict=True):
        drops, came, left = direction.drops, f"reference/port/{source}/", f"reference/port/{target}/"
        counters |= {came + name: drops.get(name, 0) for name in ("ring", *_CHECKED, *_TRACKED)}
        received = direction.received - direction.consumed
        checked = received - drops.get("ring", 0) - sum(drops.get(name, 0) for name in _CHECKED)
        counters |= {
            came + "received": received,
            came + "queued": received - drops.get("ring", 0),
            came + "checked": checked,
            left + "forwarded": direction.sent + drops.get("full", 0),
            left + "full": drops.get("full", 0),
            left + "sent": direction.sent,
        }
    return counters


def graph() -> HopGraph:
    """Its places, each with what it drops."""
    received, queued, checked, forwarded, sent = (
        (_PORT + counter,) for counter in ("received", "queued", "checked", "forwarded", "sent")
    )

    def drops(rows: dict[str, tuple[str, Party, DropKind]]) -> tuple[DropCounter, ...]:
        return tuple(DropCounter(_PORT + name, reason, party, kind) for name, (reason, party, kind) in rows.items())

    ring = {"ring": ("ring of the device behind {port} full", Party.DUT, DropKind.RECEIVE_RING)}
    full = {"full": ("transmit ring of {port} full", Party.ENGINE, DropKind.TRANSMIT_RING)}
    return HopGraph(
        Refused("receive ring of {port} full", Party.DUT),
        (
            Place("device ring", received, queued, drops(ring)),
            Place("device checks", queued, checked, drops(_CHECKED)),
            Place("device table", checked, forwarded, drops(_TRACKED)),
            Place("device sends", forwarded, sent, drops(full)),
        ),
        ("reference/port/",),
    )


class BalancedPorts:
    """What the balancer says of its ports and its connections."""

    name = "reference balancer"

    def __init__(self, host: Host, relay: Relay, names: tuple[str, str]) -> None:
        self._host, self._relay, self._names = host, relay, names

    def can_run(self) -> str | None:
        """Always: the bench stands once the device answers."""
        return None

    def account(self) -> Balanced:
        """The account so far. Raises DutError."""
        return parse(ask_relay(self._relay, self._host))

    def snapshot(self) -> Snapshot:
        """See `counters`; `reference/connections/NAME`, `reference/dealt/BACKEND`; gauges of places in use."""
        at_s, told = time.monotonic(), self.account()
        gauges = {TABLE_USED: float(told.table.used)}
        if told.local_ends:
            gauges[LOCAL_USED] = float(told.local_ends.used)
        states = ("opening", "established", "closed")
        counts = {
            f"reference/connections/{name}": count for name, count in told.connections.items() if name not in states
        }
        dealt = {f"reference/dealt/{number}": count for number, count in enumerate(told.dealt)}
        busy_ns = round(told.busy_share * told.elapsed_s * 1e9)
        totals = {**counters(told.directions, self._names), **counts, **dealt, "reference/busy_ns": busy_ns}
        return Snapshot(at_s, totals, gauges)
