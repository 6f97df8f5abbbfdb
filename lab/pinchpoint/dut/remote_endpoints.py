"""The ends of a socket workload, `[[host]]`, on other machines than the device: their cables and namespaces."""

from collections.abc import Iterator, Mapping

from pinchpoint.bench.resource import AnyResource, Command, Namespace
from pinchpoint.bench.resource import Host as VethHost
from pinchpoint.dut.attach import STANDARD_MTU
from pinchpoint.dut.device import Device, RawScenario
from pinchpoint.dut.multi_host import lent
from pinchpoint.dut.places import Places
from pinchpoint.host.interface import Host as Machine
from pinchpoint.keys.lexical import Path
from pinchpoint.keys.source import Source
from pinchpoint.model.scenario import LAB, Between, EngineSite, Host, Remote, Scenario

_MERGING = ("gro", "lro")  # of ethtool(8), -K
_CABLE = (("interface", "end_interface"), ("end_interface", "interface"))


def check(raw: RawScenario, source: Source, device: Device) -> None:
    """Whether the ends' cables and machines fit the device and each other; problems are noted in `source`."""
    device_on = raw.tables[""].get("runs_on") or LAB
    _check_cables(raw, source, device, device_on)
    apart = [host for host in raw.hosts if (host.values.get("runs_on") or device_on) != device_on]
    for host in raw.hosts:
        if host.values.get("runs_on") == LAB == raw.tables[""].get("runs_on"):
            told = f'expected another machine than runs_on has, which is a Host of ssh_config here, found "{LAB}" again'
            source.problem((*host.at, "runs_on"), told)
        if host in apart and "interface" in host.values and not host.values["interface"]:
            told = "missing: this end is on another machine than the device, so that a cable joins the two"
            source.problem((*host.at, "interface"), told)
    if not apart:
        return
    at = (*apart[0].at, "runs_on")
    if raw.measure and not issubclass(raw.measure, Between):
        source.problem(at, "expected a socket workload where a [[host]] is on another machine than the device")
    if raw.tables[""].get("numa", "any") != "any":
        told = 'expected "any" where a [[host]] is on another machine: the ends share no node'
        source.problem(("numa",), told)


def _check_cables(raw: RawScenario, source: Source, device: Device, device_on: str) -> None:
    taken = dict[tuple[str, str], Path]()
    cabled = device.keys.cabled
    own = [port.values["interface"] for port in raw.ports if port.values.get("interface")]
    taken |= {(device_on, name): () for name in own}
    for host in raw.hosts:
        for key, other in _CABLE:
            name = host.values.get(key)
            if not name:
                continue
            at = (*host.at, key)
            if cabled is None or not cabled(raw.dut):
                told = f'expected no {key} where dut.kind is "{device.kind}" with these ports, found "{name}"'
                source.problem(at, f"{told}: only what forwards between kernel interfaces has cables")
            if other in host.values and not host.values[other]:
                source.problem((*host.at, other), f"missing; with {key} both ends of the cable are interfaces")
            where = device_on if key == "interface" else host.values.get("runs_on") or device_on
            if (where, name) in taken:
                told = f'expected an interface of {where} that nothing else of this file has, found "{name}" again'
                source.problem(at, told)
            taken[where, name] = at


def ends_of(scenario: Scenario, remotes: Mapping[str, Remote]) -> tuple[EngineSite, ...]:
    """The machines of the ends of a checked file, none if all are on the device's; `remotes` are by name."""
    device_on = scenario.remote.name if scenario.remote else LAB
    ends: dict[str, list[str]] = {}
    for host in scenario.hosts:
        ends.setdefault(host.runs_on or device_on, []).append(host.name)
    if set(ends) <= {device_on}:
        return ()
    return tuple(EngineSite(remotes.get(where), (), tuple(names)) for where, names in ends.items())


def site_of(scenario: Scenario, host: Host) -> EngineSite | None:
    """The machine of an end; None: the device's, as that of all ends is."""
    return next((site for site in scenario.engines if host.name in site.ends), None)


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
            yield from end_resources(host, places, places.machine)


def end_resources(host: Host, places: Places, machine: Machine) -> Iterator[AnyResource]:
    """The namespace of an end at a cable, with its interface and address, on its machine.

    Raises RequirementError where the interface cannot be lent.
    """
    netns, name = places.host_netns(host.name), VethHost.INTERFACE
    yield Namespace(netns)
    yield lent(host.end_interface or "", netns, name, STANDARD_MTU, machine)
    yield Command(("ip", "address", "add", host.address, "dev", name), netns)
