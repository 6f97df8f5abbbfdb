"""Megaflows that the switch has put into the kernel's traffic control: which frames software handled there.

`offloaded:yes` is a claim: Open vSwitch prints it of every filter of which the kernel does not say that it is *not* in
hardware (lib/tc.c, `nl_get_flower_offloaded_state`). The counters of the filters' actions tell it from the truth:
`packets` are those of software and hardware, `hw_packets` those of hardware alone (iproute2, tc/tc_util.c).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Self

import msgspec

from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.observe.snapshot import Snapshot, TimedCollector

SOFTWARE, HARDWARE, DROPPED = "ovs/tc/software", "ovs/tc/hardware", "ovs/tc/dropped"
MOST_FILTERS = 20_000  # that are parsed at one reading
MODULES: Final = ("cls_flower", "act_mirred", "sch_ingress")


_Count = Annotated[int, msgspec.Meta(ge=0)]


class _Stats(msgspec.Struct):
    packets: _Count = 0
    hw_packets: _Count = 0
    drops: _Count = 0


class _Action(msgspec.Struct):
    stats: _Stats | None = None


class _Options(msgspec.Struct):
    handle: int | str = 0
    in_hw: bool = False
    actions: list[_Action] = []


class _Filter(msgspec.Struct):
    pref: int = 0
    chain: int = 0
    options: _Options | None = None


Filter = tuple[str, int, int, int | str]
"""Interface, chain, priority and handle: what a filter is known by."""


@dataclass(frozen=True)
class Filtered:
    """Frames that a filter took since it was made."""

    software: int
    hardware: int
    dropped: int  # by its actions


@dataclass(frozen=True)
class FilterListing:
    """All filters at one moment."""

    filters: Mapping[Filter, Filtered]

    def since(self, before: Self) -> Mapping[str, float]:
        """Nothing: all of it adds up."""
        return {}

    def counted(self, before: Self) -> Mapping[str, int]:
        """`ovs/tc/{software,hardware,dropped}`: frames since then. One that passed several chains counts once.

        A filter with fewer frames than before was made anew. One that is gone took its frames along.
        """
        chains: dict[str, Counter[int]] = {SOFTWARE: Counter(), HARDWARE: Counter(), DROPPED: Counter()}
        for name, now in self.filters.items():
            old = before.filters.get(name, _NONE)
            if now.software + now.hardware < old.software + old.hardware:
                old = _NONE
            chains[SOFTWARE][name[1]] += max(0, now.software - old.software)
            chains[HARDWARE][name[1]] += max(0, now.hardware - old.hardware)
            chains[DROPPED][0] += max(0, now.dropped - old.dropped)
        return {counter: max(counts.values(), default=0) for counter, counts in chains.items()}


_NONE: Final = Filtered(0, 0, 0)


def filters(text: str, interface: str) -> dict[Filter, tuple[Filtered, bool]]:
    """What `tc -s -j filter show` prints of one interface, and whether the kernel says that hardware has it.

    Raises msgspec.DecodeError.
    """
    by_filter: dict[Filter, tuple[Filtered, bool]] = {}
    for entry in msgspec.json.decode(text or "[]", type=list[_Filter]):
        stats = [action.stats for action in entry.options.actions if action.stats] if entry.options else []
        if entry.options is not None and stats:
            hardware = min(stats[0].hw_packets, stats[0].packets)
            seen = Filtered(stats[0].packets - hardware, hardware, sum(action.drops for action in stats))
            by_filter[interface, entry.chain, entry.pref, entry.options.handle] = (seen, entry.options.in_hw)
    return by_filter


class TcFilters(TimedCollector):
    """The filters at the switch's ports, one by one."""

    name = "tc filters"

    def __init__(self, host: Host, netns: str | None, interfaces: Sequence[str]) -> None:
        self._host, self._netns, self._interfaces = host, netns, tuple(interfaces)

    def can_run(self) -> str | None:
        """Whether there is tc."""
        return None if self._host.which("tc") else "tc: not installed; apt-get install iproute2"

    def read(self, at_s: float) -> Snapshot:
        """Gauges `ovs/tc/{filters,in_hw}`; the filters.

        An interface that the kernel does not know by its name (a tunnel, a patch port) has none here, so its frames are
        missing from the sum. What cannot be read, or is too much, leaves all of it out.
        """
        by_filter: dict[Filter, tuple[Filtered, bool]] = {}
        for name in self._interfaces:
            try:
                argv = ["tc", "-s", "-j", "filter", "show", "dev", name, "ingress"]
                by_filter |= filters(self._host.run(argv, self._netns), name)
            except CommandFailed:
                continue
            except msgspec.DecodeError:
                return Snapshot(at_s)
            if len(by_filter) > MOST_FILTERS:
                return Snapshot(at_s)
        gauges = {
            "ovs/tc/filters": float(len(by_filter)),
            "ovs/tc/in_hw": float(sum(held for _, held in by_filter.values())),
        }
        return Snapshot(
            at_s, gauges=gauges, listing=FilterListing({name: frames for name, (frames, _) in by_filter.items()})
        )
