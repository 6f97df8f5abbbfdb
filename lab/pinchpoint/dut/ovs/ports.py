"""Bridges, their ports and their rules: which there are, OpenFlow numbers, and the commands that make them.

Numbers are requested, so that rules may name ports before the switch has opened
them: in each bridge from 1 in the order engine ports, ports of guests, hosts, patch ports, tunnels, NICs.

Each VXLAN tunnel has two underlay bridges joined by a patch, with an address each on
their local ports. The switch encapsulates at one and decapsulates at the other
(ovs-vswitchd(8), "NATIVE TUNNELING": `tnl_push`, `tnl_pop`), all in one pass of
its datapath. Both addresses lie in one namespace, so the kernel's routes, which
would call either of them local, are ignored (--disable-system-route) and both
routes and neighbours are static. For the same reason the tunnel ports name no
local address: the switch would look for a local route to it.

Of each bridge's OpenFlow rules there is one file, and one `ovs-ofctl add-flows`.

Of ports of the type dpdkvdpa a virtual function of a NIC serves the rings of a vhost-user socket (vDPA). Forks of Open
vSwitch have them, e.g. NVIDIA's for ConnectX and BlueField; no release of Open vSwitch has. The switch connects to the
socket and hands the rings to the virtual function; what that function sends and receives it sees at the function's
representor. Sources: the series that proposed them (ovs-dev, 2019) with its topics/dpdk/vdpa.rst, and "Switch
Representation within DPDK Applications" of DPDK's guides.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from itertools import count

from pinchpoint.bench.resource import AnyResource, Command, TapLinks, TextFile
from pinchpoint.dut.device import RawScenario
from pinchpoint.dut.ovs import configured
from pinchpoint.dut.ovs.kinds import own_kind, usual_kind
from pinchpoint.dut.ovs.places import OvsPlaces, quoted
from pinchpoint.dut.ovs.spec import (
    AFXDP,
    IN_KERNEL,
    INTERNAL,
    TAP,
    VDPA,
    VHOST,
    ArpResponder,
    Bridge,
    Datapath,
    OvsNic,
    OvsPort,
    Tunnel,
    every_port,
    hosts,
    ports,
    spec,
)
from pinchpoint.host.interface import COMMAND_TIMEOUT_S, CommandFailed, Host
from pinchpoint.keys.reader import Element
from pinchpoint.model.addresses import expand_template
from pinchpoint.model.errors import BenchError
from pinchpoint.model.scenario import Scenario

_PROTOCOLS = "OpenFlow10,OpenFlow13,OpenFlow14,OpenFlow15"
RULE_SYNTAX = "rule syntax: ovs-actions(7), ovs-fields(7)"
_OFCTL = ("ovs-ofctl", "-O", "OpenFlow14")
_PORT = re.compile(r"\{[^{}]*\}")
_MOST_REFUSED = 20  # of a file: the program stops at the first
_UNDERLAY = int(IPv4Address("172.31.0.0"))  # four addresses a tunnel
_PREFIX = 30
_LONGEST_AGE_S = 3600  # of a neighbour: the most that the switch takes
AT_ONCE = 5_000  # idle ports in one transaction: a command line is limited to 2 MiB (execve(2))
# A thousand ports take the switch some seconds, and more the more it has.
TIMEOUT_S = 900


@dataclass(frozen=True)
class SwitchPort:
    """One port of one bridge."""

    bridge: str
    word: str  # how the bridge's rules call it, in braces
    name: str  # of its interface, unique in the switch
    number: int  # of OpenFlow
    columns: Mapping[str, str] = field(default_factory=dict)  # of its Interface row


def switch_ports(scenario: Scenario, places: OvsPlaces) -> tuple[SwitchPort, ...]:
    """All ports of all bridges in the order in which they are made."""
    numbers = {bridge.name: count(1) for bridge in spec(scenario).bridges}
    wanted = _wanted(scenario, places)
    return tuple(SwitchPort(at, word, name, next(numbers[at]), columns) for at, word, name, columns in wanted)


_Wanted = tuple[str, str, str, Mapping[str, str]]  # bridge, word in rules, interface, its columns


def _wanted(scenario: Scenario, places: OvsPlaces) -> Iterator[_Wanted]:
    for port in every_port(scenario):
        pinned = {"other_config:pmd-rxq-affinity": quoted(port.rxq_affinity)} if port.rxq_affinity else {}
        columns = _attached(scenario, port, places) | pinned | configured.interface_columns(port)
        yield port.bridge, port.name, port.name, columns
    for host in hosts(scenario):
        columns = _interface(host.name, usual_kind(scenario), places) | _xdp_mode(scenario)
        yield host.bridge, host.name, host.name, columns
    for patch in spec(scenario).patches:
        for near, far in ((patch.first, patch.second), (patch.second, patch.first)):
            columns = {"type": "patch", "options:peer": patch_name(far, near)}
            yield near, f"to-{far}", patch_name(near, far), columns
    for near_end, far_end in ends(scenario):
        tunnel = near_end.tunnel
        columns = {"type": "vxlan", "options:remote_ip": far_end.address, "options:key": str(tunnel.vni)}
        yield near_end.bridge, tunnel.name, near_end.port, columns
    for nic in spec(scenario).nics:
        yield nic.bridge, nic.name, nic.name, _of_nic(nic.address, nic)


def _of_nic(address: str, port: OvsPort | OvsNic) -> dict[str, str]:
    """The columns of a port that is a NIC."""
    return {
        "type": "dpdk",
        "options:dpdk-devargs": quoted(driven(address, port.devargs)),
        "options:n_rxq": str(port.queues),
    }


def patch_name(near: str, far: str) -> str:
    """The patch port of bridge `near` that leads to `far`: interface names are unique in a switch."""
    return f"{near}-to-{far}"


def _attached(scenario: Scenario, port: OvsPort, places: OvsPlaces) -> dict[str, str]:
    """How the port reaches its other end. Of a vhost-user port the other end decides how many queues it has."""
    queues, kind = {"options:n_rxq": str(port.queues)}, own_kind(scenario, port)
    if kind == VDPA:
        return _vdpa_columns(port, places)
    if spec(scenario).datapath is Datapath.DPDK and (nic := scenario.link(port).device.nic):
        return _of_nic(nic, port)
    return _interface(port.name, kind, places) | (queues | _xdp_mode(scenario) if kind == AFXDP else {})


def driven(address: str, devargs: str) -> str:
    """A NIC with the arguments of its driver, as DPDK takes both."""
    return ",".join(filter(None, (address, devargs)))


def _xdp_mode(scenario: Scenario) -> dict[str, str]:
    """The mode of AF_XDP, where the file asks for one."""
    mode = spec(scenario).xdp_mode
    return {"options:xdp-mode": mode} if mode else {}


_TYPES = {AFXDP: "afxdp", TAP: "tap", INTERNAL: "internal"}  # of a VETH: none


def _interface(name: str, kind: str, places: OvsPlaces) -> dict[str, str]:
    """Columns of its Interface row."""
    if kind == VHOST:
        return {"type": "dpdkvhostuserclient", "options:vhost-server-path": places.vhost_socket(name)}
    return {"type": _TYPES[kind]} if kind in _TYPES else {}


def bridges(scenario: Scenario, places: OvsPlaces) -> Command:
    """The one transaction that makes every bridge with its ports."""
    words: list[str] = []
    # ovs-vswitchd.conf.db(5), Bridge datapath_type: the kernel's or the userspace datapath.
    kind = "system" if spec(scenario).datapath in IN_KERNEL else "netdev"
    for bridge in spec(scenario).bridges:
        words += ["--", "add-br", bridge.name, "--", "set", "bridge", bridge.name, f"datapath_type={kind}"]
        # Without a controller no NORMAL flow appears: only the scenario's rules forward.
        words += ["fail_mode=secure", f"protocols={_PROTOCOLS}"]
    for port in switch_ports(scenario, places):
        words += [*configured.added(scenario, port.bridge, port.name), "--", "set", "interface", port.name]
        words.append(f"ofport_request={port.number}")
        words += [f"{column}={value}" for column, value in port.columns.items()]
    words += configured.port_rows(scenario)
    for near, far in ends(scenario):
        words += ["--", "add-br", near.underlay, "--", "set", "bridge", near.underlay, "datapath_type=netdev"]
        words.append(f'other_config:hwaddr="{near.mac}"')
        patch, peer = f"{near.underlay}-{far.underlay}", f"{far.underlay}-{near.underlay}"
        words += ["--", "add-port", near.underlay, patch, "--", "set", "interface", patch]
        words += ["type=patch", f"options:peer={peer}"]
    return places.vsctl(*words[1:])


@dataclass(frozen=True)
class End:
    """One end of a tunnel: a port of an overlay bridge, and an underlay bridge with its address."""

    tunnel: Tunnel
    bridge: str
    underlay: str
    address: str
    mac: str

    @property
    def port(self) -> str:
        """The interface of the tunnel on this bridge: names are unique in a switch."""
        return f"{self.tunnel.name}-{self.bridge}"


def ends(scenario: Scenario) -> Iterator[tuple[End, End]]:
    """Both ends of every tunnel, each with the other: (near, far)."""
    for number, tunnel in enumerate(spec(scenario).tunnels):
        first, second = (
            End(tunnel, bridge, f"ul{number}{side}", _address(number, place), f"02:70:70:00:{number:02x}:0{place}")
            for place, (side, bridge) in enumerate((("a", tunnel.first), ("b", tunnel.second)), start=1)
        )
        yield first, second
        yield second, first


def _address(number: int, place: int) -> str:
    return str(IPv4Address(_UNDERLAY + 4 * number + place))


def underlay_routes(scenario: Scenario, places: OvsPlaces) -> list[AnyResource]:
    """Addresses, routes and neighbours of the tunnels' underlays, once the bridges are there."""
    resources: list[AnyResource] = []
    for near, far in ends(scenario):
        ip = ("ip", "-n", places.dut_netns)
        # With a prefix route of either device the kernel would choose between the two.
        address = (f"{near.address}/{_PREFIX}", "dev", near.underlay, "noprefixroute")
        resources += [
            Command((*ip, "address", "add", *address)),
            Command((*ip, "link", "set", "dev", near.underlay, "up")),
            places.appctl("ovs/route/add", f"{far.address}/32", near.underlay),
            places.appctl("tnl/neigh/set", near.underlay, far.address, far.mac),
        ]
    return [*resources, places.appctl("tnl/neigh/aging", str(_LONGEST_AGE_S))] if resources else []


def extra_ports(scenario: Scenario, places: OvsPlaces) -> list[AnyResource]:
    """Idle ports of the first bridge, thousands in a few transactions; each a device of its own beside the switch."""
    extra, bridge = spec(scenario).extra_ports, spec(scenario).bridges[0].name
    if not extra.count:
        return []
    internal = extra.kind == "internal"
    # Of the taps of internal ports a thousand go in a moment together, and in 20 s with the switch.
    resources: list[AnyResource] = [TapLinks(places.dut_netns)] if internal else _veths(extra.count, places)
    names = [extra_port(number) for number in range(1, extra.count + 1)]
    for first in range(0, len(names), AT_ONCE):
        words: list[str] = []
        for name in names[first : first + AT_ONCE]:
            words += ["--", "add-port", bridge, name]
            words += ["--", "set", "interface", name, "type=internal"] if internal else []
        resources.append(places.vsctl(*words[1:], timeout_s=TIMEOUT_S))
    return resources


def extra_port(number: int) -> str:
    """The name of one of them, from 1."""
    return f"idle{number}"


def _veths(pairs: int, places: OvsPlaces) -> list[AnyResource]:
    """Pairs of which one end becomes a port and the other stays beside it, down."""
    link = "link add idle{i} up type veth peer name idlepeer{i}"
    batch = TextFile(f"{places.directory}/idle-links.txt", (), ((link, pairs, 1),))
    return [batch, Command(("ip", "-n", places.dut_netns, "-batch", batch.path), timeout_s=TIMEOUT_S)]


_EACH_RULE_S = 0.001  # of the command's time limit: a slow machine takes a third of it
_ARP_PRIORITY = 65535  # no rule of the scenario shall take a request first

MANY = 10_000  # rules: from here on one bundle takes a fraction of the time, as the switch takes it as one change


def rules(scenario: Scenario, places: OvsPlaces) -> list[AnyResource]:
    """The rules of all bridges, before them the meters and groups that they name."""
    resources: list[AnyResource] = []
    ports = switch_ports(scenario, places)
    for bridge in spec(scenario).bridges:
        responders = [responder for responder in spec(scenario).arp_responders if responder.bridge == bridge.name]
        numbers = port_numbers(ports, bridge.name)
        groups = [with_port_numbers(group.text, numbers) for group in bridge.groups]
        resources += configured.tables(bridge, places, groups)
        file = _file(bridge, places, numbers, responders)
        if file.lines or file.series:
            management = places.management_of(bridge.name)
            count = len(file.lines) + sum(series[1] for series in file.series)
            bundle = ("--bundle",) if count > MANY else ()
            words = (*_OFCTL, *bundle, "add-flows", management, file.path)
            resources += [file, places.command(*words, timeout_s=COMMAND_TIMEOUT_S + _EACH_RULE_S * count)]
    return resources


def _file(bridge: Bridge, places: OvsPlaces, numbers: dict[str, int], responders: Iterable[ArpResponder]) -> TextFile:
    lines = tuple(with_port_numbers(rule.text, numbers) for rule in bridge.rules)
    series = [(with_port_numbers(s.rule, numbers), s.count, s.first) for s in bridge.rule_series]
    return TextFile(places.rules_of(bridge.name), lines, (*series, *map(answers, responders)))


def answers(responder: ArpResponder) -> tuple[str, int, int]:
    """The series of rules of a responder."""
    return arp_responder(responder), responder.ipv4.count, 0


def arp_responder(responder: ArpResponder) -> str:
    """The rule that turns a request for an address into its reply (RFC 826) and sends it back; i counts addresses."""
    address = f"{{ipv4:{IPv4Address(responder.ipv4.first)}}}"
    return (
        f"table=0,priority={_ARP_PRIORITY},arp,arp_op=1,arp_tpa={address},actions="
        f"move:eth_src->eth_dst,set_field:{responder.mac}->eth_src,set_field:2->arp_op,"
        f"move:arp_sha->arp_tha,move:arp_spa->arp_tpa,"
        f"set_field:{responder.mac}->arp_sha,set_field:{address}->arp_spa,in_port"
    )


def port_numbers(ports: Iterable[SwitchPort], bridge: str) -> dict[str, int]:
    """The OpenFlow number of every port of a bridge, by the word that rules have for it."""
    return {port.word: port.number for port in ports if port.bridge == bridge}


def with_port_numbers(rule: str, numbers: dict[str, int]) -> str:
    """The rule with every `{name}` replaced by that port's OpenFlow number."""
    for name, number in numbers.items():
        rule = rule.replace(f"{{{name}}}", str(number))
    return rule


def rule_place(bridge: Bridge, rules_line: int) -> int | None:
    """The scenario file's line that became line `rules_line` (from 1) of the bridge's rules file."""
    if rules_line <= len(bridge.rules):
        return bridge.rules[rules_line - 1].line
    rules_line -= len(bridge.rules)
    for series in bridge.rule_series:
        if rules_line <= series.count:
            return series.line
        rules_line -= series.count
    return None


def refused_rule(error: CommandFailed, scenario: Scenario, places: OvsPlaces) -> BenchError | None:
    """The error in terms of the scenario if it was ovs-ofctl refusing a rule; None if it was another."""
    if error.argv[0] != "ovs-ofctl":
        return None
    if "add-flows" not in error.argv:
        return configured.refused(error, scenario, places)
    bridge = next((b for b in spec(scenario).bridges if places.rules_of(b.name) in error.argv), None)
    match = bridge and re.search(re.escape(places.rules_of(bridge.name)) + r":(\d+): (.*)", error.output)
    if bridge is None or not match:
        return BenchError(f"{scenario.path}: the switch refused a rule: {error.output}", "see ovs-ofctl(8)")
    line = rule_place(bridge, int(match[1]))
    place = f"{scenario.path}:{line}" if line else f"{scenario.path}: {bridge.name}"
    refusal = f"{place}: the switch refused this rule: {match[2]}"
    return BenchError(refusal, RULE_SYNTAX)


def refused_rules(scenarios: Iterable[Scenario], host: Host, folder: str) -> Iterator[str]:
    """The rules that ovs-ofctl does not read, each with its place; none where it is not installed."""
    if host.which("ovs-ofctl") is None:
        return
    every = list(scenarios)
    rules = list(dict.fromkeys(rule for scenario in every for rule in _written(scenario)))
    file = f"{folder}/rules.txt"
    for _ in range(_MOST_REFUSED):
        host.write(file, "".join(f"{text}\n" for _, text in rules))
        try:
            host.run((*_OFCTL, "parse-flows", file), timeout_s=COMMAND_TIMEOUT_S + _EACH_RULE_S * len(rules))
        except CommandFailed as error:
            match = re.search(re.escape(file) + r":(\d+): (.*)", error.output)
            if not match:
                paths = ", ".join(dict.fromkeys(str(scenario.path) for scenario in every))
                yield f"{paths}: ovs-ofctl does not read the rules: {error.output}"
                return
            place, text = rules.pop(int(match[1]) - 1)
            yield f"{place}: ovs-ofctl refuses this rule: {match[2]}: {text}"
        else:
            return


def _written(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Each rule with its place; a series by its first one. Whatever number a port has, the rule is as good."""
    for bridge in spec(scenario).bridges:
        firsts = ((next(expand_template(series.rule, 1, series.first)), series.line) for series in bridge.rule_series)
        for text, line in (*((rule.text, rule.line) for rule in bridge.rules), *firsts):
            place = f"{scenario.path}:{line}" if line else f"{scenario.path}: {bridge.name}"
            yield place, _PORT.sub("1", text)


_VDPA_TYPE = "dpdkvdpa"
_OF_VDPA = ("pf", "vf", "representor")
_KNOWN_WITHIN_S = 5  # the switch lists its types of ports before it answers to anything
_KNOWS = f"iface_types{{>=}}{_VDPA_TYPE}"  # ovs-vsctl(8), wait-until: the set includes it


def check_vdpa(raw: RawScenario) -> None:
    """A port has a function of a NIC, or is of another kind; no two ports share a function or a representor."""
    functions, representors = set[str | None](), set[str]()
    for port in raw.ports:
        values = port.values
        if values.get("kind") != VDPA:
            for key in (key for key in _OF_VDPA if values.get(key) is not None):
                raw.problem((*port.at, key), f'expected port.kind = "{VDPA}" with it')
            continue
        _check_vdpa_port(raw, port)
        pf, vf, number = (values.get(key) for key in _OF_VDPA)
        representor = f"{number} of {pf}"
        if vf and vf in functions:
            raw.problem((*port.at, "vf"), f'expected a function that no other port uses, found "{vf}" again')
        if pf and number is not None and representor in representors:
            raw.problem((*port.at, "representor"), f"expected one that no other port uses, found {representor} again")
        functions.add(vf)
        representors.add(representor)


def _check_vdpa_port(raw: RawScenario, port: Element) -> None:
    for key in _OF_VDPA:
        if key in port.values and port.values[key] is None:
            raw.problem((*port.at, key), f'missing; port.kind = "{VDPA}" needs it')
    if (datapath := raw.dut.get("datapath")) not in (None, Datapath.DPDK):
        raw.mismatch((*port.at, "kind"), f'none where dut.datapath is "{datapath}"', VDPA)
    for key in ("pci", "engine_pci"):
        if address := port.values.get(key):
            raw.problem((*port.at, key), f'expected no NIC where port.kind is "{VDPA}", found "{address}"')


def _vdpa_columns(port: OvsPort, places: OvsPlaces) -> dict[str, str]:
    """Of its Interface row. The engine is the server of the socket, as a guest would be."""
    row = {
        "type": _VDPA_TYPE,
        "options:vdpa-socket-path": places.vhost_socket(port.name),
        "options:vdpa-accelerator-devargs": quoted(str(port.vf)),
        "options:dpdk-devargs": quoted(f"{port.pf},representor=[{port.representor}]"),
    }
    several = {"options:vdpa-max-queues": str(port.queues), "options:n_rxq": str(port.queues)}
    return row | (several if port.queues > 1 else {})


def vdpa_known(scenario: Scenario, places: OvsPlaces) -> list[Command]:
    """A command that fails where the running switch has no such ports, which it would take and not open."""
    asked = places.vsctl("wait-until", "Open_vSwitch", ".", _KNOWS, timeout_s=_KNOWN_WITHIN_S)
    return [asked] if any(_vdpa_ports(scenario)) else []


def refused_vdpa(error: CommandFailed, scenario: Scenario) -> BenchError | None:
    """The error in terms of the scenario if it was that command; None if it was another."""
    if _KNOWS not in error.argv:
        return None
    name = next(_vdpa_ports(scenario)).name
    return BenchError(
        f'{scenario.path}: port {name}: kind = "{VDPA}": the running switch has no ports of the type {_VDPA_TYPE} '
        "(Open_vSwitch iface_types)",
        "set dut.vswitchd to the ovs-vswitchd of a build that has them, or leave out port.kind for a vhost-user port",
    )


def _vdpa_ports(scenario: Scenario) -> Iterator[OvsPort]:
    return (port for port in ports(scenario) if port.kind == VDPA)
