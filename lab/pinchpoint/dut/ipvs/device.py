"""IPVS as a kind of device: what `pinchpoint.dut.device` asks of every kind."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pinchpoint.bench.requirements import Probe
from pinchpoint.bench.resource import AnyResource, Command, TextFile
from pinchpoint.dut import addresses, softirq
from pinchpoint.dut.device import Defaults, Keys, Pages, RawScenario, Read, Seen, Types
from pinchpoint.dut.ipvs import balancing, needs
from pinchpoint.dut.ipvs.counters import Balanced, Tracked
from pinchpoint.dut.ipvs.table import Table
from pinchpoint.dut.places import Places
from pinchpoint.dut.services import Option, Services
from pinchpoint.host.guest import MODPROBE
from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Unset
from pinchpoint.keys.reader import Values
from pinchpoint.keys.source import Source
from pinchpoint.model.causes import Sign
from pinchpoint.model.errors import BenchError, PinchpointError
from pinchpoint.model.hops import DropCounter, DropKind, HopGraph, Party, Place
from pinchpoint.model.scenario import Family, Mode, Port, Scenario, Scheduler, Service
from pinchpoint.model.trial import ThreadLoad
from pinchpoint.observe.snapshot import Collector

_LISTED = {Family.IPV4: "iptables-legacy", Family.IPV6: "ip6tables-legacy"}
_OF_TRACKING = (Option.LOCAL_PORTS, Option.MAX_CONNECTIONS, Option.OPENING_S, Option.CLOSED_S)
_RECORDED = ("net/ipv4/vs/conn_reuse_mode", "net/ipv4/vs/expire_nodest_conn", "net/ipv4/vs/secure_tcp")
_SIZE = re.compile(r"\(size=(\d+)\)")


@dataclass(frozen=True)
class IpvsDut:
    """A namespace that balances."""

    cpus: tuple[int, ...]
    conn_tab_bits: int | None
    kind: str = "ipvs"

    @property
    def polls(self) -> bool:
        """Never: it runs when frames come."""
        return False

    @property
    def io(self) -> str:
        """Always veth pairs between its namespace and the engine's."""
        return "veth"


def spec(scenario: Scenario) -> IpvsDut:
    """The scenario's device, which is of this kind."""
    assert isinstance(scenario.dut, IpvsDut)
    return scenario.dut


def served(scenario: Scenario) -> Service:
    """What it balances; `read` refuses a scenario without."""
    assert scenario.service is not None
    return scenario.service


class IpvsLive(softirq.KernelLive):
    """A namespace that balances, standing."""

    def own(self) -> list[Collector]:
        """IPVS's counters, and those of connection tracking where that takes part."""
        host, netns = self.places.host, self.places.dut_netns
        tracked: list[Collector] = [Tracked(host, netns)] if balancing.is_full(served(self._scenario)) else []
        return [Balanced(host, netns), *tracked]

    def settings(self) -> Mapping[str, str]:
        """Its sysctls and time-outs, its virtual server. Raises BenchError where one is not in force."""
        service = served(self._scenario)
        limits = {balancing.LIMIT: _number(service.max_connections)} if balancing.is_full(service) else {}
        wanted = balancing.sysctls(service) | limits
        names = [*wanted, *_RECORDED, *(balancing.RECORDED if limits else ())]
        said = dict(zip(names, self._run("sysctl", "-n", *names).split(), strict=True))
        for name, value in wanted.items():
            if value and said[name] != value:
                raise BenchError(f"{name}: {value} was set, {said[name]} is in force")
        shown = {name.replace("/", "."): value for name, value in said.items()}
        timeouts = self._run("ipvsadm", "-l", "--timeout").strip()
        if (asked := _number(service.established_s)) and f": {asked} " not in timeouts:
            raise BenchError(f"ipvsadm --set {asked} 0 0: in force is {timeouts}")
        own = {"ipvs time-outs": timeouts, "ipvs chains": self._chains(), "ipvs": self._virtual_server(service)}
        return {**super().settings(), **shown, **own}

    def _chains(self) -> str:
        """Of its table. Raises BenchError where the module was loaded with others."""
        match, bits = _SIZE.search(self._run("ipvsadm", "-Ln")), spec(self._scenario).conn_tab_bits
        chains = match[1] if match else "?"
        if bits is not None and chains != str(1 << bits):
            raise BenchError(
                f"conn_tab_bits: {1 << bits} chains were asked for, {chains} are in force",
                "the module was loaded before: modprobe -r ip_vs, or run in a [guest]",
            )
        return chains

    def _virtual_server(self, service: Service) -> str:
        """As the kernel has it. Raises BenchError where that is another."""
        listed = self._run("ipvsadm", "-S", "-n").split("\n")
        wanted = [" ".join(words[1:]) for words in balancing.commands(service)]
        if [line.strip() for line in listed if line.strip()] != wanted:
            raise BenchError(f"ipvsadm -S -n shows another virtual server: {' / '.join(listed)}")
        return " / ".join(wanted)

    def versions(self) -> Mapping[str, str]:
        """The program that sets it up, and the module's."""
        return {"ipvsadm": self._run("ipvsadm", "--version").strip(), "ipvs": self._run("ipvsadm").split("\n")[0]}

    def dumps(self) -> Mapping[str, str]:
        """Its virtual server with counts, the rules of source NAT, the routes."""
        dumps = {"virtual-server.txt": self._run("ipvsadm", "-Ln", "--stats", "--exact")}
        if balancing.is_full(served(self._scenario)):
            dumps["source-nat.txt"] = self._run(_LISTED[served(self._scenario).family], "-t", "nat", "-S")
        return {**dumps, "routes.txt": self._run("ip", "route", "show")}

    def balancer(self) -> Table:
        """The service's connections in IPVS and in connection tracking."""
        return Table(served(self._scenario), self.places.host, self.places.dut_netns)

    def _run(self, *argv: str) -> str:
        return self.places.host.run(argv, self.places.dut_netns)


def _parameters(dut: IpvsDut) -> tuple[str, ...]:
    return () if dut.conn_tab_bits is None else (f"conn_tab_bits={dut.conn_tab_bits}",)


def _number(value: float | None) -> str:
    return "" if value is None else str(int(value))


@dataclass(frozen=True)
class IpvsBench(softirq.KernelBench):
    """A namespace that balances, planned."""

    def resources(self, pages: Pages, engine: Sequence[str]) -> list[AnyResource]:
        """Ports, the kernel's module, source NAT, sysctls, addresses, the virtual server."""
        service, netns, folder = served(self.scenario), self.places.dut_netns, self.places.directory
        batch = f"{folder}/routes.ip"
        resources = [
            *softirq.ports(self.scenario, self.places, pages),
            Command((MODPROBE if self.scenario.guest else "modprobe", "ip_vs", *_parameters(spec(self.scenario)))),
        ]
        if balancing.is_full(service):
            rules, lock = f"{folder}/source-nat.rules", (("XTABLES_LOCKFILE", f"{folder}/xtables.lock"),)
            resources += [
                TextFile(rules, tuple(balancing.source_nat(service))),
                Command((balancing.restore(service.family), rules), netns, lock),
            ]
        settings = (f"{name}={value}" for name, value in balancing.sysctls(service).items())
        resources += [
            Command(("sysctl", "-qw", *settings), netns),
            TextFile(batch, tuple(addresses.batch(service))),
            Command(("ip", "-n", netns, "-batch", batch)),
            *(Command(words, netns) for words in balancing.commands(service)),
        ]
        if size := balancing.table_size(service):  # in no namespace; `read` wants a guest
            resources.append(Command(("sysctl", "-qw", *(f"{name}={value}" for name, value in size.items()))))
        timeout = balancing.timeout(service)
        return [*resources, Command(timeout, netns)] if timeout else resources

    def refusal(self, error: CommandFailed) -> PinchpointError | None:
        """A kernel that cannot translate sources."""
        if error.argv[0] != balancing.restore(served(self.scenario).family):
            return super().refusal(error)
        told = f"{self.scenario.path}: service.mode: the kernel refused source NAT: {error.output}"
        return BenchError(told, 'boot a kernel with CONFIG_IP_NF_NAT, set guest.kernel = "uml", or mode = "dnat"')

    def open(self) -> IpvsLive:
        return IpvsLive(self.scenario, self.places)


@dataclass(frozen=True)
class IpvsDevice(Defaults):
    """The kind `ipvs`: the kernel's balancer, in softirqs of a namespace."""

    def read(self, raw: RawScenario, source: Source) -> Callable[[], Read]:
        """Ports, and what of the service depends on connection tracking."""
        softirq.check(raw, source, self.kind)
        _check_service(raw, source)
        values = {name: value for name, value in raw.dut.items() if name != "kind"}
        return lambda: Read(IpvsDut(**values), tuple(Port(**port.values) for port in raw.ports))

    def needs(self, scenario: Scenario, host: Host) -> Iterator[Probe]:
        """Its programs and modules."""
        return needs.needs(host, scenario.service, scenario.guest)

    def probes(self, host: Host) -> Iterator[Probe]:
        """The same of this machine's kernel, for all that it can do."""
        return needs.needs(host, None, None)

    def why_no_guest(self, dut: Values) -> str:
        return ""

    def moved(self, scenario: Scenario, cpus: tuple[int, ...]) -> Scenario:
        """The scenario with its softirqs on other CPUs."""
        return replace(scenario, dut=replace(spec(scenario), cpus=cpus))

    def bench(self, scenario: Scenario, places: Places) -> IpvsBench:
        return IpvsBench(scenario, places)

    def graph(self, scenario: Scenario) -> HopGraph:
        """From port to port; IPVS counts no drops."""
        settles = (*softirq.SETTLES, "host/conntrack/", "ipvs/")
        return HopGraph(softirq.REFUSED, (softirq.RECEIVE, _BALANCED, softirq.QUEUES, softirq.SEND), settles)

    def loads(self, seen: Seen, traffic_s: float) -> tuple[ThreadLoad, ...]:
        return softirq.loads(seen, traffic_s)

    def signs(self, seen: Seen) -> Mapping[Sign, float]:
        return softirq.signs(seen)


_BALANCED = Place(
    "balancing",
    (softirq.RECEIVED,),
    (softirq.SENT, "host/link/dut/{port}/tx_dropped"),
    (
        DropCounter(
            "host/conntrack/table_full", "no place in connection tracking's table", Party.DUT, DropKind.TRACKING
        ),
        DropCounter("host/conntrack/insert_failed", "no local port was free", Party.DUT, DropKind.TRACKING),
    ),
)


def _check_service(raw: RawScenario, source: Source) -> None:
    """There is one; time-outs are such as connection tracking keeps to; the table's size is the bench's own."""
    service = raw.tables["service"]
    if not service:
        source.problem(("service",), "missing; this kind of device only balances a service")
        return
    set_here = [key for key in _OF_TRACKING if service.get(key) is not None]
    mode = service.get("mode")
    if mode != Mode.FULL_NAT:
        for option in set_here:
            source.problem(("service", option), f'expected none with mode = "{mode}": IPVS\'s own is fixed')
    if service.get("max_connections") is not None and not raw.tables["guest"].get("kernel"):
        told = "expected none without a [guest]: nf_conntrack_max is the whole machine's"
        source.problem(("service", "max_connections"), told)
    for key, most in (("opening_s", balancing.OPENING_S), ("closed_s", balancing.CLOSED_S), ("established_s", None)):
        value = service.get(key)
        if value is None:
            continue
        if value != int(value) or (most and value > most):
            limit = f" up to {most}, after which IPVS forgets it" if most else ""
            source.mismatch(("service", key), f"whole seconds{limit}", value)


_SERVICES = Services(tuple(Scheduler), tuple(Mode), tuple(Option), families=(Family.IPV4, Family.IPV6))
_CHAINS = Key(
    "conn_tab_bits",
    kinds.integer(8, 20),
    "The table of connections has 2 to the power of this many chains (a parameter of the module ip_vs). A chain is "
    "searched from its beginning for each frame.",
    Unset("the module's own"),
)
_KEYS = Keys(dut=(softirq.CPUS, _CHAINS), services=_SERVICES)
DEVICE = IpvsDevice("ipvs", "IPVS in a namespace", Types(IpvsDut), _KEYS)
