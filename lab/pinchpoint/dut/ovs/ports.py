"""Bridges and their ports: which there are, their OpenFlow numbers, and the transactions that make them.

Numbers are requested, so that rules may name ports before the switch has opened
them: in each bridge from 1 in the order engine ports, hosts, patch ports, tunnels.

Each VXLAN tunnel has two underlay bridges joined by a patch, with an address each on
their local ports. The switch encapsulates at one and decapsulates at the other
(ovs-vswitchd(8), "NATIVE TUNNELING": `tnl_push`, `tnl_pop`), all in one pass of
its datapath. Both addresses lie in one namespace, so the kernel's routes, which
would call either of them local, are ignored (--disable-system-route) and both
routes and neighbours are static. For the same reason the tunnel ports name no
local address: the switch would look for a local route to it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from itertools import count

from pinchpoint.bench.resource import AnyResource, Command, TapLinks, TextFile
from pinchpoint.dut.ovs import vdpa
from pinchpoint.dut.ovs.places import OvsPlaces, quoted
from pinchpoint.dut.ovs.spec import IN_KERNEL, VDPA, Datapath, OvsPort, Tunnel, hosts, ports, spec
from pinchpoint.model.scenario import Scenario

# ovs-vswitchd.conf.db(5), Bridge datapath_type: the kernel's or the userspace datapath.
_DATAPATH_TYPE = dict.fromkeys(IN_KERNEL, "system")
_PROTOCOLS = "OpenFlow10,OpenFlow13,OpenFlow14,OpenFlow15"
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
    datapath = spec(scenario).datapath
    for port in ports(scenario):
        pinned = {"other_config:pmd-rxq-affinity": quoted(port.rxq_affinity)} if port.rxq_affinity else {}
        yield port.bridge, port.name, port.name, _attached(port, datapath, places) | pinned
    for host in hosts(scenario):
        yield host.bridge, host.name, host.name, _interface(host.name, datapath, places)
    for patch in spec(scenario).patches:
        for near, far in ((patch.first, patch.second), (patch.second, patch.first)):
            columns = {"type": "patch", "options:peer": patch_name(far, near)}
            yield near, f"to-{far}", patch_name(near, far), columns
    for near_end, far_end in ends(scenario):
        tunnel = near_end.tunnel
        columns = {"type": "vxlan", "options:remote_ip": far_end.address, "options:key": str(tunnel.vni)}
        yield near_end.bridge, tunnel.name, near_end.port, columns


def patch_name(near: str, far: str) -> str:
    """The patch port of bridge `near` that leads to `far`: interface names are unique in a switch."""
    return f"{near}-to-{far}"


def _attached(port: OvsPort, datapath: Datapath, places: OvsPlaces) -> dict[str, str]:
    """How the port reaches its other end. Of a vhost-user port the other end decides how many queues it has."""
    queues = {"options:n_rxq": str(port.queues)}
    if datapath is Datapath.DPDK and port.kind == VDPA:
        return vdpa.columns(port, places)
    if datapath is Datapath.DPDK and port.pci:
        return {"type": "dpdk", "options:dpdk-devargs": quoted(port.pci)} | queues
    return _interface(port.name, datapath, places) | (queues if datapath is Datapath.AF_XDP else {})


def _interface(name: str, datapath: Datapath, places: OvsPlaces) -> dict[str, str]:
    """As a datapath has its ports."""
    match datapath:
        case Datapath.DPDK:
            return {"type": "dpdkvhostuserclient", "options:vhost-server-path": places.vhost_socket(name)}
        case Datapath.AF_XDP:
            return {"type": "afxdp"}
        case _:
            return {}


def bridges(scenario: Scenario, places: OvsPlaces) -> Command:
    """The one transaction that makes every bridge with its ports."""
    words: list[str] = []
    kind = _DATAPATH_TYPE.get(spec(scenario).datapath, "netdev")
    for bridge in spec(scenario).bridges:
        words += ["--", "add-br", bridge.name, "--", "set", "bridge", bridge.name, f"datapath_type={kind}"]
        # Without a controller no NORMAL flow appears: only the scenario's rules forward.
        words += ["fail_mode=secure", f"protocols={_PROTOCOLS}"]
    for port in switch_ports(scenario, places):
        words += ["--", "add-port", port.bridge, port.name, "--", "set", "interface", port.name]
        words.append(f"ofport_request={port.number}")
        words += [f"{column}={value}" for column, value in port.columns.items()]
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
