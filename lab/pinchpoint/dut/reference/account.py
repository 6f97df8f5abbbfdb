"""What a running reference device prints of itself: its counters, which may lie, and the truth."""

import time

import msgspec

from pinchpoint.bench.actions import ask_relay
from pinchpoint.bench.resource import Relay
from pinchpoint.host.interface import Host
from pinchpoint.model.errors import DutError
from pinchpoint.observe.snapshot import Snapshot


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
    """Since it started. The first direction is from the first port."""

    elapsed_s: float
    busy_share: float  # in turns that moved frames
    offloaded: bool  # as the device says
    directions: tuple[Direction, Direction]  # likewise
    truth: tuple[Direction, Direction]


def parse(line: str) -> Account:
    """A line of the account file. Raises DutError."""
    try:
        return msgspec.json.decode(line, type=Account)
    except msgspec.DecodeError as error:
        raise DutError(f"the reference device's account cannot be read: {error}: {line[:200]}") from error


def counters(directions: tuple[Direction, Direction], names: tuple[str, str]) -> dict[str, int]:
    """`reference/port/NAME/COUNTER`: frames. What came is counted at the port it came from, what left at the other."""
    counters = dict[str, int]()
    for direction, source, target in zip(directions, names, reversed(names), strict=True):
        drops, came, left = direction.drops, f"reference/port/{source}/", f"reference/port/{target}/"
        forwarded = direction.sent + drops.tx + drops.full
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
            came + "accepted": direction.received - drops.rx - drops.too_long,
            came + "queued": direction.received - drops.rx - drops.too_long - drops.ring,
            left + "forwarded": forwarded,
        }
    return counters


class Ports:
    """What the device says of its ports."""

    name = "reference device"

    def __init__(self, host: Host, relay: Relay, names: tuple[str, str]) -> None:
        self._host, self._relay, self._names = host, relay, names

    def can_run(self) -> str | None:
        """Always: the bench stands once the device answers."""
        return None

    def account(self) -> Account:
        """The account so far. Raises DutError."""
        return parse(ask_relay(self._relay, self._host))

    def snapshot(self) -> Snapshot:
        """See `counters`; `reference/busy_ns`: time in turns that moved frames. Gauge `reference/offloaded`."""
        at_s, account = time.monotonic(), self.account()
        busy_ns = round(account.busy_share * account.elapsed_s * 1e9)
        gauges = {"reference/offloaded": float(account.offloaded)}
        return Snapshot(at_s, {**counters(account.directions, self._names), "reference/busy_ns": busy_ns}, gauges)
