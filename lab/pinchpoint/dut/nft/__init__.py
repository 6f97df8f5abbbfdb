"""A namespace that routes between veth ports, with rules of nftables: source and destination NAT, filters.

Each port has a next hop of its own, 169.254.0.N with the port's number, which is in no subnet (`onlink`) and whose
Ethernet address is fixed: nothing asks for it by ARP, and the engine at the far ends has no IP stack. Sources:
ip-route(8), ip-neighbour(8), ip-sysctl in the kernel.

`tracking`  a [service] as rules; backends removed and added while it runs; what its IP layer, connection tracking and
            rules count; the limits of its connections, and their table
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network
from typing import Any, Final

from pinchpoint.bench.requirements import Probe, command, tried
from pinchpoint.bench.resource import AnyResource, Command, TextFile
from pinchpoint.dut import addresses, softirq
from pinchpoint.dut.device import Keys, Pages, RawScenario, Read, Seen, Types, dut_of, programs
from pinchpoint.dut.nft import tracking
from pinchpoint.dut.nft.tracking import WALKED, Chains, NamedCounters, Routing
from pinchpoint.dut.services import Option, Rebalanced, Reconfiguration, Services
from pinchpoint.host.guest_kernels import KERNELS
from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table
from pinchpoint.keys.kinds import Kind, MismatchError
from pinchpoint.keys.source import Source
from pinchpoint.model import frames
from pinchpoint.model.addresses import is_v6, prefixes
from pinchpoint.model.causes import Experiment, Sign
from pinchpoint.model.errors import BenchError, InputError, PinchpointError
from pinchpoint.model.hops import DropKind, Party
from pinchpoint.model.scenario import NAT, Family, Guest, Port, Range, Scenario, Stream, Transport
from pinchpoint.observe.printed import Neighbours
from pinchpoint.observe.snapshot import Collector

_IPV4_TABLES = "CONFIG_NF_TABLES_IPV4"


def _prefix() -> Kind:
    """A key's kind: an IPv4 prefix without host bits, as text."""

    def read(value: Any) -> str:
        kinds.check(isinstance(value, str))
        try:
            return str(IPv4Network(value))
        except ValueError:
            raise MismatchError from None

    return Kind('an IPv4 prefix like "10.0.0.0/24"', read, schema=kinds.full("[0-9./]+"))


_OPTIONS = (Option.LOCAL_PORTS, Option.OPENING_S, Option.ESTABLISHED_S, Option.CLOSED_S, Option.VLAN)
KEYS: Final = Keys(
    cabled=lambda _: True,
    dut=(
        softirq.CPUS,
        Key("rules", kinds.lines(),
            "What `nft -f` loads: tables, chains, rules, as in nft(8). `{left}` stands for the interface of the port "
            "left, in quotes. What rules drop is accounted for by their named counters whose names begin with drop. "
            "The limit of tracked connections is the host's (net.netfilter.nf_conntrack_max): it is recorded.", ""),
        Key("syn_proxy", kinds.boolean(),
            "With a [service]: the kernel answers SYNs itself, by cookies, and opens a connection to a backend once "
            "the client has completed the handshake (nft(8), SYNPROXY STATEMENT).", False),
    ),
    arrays=(
        Table("route",
            "Addresses behind a port, those that rules translate to among them. Without any, each stream's "
            "destinations are behind its receiving port.",
            (Key("to", _prefix(), "Where to."), Key("port", kinds.port_name(), "The port that leads there.")),
            at_most=1024),
    ),
    services=Services(tuple(tracking.HASHED), NAT, _OPTIONS, changes=tuple(Reconfiguration),
        families=(Family.IPV4, Family.IPV6), has_weights=True, most_virtual=4096, has_udp=True),
)  # fmt: skip


def _needs(host: Host, guest: Guest | None, has_rules: bool, balances: bool = False) -> Iterator[Probe]:
    """Its programs, receive packet steering, and nf_tables in the kernel on which it runs; a guest's only for rules."""
    yield from programs(host, {"ip": "iproute2", "sysctl": "procps"} | ({"conntrack": "conntrack"} if balances else {}))
    yield softirq.steering(host, guest)
    yield (nft := command(host, "nft", "nftables"))
    if guest and has_rules:
        yield _nf_tables_of_guest(host, guest)
    elif nft.ok and not guest:
        options = "CONFIG_NF_TABLES, CONFIG_NF_TABLES_IPV4, CONFIG_NFT_NAT and CONFIG_NF_CONNTRACK"
        yield tried(host, "kernel: nf_tables", ["nft", "list", "tables"], options)


def _nf_tables_of_guest(host: Host, guest: Guest) -> Probe:
    there = KERNELS[guest.kernel].is_configured(host, _IPV4_TABLES, guest.release)
    detail = "there" if there else f"the guest's kernel was built without {_IPV4_TABLES}"
    others = " or ".join(f'"{word}"' for word in KERNELS if word != guest.kernel)
    hint = f"leave out dut.rules, set guest.kernel = {others}, or run the device without a [guest]"
    return Probe("guest's kernel: nf_tables", there, detail, hint)


_NEXT_HOPS = int(IPv4Address("169.254.0.0"))
_FAR_END = "02:00:00:00:00:02"  # where no stream ends: any unicast address will do


@dataclass(frozen=True)
class Route:
    """Where addresses are reached, translated ones among them."""

    to: str  # IPv4 prefix
    port: str


def _ip_lines(scenario: Scenario, explicit: tuple[Route, ...]) -> tuple[str, ...]:
    """Lines of `ip -batch`: every port's address, next hop, and the routes. Raises InputError."""
    macs, lines = _macs(scenario), list[str]()
    hops = {port.name: str(IPv4Address(_NEXT_HOPS + n)) for n, port in enumerate(scenario.ports, start=1)}
    far = {stream.rx_port: stream.eth_dst for stream in reversed(scenario.streams)}
    for port, hop in hops.items():
        if port in macs:
            change = f"link set dev {port} address {macs[port]}"
            # The driver of a guest's interface takes an address only while that is down.
            lines += [f"link set dev {port} down", change, f"link set dev {port} up"] if scenario.guest else [change]
        lines.append(f"neighbour add {hop} lladdr {far.get(port, _FAR_END)} dev {port} nud permanent")
    routes = explicit or (() if scenario.service else of_streams(scenario))
    return (*lines, *(f"route add {route.to} via {hops[route.port]} dev {route.port} onlink" for route in routes))


def of_streams(scenario: Scenario) -> tuple[Route, ...]:
    """To each stream's destinations by its receiving port. Raises InputError where a destination has two ports."""
    routes = dict[Route, None]()
    ways = [(stream.rx_port, span) for stream in scenario.streams for span in _destinations(scenario, stream)]
    for number, (port, span) in enumerate(ways):
        for other, taken in ways[:number]:
            if other != port and taken.first <= span.last and span.first <= taken.last:
                raise InputError(
                    f"{scenario.path}: streams to {other} and to {port} have destinations in common: "
                    f"{taken.as_addresses()} and {span.as_addresses()}",
                    "give them different ipv4_dst, or say by [[route]] where addresses are",
                )
        routes |= dict.fromkeys(Route(prefix, port) for prefix in prefixes(span.first, span.last))
    return tuple(routes)


def _destinations(scenario: Scenario, stream: Stream) -> Iterator[Range]:
    """Ranges of its destinations. Raises InputError where the device does not route its frames."""
    to = frames.destinations(stream)
    if to is None:
        names = "/".join(header.name for header in frames.headers(stream))
        told = f"{scenario.path}: frames of {names} to {stream.rx_port}: this router takes IPv4 without tags"
        raise InputError(told, "leave out vlan and ipv6_dst, or use another dut.kind")
    return (Range(first, last - first + 1) for first, last in to.spans)


def _macs(scenario: Scenario) -> dict[str, str]:
    """The address that each port must have to take its stream's frames as its own. Raises InputError."""
    softirq.require_unicast(scenario, "whose frames a router does not take")
    macs: dict[str, str] = {}
    for stream in scenario.streams:
        if frames.macs(stream).count > 1:
            told = f"{scenario.path}: eth_dst of a stream from {stream.tx_port} varies; a router's port has one address"
            raise InputError(told, "give the stream one eth_dst")
        if (mac := macs.setdefault(stream.tx_port, stream.eth_dst)) != stream.eth_dst:
            raise InputError(
                f"{scenario.path}: streams from {stream.tx_port} have two eth_dst, {mac} and {stream.eth_dst}; a "
                "router's port has one address",
                "give the streams from one port the same eth_dst",
            )
    return macs


def _sysctls(scenario: Scenario) -> dict[str, str]:
    """Of the namespace, by name."""
    of_service = addresses.sysctls(scenario.service, forwards=True) if scenario.service else {}
    return addresses.routing(port.name for port in scenario.ports) | of_service


# As nft(8) lists a set: its flags, then maybe its time-out, then its elements, over several lines.
_FILLED = re.compile(r"(\n[ \t]*flags [^\n{}]*\b(?:dynamic|timeout)\b[^{}]*?)\n[ \t]*elements = \{[^}]*\}")
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
        wanted = _sysctls(self._scenario) | tracking.sysctls(self._scenario.established)
        limits = {name: path for name in _FOLLOWED if host.exists(path := f"{tracking.FOLDER}/{name}")}
        balancer = self.balancer()
        return {
            **super().settings(),
            **(balancer.settings() if balancer else {}),
            **addresses.sysctls_in_force(host, netns, wanted),
            **{f"net.netfilter.{name}": host.read(path).strip() for name, path in limits.items()},
            **(tracking.times(host, netns) if self._scenario.established else {}),
        }

    def balancer(self) -> tracking.NftBalancer | None:
        """Connection tracking, where there is a [service]."""
        service = self._scenario.service
        return tracking.NftBalancer(self.places.host, self.places.dut_netns, service) if service else None

    def versions(self) -> Mapping[str, str]:
        """The program that loads the rules; what follows them is the kernel."""
        return {"nft": self.places.host.run(["nft", "--version"]).strip()}

    def unchanging(self) -> Mapping[str, str]:
        """The ruleset without its counts (nft(8), --stateless), and the backlog."""
        backlog = softirq.backlog_of(self.places.host)
        return {"ruleset": without_filled(self.run("nft", "-s", "list", "ruleset")), **backlog}

    def dumps(self) -> Mapping[str, str]:
        """The ruleset as the kernel has it, and the routes."""
        return {"ruleset.txt": self.run("nft", "list", "ruleset"), "routes.txt": self.run("ip", "route", "show")}

    def rebalanced(self) -> Rebalanced | None:
        """Its rules, which can be replaced; with a proxy of SYNs they stand in two chains, and are left alone."""
        service, proxied = self._scenario.service, dut_of(self._scenario, NftDut).syn_proxy
        return tracking.Rebalancing(service, self.places) if service and not proxied else None


def without_filled(ruleset: str) -> str:
    """The rules, and the elements of sets that no rule fills: those are of the traffic."""
    return _FILLED.sub(r"\1", ruleset)


class NftBench(softirq.KernelBench):
    """A namespace that routes, planned."""

    live_type = NftLive

    @property
    def _ruleset(self) -> str:
        return f"{self.places.directory}/ruleset.nft"

    def resources(self, pages: Pages, engine: Sequence[str]) -> list[AnyResource]:
        """Ports, sysctls, routes, rules. Raises InputError."""
        netns = self.places.dut_netns
        service, established = self.scenario.service, self.scenario.established
        routes = _ip_lines(self.scenario, dut_of(self.scenario, NftDut).routes)
        lines = (*routes, *(addresses.batch(service, established) if service else ()))
        resources = [
            *softirq.ports(self.scenario, self.places, pages),
            *addresses.set_sysctls(_sysctls(self.scenario), netns),
            *addresses.ip_batch(self.places, "routes.ip", lines),
        ]
        if service:
            rules = [*tracking.ruleset(service, established)]
            own = tracking.sysctls(established)
            if dut_of(self.scenario, NftDut).syn_proxy:
                rules += tracking.syn_proxy(service)
                own |= tracking.SYN_PROXY_SYSCTLS
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


_DROPS = (
    ("nft/counter/drop*", "{counter}", Party.RULES, DropKind.RULE),
    (f"nft/counter/{tracking.UNTRACKED}", "on a connection that is not known", Party.DUT, DropKind.TRACKING),
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

    def read(self, raw: RawScenario) -> Callable[[], Read]:
        """Rules, routes and ports."""
        self.check(raw)
        service = raw.tables.get("service", {})
        if raw.dut.get("syn_proxy") and not service:
            raw.problem(("dut", "syn_proxy"), "expected false without a [service]")
        if raw.dut.get("syn_proxy") and service.get("transport") == Transport.UDP:
            raw.problem(("dut", "syn_proxy"), 'expected false with service.transport = "udp": it has no SYNs')
        virtual = service.get("address")
        if raw.dut.get("syn_proxy") and virtual and is_v6(virtual.as_addresses()):
            raw.problem(("dut", "syn_proxy"), "expected false with a service of IPv6: no connection opens")
        names = [port.values["name"] for port in raw.ports if "name" in port.values]
        for route in raw.arrays["route"]:
            if (port := route.values.get("port")) and port not in names:
                raw.mismatch((*route.at, "port"), f"the name of a [[port]] ({', '.join(names) or 'none'})", port)
        lines = _lines(raw.dut.get("rules", ""), names, raw.source)

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
        yield from _needs(host, scenario.guest, has_rules=has_rules, balances=scenario.service is not None)
        yield from softirq.tags(scenario, host)

    def probes(self, host: Host, guest: Guest | None = None) -> Iterator[Probe]:
        """What a table with rules needs."""
        return _needs(host, guest, has_rules=True)

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


DEVICE = NftDevice("nft", "nftables in a namespace that routes", Types(NftDut), KEYS)
