"""What a scenario needs on this machine, as data: the bench, the engine's request, the collectors."""

import secrets
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pinchpoint.bench.journal import STATE_DIRECTORY
from pinchpoint.bench.requirements import HUGEPAGES
from pinchpoint.bench.resource import AnyResource
from pinchpoint.bulk import needs
from pinchpoint.dut import ovs
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


def prepare(scenario: Scenario, state_directory: Path = STATE_DIRECTORY) -> Setup:
    """Decide names and places; reads the hugepage pool, changes nothing."""
    bench_id = secrets.token_hex(3)
    places = ovs.OvsPlaces(bench_id, PurePosixPath(state_directory / bench_id))
    total, free = hugepage_pool()
    resources = (*ovs.bench(scenario, places, total, free), *needs.resources(scenario.build, places))
    return Setup(scenario, places, resources, engine_request(scenario, places))


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
    names = [port.name for port in scenario.ports]
    numbers = {str(number): name for number, name in enumerate(names, start=1)}
    found: list[Collector] = [
        Coverage(control),
        Conntrack(control),
        DatapathFlows(control),
        ReceiveQueues(control),
    ]
    if scenario.dut.datapath is Datapath.AF_PACKET:
        found += [
            Links(places.engine_netns, "engine", names),
            Links(places.dut_netns, "dut", names),
            PacketSockets(places.dut_netns, names),
        ]
    found += [
        Ports(places.management, numbers, dict(places.environment)),
        CpuSteal((*scenario.engine.cpus, *scenario.dut.pmd_cpus)),
        PacketThreads(places.pidfile("vswitchd")),
        PmdThreads(control),
    ]
    return found
