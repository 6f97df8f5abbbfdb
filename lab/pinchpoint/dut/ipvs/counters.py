"""Counters of IPVS and of connection tracking in its namespace; what bounds the connections that both remember, as read
back from the kernel, and how they are forgotten.

Formats: `/proc/net/ip_vs_stats_percpu` and `/proc/net/ip_vs` in net/netfilter/ipvs/ip_vs_ctl.c; conntrack(8), `-S`.
"""

import re
import time

from pinchpoint.dut.ipvs import balancing
from pinchpoint.dut.services import await_forgotten
from pinchpoint.host.interface import PROC, Host
from pinchpoint.model.errors import BenchError
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import Service
from pinchpoint.observe.printed import Printed
from pinchpoint.observe.snapshot import Snapshot

_PER_CPU, _SERVERS = f"{PROC}/net/ip_vs_stats_percpu", f"{PROC}/net/ip_vs"
_CONNECTIONS = f"{PROC}/sys/net/netfilter/nf_conntrack_count"
FORGETTING_S = 20.0
_OWN = f"{PROC}/net/ip_vs_conn"
_NO_DESTINATION = "net/ipv4/vs/expire_nodest_conn"
_FULL = ("host/conntrack/table_full", "host/conntrack/early_drop")  # a full table first forgets half-open connections
_NO_PORT = ("host/conntrack/insert_failed",)
_ENTRIES = "host/conntrack/entries"
_COLUMNS = ("connections", "packets_in", "packets_out", "bytes_in", "bytes_out")
_PAIR = re.compile(r"(\w+)=(\d+)")


class Balanced(Printed):
    """What IPVS did, by CPU, and the connections in its table."""

    name = "ipvs"

    def __init__(self, host: Host, netns: str) -> None:
        super().__init__(host, ["cat", _PER_CPU, _SERVERS], netns)

    def snapshot(self) -> Snapshot:
        """`ipvs/cpu/N/COLUMN`; gauges `ipvs/connections/{active,inactive}`, which are TCP's established and others."""
        at_s = time.monotonic()
        said = self._read()
        counters = {
            f"ipvs/cpu/{cpu}/{name}": value for cpu, values in per_cpu(said).items() for name, value in values.items()
        }
        active, inactive = connections(said)
        gauges = {"ipvs/connections/active": float(active), "ipvs/connections/inactive": float(inactive)}
        return Snapshot(at_s, counters, gauges)


def per_cpu(text: str) -> dict[int, dict[str, int]]:
    """`ip_vs_stats_percpu`: CPU -> counters, all in hexadecimal; the line of their sums and the rates are left out."""
    counters = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 1 + len(_COLUMNS) and re.fullmatch(r"[0-9A-F]+", words[0]):
            counters[int(words[0], 16)] = dict(zip(_COLUMNS, (int(word, 16) for word in words[1:]), strict=True))
    return counters


def connections(text: str) -> tuple[int, int]:
    """`/proc/net/ip_vs`: active and inactive connections of all backends."""
    rows = [line.split() for line in text.splitlines() if re.match(r" *-> ([0-9A-F]{8}|\[[0-9a-f:]+\]):", line)]
    return sum(int(row[-2]) for row in rows), sum(int(row[-1]) for row in rows)


class Tracked(Printed):
    """What connection tracking did, which full-NAT needs."""

    name = "conntrack"

    def __init__(self, host: Host, netns: str) -> None:
        super().__init__(host, ["conntrack", "-S"], netns)

    def snapshot(self) -> Snapshot:
        """`host/conntrack/COUNTER` of all CPUs, `host/conntrack/table_full` among them; gauge `.../entries`."""
        at_s = time.monotonic()
        sums = tracking(self._read())
        entries = float(self._host.run(["cat", _CONNECTIONS], self._netns))
        counters = {f"host/conntrack/{name}": value for name, value in sums.items()}
        return Snapshot(at_s, counters, {"host/conntrack/entries": entries})


def tracking(text: str) -> dict[str, int]:
    """`conntrack -S`: a line of `name=value` for each CPU; the sums of each name, and `table_full`.

    The kernel counts a connection whose addresses clash with another's as `insert_failed` and as `drop`, one with too
    long a chain as `insert_failed` alone, and one without a place in the table as `drop` alone
    (net/netfilter/nf_conntrack_core.c).
    """
    sums: dict[str, int] = {}
    for name, value in _PAIR.findall(text):
        if name != "cpu":
            sums[name] = sums.get(name, 0) + int(value)
    if {"drop", "insert_failed"} <= sums.keys():
        clashed = sums["insert_failed"] - sums.get("chaintoolong", 0)
        sums["table_full"] = max(0, sums["drop"] - clashed)
    return sums


class Table:
    """A service's connections: what bounds them, how many there are, and how all are forgotten."""

    def __init__(self, service: Service, host: Host, netns: str) -> None:
        self._service, self._host, self._netns = service, host, netns

    def limits(self) -> tuple[Limit, ...]:
        """With full-NAT the tracked connections and the local ports; IPVS's own table is bounded by memory alone."""
        service, closed_s = self._service, float(balancing.CLOSED_S)
        own = Limit(Resource.MEMORY, None, closed_s, "IPVS's own table has no limit; TIME_WAIT lasts 120 s, fixed")
        if not balancing.is_full(service):
            return (own,)
        most, time_wait_s = (int(self._sysctl(name)) for name in (balancing.LIMIT, balancing.TIME_WAIT))
        held_s = min(closed_s, float(time_wait_s))
        ports = balancing.local_ports(service).count
        places = len(service.locals) * ports * len(service.backends)
        pool = f"{len(service.locals):,} addresses x {ports:,} ports x {len(service.backends):,} backends"
        waits = f"nf_conntrack_tcp_timeout_time_wait = {time_wait_s}"
        table = Limit(Resource.TABLE, most, held_s, f"nf_conntrack_max = {most}, {waits}", _ENTRIES, _FULL)
        return table, Limit(Resource.LOCAL_PORTS, places, held_s, f"{pool}, {waits}", _ENTRIES, _NO_PORT), own

    def flush(self) -> None:
        """Forget all connections: IPVS lets those go whose virtual server is removed. Raises BenchError."""
        before = self._sysctl(_NO_DESTINATION)
        self._run("sysctl", "-qw", f"{_NO_DESTINATION}=1")
        self._run("ipvsadm", "-D", *balancing.virtual(self._service))
        try:
            self._await_forgotten()
        finally:
            self._run("sysctl", "-qw", f"{_NO_DESTINATION}={before}")
            for words in balancing.commands(self._service):
                self._run(*words)

    def tracked(self) -> int | None:
        """Connections of IPVS's own table and of connection tracking, whichever are more."""
        return max(self._own(), self._tracked())

    def _await_forgotten(self) -> None:
        if left := await_forgotten(self._own, FORGETTING_S, 0.05):
            raise BenchError(f"{left:,} connections are still remembered {FORGETTING_S:g} s after the flush")
        if balancing.is_full(self._service):
            self._run("conntrack", "-F")

    def _own(self) -> int:
        """Lines of its list, but for the heading."""
        return int(self._run("wc", "-l", _OWN).split()[0]) - 1

    def _tracked(self) -> int:
        return int(self._run("cat", _CONNECTIONS)) if balancing.is_full(self._service) else 0

    def _sysctl(self, name: str) -> str:
        return self._run("sysctl", "-n", name).strip()

    def _run(self, *argv: str) -> str:
        return self._host.run(argv, self._netns)
