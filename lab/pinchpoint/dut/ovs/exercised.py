"""Which datapath flows and masks the traffic really used: those whose packet counts grew.

A factor that only the OpenFlow tables know (half a million rules that no frame meets) leaves
both numbers as they were, and says so before anyone believes its curve.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Self

from pinchpoint.dut.ovs.text import FlowCount
from pinchpoint.model.offload import OffloadLimit

LIMIT: Final = "ovs/offload/limit/"


@dataclass(frozen=True)
class Exercised:
    """What carried traffic between two listings."""

    flows: int
    masks: int


def exercised(before: Mapping[str, FlowCount], after: Mapping[str, FlowCount]) -> Exercised:
    """Flows (and their masks) with more packets than before; one that is new, or was made anew, with any."""
    used = [flow for flow, _ in _carried(before, after)]
    return Exercised(len(used), len({flow.mask for flow in used}))


def kept_in_software(before: Mapping[str, FlowCount], after: Mapping[str, FlowCount]) -> Mapping[OffloadLimit, float]:
    """The share of the packets between two listings that was of flows with each known limit of offload."""
    kept, total = Counter[OffloadLimit](), 0
    for flow, packets in _carried(before, after):
        total += packets
        kept.update(dict.fromkeys(flow.limits, packets))
    return {limit: packets / total for limit, packets in kept.items()}


def _carried(before: Mapping[str, FlowCount], after: Mapping[str, FlowCount]) -> Iterator[tuple[FlowCount, int]]:
    """Each flow that carried packets, with how many. One with fewer than before was made anew."""
    for name, flow in after.items():
        earlier = before[name].packets if name in before else 0
        packets = flow.packets - (earlier if earlier <= flow.packets else 0)
        if packets:
            yield flow, packets


@dataclass(frozen=True)
class FlowListing:
    """The datapath's flows at one moment, by thread and flow."""

    flows: Mapping[str, FlowCount]

    def since(self, before: Self) -> Mapping[str, float]:
        """`ovs/exercised/{flows,masks}`: those that carried packets since then; `ovs/offload/limit/NAME`: shares."""
        used = exercised(before.flows, self.flows)
        kept = kept_in_software(before.flows, self.flows)
        return {
            "ovs/exercised/flows": float(used.flows),
            "ovs/exercised/masks": float(used.masks),
            **{LIMIT + limit.name.lower(): share for limit, share in kept.items()},
        }

    def counted(self, before: Self) -> Mapping[str, int]:
        """Nothing: a flow that ended took its packets along."""
        return {}
