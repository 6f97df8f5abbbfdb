"""Collectors for benches over veth: where the kernel, not the switch, drops frames.

A userspace switch reads a kernel port through a packet socket. What overflows
that socket's buffer was received by the interface and never seen by the switch;
only the socket's own drop counter tells (ss(8), `skmem:(... d<drops>)`). A socket
with a receive ring (packet(7), PACKET_RX_RING) counts its drops elsewhere, where only
its owner can read them: its d0 means nothing. So the engine tells its own (rx_missed).
"""

import json
import re
import time
from collections.abc import Sequence

from pinchpoint.host.interface import Host
from pinchpoint.observe.printed import Printed
from pinchpoint.observe.snapshot import Snapshot

_SOCKET = re.compile(r"^p_\w+\s+\S+\s+\d+\s+\d+\s+\S+:(?P<port>[\w.-]+)\s")
_RECEIVE_RING = "ring_rx("
_DROPS = re.compile(r"skmem:\([^)]*\bd(\d{1,19})\)")


def packet_socket_drops(text: str) -> dict[str, int]:
    """`ss -0 -a -e -m -O -H` output: interface -> frames dropped by its packet sockets, those with rings left out."""
    drops: dict[str, int] = {}
    for line in text.splitlines():
        socket, counted = _SOCKET.search(line), _DROPS.search(line)
        if socket and counted and _RECEIVE_RING not in line:
            drops[socket["port"]] = drops.get(socket["port"], 0) + int(counted[1])
    return drops


class PacketSockets(Printed):
    """Drops of the switch's packet sockets, by port."""

    name = "sockets"

    def __init__(self, host: Host, netns: str, ports: Sequence[str]) -> None:
        super().__init__(host, ["ss", "-0", "-a", "-e", "-m", "-O", "-H"], netns)
        self._ports = tuple(ports)

    def snapshot(self) -> Snapshot:
        """`host/socket/PORT/drops`, frames; a port without such a socket is absent."""
        at_s = time.monotonic()
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

    def snapshot(self) -> Snapshot:
        """`host/link/SIDE/PORT/{rx,tx}_{packets,dropped}`, frames; a port that is not there is absent."""
        at_s = time.monotonic()
        counters: dict[str, int] = {}
        for link in json.loads(self._read()):
            if link.get("ifname") not in self._ports:
                continue
            for direction, values in link.get("stats64", {}).items():
                for name in ("packets", "dropped"):
                    counters[f"host/link/{self._side}/{link['ifname']}/{direction}_{name}"] = int(values[name])
        return Snapshot(at_s, counters)
