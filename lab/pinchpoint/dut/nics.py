"""Network cards as ports: what a machine must have for them, what a bench takes, what `pinchpoint doctor` says."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pinchpoint.bench.requirements import Probe, kernel_module
from pinchpoint.bench.resource import AnyResource, NoIommu
from pinchpoint.bench.resource import Nic as Taken
from pinchpoint.host import nics as cards
from pinchpoint.host.interface import Host
from pinchpoint.host.nics import Interface, Nic
from pinchpoint.model import units
from pinchpoint.model.errors import RequirementError
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.site import Site

USERSPACE = (cards.VFIO, cards.UIO, "igb_uio")
"""Drivers by which DPDK reaches a card already."""
_LIST = "pinchpoint doctor --all lists the NICs of this machine"
_OTHERWISE = "leave out port.pci and port.engine_pci, for ports without NICs"
_UNSAFE = (
    "boot with an IOMMU (intel_iommu=on or amd_iommu=on, and the firmware's VT-d or AMD-Vi); or let cards reach any "
    "memory: port.no_iommu = true for the time of a bench, or for good: echo 1 | sudo tee " + cards.UNSAFE
)


@dataclass(frozen=True)
class Cards:
    """Those of a scenario on one host, by the names of their ports."""

    of_device: Mapping[str, str]  # PCI addresses
    of_engine: Mapping[str, str]
    without_iommu: frozenset[str]  # addresses that may be used without one

    @property
    def addresses(self) -> tuple[str, ...]:
        """Of all of them, the device's first."""
        return (*self.of_device.values(), *self.of_engine.values())


def at(scenario: Scenario, site: Site) -> Cards:
    """Those of a site: the device's if it is there, and those of the engine there."""
    links = {port.name: scenario.link(port) for port in scenario.ports}
    devices = {name: link.device.nic for name, link in links.items() if link.device.nic and link.device.site == site}
    engines = {name: link.far.nic for name, link in links.items() if link.far.nic and link.far.site == site}
    unguarded = {port.name for port in scenario.ports if port.no_iommu}
    without = (address for addresses in (devices, engines) for name, address in addresses.items() if name in unguarded)
    return Cards(devices, engines, frozenset(without))


def needs(host: Host, cards_here: Cards) -> Iterator[Probe]:
    """Whether each card is there and free, and what binds it."""
    ours, lacking_iommu, bound = cards_here.addresses, list[Nic](), set[str]()
    for address in ours:
        nic = cards.read(host, address)
        yield _free(host, address, nic, ours)
        if nic is None or not _is_bound(nic):
            continue
        bound.add(_driver(host, nic))
        if nic.group is None and address not in cards_here.without_iommu:
            lacking_iommu.append(nic)
    for name in sorted(bound):
        if not host.exists(f"{cards.PCI}/drivers/{name}"):
            yield kernel_module(host, name, _OTHERWISE)
    if lacking_iommu and cards.unsafe_mode(host) != "Y":
        names = ", ".join(nic.address for nic in lacking_iommu)
        yield Probe("IOMMU", False, f"none, and a card may not be used without one: {names}", _UNSAFE)


def shared(host: Host, addresses: Iterable[str]) -> Iterator[Probe]:
    """Whether cards are free that keep their drivers, but forward otherwise; those that are not here are left out."""
    for address in sorted(set(addresses)):
        if nic := cards.read(host, address):
            reasons = list(cards.uses(nic, host))
            yield Probe(f"NIC {address}", not reasons, "; ".join(reasons) or _words(host, nic), _mend(nic))


def resources(host: Host, cards_here: Cards, bench_id: str, netns: str = "") -> list[AnyResource]:
    """The cards as the bench takes and returns them; `netns` is the device's, where interfaces of its own cards go.

    Raises RequirementError if a card is not there.
    """
    present = [_there(host, address) for address in cards_here.addresses]
    without = [nic for nic in present if _is_bound(nic) and nic.group is None and _driver(host, nic) == cards.VFIO]
    asked = any(nic.address in cards_here.without_iommu for nic in without)
    taken: list[AnyResource] = []
    if asked and (before := cards.unsafe_mode(host)) != "Y":
        taken.append(NoIommu(before))
    own = cards_here.of_device.values()
    return taken + [_taken(host, nic, bench_id, netns if nic.address in own else "") for nic in present]


def settings(host: Host, cards_here: Cards) -> Mapping[str, str]:
    """Each card of a host as it is now, read back: driver, IOMMU, NUMA node, where its interrupts go."""
    described = {}
    for end, addresses in (("", cards_here.of_device), (", engine's end", cards_here.of_engine)):
        for port, address in addresses.items():
            if nic := cards.read(host, address):
                described[f"NIC of {port}{end}"] = f"{address}: {_words(host, nic)}"
    return described


def probes(host: Host) -> Iterator[Probe]:
    """What this machine has for benches with cards; no scenario needs it unless it names one."""
    nics = cards.all_nics(host)
    groups = host.names(cards.GROUPS) if host.exists(cards.GROUPS) else []
    if not nics:
        yield Probe("NICs", True, "none on the PCI bus: only scenarios with port.pci need one", needed=False)
        return
    unsafe = cards.unsafe_mode(host) == "Y"
    detail = units.counted(len(groups), "group") if groups else "none; vfio may do without one" if unsafe else "none"
    yield Probe("IOMMU", bool(groups) or unsafe, detail, _UNSAFE, needed=False)
    for nic in nics:
        reasons = cards.why_not(nic, host, (nic.address,))
        detail = _words(host, nic) + (f"; not for benches: {'; '.join(reasons)}" if reasons else "")
        yield Probe(f"NIC {nic.address}", not reasons, detail, _mend(nic), needed=False)


def _free(host: Host, address: str, nic: Nic | None, ours: tuple[str, ...]) -> Probe:
    name = f"NIC {address}"
    if nic is None:
        what = "no network card" if cards.has_device(host, address) else "no PCI device"
        return Probe(name, False, f"{what} has this address", _LIST)
    reasons = cards.why_not(nic, host, ours)
    return Probe(name, not reasons, "; ".join(reasons) or _words(host, nic), _mend(nic))


def _mend(nic: Nic) -> str:
    """What frees a card that is in use."""
    if nic.virtual_functions:
        return f"echo 0 | sudo tee {cards.DEVICES}/{nic.address}/sriov_numvfs; or name one of the virtual functions"
    if nic.members and not nic.interfaces:
        return "name every device of the group as a port, or unbind the others, or use a slot with a group of its own"
    return f"name another NIC, or unconfigure this one first (ip addr flush dev INTERFACE); {_LIST}"


def _there(host: Host, address: str) -> Nic:
    nic = cards.read(host, address)
    if nic is None:
        raise RequirementError(f"{address}: no network card has this PCI address", _LIST)
    return nic


def _is_bound(nic: Nic) -> bool:
    """Whether another driver is bound for a bench."""
    return not nic.stays_bound and nic.driver not in USERSPACE


def _driver(host: Host, nic: Nic) -> str:
    """What is bound: vfio, also without an IOMMU where the kernel was built for that, as Debian's is not."""
    return cards.VFIO if nic.group is not None or cards.has_unsafe_mode(host) else cards.UIO


def _taken(host: Host, nic: Nic, bench_id: str, netns: str) -> Taken:
    card = (nic.address, bench_id, _driver(host, nic) if _is_bound(nic) else "", nic.driver, nic.override)
    if (interface := nic.interface) is None:
        return Taken(*card)
    name, own = interface.name, netns if nic.stays_bound else ""
    reached = (cards.addresses(host, name), cards.routes(host, name))
    return Taken(*card, name, interface.mtu, interface.is_up, *reached, own)


def _words(host: Host, nic: Nic) -> str:
    parts = [f"{nic.vendor}:{nic.device}", nic.driver or "no driver"]
    if nic.driver in USERSPACE and nic.group is None:
        parts.append("without an IOMMU: it can reach any memory")
    elif nic.group is not None:
        parts.append(f"IOMMU group {nic.group}")
    else:
        parts.append("no IOMMU")
    parts.append("NUMA node unknown" if nic.numa_node is None else f"NUMA node {nic.numa_node}")
    parts += [f"interrupts on CPU {cpus}"] if (cpus := cards.interrupt_cpus(host, nic.address)) else []
    parts += [_link(interface) for interface in nic.interfaces if not interface.is_representor]
    if mode := cards.eswitch(host, nic.address):
        parts.append(f"embedded switch: {mode}")
    if others := [f"{link.name} ({link.port_name})" for link in nic.interfaces if link.is_representor]:
        parts.append(f"representors: {', '.join(others)}")
    if nic.is_virtual:
        parts.append("virtual function")
    return ", ".join(parts)


def _link(interface: Interface) -> str:
    if not interface.is_up:
        return f"{interface.name} down"
    speed = "speed unknown" if interface.speed_mbps is None else f"{interface.speed_mbps / 1000:g} Gbit/s"
    return f"{interface.name} {'no link' if interface.has_link is False else speed}"
