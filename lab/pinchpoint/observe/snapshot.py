"""The form of everything observed, and two rounds of snapshots round a trial, which give what changed between them.

Names are flat, so that it can be stored, compared and searched.
"""

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, runtime_checkable

from pinchpoint.host.guest import NAME as GUEST
from pinchpoint.host.interface import Host
from pinchpoint.model.watch import Reading


def origin(host: Host) -> str:
    """How names of what was read on a host begin, where every machine has the same: `host` on the engine's."""
    return host.name if host.name == GUEST else "host"


class Listing:
    """Items with counters of their own, such as the flows of a datapath."""

    def since(self, before: Self) -> Mapping[str, float]:
        """Gauges of what happened to them since an earlier listing."""
        return {}

    def counted(self, before: Self) -> Mapping[str, int]:
        """Differences since an earlier listing, which add up over parts of time; by default none."""
        return {}


@dataclass(frozen=True)
class Snapshot:
    """One reading. Names are paths, e.g. `host/cpu/1/steal_ticks`."""

    at_s: float  # time.monotonic() when it was read
    counters: Mapping[str, int] = field(default_factory=dict)  # only ever grow
    gauges: Mapping[str, float] = field(default_factory=dict)  # a state at one instant
    sparse: bool = False  # the source prints only what is not zero: absent means zero
    listing: Listing | None = None  # items with counters of their own; too many to be kept
    derived: frozenset[str] = frozenset()  # counters that the source computes from others: they may slip back a little


FEW, ROUNDED = 1_000, 0.05
"""By how much a derived counter may slip back without a reset: a count, or a share of its value."""


def paths(begin: str, counters: Mapping[Any, Mapping[str, int]]) -> dict[str, int]:
    """The counters of each thread, port or CPU, by `begin/WHOSE/COUNTER`."""
    return {f"{begin}/{whose}/{name}": value for whose, values in counters.items() for name, value in values.items()}


@dataclass(frozen=True)
class Observation:
    """What changed between two snapshots of one collector."""

    elapsed_s: float
    differences: Mapping[str, int]  # of counters present in both, none of them negative
    gauges: Mapping[str, float]  # of the later snapshot
    went_back: tuple[str, ...] = ()  # counters that fell: reset meanwhile, so that their growth is not known
    unpaired: tuple[str, ...] = ()  # counters at one end alone: what they count was made or removed meanwhile

    def flat(self) -> dict[str, float]:
        """Differences and gauges in one mapping, for the record."""
        return {**self.gauges, **self.differences}


class Collector:
    """Reads one group of counters; a reading has the time at which it began."""

    name: str

    def can_run(self) -> str | None:
        """None, or why not and what would mend it. What a device tells itself can be read once the bench stands."""
        return None

    def snapshot(self) -> Snapshot:
        """Read now. Raises DutError if the DUT no longer answers."""
        return self.read(time.monotonic())

    def read(self, at_s: float) -> Snapshot:
        """The reading that began at that time of the monotonic clock."""
        raise NotImplementedError


@dataclass(frozen=True)
class Forwarding:
    """Where a device forwards frames."""

    threads: Mapping[int, str] = field(default_factory=dict)  # thread id -> its name
    cpus: tuple[int, ...] = ()  # of the kernel's softirqs that forward


@runtime_checkable
class Forwards(Protocol):
    """A witness that knows where its device forwards."""

    def forwarding(self) -> Forwarding:
        """As it is now."""


def difference(before: Snapshot, after: Snapshot) -> Observation:
    """What happened between two snapshots; a counter missing on either side stays missing.

    A counter that fell was reset: its port was taken out and put in again, or its daemon restarted. It is named
    in `went_back` and has no difference. One that has grown beyond its old value since the reset is not noticed.
    A derived one that slipped back has not grown.
    Two listings add what the later one says of the time since the earlier one.
    """
    changes = {
        name: value - before.counters.get(name, 0)
        for name, value in after.counters.items()
        if name in before.counters or before.sparse
    }
    slipped = [name for name, change in changes.items() if change < 0 and _is_slip(name, change, before, after)]
    changes |= dict.fromkeys(slipped, 0)
    vanished = [name for name in before.counters if name not in after.counters] if after.sparse else []
    unpaired: list[str] = [] if after.sparse else sorted(before.counters.keys() ^ after.counters.keys())
    went_back = sorted([*vanished, *(name for name, change in changes.items() if change < 0)])
    changes = {name: change for name, change in changes.items() if change >= 0}
    gauges = dict(after.gauges)
    if before.listing is not None and after.listing is not None:
        gauges |= after.listing.since(before.listing)
        changes |= after.listing.counted(before.listing)
    return Observation(after.at_s - before.at_s, changes, gauges, tuple(went_back), tuple(unpaired))


def _is_slip(name: str, change: int, before: Snapshot, after: Snapshot) -> bool:
    return name in after.derived and -change <= max(FEW, ROUNDED * before.counters[name])


def together(parts: Sequence[Observation | Reading]) -> Observation:
    """What changed in parts of time that follow each other: differences and times added up, the last one's gauges."""
    changes, gauges, went_back, unpaired = Counter[str](), dict[str, float](), dict[str, None](), dict[str, None]()
    for part in parts:
        went_back |= dict.fromkeys(part.went_back)
        unpaired |= dict.fromkeys(part.unpaired)
        changes.update(part.differences)
        times = {name: gauges.get(name, 0.0) + s for name, s in part.gauges.items() if name.startswith("elapsed_s/")}
        gauges |= {**part.gauges, **times}
    elapsed_s = math.fsum(part.elapsed_s for part in parts)
    return Observation(elapsed_s, changes, gauges, tuple(went_back), tuple(unpaired))


class Bracket:
    """Snapshots all collectors in one order before and in reverse after.

    So the collector nearest to the traffic is listed last and read last before
    the trial and first after it.
    """

    def __init__(self, collectors: Sequence[Collector]) -> None:
        reasons = [(collector, collector.can_run()) for collector in collectors]
        self.cannot = {collector.name: why for collector, why in reasons if why is not None}
        self._collectors = tuple(collector for collector, why in reasons if why is None)
        self._before: dict[int, Snapshot] = {}

    def open(self) -> None:
        """Take the first snapshot of every collector that can run."""
        self._before = {number: collector.snapshot() for number, collector in enumerate(self._collectors)}

    def turn(self) -> Observation:
        """Read everything; what changed since it was last read, so that no time lies between two turns."""
        return self._read(renew=True)

    def close(self) -> Observation:
        """Read everything after; what changed since `open`, each time that it is called."""
        return self._read(renew=False)

    def _read(self, *, renew: bool) -> Observation:
        """All differences together; the elapsed time is that of the last collector."""
        changes, gauges, went_back, unpaired = dict[str, int](), dict[str, float](), list[str](), list[str]()
        elapsed_s = 0.0
        for number, collector in reversed(list(enumerate(self._collectors))):
            after = collector.snapshot()
            seen = difference(self._before[number], after)
            if renew:
                self._before[number] = after
            changes |= seen.differences
            gauges |= seen.gauges
            gauges[f"elapsed_s/{collector.name}"] = seen.elapsed_s
            went_back += seen.went_back
            unpaired += seen.unpaired
            elapsed_s = elapsed_s or seen.elapsed_s
        return Observation(elapsed_s, changes, gauges, tuple(went_back), tuple(unpaired))
