"""What a scenario needs on this machine, as data: the bench, the engine's request, the collectors."""

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import msgspec

from pinchpoint.bench import numa
from pinchpoint.bench.journal import STATE_DIRECTORY
from pinchpoint.bench.requirements import HUGEPAGES
from pinchpoint.bench.resource import AnyResource, Daemon
from pinchpoint.dut import ovs
from pinchpoint.dut.ports import switch_ports
from pinchpoint.dut.unixctl import Unixctl
from pinchpoint.engine import protocol
from pinchpoint.model.scenario import Datapath, Port, Scenario
from pinchpoint.observe.host import CpuSteal, PacketThreads
from pinchpoint.observe.ovs import Conntrack, Coverage, DatapathFlows, PmdThreads, Ports, ReceiveQueues
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


def prepare(scenario: Scenario, state_directory: Path = STATE_DIRECTORY) -> Setup:
    """Decide names and places; reads the hugepage pool and the NUMA nodes, changes nothing.

    Raises RequirementError if the machine cannot place the scenario's ends as its `numa` wants.
    """
    bench_id = secrets.token_hex(3)
    places = ovs.OvsPlaces(bench_id, PurePosixPath(state_directory / bench_id))
    total, free = hugepage_pool()
    topology = numa.read_topology()
    scenario, facts = numa.placed(scenario, topology)
    nodes = numa.daemon_nodes(scenario, topology)
    resources = tuple(_on_nodes(one, nodes) for one in ovs.bench(scenario, places, total, free))
    return Setup(scenario, places, resources, engine_request(scenario, places), facts)


def _on_nodes(resource: AnyResource, nodes: tuple[int, ...] | None) -> AnyResource:
    return msgspec.structs.replace(resource, memory_nodes=nodes) if isinstance(resource, Daemon) else resource


def hugepage_pool() -> tuple[int, int]:
    """(pages of 2 MiB in the pool, free ones); (0, 0) on a kernel without them."""
    try:
        return tuple(int((HUGEPAGES / name).read_text()) for name in ("nr_hugepages", "free_hugepages"))  # type: ignore[return-value]
    except OSError:
        return 0, 0


def engine_request(scenario: Scenario, places: ovs.OvsPlaces) -> protocol.Open:
    """The ports the engine opens: the other ends of the DUT's."""
    dpdk = scenario.dut.datapath is Datapath.DPDK
    eal = ("--no-pci", "--in-memory", "--single-file-segments", "-m", str(scenario.engine.memory_mb))
    return protocol.Open(
        workers=_workers(scenario),
        eal_args=eal if dpdk else (),
        ports=tuple(_port(number, port, places, dpdk) for number, port in enumerate(scenario.ports)),
        link_timeout_s=LINK_TIMEOUT_S,
    )


def _workers(scenario: Scenario) -> tuple[protocol.WorkerRequest, ...]:
    """Ports dealt round robin: port k belongs to CPU k mod n of the engine's."""
    cpus = scenario.engine.cpus
    names = [port.name for port in scenario.ports]
    return tuple(protocol.WorkerRequest(cpu, tuple(names[place :: len(cpus)])) for place, cpu in enumerate(cpus))


def _port(number: int, port: Port, places: ovs.OvsPlaces, dpdk: bool) -> protocol.PortRequest:
    vhost = f"net_virtio_user{number},path={places.vhost_socket(port.name)},server=1,queues=1,queue_size={port.ring}"
    return protocol.PortRequest(
        name=port.name,
        backend="dpdk" if dpdk else "af_packet",
        device=vhost if dpdk else port.name,
        netns=None if dpdk else places.engine_netns,
        rx_ring=port.ring,
        tx_ring=port.ring,
        answers=(),
    )


def collectors(setup: Setup, control: Unixctl) -> list[Collector]:
    """All that can be counted on this bench; the last one is nearest to the traffic."""
    scenario, places = setup.scenario, setup.places
    names = _ends(scenario)
    found: list[Collector] = [
        Coverage(control),
        Conntrack(control),
        DatapathFlows(control),
        ReceiveQueues(control),
    ]
    if scenario.dut.datapath is Datapath.AF_PACKET:
        if scenario.ports:
            found.append(Links(places.engine_netns, "engine", [port.name for port in scenario.ports]))
        found += [Links(places.dut_netns, "dut", names), PacketSockets(places.dut_netns, names)]
    found += _port_counters(setup)
    found += [
        CpuSteal(sorted({*scenario.engine.cpus, *scenario.dut.pmd_cpus, *host_cpus(scenario)})),
        PacketThreads(places.pidfile("vswitchd")),
        PmdThreads(control),
    ]
    return found


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
