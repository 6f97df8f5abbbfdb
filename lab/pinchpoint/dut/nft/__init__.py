"""A namespace that routes between veth ports, with rules of nftables: source and destination NAT, filters.

`keys`       its scenario keys, and what a machine must have for it
`routing`    addresses, routes and neighbours of its ports
`balancing`  a [service] as rules and addresses; backends removed and added while it runs
`tracking`   what its IP layer, connection tracking and rules count; the limits of its connections, and their table
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pinchpoint.bench.requirements import Probe
from pinchpoint.bench.resource import AnyResource, Command, TextFile
from pinchpoint.dut import addresses, softirq
from pinchpoint.dut.device import Pages, RawScenario, Read, Seen, Types, dut_of
from pinchpoint.dut.nft import balancing, keys, routing, tracking
from pinchpoint.dut.nft.routing import Route
from pinchpoint.dut.nft.tracking import WALKED, Chains, NamedCounters, Routing
from pinchpoint.dut.services import Rebalanced
from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.keys import kinds
from pinchpoint.keys.source import Source
from pinchpoint.model.addresses import is_v6
from pinchpoint.model.causes import Experiment, Sign
from pinchpoint.model.errors import BenchError, PinchpointError
from pinchpoint.model.hops import DropKind, Party
from pinchpoint.model.scenario import Port, Scenario
from pinchpoint.observe.printed import Neighbours
from pinchpoint.observe.snapshot import Collector

_INCLUDE = re.compile(r"\binclude\b")
_BRACED = re.compile(r"\{([A-Za-z][A-Za-z0-9-]*)\}")
_FOLLOWED = ("nf_conntrack_max", "nf_conntrack_buckets")  # of the host: the namespace follows it


@dataclass(frozen=True)
class Line:
    """A line of the ruleset and the scenario file's line on which it stands."""

    text: str
    line: int


@dataclass(frozen=True)
class NftDut(softirq.KernelDut):
    """A namespace that routes."""

    cpus: tuple[int, ...]
    rules: tuple[Line, ...]
    routes: tuple[Route, ...]  # none: to the streams' destinations
    syn_proxy: bool = False
    kind: str = "nft"


class NftLive(softirq.KernelLive):
    """A namespace that routes, standing."""

    def own(self) -> list[Collector]:
        """Its IP layer and neighbours, connection tracking, its rules and their counters."""
        host, netns = self.places.host, self.places.dut_netns
        return [Chains(host, netns), NamedCounters(host, netns), Routing(host, netns), Neighbours(host, netns)]

    def settings(self) -> Mapping[str, str]:
        """Its sysctls, and the host's limits of connections. Raises BenchError where one is not in force."""
        host, netns = self.places.host, self.places.dut_netns
        wanted = routing.sysctls(self._scenario) | balancing.sysctls(self._scenario.established)
        limits = {name: path for name in _FOLLOWED if host.exists(path := f"{tracking.FOLDER}/{name}")}
        balancer = self.balancer()
        return {
            **super().settings(),
            **(balancer.settings() if balancer else {}),
            **addresses.sysctls_in_force(host, netns, wanted),
            **{f"net.netfilter.{name}": host.read(path).strip() for name, path in limits.items()},
            **(balancing.times(host, netns) if self._scenario.established else {}),
        }

    def balancer(self) -> tracking.NftBalancer | None:
        """Connection tracking, where there is a [service]."""
        service = self._scenario.service
        return tracking.NftBalancer(self.places.host, self.places.dut_netns, service) if service else None

    def versions(self) -> Mapping[str, str]:
        """The program that loads the rules; what follows them is the kernel."""
        return {"nft": self.places.host.run(["nft", "--version"]).strip()}

    def dumps(self) -> Mapping[str, str]:
        """The ruleset as the kernel has it, and the routes."""
        netns, run = self.places.dut_netns, self.places.host.run
        routes = run(["ip", "-n", netns, "route", "show"])
        return {"ruleset.txt": run(["nft", "list", "ruleset"], netns), "routes.txt": routes}

    def rebalanced(self) -> Rebalanced | None:
        """Its rules, which can be replaced; with a proxy of SYNs they stand in two chains, and are left alone."""
        service, proxied = self._scenario.service, dut_of(self._scenario, NftDut).syn_proxy
        return balancing.Rebalancing(service, self.places) if service and not proxied else None


class NftBench(softirq.KernelBench):
    """A namespace that routes, planned."""

    @property
    def _ruleset(self) -> str:
        return f"{self.places.directory}/ruleset.nft"

    def resources(self, pages: Pages, engine: Sequence[str]) -> list[AnyResource]:
        """Ports, sysctls, routes, rules. Raises InputError."""
        netns = self.places.dut_netns
        service, established = self.scenario.service, self.scenario.established
        routes = routing.batch(self.scenario, dut_of(self.scenario, NftDut).routes)
        lines = (*routes, *(addresses.batch(service, established) if service else ()))
        resources = [
            *softirq.ports(self.scenario, self.places, pages),
            *addresses.set_sysctls(routing.sysctls(self.scenario), netns),
            *addresses.ip_batch(self.places, "routes.ip", lines),
        ]
        if service:
            rules = [*balancing.ruleset(service, established)]
            own = balancing.sysctls(established)
            if dut_of(self.scenario, NftDut).syn_proxy:
                rules += balancing.syn_proxy(service)
                own |= balancing.SYN_PROXY_SYSCTLS
                # What the kernel sends itself would cross a veth pair with its checksum unfinished.
                resources += [Command(("ethtool", "-K", port.name, "tx", "off"), netns) for port in self.scenario.ports]
            resources += self._loaded(f"{self.places.directory}/service.nft", rules)
            # Sysctls that are there once a rule needs them.
            resources += addresses.set_sysctls(tracking.timeouts(service) | own, netns)
        if own_rules := dut_of(self.scenario, NftDut).rules:
            resources += self._loaded(self._ruleset, [line.text for line in own_rules])
        return resources

    def _loaded(self, path: str, lines: Sequence[str]) -> list[AnyResource]:
        return [TextFile(path, tuple(lines)), Command(("nft", "-f", path), self.places.dut_netns)]

    def refusal(self, error: CommandFailed) -> PinchpointError | None:
        """A refused rule, with its place in the scenario."""
        if error.argv[:2] != ("nft", "-f"):
            return super().refusal(error)
        match = re.search(re.escape(self._ruleset) + r":(\d+):\S* (?:Error: )?(.*)", error.output)
        lines = dut_of(self.scenario, NftDut).rules
        if not match or not 0 < int(match[1]) <= len(lines):
            return BenchError(f"{self.scenario.path}: dut.rules: nft refused them: {error.output}", "see nft(8)")
        place = f"{self.scenario.path}:{lines[int(match[1]) - 1].line}"
        return BenchError(f"{place}: nft refused this rule: {match[2]}", "rule syntax: nft(8)")

    def open(self) -> NftLive:
        return NftLive(self)


_DROPS = (
    ("nft/counter/drop*", "{counter}", Party.RULES, DropKind.RULE),
    (f"nft/counter/{balancing.UNTRACKED}", "on a connection that is not known", Party.DUT, DropKind.TRACKING),
    ("host/ip/InNoRoutes", "no route to the destination", Party.RULES, DropKind.RULE),
    ("host/ip/InAddrErrors", "destination not to be forwarded to", Party.RULES, DropKind.RULE),
    ("host/ip/IPReversePathFilter", "no route back to the source (rp_filter)", Party.RULES, DropKind.SOURCE),
    ("host/neighbour/discards", "no Ethernet address of the next hop", Party.RULES, DropKind.NEIGHBOUR),
    ("host/ip/InHdrErrors", "bad IP header, or time to live over", Party.RULES, DropKind.MALFORMED),
    ("host/ip/FragFails", "too long for the port", Party.RULES, DropKind.MTU),
    (tracking.FULL, "connection tracking refused the frame: table full", Party.DUT, DropKind.TRACKING),
    (tracking.NOT_INSERTED, "connection not inserted", Party.DUT, DropKind.TRACKING),
    ("host/ip/InDiscards", "discarded on receive", Party.DUT, DropKind.OTHER),
    ("host/ip/OutDiscards", "discarded on transmit", Party.DUT, DropKind.OTHER),
)
"""What rules drop only their own counters tell."""


class NftDevice(softirq.KernelDevice):
    """The kind `nft`: the kernel's routing with nftables, in softirqs of a namespace."""

    bench_type = NftBench
    forwards = softirq.forwarding("routing and rules", _DROPS)
    settles = (*softirq.SETTLES, "host/ip/", "host/neighbour/", "host/conntrack/", "nft/counter/")

    def read(self, raw: RawScenario, source: Source) -> Callable[[], Read]:
        """Rules, routes and ports."""
        self.check(raw, source)
        if raw.dut.get("syn_proxy") and not raw.tables.get("service"):
            source.problem(("dut", "syn_proxy"), "expected false without a [service]")
        if raw.dut.get("syn_proxy") and is_v6(raw.tables.get("service", {}).get("address", "")):
            source.problem(("dut", "syn_proxy"), "expected false with a service of IPv6: no connection opens")
        names = [port.values["name"] for port in raw.ports if "name" in port.values]
        for route in raw.arrays["route"]:
            if (port := route.values.get("port")) and port not in names:
                source.mismatch((*route.at, "port"), f"the name of a [[port]] ({', '.join(names) or 'none'})", port)
        lines = _lines(raw.dut.get("rules", ""), names, source)

        def made() -> Read:
            routes = tuple(Route(**route.values) for route in raw.arrays["route"])
            dut = NftDut(raw.dut["cpus"], lines, routes, raw.dut["syn_proxy"])
            return Read(dut, tuple(Port(**port.values) for port in raw.ports))

        return made

    def contents(self, scenario: Scenario) -> Mapping[str, int]:
        """Lines of `dut.rules`, blank ones included."""
        return {"lines of rules": len(dut_of(scenario, NftDut).rules)}

    def needs(self, scenario: Scenario, host: Host) -> Iterator[Probe]:
        """Its programs, and a kernel with nf_tables; a guest's only where there are rules."""
        has_rules = bool(dut_of(scenario, NftDut).rules or scenario.service)
        return keys.needs(host, scenario.guest, has_rules=has_rules, balances=scenario.service is not None)

    def probes(self, host: Host) -> Iterator[Probe]:
        """The same of this machine's kernel."""
        return keys.needs(host, None, has_rules=True)

    def signs(self, seen: Seen) -> Mapping[Sign, float]:
        """Its softirqs', its neighbours, its rules."""
        gauges = {Sign.NEIGHBOURS: "host/neighbour/unknown", Sign.RULES_WALKED: WALKED}
        return {**super().signs(seen), **{sign: seen[name] for sign, name in gauges.items() if name in seen}}

    def experiments(self, scenario: Scenario) -> Mapping[Experiment, Scenario]:
        """The same routes without any rule."""
        dut = dut_of(scenario, NftDut)
        return {Experiment.PLAIN: replace(scenario, dut=replace(dut, rules=()))} if dut.rules else {}


def _lines(text: str, ports: Sequence[str], source: Source) -> tuple[Line, ...]:
    """The ruleset line by line, with interfaces in place of `{port}`."""
    at, lines = ("dut", "rules"), []
    for number, line in enumerate(text.split("\n")):
        place = source.text_line(at, number)
        if _INCLUDE.search(line):  # a scenario names no file of the host
            source.problem(at, 'expected rules without the word "include": no other file is read', place)
        if not all(kinds.is_plain(char) or char == "\t" for char in line):
            source.problem(at, "expected no control characters", place)
        for name in _BRACED.findall(line):
            if name not in ports:
                shown = ", ".join(f"{{{port}}}" for port in ports)
                hint = "a set needs blanks inside its braces"
                source.problem(at, f"expected a port ({shown}), found {{{name}}}; {hint}", place)
        lines.append(Line(_BRACED.sub(r'"\1"', line), place))
    return tuple(lines) if text.strip() else ()


DEVICE = NftDevice("nft", "nftables in a namespace that routes", Types(NftDut), keys.KEYS)
