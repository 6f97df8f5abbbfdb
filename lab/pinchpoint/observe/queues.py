"""A collector for the queueing disciplines of a namespace's interfaces, by what each kind drops for.

Format: tc(8), `-s -j qdisc show`. A discipline with classes counts what these drop, too; so the outermost of an
interface are read, its own and that of what it receives.
"""

import json
import time
from collections.abc import Sequence
from typing import Final

from pinchpoint.host.interface import Host
from pinchpoint.observe.printed import Printed
from pinchpoint.observe.snapshot import Snapshot

_SHAPING: Final = frozenset(
    {"tbf", "htb", "hfsc", "cbs", "cake", "netem"}
)  # drop what their settings leave no time for
_FILTERING: Final = frozenset({"ingress", "clsact"})  # drop what their filters say
_NONE: Final = "noqueue"  # drops nothing and counts nothing


class Queues(Printed):
    """Frames that the queueing disciplines dropped, by port."""

    def __init__(self, host: Host, netns: str, side: str, ports: Sequence[str]) -> None:
        """`side` is `dut` or `engine`: which end of the links the namespace holds."""
        self.name = f"queues-{side}"
        super().__init__(host, ["tc", "-n", netns, "-s", "-j", "qdisc", "show"])
        self._side, self._ports = side, frozenset(ports)

    def snapshot(self) -> Snapshot:
        """`host/queue/SIDE/PORT/{packets,shaped,filtered,full}`; of a port without a discipline: none."""
        at_s = time.monotonic()
        counters: dict[str, int] = {}
        for (port, name), frames in counts(self._read()).items():
            if port in self._ports:
                counters[f"host/queue/{self._side}/{port}/{name}"] = frames
        return Snapshot(at_s, counters, sparse=True)


def counts(text: str) -> dict[tuple[str, str], int]:
    """(interface, name) -> frames: `packets` that its own discipline sent, and drops by what they were for."""
    frames: dict[tuple[str, str], int] = {}
    for discipline in json.loads(text or "[]"):
        kind = discipline.get("kind", _NONE)
        if kind == _NONE or not (discipline.get("root") or kind in _FILTERING):
            continue
        reason = "shaped" if kind in _SHAPING else "filtered" if kind in _FILTERING else "full"
        port = discipline["dev"]
        frames[port, reason] = int(discipline.get("drops", 0))
        if kind not in _FILTERING:
            frames[port, "packets"] = int(discipline.get("packets", 0))
    return frames
