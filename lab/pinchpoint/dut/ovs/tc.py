"""Megaflows that the switch has put into the kernel's traffic control: which frames software handled there.

`offloaded:yes` is a claim: Open vSwitch prints it of every filter of which the kernel does not say that it is *not* in
hardware (lib/tc.c, `nl_get_flower_offloaded_state`). The counters of the filters' actions tell it from the truth:
`packets` are those of software and hardware, `hw_packets` those of hardware alone (iproute2, tc/tc_util.c).
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import msgspec

from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.observe.snapshot import Snapshot

SOFTWARE: Final = "ovs/tc/software"
MODULES: Final = ("cls_flower", "act_mirred", "sch_ingress")


class _Stats(msgspec.Struct):
    packets: int = 0
    hw_packets: int = 0


class _Action(msgspec.Struct):
    stats: _Stats | None = None


class _Options(msgspec.Struct):
    handle: int | str = 0
    in_hw: bool = False
    not_in_hw: bool = False
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


@dataclass(frozen=True)
class FilterListing:
    """All filters at one moment."""

    filters: Mapping[Filter, Filtered]

    def since(self, before: Self) -> Mapping[str, float]:
        """`ovs/tc/{software,hardware}`: frames since then, of the chain that counted most: a frame may pass several.

        A filter with fewer frames than before was made anew.
        """
        by_chain: dict[str, Counter[int]] = {"software": Counter(), "hardware": Counter()}
        for name, now in self.filters.items():
            earlier = before.filters.get(name, Filtered(0, 0))
            for side, counts in by_chain.items():
                new, old = getattr(now, side), getattr(earlier, side)
                counts[name[1]] += new - (old if old <= new else 0)
        return {f"ovs/tc/{side}": float(max(counts.values(), default=0)) for side, counts in by_chain.items()}


def filters(text: str, interface: str) -> dict[Filter, tuple[Filtered, bool]]:
    """What `tc -s -j filter show` prints of one interface, and whether the kernel says that hardware has it.

    Raises msgspec.DecodeError.
    """
    found: dict[Filter, tuple[Filtered, bool]] = {}
    for one in msgspec.json.decode(text or "[]", type=list[_Filter]):
        stats = next((action.stats for action in one.options.actions if action.stats), None) if one.options else None
        if one.options is not None and stats is not None:
            hardware = max(0, min(stats.hw_packets, stats.packets))
            seen = Filtered(max(0, stats.packets) - hardware, hardware)
            found[interface, one.chain, one.pref, one.options.handle] = (seen, one.options.in_hw)
    return found


class TcFilters:
    """The filters at the switch's ports, one by one."""

    name = "tc filters"

    def __init__(self, host: Host, netns: str | None, interfaces: Sequence[str]) -> None:
        self._host, self._netns, self._interfaces = host, netns, tuple(interfaces)

    def can_run(self) -> str | None:
        """Whether there is tc."""
        return None if self._host.which("tc") else "tc: not installed; apt-get install iproute2"

    def snapshot(self) -> Snapshot:
        """Gauges `ovs/tc/{filters,in_hw}`; the filters. What cannot be read leaves all of it out."""
        at_s = time.monotonic()
        found: dict[Filter, tuple[Filtered, bool]] = {}
        try:
            for name in self._interfaces:
                argv = ["tc", "-s", "-j", "filter", "show", "dev", name, "ingress"]
                found |= filters(self._host.run(argv, self._netns), name)
        except (CommandFailed, msgspec.DecodeError):
            return Snapshot(at_s)
        gauges = {"ovs/tc/filters": float(len(found)), "ovs/tc/in_hw": float(sum(held for _, held in found.values()))}
        return Snapshot(at_s, gauges=gauges, listing=FilterListing({name: one for name, (one, _) in found.items()}))
