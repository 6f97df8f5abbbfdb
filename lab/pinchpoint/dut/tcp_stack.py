"""What the TCP of a namespace did, and the sockets that it holds.

Formats: proc_net(5) and Documentation/networking/snmp_counter.rst in the kernel.
"""

from collections.abc import Collection, Iterable
from itertools import pairwise

from pinchpoint.host.interface import PROC, Host
from pinchpoint.model.errors import DutError
from pinchpoint.observe.printed import Printed
from pinchpoint.observe.snapshot import Snapshot

TIME_WAIT_S = 60.0
"""For which the side that closes first keeps a connection: TCP_TIMEWAIT_LEN of include/net/tcp.h, no setting."""

_SNMP, _NETSTAT, _SOCKSTAT, _SOCKSTAT6 = (f"{PROC}/net/{name}" for name in ("snmp", "netstat", "sockstat", "sockstat6"))
_COUNTED = (
    *("ActiveOpens", "PassiveOpens", "AttemptFails", "EstabResets", "RetransSegs", "OutRsts", "InCsumErrors"),
    *("ListenOverflows", "ListenDrops", "TCPReqQFullDrop", "TCPReqQFullDoCookies", "SyncookiesSent"),
    *("EmbryonicRsts", "TCPTimeWaitOverflow", "TCPSynRetrans", "TCPTimeouts", "TCPAbortOnMemory"),
)
COUNTERS = "host/tcp/"
PAIRS, PORTS = f"{COUNTERS}pairs", f"{COUNTERS}local_ports"


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
        counters = {f"{COUNTERS}{name}": value for name, value in tcp_counters(text).items()}
        sockets = tcp_sockets(text)
        gauges = {f"{COUNTERS}{name}": float(value) for name, value in sockets.items()}
        if len(sockets) == 2:
            gauges[PAIRS] = sockets["inuse"] / 2
            gauges[PORTS] = sockets["tw"] + sockets["inuse"] / 2
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
