"""Ports at cables that are there already: an end on the device's host, one on the engine's, which may be another."""

from collections.abc import Iterator

from pinchpoint.dut.checks import engine_on, is_beside
from pinchpoint.dut.device import Device, RawScenario
from pinchpoint.keys.reader import Element
from pinchpoint.keys.source import Source
from pinchpoint.model.scenario import LAB, SPLIT

_OF_DEVICE = ("pci", "interface")  # a NIC that DPDK drives; an interface that the kernel drives
_OF_ENGINE = ("engine_pci", "engine_interface")


def check(raw: RawScenario, source: Source, device: Device) -> None:
    """Whether each cable has two ends that fit the device, each of one port; problems are noted in `source`."""
    taken = set[tuple[str, str]]()
    for port in raw.ports:
        _check_ends(port, raw, source)
        _check_device(port, raw, source, device)
        for key, place in _places(port, raw):
            if place in taken:
                told = f'expected one that no other port has, found "{place[1]}" again'
                source.problem((*port.at, key), told)
            taken.add(place)
        _check_settings(port, source)
    if raw.tables["guest"].get("kernel") and any(_has(port, "interface") for port in raw.ports):
        source.problem(("guest",), "expected no [guest] where a [[port]] has an interface: a guest's ports are taps")


def _has(port: Element, *keys: str) -> bool:
    return any(port.values.get(key) for key in keys)


def _is_read(port: Element, *keys: str) -> bool:
    return all(key in port.values for key in keys)


def _places(port: Element, raw: RawScenario) -> Iterator[tuple[str, tuple[str, str]]]:
    """(key, (host, NIC or interface)) of each end."""
    device_on = raw.tables[""].get("runs_on") or LAB
    for keys, host in ((_OF_DEVICE, device_on), (_OF_ENGINE, engine_on(port, raw))):
        yield from ((key, (host, port.values[key])) for key in keys if _has(port, key))


def _check_ends(port: Element, raw: RawScenario, source: Source) -> None:
    """A cable has one end on either side; on one host both ends are of one kind."""
    for own, others in ((_OF_DEVICE, _OF_ENGINE), (_OF_ENGINE, _OF_DEVICE)):
        named = [(key, other) for key, other in zip(own, others, strict=True) if _has(port, key)]
        if len(named) > 1:
            told = f"expected either {own[0]} or {own[1]} as this end of the cable, found both"
            source.problem((*port.at, own[1]), told)
        elif named and is_beside(port, raw):
            ((key, other),) = named
            if _is_read(port, other) and not _has(port, other):
                kind = "NICs" if own.index(key) == 0 else "interfaces"
                source.problem((*port.at, other), f"missing; with {key} both ends of the cable are {kind}")
        elif named and _is_read(port, *others) and not _has(port, *others):
            ((key, other),) = named
            (or_else,) = set(others) - {other}
            source.problem((*port.at, other), f"missing, as is {or_else}: the cable of {key} has no other end")
            return
    if not is_beside(port, raw) and _is_read(port, *_OF_DEVICE) and not _has(port, *_OF_DEVICE):
        told = "missing, as is pci: its engine is on another host, so that the port is the end of a cable to it"
        source.problem((*port.at, "interface"), told)


def _check_device(port: Element, raw: RawScenario, source: Source, device: Device) -> None:
    """Whether the device forwards between kernel interfaces, where an end is one."""
    cabled = device.keys.cabled
    if cabled is not None and cabled(raw.dut):
        return
    for key in ("interface",) if _has(port, "pci") else ("interface", "engine_interface"):
        if name := port.values.get(key):
            told = f'expected no {key} where dut.kind is "{device.kind}" with these ports, found "{name}"'
            source.problem((*port.at, key), f"{told}: only what forwards between kernel interfaces has cables")


def _check_settings(port: Element, source: Source) -> None:
    if port.values.get("no_iommu") and _is_read(port, "pci", "engine_pci") and not _has(port, "pci", "engine_pci"):
        source.mismatch((*port.at, "no_iommu"), "false where the port is no NIC", True)
    if _has(port, "pci", "engine_pci") and port.values.get("ring_layout", SPLIT) != SPLIT:
        problem = f'"{SPLIT}" where the port is a NIC: its rings are its driver\'s'
        source.mismatch((*port.at, "ring_layout"), problem, port.values["ring_layout"])
