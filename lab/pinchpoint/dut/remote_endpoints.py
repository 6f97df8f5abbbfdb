"""What of a bench is on other machines or at cables: engines with their NICs, cables and memory; the ends of a socket
workload, `[[host]]`, with their cables and namespaces; what a device at cables counts otherwise.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from pinchpoint.bench.requirements import Probe, command
from pinchpoint.bench.requirements import hugepages as enough
from pinchpoint.bench.resource import AnyResource, Command, Hugepages, MarkedProcesses, Namespace
from pinchpoint.bench.resource import Host as VethHost
from pinchpoint.dut import nics
from pinchpoint.dut.attach import STANDARD_MTU, lent, lent_to_engine, mtu, pages_of
from pinchpoint.dut.device import Device
from pinchpoint.dut.places import Places
from pinchpoint.engine.process import LIBRARIES, find_engine
from pinchpoint.host import hugepages
from pinchpoint.host.interface import CommandFailed
from pinchpoint.host.interface import Host as Machine
from pinchpoint.model.hops import DropKind, HopGraph, Party, Refused
from pinchpoint.model.scenario import Host, Scenario
from pinchpoint.model.site import Site

_FULL = Refused("transmit queue of the cable at {port} full", Party.ENGINE, DropKind.TRANSMIT_RING)
_MISSING = f"apt-get install {' '.join(LIBRARIES)}"  # the engine's only libraries that a system may lack
_NOT_RUN = "a file system there that is not mounted noexec; an engine for the host's architecture"
_MERGING = ("gro", "lro")  # of ethtool(8), -K


def resources(scenario: Scenario, site: Site, places: Places) -> Iterator[AnyResource]:
    """What an engine, or an end of the workload, takes of its own machine, in order of dependency.

    Raises RequirementError where an interface or a NIC cannot be taken.
    """
    host = places.at(site)
    yield MarkedProcesses(places.bench_id)
    if needed := _pages(scenario, site):
        total, free = hugepages.pool(host)
        if needed > free:
            yield Hugepages(before=total, after=total + needed - free, needed=needed)
    yield from nics.resources(host, nics.at(scenario, site), places.bench_id)
    ends = [(scenario.link(port).far.interface, port.name) for port in scenario.ports_at(site)]
    interfaces = [(interface, name) for interface, name in ends if interface]
    if interfaces:
        yield Namespace(places.engine_netns)
    for interface, name in interfaces:
        yield lent_to_engine(scenario, interface, places.engine_netns, name, mtu(scenario), host)
    for end in scenario.ends_at(site):
        yield from _end_resources(scenario, end, places)


def needs(scenario: Scenario, site: Site, host: Machine) -> Iterator[Probe]:
    """What its machine must have: iproute2, hugepages and NICs."""
    yield command(host, "ip", "iproute2")
    if pages := _pages(scenario, site):
        yield enough(host, pages, "set engine.memory_mb to less")
        yield from nics.needs(host, nics.at(scenario, site))


def _pages(scenario: Scenario, site: Site) -> int:
    """2 MiB pages of an engine that drives NICs; 0 without one."""
    drives = any(scenario.link(port).far.nic for port in scenario.ports_at(site))
    return pages_of(scenario.engine.memory_mb) if drives else 0


def links(scenario: Scenario, places: Places, offloads: bool) -> Iterator[AnyResource]:
    """What joins the ends to the device, as far as it is on the device's machine.

    Without `offloads`, as for a switch in userspace, the checksums of what a veth pair carries are complete, and a
    cable's interface does not merge what it receives: such a switch drops what is longer than its MTU.
    Raises RequirementError where an interface cannot be lent.
    """
    for host in scenario.hosts:
        if host.vm:
            continue  # `vm_ends` makes it
        link = scenario.link(host)
        if (interface := link.device.interface) is None:
            netns = places.host_netns(host.name)
            yield VethHost(netns, host.address, host.name, places.dut_netns, STANDARD_MTU, offloads)
            continue
        cable = lent(interface, places.dut_netns, host.name, STANDARD_MTU, places.machine)
        yield cable
        if merging := [name for name, state in cable.offloads if name in _MERGING and state == "on" and not offloads]:
            off = (word for name in merging for word in (name, "off"))
            yield Command(("ethtool", "-K", host.name, *off), places.dut_netns)
        if link.is_local:
            yield from _end_resources(scenario, host, places)


def _end_resources(scenario: Scenario, host: Host, places: Places) -> Iterator[AnyResource]:
    """The namespace of an end at a cable, with its interface and address, on its machine.

    Raises RequirementError where the interface cannot be lent.
    """
    netns, name, end = places.host_netns(host.name), VethHost.INTERFACE, scenario.link(host).far
    yield Namespace(netns)
    yield lent(end.interface or "", netns, name, STANDARD_MTU, places.at(end.site))
    yield Command(("ip", "address", "add", host.address, "dev", name), netns)


def at_cables(device: Device, scenario: Scenario) -> Device:
    """The device as the scenario wants it: at cables, or itself."""
    return cast(Device, _CabledDevice(device)) if scenario.is_cabled else device


class _CabledDevice:
    """A kind of device at cables; what is not said here is as the kind says it."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def graph(self, scenario: Scenario) -> HopGraph:
        """As the kind says; what an interface at a cable refuses, it has no room for itself."""
        return replace(self._device.graph(scenario), refused=_FULL)


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
