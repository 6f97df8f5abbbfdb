"""Which datapath flows and masks the traffic really used: those whose packet counts grew.

A factor that only the OpenFlow tables know (half a million rules that no frame meets) leaves
both numbers as they were, and says so before anyone believes its curve.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from pinchpoint.dut.ovs.text import FlowCount


@dataclass(frozen=True)
class Exercised:
    """What carried traffic between two listings."""

    flows: int
    masks: int


def exercised(before: Mapping[str, FlowCount], after: Mapping[str, FlowCount]) -> Exercised:
    """Flows (and their masks) with more packets than before; one that is new, or was made anew, with any."""
    used = [
        flow
        for name, flow in after.items()
        if flow.packets > (before[name].packets if name in before and before[name].packets <= flow.packets else 0)
    ]
    return Exercised(len(used), len({flow.mask for flow in used}))


@dataclass(frozen=True)
class FlowListing:
    """The datapath's flows at one moment, by thread and flow."""

    flows: Mapping[str, FlowCount]

    def since(self, before: Self) -> Mapping[str, float]:
        """`ovs/exercised/{flows,masks}`: those that carried packets since then."""
        used = exercised(before.flows, self.flows)
        return {"ovs/exercised/flows": float(used.flows), "ovs/exercised/masks": float(used.masks)}
