"""The resources of a private switch's bench."""

from collections.abc import Sequence

from pinchpoint.bench.relay import RelayLink, plain_frames, relay, relay_memory_mb
from pinchpoint.bench.resource import AnyResource, Daemon, Namespace, Uptime
from pinchpoint.dut import nics, remote_endpoints
from pinchpoint.dut.attach import foundation, pages_of, veths
from pinchpoint.dut.device import Pages
from pinchpoint.dut.ovs import balancing, vdpa
from pinchpoint.dut.ovs.daemons import SWITCH, database, limits, settings, vswitchd
from pinchpoint.dut.ovs.places import OvsPlaces
from pinchpoint.dut.ovs.ports import bridges, extra_ports, underlay_routes
from pinchpoint.dut.ovs.rules import rules
from pinchpoint.dut.ovs.spec import IN_KERNEL, Datapath, spec
from pinchpoint.model.scenario import Host, Scenario

_OLD_ENOUGH_S = 11  # before a kernel has run for ten seconds ovs-vswitchd 3.1 counts no CPU, and takes no upcalls


def hugepages_needed(scenario: Scenario) -> int:
    """2 MiB pages that the switch, the engine and the relay take together; 0 without DPDK."""
    if spec(scenario).datapath is not Datapath.DPDK:
        return 0
    engine_mb = scenario.engine.memory_mb if any(map(scenario.is_beside, scenario.ports)) else 0
    relay_mb = relay_memory_mb(len(scenario.hosts)) if scenario.hosts else 0
    return pages_of(spec(scenario).memory_mb + engine_mb + relay_mb)


def bench(
    scenario: Scenario, places: OvsPlaces, pages: Pages, engine: Sequence[str] = ("pinchpoint-engine",)
) -> list[AnyResource]:
    """Everything to build for `scenario`, in order of dependency; `engine` is the command that starts one."""
    return [
        *foundation(places, pages, hugepages_needed(scenario)),
        Namespace(places.dut_netns),
        *nics.resources(places.machine, nics.beside_device(scenario), places.bench_id, places.dut_netns),
        *_links(scenario, places),
        *database(scenario, places),
        *settings(scenario, places),
        *([Uptime(_OLD_ENOUGH_S)] if scenario.guest else []),
        vswitchd(scenario, places),
        *vdpa.known(scenario, places),
        bridges(scenario, places),
        *underlay_routes(scenario, places),
        *limits(scenario, places),
        *extra_ports(scenario, places),
        *rules(scenario, places),
        *balancing.resources(scenario, places),
        *_relays(scenario, places, engine),
    ]


def ends_with_the_switch(scenario: Scenario, places: OvsPlaces, resources: Sequence[AnyResource]) -> list[AnyResource]:
    """Those of `resources` (the bench's) that must be made again once the switch has ended.

    What its database holds comes back by itself: bridges, ports, settings.
    """
    lasting = [bridges(scenario, places), *extra_ports(scenario, places)]
    switch = next(n for n, resource in enumerate(resources) if isinstance(resource, Daemon) and resource.name == SWITCH)
    return [resource for resource in resources[switch:] if resource not in lasting]


def _links(scenario: Scenario, places: OvsPlaces) -> list[AnyResource]:
    """What the switch's kernel ports are the ends of."""
    links = [] if spec(scenario).datapath is Datapath.DPDK else veths(scenario, places)
    # A userspace switch hands on what it read: a checksum left to a device that is not there stays wrong.
    offloads = spec(scenario).datapath in IN_KERNEL
    return [*links, *remote_endpoints.links(scenario, places, offloads)]


def relayed_hosts(scenario: Scenario) -> tuple[Host, ...]:
    """Those that reach the switch by way of the relay: all of a DPDK switch, none of another."""
    return scenario.hosts if spec(scenario).datapath is Datapath.DPDK else ()


def _relays(scenario: Scenario, places: OvsPlaces, engine: Sequence[str]) -> list[AnyResource]:
    """The relay that joins hosts' links to vhost-user ports, one process on the engine's first CPU.

    It comes after the switch's ports, which connect to it.
    """
    hosts = relayed_hosts(scenario)
    if not hosts:
        return []
    links = [RelayLink(h.name, h.name, places.dut_netns, h.name, places.vhost_socket(h.name)) for h in hosts]
    cpu, where = scenario.engine.cpus[0], places.directory
    process = relay("relay", links, engine=engine, directory=where, bench_id=places.bench_id, cpu=cpu)
    return [*(plain_frames(host.name, places.dut_netns) for host in hosts), process]
