"""The flows of the datapath, one by one: which carried traffic, with which masks; what keeps them in software. Pure.

A factor that only the OpenFlow tables know (half a million rules that no frame meets) leaves
the flows and masks that carried traffic as they were, and says so before anyone believes its curve.

What is known to keep a flow in software follows from its match and its actions, not from its flag. Sources:
drivers/net/ethernet/mellanox/mlx5/core/en/tc_ct.c and net/sched/act_ct.c of Linux for tracked connections;
lib/netdev-offload-dpdk.c of Open vSwitch for the userspace datapath. Format: ovs-vswitchd(8), `dpctl/dump-flows -m`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Self

from pinchpoint.model.offload import OffloadLimit
from pinchpoint.observe.snapshot import Listing

LIMIT: Final = "ovs/offload/limit/"
BY_FLOWS: Final = "ovs/flows/dropped"
_FLOW = re.compile(
    r"^(?:ufid:(?P<ufid>[0-9a-f-]+), ?)?(?P<key>[a-z_0-9]+\(.*?), packets:(?P<packets>\d{1,19}), bytes:(?P<rest>.*)$"
)
_FLOW_THREAD = re.compile(r"^flow-dump from (?P<thread>.+?):?\s*$")
_OFFLOADED = re.compile(r"(?:^|, ?)offloaded:(\w+)")
# A field's value, then its mask; what is matched whole has none.
_VALUE = re.compile(r"(?<=[(=])[^(),=/]+(/[^(),=]+)?(?=[,)])")
_ICMP, _TCP, _UDP, _ICMP6 = 1, 6, 17, 58
_PROTOCOL = re.compile(r"proto=(\d{1,3})(?=[,)])")  # matched whole; with a mask behind it, it is not
_TTL = re.compile(r"(?:ttl|hlimit)=(\d{1,3})(?=[,)])")
_STATE = re.compile(r"ct_state\((0x[0-9a-f]{1,8}|\d{1,9})(?:/(0x[0-9a-f]{1,8}|\d{1,9}))?\)")
_STATE_WORDS = re.compile(r"ct_state\(([+-][a-z+-]*)\)")
_NEW, _ESTABLISHED, _TRACKED_BIT = 0x01, 0x02, 0x20  # OVS_CS_F_NEW, OVS_CS_F_ESTABLISHED, OVS_CS_F_TRACKED
_BITS: Final = {"new": _NEW, "est": _ESTABLISHED, "trk": _TRACKED_BIT}
_DROP = re.compile(r"drop(?:,|$)")
_RECIRC = re.compile(r"recirc_id\((0x[0-9a-f]{1,8}|\d{1,9})\)")
_TRACKED = re.compile(r"(?:^|,)ct(?:\(|,|$)")
_TUNNELLED = re.compile(r"(?:^|[,(])tnl_(?:push|pop)\(")
_TUNNEL = re.compile(r"(?:^|,)tunnel\(")
_USERSPACE = re.compile(r"(?:^|[,(])userspace\(")


@dataclass(frozen=True)
class FlowCount:
    """One flow of the datapath, as one thread has it."""

    mask: str  # flows of one subtable have the same
    packets: int  # carried since it was made
    offload: str = "no"  # what the datapath claims: `yes`, `partial`, `no`
    limits: tuple[OffloadLimit, ...] = ()  # what is known to keep it in software
    drops: bool = False  # whether dropping is all that it does


def datapath_flow_counts(text: str) -> dict[str, FlowCount]:
    """`dpctl/dump-flows -m`: thread and flow -> its mask, packets and offload.

    Only the userspace datapath names threads. Every one has a table of its own, so a flow that two threads have is two,
    as in `dpctl/show`; a flow that a dump lists twice for one thread (it changed meanwhile) is one.
    """
    counts: dict[str, FlowCount] = {}
    thread = ""
    for line in text.splitlines():
        if heading := _FLOW_THREAD.match(line):
            thread = heading["thread"]
        elif flow := _FLOW.match(line):
            facts, _, actions = flow["rest"].partition(", actions:")
            claim = _OFFLOADED.search(facts)
            limits = limits_of(flow["key"], actions, is_userspace_datapath=bool(thread))
            drops = _DROP.match(actions) is not None
            count = FlowCount(mask_of(flow["key"]), int(flow["packets"]), claim[1] if claim else "no", limits, drops)
            counts[f"{thread} {flow['ufid'] or flow['key']}"] = count
    return counts


def mask_of(key: str) -> str:
    """The key with every value taken out and every mask left."""
    return _VALUE.sub(lambda value: value[1] or "*", key)


@dataclass(frozen=True)
class FlowListing(Listing):
    """The datapath's flows at one moment, by thread and flow."""

    flows: Mapping[str, FlowCount]

    def since(self, before: Self) -> Mapping[str, float]:
        """`ovs/exercised/{flows,masks}`: those that carried packets since then.

        `ovs/offload/limit/NAME`: the share of these packets that was of flows with each known limit of offload.
        """
        carried = list(_carried(before.flows, self.flows))
        total, kept = sum(packets for _, packets in carried), Counter[OffloadLimit]()
        for flow, packets in carried:
            kept.update(dict.fromkeys(flow.limits, packets))
        return {
            "ovs/exercised/flows": float(len(carried)),
            "ovs/exercised/masks": float(len({flow.mask for flow, _ in carried})),
            **{LIMIT + limit.name.lower(): packets / total for limit, packets in kept.items()},
        }

    def counted(self, before: Self) -> Mapping[str, int]:
        """`ovs/flows/dropped`: frames since then of flows that drop; one that ended meanwhile took its own along."""
        carried = _carried(before.flows, self.flows)
        return {BY_FLOWS: sum(packets for flow, packets in carried if flow.drops)}


def _carried(before: Mapping[str, FlowCount], after: Mapping[str, FlowCount]) -> Iterator[tuple[FlowCount, int]]:
    """Each flow that carried packets, with how many. One with fewer than before was made anew."""
    for name, flow in after.items():
        earlier = before[name].packets if name in before else 0
        packets = flow.packets - (earlier if earlier <= flow.packets else 0)
        if packets:
            yield flow, packets


Holds = Callable[[str, str], bool]  # of a flow's key and its actions


def limits_of(key: str, actions: str, is_userspace_datapath: bool) -> tuple[OffloadLimit, ...]:
    """Those that hold for one flow of `dpctl/dump-flows -m`."""
    known = {**_EVERYWHERE, **(_USERSPACE_DATAPATH if is_userspace_datapath else {})}
    return tuple(limit for limit, holds in known.items() if holds(key, actions))


def _number(pattern: re.Pattern[str], key: str) -> int | None:
    match = pattern.search(key)
    return int(match[1], 16 if match[1].startswith("0x") else 10) if match else None


def _state(key: str) -> tuple[int, int] | None:
    """(value, mask) of the state of the tracked connections that the flow matches; None if it matches none."""
    if words := _STATE_WORDS.search(key):
        value = sum(bit for word, bit in _BITS.items() if f"+{word}" in words[1])
        mask = value | sum(bit for word, bit in _BITS.items() if f"-{word}" in words[1])
    elif numbers := _STATE.search(key):
        value, mask = int(numbers[1], 0), int(numbers[2], 0) if numbers[2] else 0xFF
    else:
        return None
    return (value, mask) if value & mask & _TRACKED_BIT else None  # else what it matches is that nothing is tracked yet


def _is_tracked_icmp(key: str, actions: str) -> bool:
    is_tracked = _state(key) is not None or _TRACKED.search(actions) is not None
    return _number(_PROTOCOL, key) in (_ICMP, _ICMP6) and is_tracked


def _is_new(key: str) -> bool:
    """Whether the flow is of connections that are not established yet."""
    if (state := _state(key)) is None:
        return False
    value, mask = state
    return bool(value & mask & _NEW) or bool(mask & ~value & _ESTABLISHED)


_EVERYWHERE: Final[Mapping[OffloadLimit, Holds]] = {
    OffloadLimit.ONE_WAY: lambda key, actions: _number(_PROTOCOL, key) == _UDP and _is_new(key),
    OffloadLimit.NOT_ESTABLISHED: lambda key, actions: _number(_PROTOCOL, key) == _TCP and _is_new(key),
    OffloadLimit.TRACKED_ICMP: _is_tracked_icmp,
    OffloadLimit.FRAGMENTS: lambda key, actions: "frag=first" in key or "frag=later" in key,
    OffloadLimit.TTL: lambda key, actions: _number(_TTL, key) in (0, 1),
    OffloadLimit.USERSPACE: lambda key, actions: _USERSPACE.search(actions) is not None,
}
_USERSPACE_DATAPATH: Final[Mapping[OffloadLimit, Holds]] = {
    OffloadLimit.TRACKING: lambda key, actions: _TRACKED.search(actions) is not None,
    OffloadLimit.RECIRCULATED: lambda key, actions: bool(_number(_RECIRC, key)),
    OffloadLimit.TUNNEL: lambda key, actions: bool(_TUNNEL.search(key) or _TUNNELLED.search(actions)),
}
