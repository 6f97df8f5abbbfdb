"""Network cards as ports: what a machine must have for them, what a bench takes, what `pinchpoint doctor` says."""

from collections.abc import Iterable, Iterator, Mapping

from pinchpoint.bench.requirements import Probe, kernel_module
from pinchpoint.bench.resource import AnyResource, NoIommu
from pinchpoint.bench.resource import Nic as Taken
from pinchpoint.host import nics as cards
from pinchpoint.host.local import LOCAL
from pinchpoint.host.nics import Interface, Nic
from pinchpoint.model.errors import RequirementError
from pinchpoint.model.scenario import Scenario

USERSPACE = (cards.VFIO, cards.UIO, "igb_uio")
"""Drivers by which DPDK reaches a card already."""
_LIST = "pinchpoint doctor lists the NICs of this machine"
_OTHERWISE = "leave out port.pci and port.engine_pci, for ports without NICs"
_UNSAFE = (
    "boot with an IOMMU (intel_iommu=on or amd_iommu=on, and the firmware's VT-d or AMD-Vi); or let cards reach any "
    "memory: port.no_iommu = true for the time of a bench, or for good: echo 1 | sudo tee " + cards.UNSAFE
)


def addresses(scenario: Scenario) -> tuple[str, ...]:
    """Of all the scenario's cards, its device's first."""
    ports = scenario.ports
    return tuple(one for one in (*(p.pci for p in ports), *(p.engine_pci for p in ports)) if one)


def needs(scenario: Scenario) -> Iterator[Probe]:
    """Whether each card is there and free, and what binds it."""
    ours, lacking_iommu, bound = addresses(scenario), list[Nic](), set[str]()
    for address in ours:
        nic = cards.read(LOCAL, address)
        yield _free(address, nic, ours)
        if nic is None or not _is_bound(nic):
            continue
        bound.add(_driver(nic))
        if nic.group is None and not _may_do_without(scenario, address):
            lacking_iommu.append(nic)
    for name in sorted(bound):
        if not LOCAL.exists(f"{cards.PCI}/drivers/{name}"):
            yield kernel_module(name, _OTHERWISE)
    if lacking_iommu and cards.unsafe_mode(LOCAL) != "Y":
        names = ", ".join(nic.address for nic in lacking_iommu)
        yield Probe("IOMMU", False, f"none, and a card may not be used without one: {names}", _UNSAFE)


def shared(found: Iterable[str]) -> Iterator[Probe]:
    """Whether cards are free that keep their drivers, but forward otherwise; those that are not here are left out."""
    for address in sorted(set(found)):
        if nic := cards.read(LOCAL, address):
            reasons = list(cards.uses(nic, LOCAL))
            yield Probe(f"NIC {address}", not reasons, "; ".join(reasons) or _words(nic), _mend(nic))


def resources(scenario: Scenario, bench_id: str, netns: str) -> list[AnyResource]:
    """The cards as the bench takes and returns them; `netns` is the device's, where interfaces of its own cards go.

    Raises RequirementError if a card is not there.
    """
    found = [(address, _there(address)) for address in addresses(scenario)]
    without = [nic for _, nic in found if _is_bound(nic) and nic.group is None and _driver(nic) == cards.VFIO]
    asked = any(_may_do_without(scenario, nic.address) for nic in without)
    of_device = {port.pci for port in scenario.ports}
    taken: list[AnyResource] = []
    if asked and (before := cards.unsafe_mode(LOCAL)) != "Y":
        taken.append(NoIommu(before))
    return taken + [_taken(nic, bench_id, netns if address in of_device else "") for address, nic in found]


def settings(scenario: Scenario) -> Mapping[str, str]:
    """Each card as it is now, read back: driver, IOMMU, NUMA node."""
    found = {}
    for port in scenario.ports:
        for end, address in (("", port.pci), (", engine's end", port.engine_pci)):
            if address and (nic := cards.read(LOCAL, address)):
                found[f"NIC of {port.name}{end}"] = f"{address}: {_words(nic)}"
    return found


def probes() -> Iterator[Probe]:
    """What this machine has for benches with cards; no scenario needs it unless it names one."""
    found = cards.all_nics(LOCAL)
    groups = LOCAL.names(cards.GROUPS) if LOCAL.exists(cards.GROUPS) else []
    if not found:
        yield Probe("NICs", True, "none on the PCI bus: only scenarios with port.pci need one", needed=False)
        return
    unsafe = cards.unsafe_mode(LOCAL) == "Y"
    detail = f"{len(groups)} groups" if groups else "none; vfio may do without one" if unsafe else "none"
    yield Probe("IOMMU", bool(groups) or unsafe, detail, _UNSAFE, needed=False)
    for nic in found:
        reasons = cards.why_not(nic, LOCAL, (nic.address,))
        detail = _words(nic) + (f"; not for benches: {'; '.join(reasons)}" if reasons else "")
        yield Probe(f"NIC {nic.address}", not reasons, detail, _mend(nic), needed=False)


def _free(address: str, nic: Nic | None, ours: tuple[str, ...]) -> Probe:
    name = f"NIC {address}"
    if nic is None:
        what = "no network card" if cards.has_device(LOCAL, address) else "no PCI device"
        return Probe(name, False, f"{what} has this address", _LIST)
    reasons = cards.why_not(nic, LOCAL, ours)
    return Probe(name, not reasons, "; ".join(reasons) or _words(nic), _mend(nic))


def _mend(nic: Nic) -> str:
    """What frees a card that is in use."""
    if nic.virtual_functions:
        return f"echo 0 | sudo tee {cards.DEVICES}/{nic.address}/sriov_numvfs; or name one of the virtual functions"
    if nic.members and not nic.interfaces:
        return "name every device of the group as a port, or unbind the others, or use a slot with a group of its own"
    return f"name another NIC, or take this one out of use first; {_LIST}"


def _there(address: str) -> Nic:
    nic = cards.read(LOCAL, address)
    if nic is None:
        raise RequirementError(f"{address}: no network card has this PCI address", _LIST)
    return nic


def _is_bound(nic: Nic) -> bool:
    """Whether another driver is bound for a bench."""
    return not nic.stays_bound and nic.driver not in USERSPACE


def _driver(nic: Nic) -> str:
    """What is bound: vfio, also without an IOMMU where the kernel was built for that, as Debian's is not."""
    return cards.VFIO if nic.group is not None or cards.has_unsafe_mode(LOCAL) else cards.UIO


def _may_do_without(scenario: Scenario, address: str) -> bool:
    return any(port.no_iommu for port in scenario.ports if address in (port.pci, port.engine_pci))


def _taken(nic: Nic, bench_id: str, netns: str) -> Taken:
    one = nic.interface
    return Taken(
        address=nic.address,
        bench_id=bench_id,
        driver=_driver(nic) if _is_bound(nic) else "",
        driver_before=nic.driver,
        override_before=nic.override,
        interface=one.name if one else "",
        mtu=one.mtu if one else 0,
        is_up=one.is_up if one else False,
        addresses=cards.addresses(LOCAL, one.name) if one else (),
        routes=cards.routes(LOCAL, one.name) if one else (),
        netns=netns if one and nic.stays_bound else "",
    )


def _words(nic: Nic) -> str:
    parts = [f"{nic.vendor}:{nic.device}", nic.driver or "no driver"]
    if nic.driver in USERSPACE and nic.group is None:
        parts.append("without an IOMMU: it can reach any memory")
    elif nic.group is not None:
        parts.append(f"IOMMU group {nic.group}")
    else:
        parts.append("no IOMMU")
    parts.append("NUMA node unknown" if nic.numa_node is None else f"NUMA node {nic.numa_node}")
    parts += [_link(one) for one in nic.interfaces if not one.is_representor]
    if mode := cards.eswitch(LOCAL, nic.address):
        parts.append(f"embedded switch: {mode}")
    if others := [f"{one.name} ({one.port_name})" for one in nic.interfaces if one.is_representor]:
        parts.append(f"representors: {', '.join(others)}")
    if nic.is_virtual:
        parts.append("virtual function")
    return ", ".join(parts)


def _link(one: Interface) -> str:
    if not one.is_up:
        return f"{one.name} down"
    speed = "speed unknown" if one.speed_mbps is None else f"{one.speed_mbps / 1000:g} Gbit/s"
    return f"{one.name} {'no link' if one.has_link is False else speed}"
