"""IPVS, the kernel's layer-4 balancer, in a namespace between two ports.

A service is a virtual server that masquerades, and source NAT of what that sends; both count. What bounds the
connections that IPVS and connection tracking remember is read back from the kernel. IPVS alone changes the destination.
For full-NAT its connections are tracked (net.ipv4.vs.conntrack), so that source NAT sees the first packet of each.

Sources: ipvsadm(8); iptables-extensions(8), ipvs, statistic and SNAT; Documentation/networking/ipvs-sysctl.rst.
Formats: `/proc/net/ip_vs_stats_percpu` and `/proc/net/ip_vs` in net/netfilter/ipvs/ip_vs_ctl.c; conntrack(8), `-S`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from pinchpoint.bench.requirements import Probe, command, kernel_module
from pinchpoint.bench.resource import AnyResource, Command, TextFile
from pinchpoint.dut import addresses, checks, softirq
from pinchpoint.dut.device import Keys, Pages, RawScenario, Types, dut_of, programs
from pinchpoint.dut.services import (
    TRACKING,
    Option,
    Services,
    await_forgotten,
    is_full,
    local_pool,
    local_ports,
    served,
)
from pinchpoint.host.guest import MODPROBE
from pinchpoint.host.guest_kernels import KERNELS
from pinchpoint.host.interface import PROC, CommandFailed, Host
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Unset
from pinchpoint.model.addresses import alone, bracketed
from pinchpoint.model.errors import BenchError, PinchpointError
from pinchpoint.model.hops import DropKind, Party
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import Family, Guest, Mode, Scenario, Scheduler, Service, Transport
from pinchpoint.observe.printed import Printed
from pinchpoint.observe.snapshot import Collector, Snapshot, paths

_LISTED = {Family.IPV4: "iptables-legacy", Family.IPV6: "ip6tables-legacy"}
_OF_TRACKING = (Option.LOCAL_PORTS, Option.MAX_CONNECTIONS, Option.OPENING_S, Option.CLOSED_S)
_REUSE_MODE = "net/ipv4/vs/conn_reuse_mode"
_RECORDED = (_REUSE_MODE, "net/ipv4/vs/expire_nodest_conn", "net/ipv4/vs/secure_tcp")
_SIZE = re.compile(r"\(size=(\d+)\)")
_PROGRAMS = {"ip": "iproute2", "sysctl": "procps", "ipvsadm": "ipvsadm", "conntrack": "conntrack", "wc": "coreutils"}
_SOURCE_NAT = ("xt_ipvs", "xt_nat", "xt_statistic")
_TABLE = {Family.IPV4: "iptable_nat", Family.IPV6: "ip6table_nat"}
_DROPS = (
    ("host/conntrack/table_full", "no place in connection tracking's table", Party.DUT, DropKind.TRACKING),
    ("host/conntrack/insert_failed", "no local port was free", Party.DUT, DropKind.TRACKING),
)
# Maglev hashing (net/netfilter/ipvs/ip_vs_mh.c) with the client's port: `sh` has 256 places, which two or four backends
# divide evenly and three do not.
_SCHEDULERS = {Scheduler.ROUND_ROBIN: ("rr",), Scheduler.HASH: ("mh", "-b", "mh-port")}
_FORWARDING = {Mode.FULL_NAT: "-m", Mode.DNAT: "-m", Mode.DIRECT: "-g"}  # masquerading, gatewaying
MODULES = {Scheduler.ROUND_ROBIN: "ip_vs_rr", Scheduler.HASH: "ip_vs_mh"}
# Fixed times of IPVS's own table for a SYN that is not followed up, and for a connection that both sides have closed
# (net/netfilter/ipvs/ip_vs_proto_tcp.c, tcp_timeouts). With a connection it forgets the one that is tracked.
OPENING_S, CLOSED_S = 60, 120
UDP_S = 300  # its own time for datagrams, where the service sets none
TIME_WAIT = f"{addresses.TIMEOUT}time_wait"
LIMIT, _CHAINS = (f"net/netfilter/nf_conntrack_{name}" for name in ("max", "buckets"))
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
    return "-u" if service.transport is Transport.UDP else "-t", service.end


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
    if service.transport is Transport.UDP:
        return None if service.closed_s is None else ("ipvsadm", "--set", "0", "0", str(int(service.closed_s)))
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
    sent = f"-p {service.transport} -m ipvs --vaddr {alone(service.address)} --vport {service.port} --vdir ORIGINAL"
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
        active, inactive = connections(said)
        gauges = {"ipvs/connections/active": float(active), "ipvs/connections/inactive": float(inactive)}
        return Snapshot(at_s, paths("ipvs/cpu", per_cpu(said)), gauges)


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
        service, is_udp = self._service, self._service.transport is Transport.UDP
        closed_s = float((service.closed_s or UDP_S) if is_udp else CLOSED_S)
        lasts = f"UDP lasts {closed_s:g} s" if is_udp else f"TIME_WAIT lasts {CLOSED_S} s, fixed"
        own = Limit(Resource.MEMORY, None, closed_s, f"IPVS's own table has no limit; {lasts}")
        if not is_full(service):
            return (own,)
        waiting = addresses.UDP_TIMEOUT if is_udp else TIME_WAIT
        most, waits_s = (int(self._sysctl(name)) for name in (LIMIT, waiting))
        held_s = min(closed_s, float(waits_s))
        places, pool = local_pool(service)
        waits = f"{waiting.rpartition('/')[2]} = {waits_s}"
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


@dataclass(frozen=True)
class IpvsDut(softirq.KernelDut):
    """A namespace that balances."""

    cpus: tuple[int, ...]
    conn_tab_bits: int | None
    conn_reuse_mode: int | None = None
    kind: str = "ipvs"


class IpvsLive(softirq.KernelLive):
    """A namespace that balances, standing."""

    def own(self) -> list[Collector]:
        """IPVS's counters, and those of connection tracking where that takes part."""
        host, netns = self.places.host, self.places.dut_netns
        tracked: list[Collector] = [Tracked(host, netns)] if is_full(served(self._scenario)) else []
        return [Balanced(host, netns), *tracked]

    def settings(self) -> Mapping[str, str]:
        """Its sysctls and time-outs, its virtual server. Raises BenchError where one is not in force."""
        service = served(self._scenario)
        limits = {LIMIT: _number(service.max_connections)} if is_full(service) else {}
        wanted = sysctls(service) | _reuse(self._scenario) | limits
        also = (*_RECORDED, *(RECORDED if limits else ()))
        shown = addresses.sysctls_in_force(self.places.host, self.places.dut_netns, wanted, also)
        timeouts = self.run("ipvsadm", "-l", "--timeout").strip()
        asked, in_force = timeout(service) or (), timeouts.rpartition(":")[2].split()
        if asked and not all(word in ("0", now) for word, now in zip_longest(asked[-3:], in_force)):
            raise BenchError(f"{' '.join(asked)}: in force is {timeouts}")
        own = {"ipvs time-outs": timeouts, "ipvs chains": self._chains(), "ipvs": self._virtual_server(service)}
        return {**super().settings(), **shown, **own}

    def _chains(self) -> str:
        """Of its table. Raises BenchError where the module was loaded with others."""
        match, bits = _SIZE.search(self.run("ipvsadm", "-Ln")), dut_of(self._scenario, IpvsDut).conn_tab_bits
        chains = match[1] if match else "?"
        if bits is not None and chains != str(1 << bits):
            raise BenchError(
                f"conn_tab_bits: {1 << bits} chains were asked for, {chains} are in force",
                "the module was loaded before: modprobe -r ip_vs, or run in a [guest]",
            )
        return chains

    def _virtual_server(self, service: Service) -> str:
        """As the kernel has it. Raises BenchError where that is another."""
        listed = self.run("ipvsadm", "-S", "-n").split("\n")
        wanted = [" ".join(words[1:]) for words in commands(service)]
        if [line.strip() for line in listed if line.strip()] != wanted:
            raise BenchError(f"ipvsadm -S -n shows another virtual server: {' / '.join(listed)}")
        return " / ".join(wanted)

    def versions(self) -> Mapping[str, str]:
        """The program that sets it up, and the module's."""
        return {"ipvsadm": self.run("ipvsadm", "--version").strip(), "ipvs": self.run("ipvsadm").split("\n")[0]}

    def unchanging(self) -> Mapping[str, str]:
        """The rules of source NAT, and the backlog; `settings` look at the virtual server."""
        service, backlog = served(self._scenario), softirq.backlog_of(self.places.host)
        nat = {"source NAT": self.run(_LISTED[service.family], "-t", "nat", "-S")} if is_full(service) else {}
        return {**nat, **backlog}

    def dumps(self) -> Mapping[str, str]:
        """Its virtual server with counts, the rules of source NAT, the routes."""
        dumps = {"virtual-server.txt": self.run("ipvsadm", "-Ln", "--stats", "--exact")}
        if is_full(served(self._scenario)):
            dumps["source-nat.txt"] = self.run(_LISTED[served(self._scenario).family], "-t", "nat", "-S")
        return {**dumps, "routes.txt": self.run("ip", "route", "show")}

    def balancer(self) -> Table:
        """The service's connections in IPVS and in connection tracking."""
        return Table(served(self._scenario), self.places.host, self.places.dut_netns)


def _reuse(scenario: Scenario) -> dict[str, str]:
    """The sysctl of what becomes of a SYN whose connection is still remembered, where the scenario says it."""
    mode = dut_of(scenario, IpvsDut).conn_reuse_mode
    return {} if mode is None else {_REUSE_MODE: str(mode)}


def _number(value: float | None) -> str:
    return "" if value is None else str(int(value))


class IpvsBench(softirq.KernelBench):
    """A namespace that balances, planned."""

    live_type = IpvsLive

    def resources(self, pages: Pages, engine: Sequence[str]) -> list[AnyResource]:
        """Ports, the kernel's module, source NAT, sysctls, addresses, the virtual server."""
        service, netns = served(self.scenario), self.places.dut_netns
        modprobe = MODPROBE if self.scenario.guest else "modprobe"
        bits = dut_of(self.scenario, IpvsDut).conn_tab_bits
        resources = [
            *softirq.ports(self.scenario, self.places, pages),
            Command((modprobe, "ip_vs", *(() if bits is None else (f"conn_tab_bits={bits}",)))),
        ]
        if is_full(service):
            rules, lock = f"{self.places.directory}/source-nat.rules", f"{self.places.directory}/xtables.lock"
            resources += [
                TextFile(rules, tuple(source_nat(service))),
                Command((restore(service.family), rules), netns, (("XTABLES_LOCKFILE", lock),)),
            ]
        set_timeout = timeout(service)
        return [
            *resources,
            *addresses.set_sysctls(sysctls(service) | _reuse(self.scenario), netns),
            *addresses.ip_batch(self.places, "routes.ip", addresses.batch(service)),
            *(Command(words, netns) for words in commands(service)),
            *addresses.set_sysctls(table_size(service), None),  # in no namespace; `check` wants a guest
            *([Command(set_timeout, netns)] if set_timeout else []),
        ]

    def refusal(self, error: CommandFailed) -> PinchpointError | None:
        """A kernel that cannot translate sources."""
        if error.argv[0] != restore(served(self.scenario).family):
            return super().refusal(error)
        told = f"{self.scenario.path}: service.mode: the kernel refused source NAT: {error.output}"
        return BenchError(told, 'boot a kernel with CONFIG_IP_NF_NAT, set guest.kernel = "uml", or mode = "dnat"')


class IpvsDevice(softirq.KernelDevice):
    """The kind `ipvs`: the kernel's balancer, in softirqs of a namespace; it counts no drops itself."""

    bench_type = IpvsBench
    forwards = softirq.forwarding("balancing", _DROPS)
    settles = (*softirq.SETTLES, "host/conntrack/", "ipvs/")

    def check(self, raw: RawScenario) -> None:
        """Ports, and what of the service depends on connection tracking."""
        super().check(raw)
        _check_service(raw)

    def needs(self, scenario: Scenario, host: Host) -> Iterator[Probe]:
        """Its programs and modules."""
        return _needs(host, scenario.service, scenario.guest)

    def probes(self, host: Host, guest: Guest | None = None) -> Iterator[Probe]:
        """What every mode of a service needs."""
        return _needs(host, None, guest)


def _check_service(raw: RawScenario) -> None:
    """Time-outs are such as connection tracking keeps to; the table's size is the bench's own."""
    service, fixed = raw.tables["service"], {Option.OPENING_S: OPENING_S, Option.CLOSED_S: CLOSED_S}
    if service.get("transport") == Transport.UDP:
        del fixed[Option.CLOSED_S]  # `timeout` sets it
    in_tracking = [key for key in _OF_TRACKING if key in fixed or key is not Option.CLOSED_S]
    set_here = [key for key in in_tracking if service.get(key) is not None]
    mode = service.get("mode")
    if mode != Mode.FULL_NAT:
        for option in set_here:
            raw.problem(("service", option), f'expected none with mode = "{mode}": IPVS\'s own is fixed')
    if service.get("max_connections") is not None and not raw.tables["guest"].get("kernel"):
        told = "expected none without a [guest]: nf_conntrack_max is the whole machine's"
        raw.problem(("service", "max_connections"), told)
    for key in (Option.OPENING_S, Option.ESTABLISHED_S, Option.CLOSED_S):
        if most := fixed.get(key):
            checks.whole_seconds(raw, key, most=most, which=f" up to {most}, after which IPVS forgets it")
        else:
            checks.whole_seconds(raw, key)


def _needs(host: Host, service: Service | None, guest: Guest | None) -> Iterator[Probe]:
    """Its programs, and a kernel with IPVS, its schedulers and, for full-NAT, source NAT of what that sends."""
    family = service.family if service else Family.IPV4
    yield from programs(host, _PROGRAMS)
    if service is None or is_full(service):
        yield command(host, restore(family), "iptables")
    yield softirq.steering(host, guest)
    schedulers = [service.scheduler] if service else list(MODULES)
    for name in ("ip_vs", *(MODULES[scheduler] for scheduler in schedulers)):
        yield kernel_module(host, name, _other_kernels(name, guest), guest)
    if service is None or is_full(service):
        # A host's own may be built in; what fails then says so.
        for name in (*_SOURCE_NAT, _TABLE[family]) if guest else _SOURCE_NAT[:1]:
            yield kernel_module(host, name, f'{_other_kernels(name, guest)}, or service.mode = "{Mode.DNAT}"', guest)


def _other_kernels(module: str, guest: Guest | None) -> str:
    """Which guest's kernel has it, as what to set."""
    others = [word for word in KERNELS if not (guest and guest.kernel == word)]
    there = [word for word in others if KERNELS[word].has_module(module)] or others
    return "set guest.kernel = " + " or ".join(f'"{word}"' for word in there)


_SERVICES = Services(
    tuple(MODULES), tuple(Mode), TRACKING, is_required=True, families=(Family.IPV4, Family.IPV6), has_udp=True
)
_CONN_TAB_BITS = Key("conn_tab_bits", kinds.integer(8, 20),
    "The table of connections has 2 to the power of this many chains (a parameter of the module ip_vs). A chain is "
    "searched from its beginning for each frame.", Unset("the module's own"))  # fmt: skip
_CONN_REUSE_MODE = Key("conn_reuse_mode", kinds.integer(0, 3),
    "net.ipv4.vs.conn_reuse_mode: what becomes of a SYN from a client's port whose connection is still remembered. 0: "
    "it goes to the same backend; 1: it is dealt anew where that connection is in TIME-WAIT; 2, 3: in FIN-WAIT, too.",
    Unset("the kernel's own"))  # fmt: skip
_KEYS = Keys(dut=(softirq.CPUS, _CONN_TAB_BITS, _CONN_REUSE_MODE), services=_SERVICES)
DEVICE = IpvsDevice("ipvs", "IPVS in a namespace", Types(IpvsDut), _KEYS)
