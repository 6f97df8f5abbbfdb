"""Which datapath flows and masks the traffic really used: those whose packet counts grew.

A factor that only the OpenFlow tables know (half a million rules that no frame meets) leaves
both numbers as they were, and says so before anyone believes its curve.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pinchpoint.dut.unixctl import Unixctl, UnixctlError
from pinchpoint.observe import ovs_text

MOST_LISTED = 20_000  # flows: listing more takes the switch's main thread for seconds
_FLOW = re.compile(r"^(?:ufid:(?P<ufid>[0-9a-f-]+), )?(?P<key>.+?), packets:(?P<packets>\d{1,19}), ", re.MULTILINE)
_VALUE = re.compile(r"(?P<lead>[=(])(?P<value>[^=(),/]+)(?P<mask>/[^=(),]+)?(?=[,)])")
_THREAD = re.compile(r"^flow-dump from (?P<thread>.+?):?\s*$", re.MULTILINE)


@dataclass(frozen=True)
class FlowCount:
    """One datapath flow: its mask, and the packets it has carried."""

    mask: str
    packets: int


@dataclass(frozen=True)
class Exercised:
    """What carried traffic between two listings."""

    flows: int
    masks: int


def flow_counts(text: str) -> dict[str, FlowCount]:
    """`dpctl/dump-flows -m`: flow (with the thread that has it) -> its mask and packets."""
    found: dict[str, FlowCount] = {}
    thread = ""
    for line in text.splitlines():
        if heading := _THREAD.match(line):
            thread = heading["thread"]
        elif flow := _FLOW.match(line):
            found[f"{thread} {flow['ufid'] or flow['key']}"] = FlowCount(mask_of(flow["key"]), int(flow["packets"]))
    return found


def mask_of(key: str) -> str:
    """The key with every value taken out and every mask left: flows of one subtable have the same."""
    return _VALUE.sub(lambda found: found["lead"] + (found["mask"] or "="), key)


def exercised(before: Mapping[str, FlowCount], after: Mapping[str, FlowCount]) -> Exercised:
    """Flows (and their masks) with more packets than before; one that is new, or was made anew, with any."""
    used = [
        flow
        for name, flow in after.items()
        if flow.packets > (before[name].packets if name in before and before[name].packets <= flow.packets else 0)
    ]
    return Exercised(len(used), len({flow.mask for flow in used}))


class FlowListing:
    """Lists the datapath's flows, if there are not too many."""

    def __init__(self, control: Unixctl) -> None:
        self._control = control

    def read(self) -> dict[str, FlowCount] | None:
        """The flows now; None if there are more than MOST_LISTED, or the switch cannot list them. Raises DutError."""
        try:
            count = ovs_text.datapath_flows(self._control.call("dpctl/show"))
            if count is None or count > MOST_LISTED:
                return None
            return flow_counts(self._control.call("dpctl/dump-flows", "-m"))
        except UnixctlError:
            return None
