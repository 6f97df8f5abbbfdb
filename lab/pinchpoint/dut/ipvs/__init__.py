"""IPVS, the kernel's layer-4 balancer, in a namespace between two ports.

`balancing`  a service as commands, what is counted of it, what bounds its connections, and how they are forgotten
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pinchpoint.bench.requirements import Probe, command, kernel_module
from pinchpoint.bench.resource import AnyResource, Command, TextFile
from pinchpoint.dut import addresses, softirq
from pinchpoint.dut.device import Keys, Pages, RawScenario, Types, dut_of, programs
from pinchpoint.dut.ipvs import balancing
from pinchpoint.dut.services import Option, Services, is_full, served
from pinchpoint.host.guest import MODPROBE
from pinchpoint.host.guest_kernels import KERNELS
from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Unset
from pinchpoint.model.errors import BenchError, PinchpointError
from pinchpoint.model.hops import DropKind, Party
from pinchpoint.model.scenario import Family, Guest, Mode, Scenario, Scheduler, Service
from pinchpoint.observe.snapshot import Collector

_LISTED = {Family.IPV4: "iptables-legacy", Family.IPV6: "ip6tables-legacy"}
_OF_TRACKING = (Option.LOCAL_PORTS, Option.MAX_CONNECTIONS, Option.OPENING_S, Option.CLOSED_S)
_RECORDED = ("net/ipv4/vs/conn_reuse_mode", "net/ipv4/vs/expire_nodest_conn", "net/ipv4/vs/secure_tcp")
_SIZE = re.compile(r"\(size=(\d+)\)")
_PROGRAMS = {"ip": "iproute2", "sysctl": "procps", "ipvsadm": "ipvsadm", "conntrack": "conntrack", "wc": "coreutils"}
_SOURCE_NAT = ("xt_ipvs", "xt_nat", "xt_statistic")
_TABLE = {Family.IPV4: "iptable_nat", Family.IPV6: "ip6table_nat"}
_DROPS = (
    ("host/conntrack/table_full", "no place in connection tracking's table", Party.DUT, DropKind.TRACKING),
    ("host/conntrack/insert_failed", "no local port was free", Party.DUT, DropKind.TRACKING),
)


@dataclass(frozen=True)
class IpvsDut(softirq.KernelDut):
    """A namespace that balances."""

    cpus: tuple[int, ...]
    conn_tab_bits: int | None
    kind: str = "ipvs"


class IpvsLive(softirq.KernelLive):
    """A namespace that balances, standing."""

    def own(self) -> list[Collector]:
        """IPVS's counters, and those of connection tracking where that takes part."""
        host, netns = self.places.host, self.places.dut_netns
        tracked: list[Collector] = [balancing.Tracked(host, netns)] if is_full(served(self._scenario)) else []
        return [balancing.Balanced(host, netns), *tracked]

    def settings(self) -> Mapping[str, str]:
        """Its sysctls and time-outs, its virtual server. Raises BenchError where one is not in force."""
        service = served(self._scenario)
        limits = {balancing.LIMIT: _number(service.max_connections)} if is_full(service) else {}
        wanted = balancing.sysctls(service) | limits
        also = (*_RECORDED, *(balancing.RECORDED if limits else ()))
        shown = addresses.sysctls_in_force(self.places.host, self.places.dut_netns, wanted, also)
        timeouts = self._run("ipvsadm", "-l", "--timeout").strip()
        if (asked := _number(service.established_s)) and f": {asked} " not in timeouts:
            raise BenchError(f"ipvsadm --set {asked} 0 0: in force is {timeouts}")
        own = {"ipvs time-outs": timeouts, "ipvs chains": self._chains(), "ipvs": self._virtual_server(service)}
        return {**super().settings(), **shown, **own}

    def _chains(self) -> str:
        """Of its table. Raises BenchError where the module was loaded with others."""
        match, bits = _SIZE.search(self._run("ipvsadm", "-Ln")), dut_of(self._scenario, IpvsDut).conn_tab_bits
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
        if is_full(served(self._scenario)):
            dumps["source-nat.txt"] = self._run(_LISTED[served(self._scenario).family], "-t", "nat", "-S")
        return {**dumps, "routes.txt": self._run("ip", "route", "show")}

    def balancer(self) -> balancing.Table:
        """The service's connections in IPVS and in connection tracking."""
        return balancing.Table(served(self._scenario), self.places.host, self.places.dut_netns)

    def _run(self, *argv: str) -> str:
        return self.places.host.run(argv, self.places.dut_netns)


def _number(value: float | None) -> str:
    return "" if value is None else str(int(value))


class IpvsBench(softirq.KernelBench):
    """A namespace that balances, planned."""

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
                TextFile(rules, tuple(balancing.source_nat(service))),
                Command((balancing.restore(service.family), rules), netns, (("XTABLES_LOCKFILE", lock),)),
            ]
        timeout = balancing.timeout(service)
        return [
            *resources,
            *addresses.set_sysctls(balancing.sysctls(service), netns),
            *addresses.ip_batch(self.places, "routes.ip", addresses.batch(service)),
            *(Command(words, netns) for words in balancing.commands(service)),
            *addresses.set_sysctls(balancing.table_size(service), None),  # in no namespace; `check` wants a guest
            *([Command(timeout, netns)] if timeout else []),
        ]

    def refusal(self, error: CommandFailed) -> PinchpointError | None:
        """A kernel that cannot translate sources."""
        if error.argv[0] != balancing.restore(served(self.scenario).family):
            return super().refusal(error)
        told = f"{self.scenario.path}: service.mode: the kernel refused source NAT: {error.output}"
        return BenchError(told, 'boot a kernel with CONFIG_IP_NF_NAT, set guest.kernel = "uml", or mode = "dnat"')

    def open(self) -> IpvsLive:
        return IpvsLive(self)


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

    def probes(self, host: Host) -> Iterator[Probe]:
        """The same of this machine's kernel, for all that it can do."""
        return _needs(host, None, None)


def _check_service(raw: RawScenario) -> None:
    """There is one; time-outs are such as connection tracking keeps to; the table's size is the bench's own."""
    service = raw.tables["service"]
    if not service:
        raw.problem(("service",), "missing; this kind of device only balances a service")
        return
    set_here = [key for key in _OF_TRACKING if service.get(key) is not None]
    mode = service.get("mode")
    if mode != Mode.FULL_NAT:
        for option in set_here:
            raw.problem(("service", option), f'expected none with mode = "{mode}": IPVS\'s own is fixed')
    if service.get("max_connections") is not None and not raw.tables["guest"].get("kernel"):
        told = "expected none without a [guest]: nf_conntrack_max is the whole machine's"
        raw.problem(("service", "max_connections"), told)
    for key, most in (("opening_s", balancing.OPENING_S), ("closed_s", balancing.CLOSED_S), ("established_s", None)):
        value = service.get(key)
        if value is None:
            continue
        if value != int(value) or (most and value > most):
            limit = f" up to {most}, after which IPVS forgets it" if most else ""
            raw.mismatch(("service", key), f"whole seconds{limit}", value)


def _needs(host: Host, service: Service | None, guest: Guest | None) -> Iterator[Probe]:
    """Its programs, and a kernel with IPVS, its schedulers and, for full-NAT, source NAT of what that sends."""
    family = service.family if service else Family.IPV4
    yield from programs(host, _PROGRAMS)
    if service is None or is_full(service):
        yield command(host, balancing.restore(family), "iptables")
    yield softirq.steering(host, guest)
    schedulers = [service.scheduler] if service else list(Scheduler)
    for name in ("ip_vs", *(balancing.MODULES[scheduler] for scheduler in schedulers)):
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


_SERVICES = Services(tuple(Scheduler), tuple(Mode), tuple(Option), families=(Family.IPV4, Family.IPV6))
_CHAINS = Key("conn_tab_bits", kinds.integer(8, 20),
    "The table of connections has 2 to the power of this many chains (a parameter of the module ip_vs). A chain is "
    "searched from its beginning for each frame.", Unset("the module's own"))  # fmt: skip
_KEYS = Keys(dut=(softirq.CPUS, _CHAINS), services=_SERVICES)
DEVICE = IpvsDevice("ipvs", "IPVS in a namespace", Types(IpvsDut), _KEYS)
