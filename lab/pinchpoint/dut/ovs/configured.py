"""What people configure at ports and bridges beside rules: VLANs, MTUs, policers, QoS, bonds, mirrors, meters, groups.

Commands of ovs-vsctl(8) and ovs-ofctl(8); columns: ovs-vswitchd.conf.db(5), Interface, Port, QoS, Mirror.
"""

from collections.abc import Iterator, Sequence

from pinchpoint.bench.resource import AnyResource, Command, TextFile
from pinchpoint.dut.ovs.kinds import own_kind
from pinchpoint.dut.ovs.places import OvsPlaces, quoted
from pinchpoint.dut.ovs.spec import MADE_BY_SWITCH, Bridge, OvsPort, every_port, ports, spec
from pinchpoint.host.interface import CommandFailed
from pinchpoint.model.errors import BenchError
from pinchpoint.model.scenario import Scenario

_OFCTL = ("ovs-ofctl", "-O", "OpenFlow15", "--")  # a meter is a word of the command line, and never an option
_ADD_METER, _ADD_GROUPS = "add-meter", "add-groups"


def interface_columns(port: OvsPort) -> dict[str, str]:
    """Of its Interface row."""
    wanted = {
        "mtu_request": port.mtu,
        "ingress_policing_rate": port.ingress_policing_rate,
        "ingress_policing_burst": port.ingress_policing_burst,
    }
    return {name: str(value) for name, value in wanted.items() if value is not None}


def added(scenario: Scenario, bridge: str, port: str) -> list[str]:
    """The words that add a port to its bridge; of a bond the first member adds them all."""
    bond = next((bond for bond in spec(scenario).bonds if port in bond.ports), None)
    if bond is None:
        return ["--", "add-port", bridge, port]
    if port != bond.ports[0]:
        return []
    return ["--", "add-bond", bridge, bond.name, *bond.ports, f"bond_mode={bond.mode}", f"lacp={bond.lacp}"]


def port_rows(scenario: Scenario) -> list[str]:
    """The words that set VLANs and QoS."""
    return [word for port in every_port(scenario) for word in _port_row(port)]


def _port_row(port: OvsPort) -> Iterator[str]:
    columns = {"vlan_mode": port.vlan_mode, "tag": None if port.tag is None else str(port.tag)}
    wanted = [f"{name}={value}" for name, value in columns.items() if value is not None]
    if port.trunks:
        wanted.append(f"trunks={','.join(map(str, port.trunks))}")
    qos = f"@qos-{port.name}"
    if port.qos:
        wanted.append(f"qos={qos}")
    if wanted:
        yield from ("--", "set", "port", port.name, *wanted)
    if port.qos:
        settings = (f"other_config:{key}={quoted(value)}" for key, value in port.qos.items() if key != "type")
        yield from ("--", f"--id={qos}", "create", "qos", f"type={port.qos['type']}", *settings)


def mirrors(scenario: Scenario, places: OvsPlaces) -> list[Command]:
    """A transaction for each mirror, once its ports are there."""
    commands = []
    for mirror in spec(scenario).mirrors:
        sources = [f"@from-{name}" for name in mirror.select]
        both = [f"select_{way}_port={','.join(sources)}" for way in ("src", "dst")] if sources else ["select_all=true"]
        words = ["--", "--id=@to", "get", "port", mirror.output]
        for name, source in zip(mirror.select, sources, strict=True):
            words += ["--", f"--id={source}", "get", "port", name]
        words += ["--", "--id=@mirror", "create", "mirror", f"name={mirror.name}", *both, "output_port=@to"]
        commands.append(places.vsctl(*words, "--", "add", "bridge", mirror.bridge, "mirrors", "@mirror"))
    return commands


def links_up(scenario: Scenario, places: OvsPlaces) -> list[Command]:
    """The interfaces that the switch makes are down at first."""
    made = [port.name for port in ports(scenario) if own_kind(scenario, port) in MADE_BY_SWITCH]
    return [Command(("ip", "-n", places.dut_netns, "link", "set", "dev", name, "up")) for name in made]


def tables(bridge: Bridge, places: OvsPlaces, groups: Sequence[str]) -> list[AnyResource]:
    """Meters and groups of a bridge, which its rules name; `groups` with the numbers of their ports."""
    management, file = places.management_of(bridge.name), f"{places.directory}/groups-{bridge.name}.txt"
    resources: list[AnyResource] = [
        places.command(*_OFCTL, _ADD_METER, management, meter.text) for meter in bridge.meters
    ]
    if groups:
        resources += [TextFile(file, tuple(groups)), places.command(*_OFCTL, _ADD_GROUPS, management, file)]
    return resources


def refused(error: CommandFailed, scenario: Scenario, places: OvsPlaces) -> BenchError | None:
    """The error in terms of the scenario if the switch refused a meter or groups; None if it was another."""
    words = error.argv
    bridge = next((bridge for bridge in spec(scenario).bridges if places.management_of(bridge.name) in words), None)
    kind = _ADD_METER if _ADD_METER in words else _ADD_GROUPS
    if bridge is None or kind not in words:
        return None
    lines = [rule for rule in bridge.meters if rule.text in words] if kind == _ADD_METER else bridge.groups
    line = lines[0].line if lines else None
    place = f"{scenario.path}:{line}" if line else f"{scenario.path}: {bridge.name}"
    what = "this meter" if kind == _ADD_METER else "a group"
    return BenchError(f"{place}: the switch refused {what}: {error.output}", "syntax: ovs-ofctl(8)")
