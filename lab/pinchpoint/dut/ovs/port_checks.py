"""What a file may say of a switch's ports beside their names: kinds, MTUs, VLANs, limits, bonds, mirrors, guests."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from pinchpoint.dut.attach import HEADERS, STANDARD_MTU
from pinchpoint.dut.device import RawScenario
from pinchpoint.dut.ovs.spec import (
    AFXDP,
    CONTAINER,
    FIRST_BRIDGE,
    IN_KERNEL,
    LARGEST_FRAME,
    MADE_BY_SWITCH,
    POLLED,
    TAP,
    VDPA,
    Bond,
    Datapath,
    Mirror,
)
from pinchpoint.keys.reader import Element
from pinchpoint.model.scenario import SPLIT

_NICS: Final = ("pci", "engine_pci")
_CABLES: Final = (*_NICS, "interface", "engine_interface", "engine_runs_on")
_OF_PORT_ROW: Final = ("vlan_mode", "tag", "trunks", "qos")  # of the port's row, which a bond has in its place


def check(raw: RawScenario) -> None:
    """Note what does not fit together."""
    ports = {name: port for port in raw.ports if (name := port.values.get("name"))}
    for port in raw.ports:
        _check_kind(raw, port)
        _check_limits(raw, port)
    _check_mtus(raw, ports)
    _check_guests(raw, ports)
    _check_bonds(raw, ports)
    _check_mirrors(raw, ports)


def _check_kind(raw: RawScenario, port: Element) -> None:
    kind, datapath = port.values.get("kind"), raw.dut.get("datapath")
    if kind in (None, VDPA) or datapath is None:
        return
    at = (*port.at, "kind")
    if kind == AFXDP and datapath not in POLLED:
        raw.mismatch(at, f'another one where dut.datapath is "{datapath}": no PMD thread polls', kind)
    if kind == TAP and datapath in IN_KERNEL:
        raw.mismatch(at, f'"internal" where dut.datapath is "{datapath}"', kind)
    _refuse(raw, port, _CABLES if kind in MADE_BY_SWITCH else _NICS, f'port.kind is "{kind}"')
    if kind != AFXDP:
        _refuse(raw, port, ("rxq_affinity",), f'port.kind is "{kind}": the main thread serves it')
        if port.values.get("queues", 1) > 1:
            raw.mismatch((*port.at, "queues"), f'1 where port.kind is "{kind}"', port.values["queues"])


def _refuse(raw: RawScenario, port: Element, keys: Sequence[str], where: str) -> None:
    """Note each of these keys that has a value."""
    for key in keys:
        if value := port.values.get(key):
            raw.mismatch((*port.at, key), f"none where {where}", value)


def _check_limits(raw: RawScenario, port: Element) -> None:
    """Policers, QoS and VLANs are whole."""
    values = port.values
    if values.get("ingress_policing_burst") is not None and values.get("ingress_policing_rate", 0) is None:
        raw.problem((*port.at, "ingress_policing_rate"), "missing; ingress_policing_burst needs it")
    if values.get("qos") and "type" not in values["qos"]:
        raw.problem((*port.at, "qos"), 'expected a type among them, e.g. type = "egress-policer"')
    if values.get("vlan_mode") == "access" and values.get("tag", 0) is None:
        raw.problem((*port.at, "tag"), 'missing; vlan_mode = "access" needs it')
    is_read_by_xdp = values.get("kind") == AFXDP or (
        values.get("kind", "") is None and raw.dut.get("datapath") == Datapath.AF_XDP
    )
    if is_read_by_xdp and (values.get("mtu") or 0) > STANDARD_MTU:
        raw.mismatch((*port.at, "mtu"), f"at most {STANDARD_MTU} for a port read by AF_XDP", values["mtu"])


def _check_mtus(raw: RawScenario, ports: Mapping[str, Element]) -> None:
    """No port is asked for frames beyond its MTU, or beyond the usual one: a smaller MTU is there to be tried."""
    for stream in raw.arrays.get("stream", ()):
        ends = {stream.values.get(key) for key in ("tx_port", "rx_port")}
        mtus = (max(STANDARD_MTU, port.values.get("mtu") or 0) for name, port in ports.items() if name in ends)
        least = min(mtus, default=LARGEST_FRAME)
        if least + HEADERS < (frame := stream.values.get("frame_bytes", 0)) <= LARGEST_FRAME:
            raw.mismatch((*stream.at, "frame_bytes"), f"at most {least + HEADERS:,} (MTU {least})", frame)


def _check_guests(raw: RawScenario, ports: Mapping[str, Element]) -> None:
    """A guest has two vhost-user ports of its own."""
    ends = set[str]()
    for port in raw.ports:
        name, other = port.values.get("name", ""), port.values.get("forwards_to")
        at = (*port.at, "forwards_to")
        if other is None:
            _refuse_guests_keys(raw, port)
        elif other not in ports or other == name:
            others = ", ".join(known for known in ports if known != name) or "there is none"
            raw.mismatch(at, f"the name of another [[port]] ({others})", other)
        else:
            for end in sorted(ends & {name, other}):
                raw.problem(at, f'expected two ports of one guest alone, found "{end}" at two')
            ends |= {name, other}
            if (datapath := raw.dut.get("datapath")) not in (None, Datapath.DPDK):
                raw.mismatch(at, f'none where dut.datapath is "{datapath}": guests are at vhost-user rings', other)
    for port in (ports[name] for name in ports if name in ends):
        _check_guests_port(raw, port)
    _refuse_ends(raw, ends)


def _refuse_guests_keys(raw: RawScenario, port: Element) -> None:
    for key in ("forward_cpu", "forwards_in"):
        if port.values.get(key) not in (None, CONTAINER):
            raw.problem((*port.at, key), "expected forwards_to with it")


def _check_guests_port(raw: RawScenario, port: Element) -> None:
    where = "a guest is at the port's other end"
    _refuse(raw, port, ("kind", *_CABLES), where)
    if port.values.get("queues", 1) > 1:
        raw.mismatch((*port.at, "queues"), f"1 where {where}", port.values["queues"])
    if port.values.get("ring_layout", SPLIT) != SPLIT:
        raw.mismatch((*port.at, "ring_layout"), f'"{SPLIT}" where {where}', port.values["ring_layout"])
    if port.values.get("forward_cpu") in raw.tables["engine"].get("cpus", ()):
        raw.mismatch((*port.at, "forward_cpu"), "a CPU other than engine.cpus", port.values["forward_cpu"])


def _refuse_ends(raw: RawScenario, guests: Collection[str]) -> None:
    """Traffic begins and ends at the engine."""
    told = "a port with the engine at its other end, not a guest"
    for stream in raw.arrays.get("stream", ()):
        for key, name in (("from", stream.values.get("tx_port")), ("to", stream.values.get("rx_port"))):
            if name in guests:
                raw.mismatch((*stream.at, key), told, name)
    for key in ("client_port", "server_port"):
        if (name := raw.tables["service"].get(key)) in guests:
            raw.mismatch(("service", key), told, name)


def _known(raw: RawScenario, ports: Mapping[str, Element], element: Element, key: str, names: Sequence[str]) -> bool:
    """Whether these are names of ports; each that is none is noted."""
    for name in names:
        if name not in ports:
            raw.mismatch((*element.at, key), f"names of [[port]]s ({', '.join(ports) or 'there is none'})", name)
    return all(name in ports for name in names)


def _bridge(port: Element) -> str:
    return str(port.values.get("bridge", FIRST_BRIDGE))


def _check_bonds(raw: RawScenario, ports: Mapping[str, Element]) -> None:
    taken = set[str]()
    for bond in raw.arrays["bond"]:
        members = bond.values.get("ports", ())
        if not _known(raw, ports, bond, "ports", members):
            continue
        if len(members) < 2 and "ports" in bond.values:
            raw.problem((*bond.at, "ports"), "expected two or more")
        if len({_bridge(ports[name]) for name in members}) > 1:
            raw.problem((*bond.at, "ports"), "expected ports of one bridge")
        if bond.values.get("mode") == "balance-tcp" and bond.values.get("lacp") == "off":
            raw.problem((*bond.at, "lacp"), 'expected "active" or "passive" with mode = "balance-tcp"')
        for name in members:
            if name in taken:
                raw.problem((*bond.at, "ports"), f'expected ports of no other bond, found "{name}" again')
            _refuse(raw, ports[name], _OF_PORT_ROW, "the port is one of a bond")
        taken.update(members)


def _check_mirrors(raw: RawScenario, ports: Mapping[str, Element]) -> None:
    bonded = {name for bond in raw.arrays["bond"] for name in bond.values.get("ports", ())}
    for mirror in raw.arrays["mirror"]:
        output, select = mirror.values.get("output"), mirror.values.get("select", ())
        named = [("to", [output] if output else []), ("select", select)]
        if not all(_known(raw, ports, mirror, key, names) for key, names in named):
            continue
        for key, names in named:
            for name in names:
                if name in bonded:
                    raw.mismatch((*mirror.at, key), "a port of no bond", name)
                elif output and _bridge(ports[name]) != _bridge(ports[output]):
                    raw.mismatch((*mirror.at, key), "ports of one bridge", name)
        if output in select:
            raw.mismatch((*mirror.at, "select"), "ports other than the one that gets the copies", output)


def mirrors(elements: Sequence[Element], ports: Sequence[Element]) -> Iterator[Mirror]:
    """Those of a checked file."""
    bridges = {port.values["name"]: _bridge(port) for port in ports}
    yield from (Mirror(bridge=bridges[mirror.values["output"]], **mirror.values) for mirror in elements)


def bonds(elements: Sequence[Element]) -> Iterator[Bond]:
    """Those of a checked file."""
    yield from (Bond(**bond.values) for bond in elements)
