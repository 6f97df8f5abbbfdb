"""A service as IPVS has it: a virtual server that masquerades, source NAT of what that sends, and what both count.

What bounds the connections that IPVS and connection tracking remember is read back from the kernel. IPVS alone changes
the destination. For full-NAT its connections are tracked (net.ipv4.vs.conntrack), so that source NAT sees the first
packet of each.

Sources: ipvsadm(8); iptables-extensions(8), ipvs, statistic and SNAT; Documentation/networking/ipvs-sysctl.rst.
Formats: `/proc/net/ip_vs_stats_percpu` and `/proc/net/ip_vs` in net/netfilter/ipvs/ip_vs_ctl.c; conntrack(8), `-S`.
"""

import re
from collections.abc import Iterator

from pinchpoint.dut import addresses
from pinchpoint.dut.services import await_forgotten, is_full, local_pool, local_ports
from pinchpoint.host.interface import PROC, Host
from pinchpoint.model.addresses import alone, bracketed
from pinchpoint.model.errors import BenchError
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import Family, Mode, Scheduler, Service
from pinchpoint.observe.printed import Printed
from pinchpoint.observe.snapshot import Snapshot

# Maglev hashing (net/netfilter/ipvs/ip_vs_mh.c) with the client's port: `sh` has 256 places, which two or four backends
# divide evenly and three do not.
_SCHEDULERS = {Scheduler.ROUND_ROBIN: ("rr",), Scheduler.HASH: ("mh", "-b", "mh-port")}
_FORWARDING = {Mode.FULL_NAT: "-m", Mode.DNAT: "-m", Mode.DIRECT: "-g"}  # masquerading, gatewaying
MODULES = {Scheduler.ROUND_ROBIN: "ip_vs_rr", Scheduler.HASH: "ip_vs_mh"}
# Fixed times of IPVS's own table for a SYN that is not followed up, and for a connection that both sides have closed
# (net/netfilter/ipvs/ip_vs_proto_tcp.c, tcp_timeouts). With a connection it forgets the one that is tracked.
OPENING_S, CLOSED_S = 60, 120
TRACKING = "net/netfilter"
LIMIT, TIME_WAIT = f"{TRACKING}/nf_conntrack_max", f"{addresses.TIMEOUT}time_wait"
_CHAINS = f"{TRACKING}/nf_conntrack_buckets"
RECORDED = (_CHAINS, TIME_WAIT)  # whether the service sets them or not
_MOST_CHAINS = 262_144  # what a kernel chooses that has more than 4 GiB
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


def virtual(service: Service) -> tuple[str, str]:
    """The virtual server, as options of ipvsadm."""
    return "-t", service.end


def restore(family: Family) -> str:
    """Loads rules of source NAT, as every guest's kernel takes them: user-mode Linux has no nf_tables for IPv4."""
    return "ip6tables-legacy-restore" if family is Family.IPV6 else "iptables-legacy-restore"


def commands(service: Service) -> Iterator[tuple[str, ...]]:
    """The virtual server with its backends, in order."""
    yield ("ipvsadm", "-A", *virtual(service), "-s", *_SCHEDULERS[service.scheduler])
    for backend in service.backends:
        yield ("ipvsadm", "-a", *virtual(service), "-r", backend.end, _FORWARDING[service.mode], "-w", "1")


def timeout(service: Service) -> tuple[str, ...] | None:
    """The one time-out of IPVS's that the service sets; 0 leaves the others."""
    if service.established_s is None:
        return None
    return ("ipvsadm", "--set", str(int(service.established_s)), "0", "0")


def source_nat(service: Service) -> Iterator[str]:
    """A file of iptables-restore(8): local addresses in turn, each with its ports.

    The n-th rule takes one in (count - n) of the connections that reach it. SNAT itself would choose by a hash of
    client and backend.
    """
    ports, count = local_ports(service), len(service.locals)
    range_of_ports = f"{ports.first}-{ports.first + ports.count - 1}"
    sent = f"-p tcp -m ipvs --vaddr {alone(service.address)} --vport {service.port} --vdir ORIGINAL"
    yield "*nat"
    for number, local in enumerate(service.locals):
        turn = f" -m statistic --mode nth --every {count - number} --packet 0" if count - number > 1 else ""
        yield f"-A POSTROUTING {sent}{turn} -j SNAT --to-source {bracketed(local)}:{range_of_ports}"
    yield "COMMIT"


def sysctls(service: Service) -> dict[str, str]:
    """Of the namespace, by name: it forwards whatever the source, balances, and remembers as the service says."""
    routing = addresses.routing((service.client_port, service.server_port))
    routing["net/ipv4/vs/conntrack"] = str(int(is_full(service)))
    return routing | addresses.sysctls(service, forwards=True) | tracking(service)


def table_size(service: Service) -> dict[str, str]:
    """The kernel's own, which no namespace has: places, and as many chains of them as the kernel itself would make."""
    if service.max_connections is None:
        return {}
    return {LIMIT: str(service.max_connections), _CHAINS: str(min(service.max_connections, _MOST_CHAINS))}


def tracking(service: Service) -> dict[str, str]:
    """The time-outs of connection tracking that the service sets."""
    return addresses.tracking(service) if is_full(service) else {}


class Balanced(Printed):
    """What IPVS did, by CPU, and the connections in its table."""

    name = "ipvs"

    def __init__(self, host: Host, netns: str) -> None:
        super().__init__(host, ["cat", _PER_CPU, _SERVERS], netns)

    def read(self, at_s: float) -> Snapshot:
        """`ipvs/cpu/N/COLUMN`; gauges `ipvs/connections/{active,inactive}`, which are TCP's established and others."""
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

    def read(self, at_s: float) -> Snapshot:
        """`host/conntrack/COUNTER` of all CPUs, `host/conntrack/table_full` among them; gauge `.../entries`."""
        sums = tracked(self._read())
        entries = float(self._host.run(["cat", _CONNECTIONS], self._netns))
        counters = {f"host/conntrack/{name}": value for name, value in sums.items()}
        return Snapshot(at_s, counters, {"host/conntrack/entries": entries})


def tracked(text: str) -> dict[str, int]:
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
        service, closed_s = self._service, float(CLOSED_S)
        own = Limit(Resource.MEMORY, None, closed_s, "IPVS's own table has no limit; TIME_WAIT lasts 120 s, fixed")
        if not is_full(service):
            return (own,)
        most, time_wait_s = (int(self._sysctl(name)) for name in (LIMIT, TIME_WAIT))
        held_s = min(closed_s, float(time_wait_s))
        places, pool = local_pool(service)
        waits = f"nf_conntrack_tcp_timeout_time_wait = {time_wait_s}"
        table = Limit(Resource.TABLE, most, held_s, f"nf_conntrack_max = {most}, {waits}", _ENTRIES, _FULL)
        return table, Limit(Resource.LOCAL_PORTS, places, held_s, f"{pool}, {waits}", _ENTRIES, _NO_PORT), own

    def flush(self) -> None:
        """Forget all connections: IPVS lets those go whose virtual server is removed. Raises BenchError."""
        before = self._sysctl(_NO_DESTINATION)
        self._run("sysctl", "-qw", f"{_NO_DESTINATION}=1")
        self._run("ipvsadm", "-D", *virtual(self._service))
        try:
            self._await_forgotten()
        finally:
            self._run("sysctl", "-qw", f"{_NO_DESTINATION}={before}")
            for words in commands(self._service):
                self._run(*words)

    def tracked(self) -> int | None:
        """Connections of IPVS's own table and of connection tracking, whichever are more."""
        return max(self._own(), self._tracked())

    def _await_forgotten(self) -> None:
        if left := await_forgotten(self._own, FORGETTING_S, 0.05):
            raise BenchError(f"{left:,} connections are still remembered {FORGETTING_S:g} s after the flush")
        if is_full(self._service):
            self._run("conntrack", "-F")

    def _own(self) -> int:
        """Lines of its list, but for the heading."""
        return int(self._run("wc", "-l", _OWN).split()[0]) - 1

    def _tracked(self) -> int:
        return int(self._run("cat", _CONNECTIONS)) if is_full(self._service) else 0

    def _sysctl(self, name: str) -> str:
        return self._run("sysctl", "-n", name).strip()

    def _run(self, *argv: str) -> str:
        return self._host.run(argv, self._netns)
