"""What of a bench is on other machines: a device, and what it then needs and cannot do; engines with their NICs, cables
and memory; the ends of a socket workload, `[[host]]`, with their cables and namespaces.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from pinchpoint.bench.requirements import Probe
from pinchpoint.bench.requirements import hugepages as enough
from pinchpoint.bench.resource import AnyResource, Command, Hugepages, MarkedProcesses, Namespace
from pinchpoint.bench.resource import Host as VethHost
from pinchpoint.dut import nics
from pinchpoint.dut.attach import STANDARD_MTU, lent, mtu, pages_of
from pinchpoint.dut.device import Device, Freezing
from pinchpoint.dut.places import Places
from pinchpoint.engine.process import find_engine
from pinchpoint.host import hugepages
from pinchpoint.host.interface import CommandFailed
from pinchpoint.host.interface import Host as Machine
from pinchpoint.model.hops import DropKind, HopGraph, Party, Refused
from pinchpoint.model.scenario import EngineSite, Host, Port, Scenario

_FULL = Refused("transmit queue of the cable at {port} full", Party.ENGINE, DropKind.TRANSMIT_RING)
_MISSING = "apt-get install dpdk"  # the engine's only libraries that a system may lack
_NOT_RUN = "a file system there that is not mounted noexec; an engine for the host's architecture"
_MERGING = ("gro", "lro")  # of ethtool(8), -K


def resources(scenario: Scenario, site: EngineSite, places: Places) -> Iterator[AnyResource]:
    """What an engine, or an end of the workload, takes of its own machine, in order of dependency.

    Raises RequirementError where an interface or a NIC cannot be taken.
    """
    host = places.at(site)
    yield MarkedProcesses(places.bench_id)
    if needed := _pages(scenario, site):
        total, free = hugepages.pool(host)
        if needed > free:
            yield Hugepages(before=total, after=total + needed - free, needed=needed)
    yield from nics.resources(host, nics.of_engine(scenario, site), places.bench_id)
    interfaces = [(port.engine_interface, port.name) for port in _ports(scenario, site) if port.engine_interface]
    if interfaces:
        yield Namespace(places.engine_netns)
    yield from (lent(interface, places.engine_netns, name, mtu(scenario), host) for interface, name in interfaces)
    for end in scenario.hosts:
        if end.name in site.ends:
            yield from _end_resources(end, places, host)


def needs(scenario: Scenario, site: EngineSite, host: Machine) -> Iterator[Probe]:
    """Hugepages and NICs of its machine."""
    if pages := _pages(scenario, site):
        yield enough(host, pages, "set engine.memory_mb to less")
        yield from nics.needs(host, nics.of_engine(scenario, site))


def _ports(scenario: Scenario, site: EngineSite) -> list[Port]:
    return [port for port in scenario.ports if port.name in site.ports]


def _pages(scenario: Scenario, site: EngineSite) -> int:
    """2 MiB pages of an engine that drives NICs; 0 without one."""
    return pages_of(scenario.engine.memory_mb) if any(port.engine_pci for port in _ports(scenario, site)) else 0


def site_of(scenario: Scenario, host: Host) -> EngineSite | None:
    """The machine of an end; None: the device's, as that of all ends is."""
    return next((site for site in scenario.engines if host.name in site.ends), None)


def machine_of(scenario: Scenario, host: Host, places: Places) -> Machine:
    """The machine on which an end's workload runs: that which it is, that of its site, or the bench's."""
    return places.vms[host.name] if host.vm else places.at(site_of(scenario, host))


def is_here(scenario: Scenario, host: Host) -> bool:
    """Whether an end is on the device's machine."""
    site = site_of(scenario, host)
    return site is None or site.remote == scenario.remote


def links(scenario: Scenario, places: Places, offloads: bool) -> Iterator[AnyResource]:
    """What joins the ends to the device, as far as it is on the device's machine.

    Without `offloads`, as for a switch in userspace, the checksums of what a veth pair carries are complete, and a
    cable's interface does not merge what it receives: such a switch drops what is longer than its MTU.
    Raises RequirementError where an interface cannot be lent.
    """
    for host in scenario.hosts:
        if host.vm:
            continue  # `vm_ends` makes it
        if not host.interface:
            netns = places.host_netns(host.name)
            yield VethHost(netns, host.address, host.name, places.dut_netns, STANDARD_MTU, offloads)
            continue
        cable = lent(host.interface, places.dut_netns, host.name, STANDARD_MTU, places.machine)
        yield cable
        if merging := [name for name, state in cable.offloads if name in _MERGING and state == "on" and not offloads]:
            off = (word for name in merging for word in (name, "off"))
            yield Command(("ethtool", "-K", host.name, *off), places.dut_netns)
        if is_here(scenario, host):
            yield from _end_resources(host, places, places.machine)


def _end_resources(host: Host, places: Places, machine: Machine) -> Iterator[AnyResource]:
    """The namespace of an end at a cable, with its interface and address, on its machine.

    Raises RequirementError where the interface cannot be lent.
    """
    netns, name = places.host_netns(host.name), VethHost.INTERFACE
    yield Namespace(netns)
    yield lent(host.end_interface or "", netns, name, STANDARD_MTU, machine)
    yield Command(("ip", "address", "add", host.address, "dev", name), netns)


def on_host(device: Device, scenario: Scenario) -> Device:
    """The device as it is on the scenario's hosts and cables."""
    plain = scenario.remote is None and not scenario.is_cabled
    return device if plain else cast(Device, _HostedDevice(device))


class _HostedDevice:
    """A kind of device on another machine, or at cables; what is not said here is as the kind says it."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def needs(self, scenario: Scenario, host: Machine) -> Iterator[Probe]:
        """The engine's libraries, and what the device needs."""
        if scenario.remote and not scenario.engines:
            yield engine(host)
        yield from self._device.needs(scenario, host)

    def freezing(self, scenario: Scenario) -> Freezing:
        """As the kind says, but at cables, which two benches cannot share."""
        if scenario.is_cabled:
            return Freezing(why_not="both benches would need the interfaces at the cables")
        return self._device.freezing(scenario)

    def graph(self, scenario: Scenario) -> HopGraph:
        """As the kind says; what an interface at a cable refuses, it has no room for itself."""
        graph = self._device.graph(scenario)
        return replace(graph, refused=_FULL) if scenario.is_cabled else graph


def engine(host: Machine) -> Probe:
    """Whether the engine's file runs on the host."""
    program = find_engine(host)
    try:
        detail = host.run([program, "--version"]).strip()
    except CommandFailed as error:
        return Probe("pinchpoint-engine", False, error.output, _MISSING)
    except OSError as error:
        return Probe("pinchpoint-engine", False, f"{program}: {error.strerror}", _NOT_RUN)
    return Probe("pinchpoint-engine", True, f"{program}: {detail}")
