"""What a scenario needs on this machine, as data: the bench, the engine's request, the collectors."""

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import msgspec

from pinchpoint.bench import hugepages, numa
from pinchpoint.bench.hugepages import pool as hugepage_pool
from pinchpoint.bench.journal import STATE_DIRECTORY
from pinchpoint.bench.requirements import queues
from pinchpoint.bench.resource import AnyResource, Daemon, Hugepages, Relay
from pinchpoint.bulk import needs
from pinchpoint.dut.ovs import bench as ovs
from pinchpoint.dut.ovs.bench import hugepages_needed
from pinchpoint.dut.ovs.collectors import Conntrack, Coverage, DatapathFlows, FlowDump, PmdThreads, Ports, ReceiveQueues
from pinchpoint.dut.ovs.daemons import pci_arguments
from pinchpoint.dut.ovs.ports import switch_ports
from pinchpoint.dut.ovs.relayed import relayed_hosts
from pinchpoint.dut.ovs.unixctl import Unixctl
from pinchpoint.engine import protocol
from pinchpoint.engine.process import find_engine
from pinchpoint.model.errors import InputError, RequirementError
from pinchpoint.model.scenario import Datapath, Port, Scenario
from pinchpoint.observe.host import CpuSteal, PacketThreads
from pinchpoint.observe.relay import Relays
from pinchpoint.observe.snapshot import Collector
from pinchpoint.observe.sockets import Links, PacketSockets

LINK_TIMEOUT_S = 20.0  # the switch looks for a vhost server about once a second


@dataclass(frozen=True)
class Setup:
    """Everything decided before the first action."""

    scenario: Scenario
    places: ovs.OvsPlaces
    resources: tuple[AnyResource, ...]
    engine: protocol.Open
    facts: Mapping[str, str] = field(default_factory=dict)  # what was decided and the plan does not show


def prepare(
    scenario: Scenario, state_directory: Path = STATE_DIRECTORY, beside: Setup | None = None, stands: bool = False
) -> Setup:
    """Decide names and places; reads the hugepage pool and the NUMA nodes, changes nothing.

    `beside` is a bench that will stand at the same time and is built first: its hugepages are not free any more.
    With `stands` it stands already, and only what its engine will take seems to be free.
    Raises RequirementError if the machine cannot place the scenario's ends as its `numa` wants,
    or a port has more queues than the engine CPUs.
    """
    bench_id = secrets.token_hex(3)
    places = ovs.OvsPlaces(bench_id, PurePosixPath(state_directory / bench_id))
    total, free = hugepage_pool() if beside is None else _left_by(beside, stands)
    topology = numa.read_topology()
    scenario, facts = numa.placed(scenario, topology)
    scenario = numa.with_socket_mem(scenario, topology)
    nodes = numa.daemon_nodes(scenario, topology)
    engine = [find_engine()] if relayed_hosts(scenario) else []
    wanted = (*ovs.bench(scenario, places, total, free, engine), *needs.resources(scenario.build, places))
    resources = tuple(_on_nodes(one, nodes) for one in wanted)
    return Setup(scenario, places, resources, engine_request(scenario, places), facts)


def _left_by(bench: Setup, stands: bool) -> tuple[int, int]:
    """The pool as it will be once `bench`, and an engine with its ports, has all its pages: (pages, free ones)."""
    total, free = hugepage_pool()
    if stands:
        return total, max(0, free - _engine_pages(bench.scenario))
    added = sum(one.after - one.before for one in bench.resources if isinstance(one, Hugepages))
    return total + added, max(0, free + added - hugepages_needed(bench.scenario))


def _on_nodes(resource: AnyResource, nodes: tuple[int, ...] | None) -> AnyResource:
    return msgspec.structs.replace(resource, memory_nodes=nodes) if isinstance(resource, Daemon) else resource


def engine_request(scenario: Scenario, places: ovs.OvsPlaces) -> protocol.Open:
    """The ports the engine opens: the other ends of the DUT's."""
    return joint_request({"": (scenario, places)})


def joint_request(benches: Mapping[str, tuple[Scenario, ovs.OvsPlaces]]) -> protocol.Open:
    """The ports of several benches, opened by one engine; a port's name begins with its bench's (the key)."""
    scenarios = [scenario for scenario, _ in benches.values()]
    with_dpdk = [one for one in scenarios if one.dut.datapath is Datapath.DPDK]
    addresses = (port.engine_pci for one in with_dpdk for port in one.ports)
    memory_mb = sum(one.engine.memory_mb for one in with_dpdk)
    eal = ("--in-memory", "--single-file-segments", "-m", str(memory_mb))
    driven: dict[int, list[str]] = {}
    ports: list[protocol.PortRequest] = []
    for prefix, (scenario, places) in benches.items():
        for worker in _workers(scenario):
            driven.setdefault(worker.core, []).extend(prefix + name for name in worker.ports)
        for port in scenario.ports:
            ports.append(_port(len(ports), port, scenario, places, prefix))
    return protocol.Open(
        workers=tuple(protocol.WorkerRequest(core, tuple(names)) for core, names in driven.items()),
        eal_args=(*pci_arguments(addresses), *eal) if with_dpdk else (),
        ports=tuple(ports),
        link_timeout_s=LINK_TIMEOUT_S,
    )


def backend(scenario: Scenario) -> protocol.BackendName:
    """How the engine drives its ports: as the scenario says, or as is fastest towards this datapath."""
    match scenario.engine.backend, scenario.dut.datapath:
        case "auto", Datapath.DPDK:
            return "dpdk"
        case "auto", Datapath.AF_XDP:
            return "af_xdp"
        case "auto", _:
            return "af_packet"
        case "af_packet" | "af_xdp" | "xdp_live" as asked, Datapath.AF_XDP | Datapath.AF_PACKET | Datapath.KERNEL:
            return asked
        case asked, datapath:
            raise InputError(
                f"{scenario.path}: engine.backend = {asked!r} does not reach ports of datapath {datapath}",
                'engine.backend = "auto"',
            )


def _workers(scenario: Scenario) -> tuple[protocol.WorkerRequest, ...]:
    """Ports dealt round robin: queue q of port k belongs to CPU (k + q) mod n of the engine's."""
    if lacking := next(queues(scenario), None):
        raise RequirementError(f"{scenario.path}: {lacking.detail}", lacking.hint)
    cpus = scenario.engine.cpus
    driven: dict[int, list[str]] = {cpu: [] for cpu in cpus}
    for place, port in enumerate(scenario.ports):
        for queue in range(port.queues):
            driven[cpus[(place + queue) % len(cpus)]].append(port.name)
    return tuple(protocol.WorkerRequest(cpu, tuple(names)) for cpu, names in driven.items() if names)


def _port(number: int, port: Port, scenario: Scenario, places: ovs.OvsPlaces, prefix: str) -> protocol.PortRequest:
    kind = backend(scenario)
    return protocol.PortRequest(
        name=prefix + port.name,
        backend=kind,
        device=_dpdk_device(number, port, places) if kind == "dpdk" else port.name,
        netns=None if kind == "dpdk" else places.engine_netns,
        rx_ring=port.ring,
        tx_ring=port.ring,
        answers=(),
    )


def _dpdk_device(number: int, port: Port, places: ovs.OvsPlaces) -> str:
    """A NIC, or a vhost-user server: the switch looks for it, and its restart needs nothing of the engine."""
    if port.engine_pci:
        return port.engine_pci
    socket = places.vhost_socket(port.name)
    return f"net_virtio_user{number},path={socket},server=1,queues={port.queues},queue_size={port.ring}"


def await_engine_pages(*scenarios: Scenario) -> None:
    """Return once the hugepages are free that one engine takes for all of these benches.

    Raises RequirementError naming who holds them.
    """
    if pages := sum(_engine_pages(one) for one in scenarios):
        hugepages.wait_for(pages, "the engine")


def _engine_pages(scenario: Scenario) -> int:
    """2 MiB pages that an engine takes for the scenario's ports."""
    return -(-scenario.engine.memory_mb // ovs.HUGEPAGE_MB) if scenario.dut.datapath is Datapath.DPDK else 0


def collectors(setup: Setup, control: Unixctl) -> list[Collector]:
    """All that can be counted on this bench; the last one is nearest to the traffic."""
    scenario, places = setup.scenario, setup.places
    names = _ends(scenario)
    found: list[Collector] = [
        Coverage(control),
        Conntrack(control),
        FlowDump(control),
        DatapathFlows(control),
        ReceiveQueues(control),
    ]
    if scenario.dut.datapath is not Datapath.DPDK:
        if scenario.ports:
            found.append(Links(places.engine_netns, "engine", [port.name for port in scenario.ports]))
        found.append(Links(places.dut_netns, "dut", names))
    if scenario.dut.datapath is Datapath.AF_PACKET:
        found.append(PacketSockets(places.dut_netns, names))
    found += _port_counters(setup)
    if relays := [resource for resource in setup.resources if isinstance(resource, Relay)]:
        found.append(Relays(relays))
    return [*found, *witnesses(setup, control)]


def witnesses(setup: Setup, control: Unixctl) -> list[Collector]:
    """Readers of what the host and the packet threads did, cheap enough to run while frames are sent."""
    scenario, places = setup.scenario, setup.places
    return [
        CpuSteal(sorted({*scenario.engine.cpus, *scenario.dut.pmd_cpus, *host_cpus(scenario)})),
        PacketThreads(places.pidfile("vswitchd")),
        PmdThreads(control),
    ]


def _ends(scenario: Scenario) -> list[str]:
    """The ports at which traffic enters or leaves the switch."""
    return [*(port.name for port in scenario.ports), *(host.name for host in scenario.hosts)]


def _port_counters(setup: Setup) -> Iterator[Ports]:
    """Of the bridges at which traffic enters or leaves; patch ports add nothing that these do not show."""
    scenario, places = setup.scenario, setup.places
    ends = _ends(scenario)
    ports = switch_ports(scenario, places)
    for bridge in dict.fromkeys(port.bridge for port in ports if port.name in ends):
        numbers = {str(port.number): port.name for port in ports if port.bridge == bridge}
        yield Ports(bridge, places.management_of(bridge), numbers, dict(places.environment))


def host_cpus(scenario: Scenario) -> frozenset[int]:
    """Where the scenario's hosts run their workloads."""
    return frozenset(cpu for host in scenario.hosts for cpu in host.cpus)
