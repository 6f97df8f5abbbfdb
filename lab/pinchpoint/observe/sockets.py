"""Collectors for benches over veth: where the kernel, not the switch, drops frames.

A userspace switch reads a kernel port through a packet socket. What overflows
that socket's buffer was received by the interface and never seen by the switch;
only the socket's own drop counter tells (ss(8), `skmem:(... d<drops>)`).
"""

import json
import re
import time
from collections.abc import Callable, Sequence

from pinchpoint.bench.host import CommandFailed, run_command
from pinchpoint.observe.snapshot import Snapshot

_SOCKET = re.compile(r"\*:(?P<port>[\w.-]+)\s")
_DROPS = re.compile(r"skmem:\([^)]*\bd(\d{1,19})\)")


def packet_socket_drops(text: str) -> dict[str, int]:
    """`ss -0 -a -m -H` output: interface -> frames dropped by its packet sockets."""
    drops: dict[str, int] = {}
    port: str | None = None
    for line in text.splitlines():
        if found := _SOCKET.search(line):
            port = found["port"]
        if (found := _DROPS.search(line)) and port is not None:
            drops[port] = drops.get(port, 0) + int(found[1])
    return drops


def _why_not(read: Callable[[], str]) -> str | None:
    """What a reading's command said if it failed; None if it can be read."""
    try:
        read()
    except CommandFailed as error:
        return error.message
    return None


class PacketSockets:
    """Drops of the switch's packet sockets, by port."""

    name = "sockets"

    def __init__(self, netns: str, ports: Sequence[str]) -> None:
        self._netns = netns
        self._ports = tuple(ports)

    def can_run(self) -> str | None:
        """Needs ss from iproute2."""
        return _why_not(self._read)

    def snapshot(self) -> Snapshot:
        """`host/socket/PORT/drops`."""
        at_s = time.monotonic()
        drops = packet_socket_drops(self._read())
        return Snapshot(at_s, {f"host/socket/{port}/drops": drops[port] for port in self._ports if port in drops})

    def _read(self) -> str:
        return run_command(["ss", "-0", "-a", "-m", "-H"], self._netns)


class Links:
    """The kernel's own counters of every veth end in a namespace."""

    def __init__(self, netns: str, side: str, ports: Sequence[str]) -> None:
        """`side` is `dut` or `engine`: which end of the links the namespace holds."""
        self.name = f"links-{side}"
        self._netns = netns
        self._side = side
        self._ports = tuple(ports)

    def can_run(self) -> str | None:
        """Needs ip from iproute2."""
        return _why_not(self._read)

    def snapshot(self) -> Snapshot:
        """`host/link/SIDE/PORT/{rx,tx}_{packets,dropped}`."""
        at_s = time.monotonic()
        counters: dict[str, int] = {}
        for link in json.loads(self._read()):
            if link.get("ifname") not in self._ports:
                continue
            for direction, values in link.get("stats64", {}).items():
                for name in ("packets", "dropped"):
                    counters[f"host/link/{self._side}/{link['ifname']}/{direction}_{name}"] = int(values[name])
        return Snapshot(at_s, counters)

    def _read(self) -> str:
        return run_command(["ip", "-n", self._netns, "-s", "-j", "link", "show"])
