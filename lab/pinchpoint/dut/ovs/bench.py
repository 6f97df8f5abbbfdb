"""A private Open vSwitch: own database, daemons, sockets, namespace. What its bench consists of.

`places`   where everything of it is found
`daemons`  the database's server, the switch, their settings
`ports`    bridges and ports, with their OpenFlow numbers
`tunnels`  VXLAN between two bridges, and its underlay
`rules`    OpenFlow rules
`extra_ports`  ports that carry nothing
`relayed`  hosts of a switch whose ports the kernel does not know
"""

from collections.abc import Sequence

from pinchpoint.bench.resource import (
    AnyResource,
    Daemon,
    Host,
    Hugepages,
    MarkedProcesses,
    Namespace,
    RunDirectory,
    Veth,
)
from pinchpoint.dut.ovs.daemons import (
    SWITCH,
    VSWITCHD,
    command,
    database,
    limits,
    settings,
    switch_versions,
    vsctl,
    vswitchd,
)
from pinchpoint.dut.ovs.extra_ports import extra_ports
from pinchpoint.dut.ovs.places import BRIDGE, OvsPlaces
from pinchpoint.dut.ovs.ports import bridges, switch_ports
from pinchpoint.dut.ovs.relayed import memory_mb, relays
from pinchpoint.dut.ovs.rules import rules
from pinchpoint.dut.ovs.tunnels import underlay_routes
from pinchpoint.model.scenario import Datapath, Scenario

__all__ = ["BRIDGE", "VSWITCHD", "OvsPlaces", "bench", "ends_with_the_switch", "hugepages_needed", "switch_versions"]

HUGEPAGE_MB = 2
# What the two EALs allocate beyond the memory limit they are given: found by experiment.
DPDK_OVERHEAD_MB = 64
STANDARD_MTU = 1500
HEADERS = 18  # of Ethernet with its frame check sequence: a frame of 1518 bytes has an MTU of 1500


def hugepages_needed(scenario: Scenario) -> int:
    """2 MiB pages that the switch, the engine and the relay take together; 0 without DPDK."""
    if scenario.dut.datapath is not Datapath.DPDK:
        return 0
    engine_mb = scenario.engine.memory_mb if scenario.ports else 0
    return -(-(scenario.dut.memory_mb + engine_mb + memory_mb(scenario) + DPDK_OVERHEAD_MB) // HUGEPAGE_MB)


def bench(
    scenario: Scenario,
    places: OvsPlaces,
    hugepages_total: int,
    hugepages_free: int,
    engine: Sequence[str] = ("pinchpoint-engine",),
) -> list[AnyResource]:
    """Everything to build for `scenario`, in order of dependency; `engine` is the command that starts one."""
    needed = hugepages_needed(scenario)
    missing = max(0, needed - hugepages_free)
    resources: list[AnyResource] = [RunDirectory(str(places.directory)), MarkedProcesses(places.bench_id)]
    if missing:
        resources.append(Hugepages(before=hugepages_total, after=hugepages_total + missing, needed=needed))
    resources.append(Namespace(places.dut_netns))
    resources += _links(scenario, places)
    resources += database(scenario, places)
    resources += settings(scenario, places)
    resources.append(vswitchd(scenario, places))
    ports = switch_ports(scenario, places)
    resources.append(command(places, "ovs-vsctl", *vsctl(places), *bridges(scenario, ports)))
    resources += underlay_routes(scenario, places)
    resources += limits(scenario, places)
    resources += extra_ports(scenario, places)
    return [*resources, *rules(scenario, places, ports), *relays(scenario, places, engine)]


def ends_with_the_switch(scenario: Scenario, places: OvsPlaces, resources: Sequence[AnyResource]) -> list[AnyResource]:
    """Those of `resources` (the bench's) that must be made again once the switch has ended.

    What its database holds comes back by itself: bridges, ports, settings.
    """
    lasting = [
        command(places, "ovs-vsctl", *vsctl(places), *bridges(scenario, switch_ports(scenario, places))),
        *extra_ports(scenario, places),
    ]
    switch = next(n for n, one in enumerate(resources) if isinstance(one, Daemon) and one.name == SWITCH)
    return [one for one in resources[switch:] if one not in lasting]


def _links(scenario: Scenario, places: OvsPlaces) -> list[AnyResource]:
    """What the switch's kernel ports are the ends of."""
    mtu = max([STANDARD_MTU, *(stream.frame_bytes - HEADERS for stream in scenario.streams)])
    found: list[AnyResource] = []
    if scenario.ports and scenario.dut.datapath is not Datapath.DPDK:
        found.append(Namespace(places.engine_netns))
        found += [
            Veth(port.name, places.dut_netns, port.name, places.engine_netns, mtu, port.queues)
            for port in scenario.ports
        ]
    # A userspace switch hands on what it read: a checksum left to a device that is not there stays wrong.
    offloads = scenario.dut.datapath is Datapath.KERNEL
    found += [
        Host(
            netns=places.host_netns(host.name),
            address=host.address,
            peer=host.name,
            peer_netns=places.dut_netns,
            mtu=STANDARD_MTU,
            offloads=offloads,
        )
        for host in scenario.hosts
    ]
    return found
