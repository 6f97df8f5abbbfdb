"""Collectors of what the kernel counts in a namespace, by what ip(8), tc(8) and ss(8) print.

A userspace switch reads a kernel port through a packet socket. What overflows that socket's buffer was received by the
interface and never seen by the switch; only the socket's own drop counter tells (ss(8), `skmem:(... d<drops>)`). One
with a receive ring (packet(7), PACKET_RX_RING) counts its drops elsewhere, where only its owner can read them: its d0
means nothing. So the engine tells its own (rx_missed).

Of queueing disciplines (tc(8), `-s -j qdisc show`) one with classes counts what these drop, too; so the outermost of an
interface are read, its own and that of what it receives.

Of neighbours: ip-neighbour(8), `-j`; `/proc/net/stat/arp_cache` in net/core/neighbour.c, neigh_stat_seq_show. Of TCP,
what it did and the sockets that it holds: proc_net(5) and Documentation/networking/snmp_counter.rst in the kernel.
"""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Final

from pinchpoint.host.interface import PROC, CommandFailed, Host, is_path
from pinchpoint.model.errors import DutError, RequirementError
from pinchpoint.observe.snapshot import Collector, Snapshot, origin

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


class Printed(Collector):
    """The reading of one command; it can be made where the command runs."""

    def __init__(self, host: Host, argv: Sequence[str], netns: str | None = None) -> None:
        self._host, self._argv, self._netns = host, list(argv), netns

    def can_run(self) -> str | None:
        """Needs the command, and a kernel that answers it."""
        try:
            self._read()
        except (CommandFailed, RequirementError) as error:
            return error.message
        return None

    def _read(self) -> str:
        """What it prints. Raises CommandFailed or RequirementError."""
        return self._host.run(self._argv, self._netns)


class PacketSockets(Printed):
    """Drops of the switch's packet sockets, by port."""

    name = "sockets"

    def __init__(self, host: Host, netns: str | None, ports: Sequence[str] | None = None) -> None:
        """`ports`: None for every interface."""
        super().__init__(host, ["ss", "-0", "-a", "-e", "-m", "-O", "-H"], netns)
        self._ports = None if ports is None else frozenset(ports)

    def read(self, at_s: float) -> Snapshot:
        """`host/socket/PORT/drops`, frames; a port without such a socket is absent."""
        drops = packet_socket_drops(self._read())
        wanted = drops.keys() if self._ports is None else drops.keys() & self._ports
        return Snapshot(at_s, {f"host/socket/{port}/drops": drops[port] for port in sorted(wanted)})


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

    def __init__(self, host: Host, netns: str | None, side: str, ports: Sequence[str] | None = None) -> None:
        """`side` is `dut` or `engine`: which end of the links the namespace holds; `ports`: None for every one."""
        self.name = f"queues-{side}"
        at = is_path(netns)  # tc enters a namespace by its name
        named = ["-n", netns] if netns and not at else []
        super().__init__(host, ["tc", *named, "-s", "-j", "qdisc", "show"], netns if at else None)
        self._side, self._ports = side, None if ports is None else frozenset(ports)

    def read(self, at_s: float) -> Snapshot:
        """`host/queue/SIDE/PORT/{packets,shaped,filtered,full}`; of a port without a discipline: none."""
        counters: dict[str, int] = {}
        for (port, name), frames in queue_counts(self._read()).items():
            if self._ports is None or port in self._ports:
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


TIME_WAIT_S = 60.0
"""For which the side that closes first keeps a connection: TCP_TIMEWAIT_LEN of include/net/tcp.h, no setting."""

_SNMP, _NETSTAT, _SOCKSTAT, _SOCKSTAT6 = (f"{PROC}/net/{name}" for name in ("snmp", "netstat", "sockstat", "sockstat6"))
_COUNTED = (
    *("ActiveOpens", "PassiveOpens", "AttemptFails", "EstabResets", "RetransSegs", "OutRsts", "InCsumErrors"),
    *("ListenOverflows", "ListenDrops", "TCPReqQFullDrop", "TCPReqQFullDoCookies", "SyncookiesSent"),
    *("EmbryonicRsts", "TCPTimeWaitOverflow", "TCPSynRetrans", "TCPTimeouts", "TCPAbortOnMemory"),
)
TCP_COUNTERS = "host/tcp/"
TCP_PAIRS, TCP_PORTS = f"{TCP_COUNTERS}pairs", f"{TCP_COUNTERS}local_ports"


class TcpStack(Printed):
    """TCP of the device's namespace."""

    name = "tcp"

    def __init__(self, host: Host, netns: str) -> None:
        v6 = [_SOCKSTAT6] if host.exists(_SOCKSTAT6) else []  # where the kernel has IPv6
        super().__init__(host, ["cat", _SNMP, _NETSTAT, _SOCKSTAT, *v6], netns)

    def read(self, at_s: float) -> Snapshot:
        """`host/tcp/COUNTER`; gauges `host/tcp/{inuse,tw,pairs,local_ports}`.

        AttemptFails: connections that the other end refused; a connect(2) without a free port is not among them.
        `pairs` are the sockets in use by twos, since a proxy has two for each connection. `local_ports` are those and
        the ones in TIME_WAIT, each of which occupies a port towards a backend where the proxy closes first.
        """
        text = self._read()
        counters = {f"{TCP_COUNTERS}{name}": value for name, value in tcp_counters(text).items()}
        sockets = tcp_sockets(text)
        gauges = {f"{TCP_COUNTERS}{name}": float(value) for name, value in sockets.items()}
        if len(sockets) == 2:
            gauges[TCP_PAIRS] = sockets["inuse"] / 2
            gauges[TCP_PORTS] = sockets["tw"] + sockets["inuse"] / 2
        return Snapshot(at_s, counters, gauges)

    def opened(self) -> int | None:
        """Connections for which it has sent a SYN, since the namespace was made; None: not counted."""
        return tcp_counters(self._read()).get("ActiveOpens")

    def remembered(self) -> int:
        """Sockets in use, listening ones among them, and in TIME_WAIT. Raises DutError."""
        sockets = tcp_sockets(self._read())
        if len(sockets) < 2:
            raise DutError(f"{_SOCKSTAT} names no TCP sockets")
        return sum(sockets.values())


def tcp_counters(text: str) -> dict[str, int]:
    """`Tcp:` and `TcpExt:` of /proc/net/snmp and /proc/net/netstat."""
    return snmp_counters(text.splitlines(), ("Tcp:", "TcpExt:"), _COUNTED)


def snmp_counters(lines: Iterable[str], sections: Collection[str], wanted: Collection[str]) -> dict[str, int]:
    """Sections of /proc/net/snmp and /proc/net/netstat, each a line of names, then one of values."""
    counters: dict[str, int] = {}
    for names, values in pairwise(lines):
        section = names.split(" ")[0]
        if section in sections and values.split(" ")[0] == section:
            pairs = zip(names.split()[1:], values.split()[1:], strict=False)
            counters |= {name: int(value) for name, value in pairs if name in wanted and value.isdecimal()}
    return counters


def tcp_sockets(text: str) -> dict[str, int]:
    """`TCP:` of /proc/net/sockstat, `TCP6:` of sockstat6: sums of `inuse` and `tw`, which are of the namespace alone.

    Sockets of IPv6 in TIME-WAIT are among `tw` of the former; the latter has `inuse` only.
    """
    sums: dict[str, int] = {}
    for line in text.splitlines():
        words = line.split()
        if words[:1] in (["TCP:"], ["TCP6:"]):
            for name, value in zip(words[1::2], words[2::2], strict=False):
                if name in ("inuse", "tw") and value.isdecimal():
                    sums[name] = sums.get(name, 0) + int(value)
    return sums
