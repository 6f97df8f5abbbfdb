"""A collector for the neighbours of a namespace that routes: next hops of which it knows no Ethernet address.

Formats: ip-neighbour(8), `-j`; `/proc/net/stat/arp_cache` in net/core/neighbour.c, neigh_stat_seq_show.
"""

import json
import time
from typing import Final

from pinchpoint.host.interface import PROC, Host
from pinchpoint.observe.printed import Printed
from pinchpoint.observe.snapshot import Snapshot, origin

_UNKNOWN: Final = frozenset({"INCOMPLETE", "FAILED"})
_FILES: Final = tuple(f"{PROC}/net/stat/{table}_cache" for table in ("arp", "ndisc"))
_DISCARDS: Final = "unresolved_discards"


class Neighbours(Printed):
    """Next hops that do not answer, and frames that found no room to wait for its answer."""

    name = "neighbours"

    def __init__(self, host: Host, netns: str) -> None:
        super().__init__(host, ["ip", "-n", netns, "-j", "neighbour", "show"])
        self._origin = origin(host)

    def snapshot(self) -> Snapshot:
        """`host/neighbour/discards`, of all namespaces of the host; gauge `host/neighbour/unknown`."""
        at_s = time.monotonic()
        counts = [discards(self._host.read(path)) for path in _FILES if self._host.exists(path)]
        known = [count for count in counts if count is not None]
        counters = {f"{self._origin}/neighbour/discards": sum(known)} if known else {}
        return Snapshot(at_s, counters, {f"{self._origin}/neighbour/unknown": float(unknown(self._read()))})


def unknown(text: str) -> int:
    """Neighbours whose address nobody told."""
    return sum(bool(_UNKNOWN & set(neighbour.get("state", ()))) for neighbour in json.loads(text or "[]"))


def discards(text: str) -> int | None:
    """A line of names, then one of hexadecimal values for each CPU: frames that did not wait; None: not counted."""
    names, *rows = [line.split() for line in text.splitlines()] or [[]]
    if _DISCARDS not in names:
        return None
    column = names.index(_DISCARDS)
    return sum(int(row[column], 16) for row in rows if len(row) > column)
