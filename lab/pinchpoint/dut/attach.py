"""How ports reach a device: vhost-user rings, veth pairs, NICs, cables. What several kinds build and count alike."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from pinchpoint.bench import resource
from pinchpoint.bench.resource import AnyResource, Command, MarkedProcesses, Namespace, Relay, RunDirectory, Veth
from pinchpoint.dut.device import Attachment, Pages
from pinchpoint.dut.places import Places
from pinchpoint.engine.protocol import BackendName
from pinchpoint.host import interfaces
from pinchpoint.host.interface import Host
from pinchpoint.model.errors import InputError
from pinchpoint.model.hops import PORT, DropCounter, DropKind, HopGraph, Party, Place, Refused
from pinchpoint.model.scenario import PACKED, Port, Scenario
from pinchpoint.observe.printed import Links

HUGEPAGE_MB = 2
# What the EALs of a device and of the engine allocate beyond the memory limit they are given: found by experiment.
DPDK_OVERHEAD_MB = 64
STANDARD_MTU = 1500
HEADERS = 18  # of Ethernet with its frame check sequence: a frame of 1518 bytes has an MTU of 1500
# Buffers for both rings of each vhost-user port, of 2.5 kB at least, and what DPDK itself takes: two links
# with rings of 1,024 frames were seen to run.
_RELAY_MB, _LINK_MB, _HOST_RING = 64, 32, 1024
LINK_REFUSED: Final = Refused("socket of {port} took no more", Party.HOST, DropKind.KERNEL_QUEUE)
_TO_VETHS: Final[tuple[BackendName, ...]] = ("af_packet", "af_xdp", "xdp_live")


def pages_of(memory_mb: int) -> int:
    """2 MiB pages of so much memory, with what the EALs take beyond it."""
    return -(-(memory_mb + DPDK_OVERHEAD_MB) // HUGEPAGE_MB)


def foundation(places: Places, pages: Pages, needed: int = 0) -> list[AnyResource]:
    """What every bench begins with: its folder, the mark of its processes, hugepages that it lacks."""
    missing = max(0, needed - pages.free)
    added = [resource.Hugepages(before=pages.total, after=pages.total + missing, needed=needed)] if missing else []
    return [RunDirectory(str(places.directory)), MarkedProcesses(places.bench_id), *added]


def mtu(scenario: Scenario) -> int:
    """Of links that carry every frame of the scenario."""
    return max([STANDARD_MTU, *(stream.frame_bytes - HEADERS for stream in scenario.streams)])


def veths(scenario: Scenario, places: Places) -> list[AnyResource]:
    """A pair for each port, one end in the device's namespace and one in the engine's, both of the port's name.

    Of a port that is a cable, both interfaces; the engine's only where that is on the device's host.
    Raises RequirementError where one cannot be lent.
    """
    pairs = [pair for port in scenario.ports for pair in _ends(scenario, places, port)]
    return [Namespace(places.engine_netns), *pairs] if pairs else []


def trunk(scenario: Scenario, port: Port) -> str:
    """The interface that has a port's frames with their tags, at either end; without tags the port itself."""
    return f"{port.name}.t" if scenario.service and scenario.service.vlan else port.name


def _tagged(scenario: Scenario, places: Places, port: Port) -> list[AnyResource]:
    """The port at both ends as a VLAN interface above the pair (ip-link(8)); nothing where frames have no tags."""
    if not (scenario.service and scenario.service.vlan):
        return []
    words = ("ip", "link", "add", "link", trunk(scenario, port), "name", port.name, "up", "type", "vlan", "id")
    return [Command((*words, str(scenario.service.vlan)), netns) for netns in (places.dut_netns, places.engine_netns)]


def _ends(scenario: Scenario, places: Places, port: Port) -> list[AnyResource]:
    size = mtu(scenario)
    link, name = scenario.link(port), trunk(scenario, port)
    if not link.device.interface:
        pair = Veth(name, places.dut_netns, name, places.engine_netns, size, port.queues)
        if tagged := _tagged(scenario, places, port):
            return [pair, *tagged]
        if scenario.engine.backend != "xdp_live":
            return [pair]
        # An end takes frames of XDP programs only where it polls, as for GRO (`veth_xdp_xmit` of the kernel).
        return [pair, Command(("ethtool", "-K", port.name, "gro", "on"), places.dut_netns)]
    ends: list[AnyResource] = [lent(link.device.interface, places.dut_netns, port.name, size, places.machine)]
    if link.far.interface and link.is_local:
        ends.append(lent_to_engine(scenario, link.far.interface, places.engine_netns, port.name, size, places.machine))
    return ends


def lent(interface: str, netns: str, name: str, mtu: int, host: Host) -> resource.LentInterface:
    """An interface as it is now. Raises RequirementError where it cannot be lent."""
    state = interfaces.look(host, interface)
    before = (state.mtu, state.is_up, state.addresses, state.steering, state.mac, state.is_promiscuous, state.offloads)
    return resource.LentInterface(interface, netns, name, max(mtu, state.mtu), *before)


def lent_to_engine(
    scenario: Scenario, interface: str, netns: str, name: str, mtu: int, host: Host
) -> resource.LentInterface:
    """The same, which stamps what it receives where the scenario asks for that."""
    asked = scenario.engine.latency_clock == "nic"
    own = lent(interface, netns, name, mtu, host)
    return msgspec.structs.replace(own, stamped_before=interfaces.stamped(host, interface)) if asked else own


def engine_links(scenario: Scenario, places: Places) -> list[Links]:
    """The counters of the engine's ends of the ports, each read on its own host.

    None where an end is a NIC, which the kernel does not count: the sum over the other ends would be wrong.
    """
    if any(scenario.link(port).far.nic for port in scenario.ports):
        return []
    names = {site: [port.name for port in scenario.ports_at(site)] for site in scenario.sites}
    return [
        Links(places.at(site), places.engine_netns, "engine", own, site.name if scenario.is_multi_host else "")
        for site, own in names.items()
        if own
    ]


def by_veth(scenario: Scenario, places: Places, port: Port, fastest: BackendName) -> Attachment:
    """The engine's end of a veth pair or a cable; `fastest` is the backend towards this device. Raises InputError."""
    asked, clock = scenario.engine.backend, scenario.engine.latency_clock
    nic = scenario.link(port).far.nic
    if nic and asked != "auto" and all(scenario.link(other).far.nic for other in scenario.ports):
        raise _unreached(scenario, "a NIC by its address")
    _require_stamps(scenario, port)
    if nic:
        return Attachment("dpdk", nic)
    wanted: str = (fastest if clock == "engine" else "af_packet") if asked == "auto" else asked
    if (backend := next((name for name in _TO_VETHS if name == wanted), None)) is not None:
        receives = ",rx=1" if backend == "xdp_live" else ""  # which else only sends
        return Attachment(backend, f"{port.name}{receives}{stamps(scenario)}", places.engine_netns)
    raise _unreached(scenario, "a veth pair")


def stamps(scenario: Scenario) -> str:
    """The option of a packet socket whose frames another clock than the engine's times; else empty."""
    clock = scenario.engine.latency_clock
    return "" if clock == "engine" else f",stamps={clock}"


def _require_stamps(scenario: Scenario, port: Port, is_ring: bool = False) -> None:
    """Raises InputError where nobody but the engine says when the frames of a port arrive, and another should."""
    clock, end = scenario.engine.latency_clock, scenario.link(port).far
    if clock == "engine":
        return
    told = f"{scenario.path}: engine.latency_clock = {clock!r}"
    if is_ring or end.nic or scenario.engine.backend not in ("auto", "af_packet"):
        message = f"{told} needs packet sockets, which do not reach port {port.name}"
        raise InputError(message, 'engine.latency_clock = "engine", or a dut whose ports are interfaces')
    if clock == "nic" and not end.interface:
        raise InputError(f"{told}: port {port.name} is no NIC", 'port.engine_interface names one; or "kernel"')


def _unreached(scenario: Scenario, ends: str) -> InputError:
    told = f"{scenario.path}: engine.backend = {scenario.engine.backend!r} does not reach {ends}"
    return InputError(told, 'engine.backend = "auto"')


def by_dpdk(scenario: Scenario, places: Places, number: int, port: Port) -> Attachment:
    """A NIC, or a vhost-user server: the device connects to it, and its restart needs nothing of the engine.

    Raises InputError.
    """
    end = scenario.link(port).far
    if end.interface:
        return by_veth(scenario, places, port, "af_packet")
    _require_stamps(scenario, port, is_ring=True)
    if scenario.engine.backend != "auto":
        raise _unreached(scenario, f"ports of {scenario.dut.kind} {scenario.dut.io}")
    if end.nic:
        return Attachment("dpdk", end.nic)
    socket = places.vhost_socket(port.name)
    device = f"net_virtio_user{number},path={socket},server=1,queues={port.queues},queue_size={port.ring}"
    return Attachment("dpdk", device + (",packed_vq=1" if port.ring_layout == PACKED else ""))


def pci_arguments(addresses: Iterable[str | None]) -> tuple[str, ...]:
    """Of DPDK's EAL: it takes the NICs that are named, and no other."""
    return tuple(word for address in addresses if address for word in ("-a", address)) or ("--no-pci",)


def engine_process(
    places: Places, name: str, argv: Sequence[str], pairs: Sequence[tuple[str, str]], cpu: int, *, awaited: bool
) -> Relay:
    """`pinchpoint-engine` in the device's place, or beside it: what each port of a pair receives is for the other."""
    directions = tuple(way for first, second in pairs for way in ((first, second), (second, first)))
    account, log = (f"{places.directory}/{name}.{ending}" for ending in ("account", "log"))
    files = places.pidfile(name), account, log
    return Relay(name, tuple(argv), directions, *files, places.bench_id, cpu, awaited=awaited)


def at_vhost_sockets(scenario: Scenario, places: Places, ports: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """The ports of an `engine_process` that connects to the engine's sockets, and its options."""
    ring = max(port.ring for port in scenario.ports)
    opened = [f"dpdk:net_vhost{n},iface={places.vhost_socket(name)},queues=1,client=1" for n, name in enumerate(ports)]
    return opened, _options(scenario.dut.cpus[0], "spin", ring, len(ports), Relay.LINK_TIMEOUT_S)


def host_relay(places: Places, engine: Sequence[str], hosts: Sequence[str], cpu: int) -> Relay:
    """The way of hosts to a switch that the kernel does not know: from their veth links to vhost-user ports.

    One process on `cpu` joins each host's interface in the device's namespace to the switch's port of the same name.
    It is the server of the port's socket, as a guest would be, and comes after the switch's ports, which connect to it.
    `engine` is the command that starts the engine. It yields when idle: clients or servers may share the core.
    """
    ends: list[str] = []
    for number, host in enumerate(hosts):
        socket = f"path={places.vhost_socket(host)},server=1,queues=1,queue_size={_HOST_RING}"
        ends += [f"af_packet:{host}@{places.dut_netns}", f"dpdk:net_virtio_user{number},{socket}"]
    options = _options(cpu, "yield", _HOST_RING, len(hosts), len(hosts) * Relay.LINK_TIMEOUT_S)
    pairs = [(host, f"{host} at the switch") for host in hosts]
    return engine_process(places, "relay", (*engine, "relay", *ends, *options), pairs, cpu, awaited=True)


def at_veths(scenario: Scenario, places: Places, ports: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """The ports of an `engine_process` that reads the device's ends of veth pairs, and its options."""
    ring = max(port.ring for port in scenario.ports)
    opened = [f"af_packet:{name}@{places.dut_netns}" for name in ports]
    return opened, _options(scenario.dut.cpus[0], "spin", ring, len(ports), Relay.LINK_TIMEOUT_S)


def _options(cpu: int, idle: str, ring: int, links: int, timeout_s: float) -> tuple[str, ...]:
    """Options of an `engine_process`, whichever ports it opens."""
    eal = f"--no-pci --in-memory --single-file-segments -m {relay_memory_mb(links)}"
    rings = ("--rx-ring", str(ring), "--tx-ring", str(ring), "--link-timeout", f"{timeout_s:g}s")
    return ("--core", str(cpu), "--idle", idle, "--json", "--eal", eal, *rings)


def relay_memory_mb(links: int) -> int:
    """Hugepage memory in MB that one relay with this many links takes."""
    return _RELAY_MB + (links - 1) * _LINK_MB


def plain_frames(interface: str, netns: str) -> Command:
    """Have the kernel send whole frames with whole checksums there: nobody behind a relay finishes them."""
    offloads = [word for name in ("tx", "tso", "gso", "gro") for word in (name, "off")]
    return Command(("ethtool", "-K", interface, *offloads), netns=netns)


def vhost_pages(scenario: Scenario) -> int:
    """2 MiB pages of an `engine_process` at vhost sockets and of the engine."""
    return pages_of(scenario.engine.memory_mb + relay_memory_mb(len(scenario.ports)))


Drops = Mapping[str, tuple[str, DropKind]]
"""By the name of a port's counter: the reason, and what was short."""


def port_graph(
    device: str, works: str, counters: str, missed: Drops, unsent: Drops, unsent_by: Party = Party.DUT
) -> HopGraph:
    """Of a program whose ports count what came, what left and what was dropped, as DPDK's do; it receives, `works`, and
    sends.

    `counters`: how their names begin, before the port's; `missed` on the way in, `unsent` on the way out.
    """
    port = f"{counters}{PORT}/"
    lost, rest = (
        tuple(DropCounter(port + name, reason, party, kind) for name, (reason, kind) in drops.items())
        for drops, party in ((missed, Party.DUT), (unsent, unsent_by))
    )
    came, left = (f"{port}ipackets",), (f"{port}opackets",)
    sent = (*left, *(drop.counter for drop in rest))
    places = (
        Place(f"{device} receives", (*came, *(drop.counter for drop in lost)), came, lost),
        Place(f"{device} {works}", came, sent),
        Place(f"{device} sends", sent, left, rest),
    )
    return HopGraph(Refused("receive ring of {port} full", Party.DUT), places, (counters,))
