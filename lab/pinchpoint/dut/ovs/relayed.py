"""Hosts of a switch that the kernel does not know: a relay joins their links to its vhost-user ports."""

from collections.abc import Sequence

from pinchpoint.bench.relay import RelayLink, plain_frames, relay, relay_memory_mb
from pinchpoint.bench.resource import AnyResource
from pinchpoint.dut.ovs.places import OvsPlaces
from pinchpoint.dut.ovs.spec import Datapath, spec
from pinchpoint.model.scenario import Host, Scenario

RING = 1024  # frames of each vhost-user ring


def relayed_hosts(scenario: Scenario) -> tuple[Host, ...]:
    """Those that reach the switch by way of the relay: all of a DPDK switch, none of another."""
    return scenario.hosts if spec(scenario).datapath is Datapath.DPDK else ()


def memory_mb(scenario: Scenario) -> int:
    """Hugepage memory of the relay, MiB; 0 if there is none."""
    hosts = relayed_hosts(scenario)
    return relay_memory_mb(len(hosts)) if hosts else 0


def relays(scenario: Scenario, places: OvsPlaces, engine: Sequence[str]) -> list[AnyResource]:
    """The relay of all hosts, one process on the engine's first CPU; after the switch's ports, which connect to it."""
    hosts = relayed_hosts(scenario)
    if not hosts:
        return []
    links = [RelayLink(h.name, h.name, places.dut_netns, h.name, places.vhost_socket(h.name)) for h in hosts]
    process = relay(
        "relay",
        links,
        engine=engine,
        directory=places.directory,
        bench_id=places.bench_id,
        cpu=scenario.engine.cpus[0],
        ring=RING,
    )
    return [*(plain_frames(host.name, places.dut_netns) for host in hosts), process]
