"""Bridges and their ports: which there are, their OpenFlow numbers, and the transaction that makes them.

Numbers are requested, so that rules may name ports before the switch has opened
them: in each bridge from 1 in the order engine ports, hosts, patch ports, tunnels.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pinchpoint.dut.ovs import vdpa
from pinchpoint.dut.ovs.daemons import quoted
from pinchpoint.dut.ovs.places import OvsPlaces
from pinchpoint.dut.ovs.spec import IN_KERNEL, VDPA, Datapath, OvsPort, spec
from pinchpoint.dut.ovs.spec import hosts as spec_hosts
from pinchpoint.dut.ovs.spec import ports as spec_ports
from pinchpoint.dut.ovs.tunnels import ends, underlay_bridges
from pinchpoint.model.scenario import Host, Scenario

# ovs-vswitchd.conf.db(5), Bridge datapath_type: the kernel's or the userspace datapath.
_DATAPATH_TYPE = dict.fromkeys(IN_KERNEL, "system")
_PROTOCOLS = "OpenFlow10,OpenFlow13,OpenFlow14,OpenFlow15"


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
    used = dict.fromkeys((bridge.name for bridge in spec(scenario).bridges), 0)
    ports = []
    for bridge, word, name, columns in _wanted(scenario, places):
        used[bridge] += 1
        ports.append(SwitchPort(bridge, word, name, used[bridge], columns))
    return tuple(ports)


_Wanted = tuple[str, str, str, Mapping[str, str]]  # bridge, word in rules, interface, its columns


def _wanted(scenario: Scenario, places: OvsPlaces) -> Iterator[_Wanted]:
    for port in spec_ports(scenario):
        yield port.bridge, port.name, port.name, _engine_port(port, scenario, places)
    for host in spec_hosts(scenario):
        yield host.bridge, host.name, host.name, _host_port(host, spec(scenario).datapath, places)
    for patch in spec(scenario).patches:
        for near, far in ((patch.first, patch.second), (patch.second, patch.first)):
            columns = {"type": "patch", "options:peer": patch_name(far, near)}
            yield near, f"to-{far}", patch_name(near, far), columns
    for near_end, far_end in ends(scenario):
        columns = {
            "type": "vxlan",
            "options:remote_ip": far_end.address,
            "options:key": str(near_end.tunnel.vni),
        }
        yield near_end.bridge, near_end.tunnel.name, near_end.port, columns


def patch_name(near: str, far: str) -> str:
    """The patch port of bridge `near` that leads to `far`: interface names are unique in a switch."""
    return f"{near}-to-{far}"


def _engine_port(port: OvsPort, scenario: Scenario, places: OvsPlaces) -> dict[str, str]:
    columns = _attached(port, spec(scenario).datapath, places)
    if port.rxq_affinity:
        columns["other_config:pmd-rxq-affinity"] = quoted(port.rxq_affinity)
    return columns


def _host_port(host: Host, datapath: Datapath, places: OvsPlaces) -> dict[str, str]:
    match datapath:
        case Datapath.DPDK:
            return {"type": "dpdkvhostuserclient", "options:vhost-server-path": places.vhost_socket(host.name)}
        case Datapath.AF_XDP:
            return {"type": "afxdp"}
        case _:
            return {}


def _attached(port: OvsPort, datapath: Datapath, places: OvsPlaces) -> dict[str, str]:
    """How the port reaches its other end. Of a vhost-user port the other end decides how many queues it has."""
    match datapath:
        case Datapath.DPDK if port.kind == VDPA:
            return vdpa.columns(port, places)
        case Datapath.DPDK if port.pci:
            return {"type": "dpdk", "options:dpdk-devargs": quoted(port.pci), "options:n_rxq": str(port.queues)}
        case Datapath.DPDK:
            return {"type": "dpdkvhostuserclient", "options:vhost-server-path": places.vhost_socket(port.name)}
        case Datapath.AF_XDP:
            return {"type": "afxdp", "options:n_rxq": str(port.queues)}
        case _:
            return {}


def bridges(scenario: Scenario, ports: tuple[SwitchPort, ...]) -> list[str]:
    """The words of the one ovs-vsctl transaction that makes every bridge with its ports."""
    words: list[str] = []
    kind = _DATAPATH_TYPE.get(spec(scenario).datapath, "netdev")
    for bridge in spec(scenario).bridges:
        words += ["--", "add-br", bridge.name, "--", "set", "bridge", bridge.name, f"datapath_type={kind}"]
        # Without a controller no NORMAL flow appears: only the scenario's rules forward.
        words += ["fail_mode=secure", f"protocols={_PROTOCOLS}"]
    for port in ports:
        words += ["--", "add-port", port.bridge, port.name, "--", "set", "interface", port.name]
        words.append(f"ofport_request={port.number}")
        words += [f"{column}={value}" for column, value in port.columns.items()]
    return [*words, *underlay_bridges(scenario)][1:]
