"""What an engine takes of its own host, where that is not the device's."""

from collections.abc import Iterator

from pinchpoint.bench.requirements import Probe
from pinchpoint.bench.requirements import hugepages as enough
from pinchpoint.bench.resource import AnyResource, Hugepages, MarkedProcesses, Namespace
from pinchpoint.dut import nics
from pinchpoint.dut.attach import pages_of
from pinchpoint.dut.multi_host import lent
from pinchpoint.dut.places import Places
from pinchpoint.host import hugepages
from pinchpoint.host.interface import Host
from pinchpoint.model.scenario import EngineSite, Port, Scenario


def resources(scenario: Scenario, site: EngineSite, places: Places, mtu: int) -> Iterator[AnyResource]:
    """Of the bench, in order of dependency.

    Raises RequirementError where an interface or a NIC cannot be taken.
    """
    host = places.at(site)
    yield MarkedProcesses(places.bench_id)
    needed = _pages(scenario, site)
    total, free = hugepages.pool(host)
    if needed > free:
        yield Hugepages(before=total, after=total + needed - free, needed=needed)
    yield from nics.resources(host, nics.of_engine(scenario, site), places.bench_id)
    interfaces = [port for port in _ports(scenario, site) if port.engine_interface]
    if interfaces:
        yield Namespace(places.engine_netns)
    for port in interfaces:
        yield lent(port.engine_interface or "", places.engine_netns, port.name, mtu, host)


def needs(scenario: Scenario, site: EngineSite, host: Host) -> Iterator[Probe]:
    """Hugepages and NICs of its host."""
    if pages := _pages(scenario, site):
        yield enough(host, pages, "set engine.memory_mb to less")
        yield from nics.needs(host, nics.of_engine(scenario, site))


def _ports(scenario: Scenario, site: EngineSite) -> list[Port]:
    return [port for port in scenario.ports if port.name in site.ports]


def _pages(scenario: Scenario, site: EngineSite) -> int:
    """2 MiB pages of an engine that drives NICs; 0 without one."""
    return pages_of(scenario.engine.memory_mb) if any(port.engine_pci for port in _ports(scenario, site)) else 0
