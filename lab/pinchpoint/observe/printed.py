"""Collectors of what the kernel counts in a namespace, by what ip(8), tc(8) and ss(8) print.

A userspace switch reads a kernel port through a packet socket. What overflows that socket's buffer was received by the
interface and never seen by the switch; only the socket's own drop counter tells (ss(8), `skmem:(... d<drops>)`). One
with a receive ring (packet(7), PACKET_RX_RING) counts its drops elsewhere, where only its owner can read them: its d0
means nothing. So the engine tells its own (rx_missed).

Of queueing disciplines (tc(8), `-s -j qdisc show`) one with classes counts what these drop, too; so the outermost of an
interface are read, its own and that of what it receives.

Of neighbours: ip-neighbour(8), `-j`; `/proc/net/stat/arp_cache` in net/core/neighbour.c, neigh_stat_seq_show.
"""

import json
import re
from collections.abc import Sequence
from typing import Final

from pinchpoint.host.interface import PROC, CommandFailed, Host
from pinchpoint.observe.snapshot import Snapshot, TimedCollector, origin

_SOCKET = re.compile(r"^p_\w+\s+\S+\s+\d+\s+\d+\s+\S+:(?P<port>[\w.-]+)\s")
_RECEIVE_RING = "ring_rx("
_DROPS = re.compile(r"skmem:\([^)]*\bd(\d{1,19})\)")
# Those that drop what their settings leave no time for.
_SHAPING: Final = frozenset({"tbf", "htb", "hfsc", "cbs", "cake", "netem"})
_FILTERING: Final = frozenset({"ingress", "clsact"})  # drop what their filters say
_NONE: Final = "noqueue"  # drops nothing and counts nothing
_UNKNOWN: Final = frozenset({"INCOMPLETE", "FAILED"})
_FILES: Final = tuple(f"{PROC}/net/stat/{table}_cache" for table in ("arp", "ndisc"))
_DISCARDS: Final = "unresolved_discards"


class Printed(TimedCollector):
    """The reading of one command; it can be made where the command runs."""

    def __init__(self, host: Host, argv: Sequence[str], netns: str | None = None) -> None:
        self._host, self._argv, self._netns = host, list(argv), netns

    def can_run(self) -> str | None:
        """Needs the command, and a kernel that answers it."""
        try:
            self._read()
        except CommandFailed as error:
            return error.message
        return None

    def _read(self) -> str:
        """What it prints. Raises CommandFailed or RequirementError."""
        return self._host.run(self._argv, self._netns)


class PacketSockets(Printed):
    """Drops of the switch's packet sockets, by port."""

    name = "sockets"

    def __init__(self, host: Host, netns: str, ports: Sequence[str]) -> None:
        super().__init__(host, ["ss", "-0", "-a", "-e", "-m", "-O", "-H"], netns)
        self._ports = tuple(ports)

    def read(self, at_s: float) -> Snapshot:
        """`host/socket/PORT/drops`, frames; a port without such a socket is absent."""
        drops = packet_socket_drops(self._read())
        return Snapshot(at_s, {f"host/socket/{port}/drops": drops[port] for port in self._ports if port in drops})


class Links(Printed):
    """The kernel's own counters of every veth end in a namespace."""

    def __init__(self, host: Host, netns: str | None, side: str, ports: Sequence[str], where: str = "") -> None:
        """`side` is `dut` or `engine`: which end of the links the namespace (None: this one) holds.

        `where` distinguishes one of several hosts.
        """
        self.name = f"links-{side}" + (f"-{where}" if where else "")
        super().__init__(host, ["ip", *(["-n", netns] if netns else []), "-s", "-j", "link", "show"])
        self._side = side
        self._ports = tuple(ports)

    def read(self, at_s: float) -> Snapshot:
        """`host/link/SIDE/PORT/{rx,tx}_{packets,dropped}`, frames; a port that is not there is absent."""
        counters: dict[str, int] = {}
        for link in json.loads(self._read()):
            if link.get("ifname") not in self._ports:
                continue
            for direction, values in link.get("stats64", {}).items():
                for name in ("packets", "dropped"):
                    counters[f"host/link/{self._side}/{link['ifname']}/{direction}_{name}"] = int(values[name])
        return Snapshot(at_s, counters)


def packet_socket_drops(text: str) -> dict[str, int]:
    """`ss -0 -a -e -m -O -H` output: interface -> frames dropped by its packet sockets, those with rings left out."""
    drops: dict[str, int] = {}
    for line in text.splitlines():
        socket, counted = _SOCKET.search(line), _DROPS.search(line)
        if socket and counted and _RECEIVE_RING not in line:
            drops[socket["port"]] = drops.get(socket["port"], 0) + int(counted[1])
    return drops


class Queues(Printed):
    """Frames that the queueing disciplines dropped, by port."""

    def __init__(self, host: Host, netns: str, side: str, ports: Sequence[str]) -> None:
        """`side` is `dut` or `engine`: which end of the links the namespace holds."""
        self.name = f"queues-{side}"
        super().__init__(host, ["tc", "-n", netns, "-s", "-j", "qdisc", "show"])
        self._side, self._ports = side, frozenset(ports)

    def read(self, at_s: float) -> Snapshot:
        """`host/queue/SIDE/PORT/{packets,shaped,filtered,full}`; of a port without a discipline: none."""
        counters: dict[str, int] = {}
        for (port, name), frames in queue_counts(self._read()).items():
            if port in self._ports:
                counters[f"host/queue/{self._side}/{port}/{name}"] = frames
        return Snapshot(at_s, counters, sparse=True)


def queue_counts(text: str) -> dict[tuple[str, str], int]:
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


class Neighbours(Printed):
    """Next hops that do not answer, and frames that found no room to wait for its answer."""

    name = "neighbours"

    def __init__(self, host: Host, netns: str) -> None:
        super().__init__(host, ["ip", "-n", netns, "-j", "neighbour", "show"])
        self._origin = origin(host)

    def read(self, at_s: float) -> Snapshot:
        """`host/neighbour/discards`, of all namespaces of the host; gauge `host/neighbour/unknown`."""
        counts = [neighbour_discards(self._host.read(path)) for path in _FILES if self._host.exists(path)]
        known = [count for count in counts if count is not None]
        counters = {f"{self._origin}/neighbour/discards": sum(known)} if known else {}
        return Snapshot(at_s, counters, {f"{self._origin}/neighbour/unknown": float(unknown_neighbours(self._read()))})


def unknown_neighbours(text: str) -> int:
    """Neighbours whose address nobody told."""
    return sum(bool(_UNKNOWN & set(neighbour.get("state", ()))) for neighbour in json.loads(text or "[]"))


def neighbour_discards(text: str) -> int | None:
    """A line of names, then one of hexadecimal values for each CPU: frames that did not wait; None: not counted."""
    names, *rows = [line.split() for line in text.splitlines()] or [[]]
    if _DISCARDS not in names:
        return None
    column = names.index(_DISCARDS)
    return sum(int(row[column], 16) for row in rows if len(row) > column)
