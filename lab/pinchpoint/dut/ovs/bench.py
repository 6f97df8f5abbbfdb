"""The resources of a private switch's bench."""

from collections.abc import Sequence

from pinchpoint.bench.resource import (
    AnyResource,
    Daemon,
    Namespace,
    Uptime,
)
from pinchpoint.dut import nics, remote_endpoints
from pinchpoint.dut.attach import foundation, pages_of, veths
from pinchpoint.dut.device import Pages
from pinchpoint.dut.ovs import balancing, vdpa
from pinchpoint.dut.ovs.daemons import (
    SWITCH,
    command,
    database,
    limits,
    settings,
    vsctl,
    vswitchd,
)
from pinchpoint.dut.ovs.extra_ports import extra_ports
from pinchpoint.dut.ovs.places import OvsPlaces
from pinchpoint.dut.ovs.ports import bridges, switch_ports
from pinchpoint.dut.ovs.relayed import memory_mb, relays
from pinchpoint.dut.ovs.rules import rules
from pinchpoint.dut.ovs.spec import IN_KERNEL, Datapath, spec
from pinchpoint.dut.ovs.tunnels import underlay_routes
from pinchpoint.model.scenario import Scenario

_OLD_ENOUGH_S = 11  # before a kernel has run for ten seconds ovs-vswitchd 3.1 counts no CPU, and takes no upcalls


def hugepages_needed(scenario: Scenario) -> int:
    """2 MiB pages that the switch, the engine and the relay take together; 0 without DPDK."""
    if spec(scenario).datapath is not Datapath.DPDK:
        return 0
    engine_mb = scenario.engine.memory_mb if any(map(scenario.is_beside, scenario.ports)) else 0
    return pages_of(spec(scenario).memory_mb + engine_mb + memory_mb(scenario))


def bench(
    scenario: Scenario, places: OvsPlaces, pages: Pages, engine: Sequence[str] = ("pinchpoint-engine",)
) -> list[AnyResource]:
    """Everything to build for `scenario`, in order of dependency; `engine` is the command that starts one."""
    resources = [*foundation(places, pages, hugepages_needed(scenario)), Namespace(places.dut_netns)]
    resources += nics.resources(places.machine, nics.beside_device(scenario), places.bench_id, places.dut_netns)
    resources += _links(scenario, places)
    resources += database(scenario, places)
    resources += settings(scenario, places)
    if scenario.guest:
        resources.append(Uptime(_OLD_ENOUGH_S))
    resources.append(vswitchd(scenario, places))
    resources += vdpa.known(scenario, places)
    ports = switch_ports(scenario, places)
    resources.append(command(places, "ovs-vsctl", *vsctl(places), *bridges(scenario, ports)))
    resources += underlay_routes(scenario, places)
    resources += limits(scenario, places)
    resources += extra_ports(scenario, places)
    resources += [*rules(scenario, places, ports), *balancing.resources(scenario, places, ports)]
    return [*resources, *relays(scenario, places, engine)]


def ends_with_the_switch(scenario: Scenario, places: OvsPlaces, resources: Sequence[AnyResource]) -> list[AnyResource]:
    """Those of `resources` (the bench's) that must be made again once the switch has ended.

    What its database holds comes back by itself: bridges, ports, settings.
    """
    lasting = [
        command(places, "ovs-vsctl", *vsctl(places), *bridges(scenario, switch_ports(scenario, places))),
        *extra_ports(scenario, places),
    ]
    switch = next(n for n, resource in enumerate(resources) if isinstance(resource, Daemon) and resource.name == SWITCH)
    return [resource for resource in resources[switch:] if resource not in lasting]


def _links(scenario: Scenario, places: OvsPlaces) -> list[AnyResource]:
    """What the switch's kernel ports are the ends of."""
    links = [] if spec(scenario).datapath is Datapath.DPDK else veths(scenario, places)
    # A userspace switch hands on what it read: a checksum left to a device that is not there stays wrong.
    offloads = spec(scenario).datapath in IN_KERNEL
    return [*links, *remote_endpoints.links(scenario, places, offloads)]
