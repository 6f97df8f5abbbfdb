"""Ports of the type dpdkvdpa: a virtual function of a NIC serves the rings of a vhost-user socket (vDPA).

Forks of Open vSwitch have them, e.g. NVIDIA's for ConnectX and BlueField; no release of Open vSwitch has. The switch
connects to the socket and hands the rings to the virtual function; what that function sends and receives it sees at
the function's representor. Sources: the series that proposed them (ovs-dev, 2019) with its topics/dpdk/vdpa.rst, and
"Switch Representation within DPDK Applications" of DPDK's guides.
"""

from collections.abc import Iterator

from pinchpoint.bench.resource import Command
from pinchpoint.dut.device import RawScenario
from pinchpoint.dut.ovs.places import OvsPlaces, quoted
from pinchpoint.dut.ovs.spec import VDPA, Datapath, OvsPort, ports
from pinchpoint.host.interface import CommandFailed
from pinchpoint.keys.reader import Element
from pinchpoint.model.errors import BenchError
from pinchpoint.model.scenario import Scenario

TYPE = "dpdkvdpa"
_OWN = ("pf", "vf", "representor")
_KNOWN_WITHIN_S = 5  # the switch lists its types of ports before it answers to anything
_KNOWS = f"iface_types{{>=}}{TYPE}"  # ovs-vsctl(8), wait-until: the set includes it


def check(raw: RawScenario) -> None:
    """A port has a function of a NIC, or is of another kind; no two ports share a function or a representor."""
    functions, representors = set[str | None](), set[str]()
    for port in raw.ports:
        values = port.values
        if values.get("kind") != VDPA:
            for key in (key for key in _OWN if values.get(key) is not None):
                raw.problem((*port.at, key), f'expected port.kind = "{VDPA}" with it')
            continue
        _check_port(raw, port)
        pf, vf, number = (values.get(key) for key in _OWN)
        representor = f"{number} of {pf}"
        if vf and vf in functions:
            raw.problem((*port.at, "vf"), f'expected a function that no other port uses, found "{vf}" again')
        if pf and number is not None and representor in representors:
            raw.problem((*port.at, "representor"), f"expected one that no other port uses, found {representor} again")
        functions.add(vf)
        representors.add(representor)


def _check_port(raw: RawScenario, port: Element) -> None:
    for key in _OWN:
        if key in port.values and port.values[key] is None:
            raw.problem((*port.at, key), f'missing; port.kind = "{VDPA}" needs it')
    if (datapath := raw.dut.get("datapath")) not in (None, Datapath.DPDK):
        raw.mismatch((*port.at, "kind"), f'none where dut.datapath is "{datapath}"', VDPA)
    for key in ("pci", "engine_pci"):
        if address := port.values.get(key):
            raw.problem((*port.at, key), f'expected no NIC where port.kind is "{VDPA}", found "{address}"')


def columns(port: OvsPort, places: OvsPlaces) -> dict[str, str]:
    """Of its Interface row. The engine is the server of the socket, as a guest would be."""
    row = {
        "type": TYPE,
        "options:vdpa-socket-path": places.vhost_socket(port.name),
        "options:vdpa-accelerator-devargs": quoted(str(port.vf)),
        "options:dpdk-devargs": quoted(f"{port.pf},representor=[{port.representor}]"),
    }
    several = {"options:vdpa-max-queues": str(port.queues), "options:n_rxq": str(port.queues)}
    return row | (several if port.queues > 1 else {})


def known(scenario: Scenario, places: OvsPlaces) -> list[Command]:
    """A command that fails where the running switch has no such ports, which it would take and not open."""
    asked = places.vsctl("wait-until", "Open_vSwitch", ".", _KNOWS, timeout_s=_KNOWN_WITHIN_S)
    return [asked] if any(_of(scenario)) else []


def refused(error: CommandFailed, scenario: Scenario) -> BenchError | None:
    """The error in terms of the scenario if it was that command; None if it was another."""
    if _KNOWS not in error.argv:
        return None
    name = next(_of(scenario)).name
    return BenchError(
        f'{scenario.path}: port {name}: kind = "{VDPA}": the running switch has no ports of the type {TYPE} '
        "(Open_vSwitch iface_types)",
        "set dut.vswitchd to the ovs-vswitchd of a build that has them, or leave out port.kind for a vhost-user port",
    )


def _of(scenario: Scenario) -> Iterator[OvsPort]:
    return (port for port in ports(scenario) if port.kind == VDPA)
