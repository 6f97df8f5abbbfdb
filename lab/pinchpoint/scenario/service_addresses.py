"""Addresses of a [service] held against each other: where two parties share one, no frame can tell them apart."""

from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from typing import Final

from pinchpoint.keys.lexical import Path
from pinchpoint.keys.reader import Element, Values
from pinchpoint.keys.source import Source
from pinchpoint.model import addresses
from pinchpoint.model.scenario import Range

_BROADCAST: Final = "255.255.255.255"


def check_addresses(source: Source, service: Values, backends: Sequence[Element]) -> None:
    """Notes every address that is no unicast address, and every pair of parties that share one."""
    _check_unicast(source, service, backends)
    _check_apart(source, service, backends)
    ports = service.get("client_ports")
    if ports and not ports.first:
        source.mismatch(("service", "client_ports"), "ports from 1 on: port 0 is reserved", _ports(ports))


def _check_unicast(source: Source, service: Values, backends: Sequence[Element]) -> None:
    singles: list[tuple[Path, str | None]] = [(("service", "address"), service.get("address"))]
    singles += [((*backend.at, "address"), backend.values.get("address")) for backend in backends]
    for at, address in singles:
        if address and (kind := _special(address)):
            source.mismatch(at, f"a unicast address, not {kind}", address)
    for key in ("clients", "local"):
        span = service.get(key)
        ends = [addresses.shown(number) for number in (span.first, span.last)] if span else []
        for address in ends:
            if kind := _special(address):
                source.mismatch(("service", key), f"unicast addresses, not {kind}", address)
                break


def _special(address: str) -> str:
    """Why no host has this address; empty for a unicast address that a host may have."""
    known = ip_address(address)
    if known.is_unspecified or (known.version == 4 and int(known) >> 24 == 0):
        return "the unspecified address"
    if known.is_loopback:
        return "a loopback address"
    if known.is_multicast:
        return "a multicast address"
    return "the broadcast address" if address == _BROADCAST else ""


def _check_apart(source: Source, service: Values, backends: Sequence[Element]) -> None:
    parties = list(_parties(service, backends))
    for number, (at, name, span) in enumerate(parties):
        for _, other_name, other in parties[:number]:
            if {name, other_name} == {"backend.address"} or {name, other_name} == {"service.address", "service.local"}:
                continue  # backends may share an address (ports differ); a device may use its own as local address
            if shared := _shared(span, other):
                source.problem(at, f"{shared} is in {name} and in {other_name}: each needs addresses of its own")
                break


def _parties(service: Values, backends: Sequence[Element]) -> Iterator[tuple[Path, str, Range]]:
    if "address" in service:
        yield ("service", "address"), "service.address", Range(addresses.number(service["address"]), 1)
    for key in ("local", "clients"):
        if service.get(key) is not None:
            yield ("service", key), f"service.{key}", service[key]
    for backend in backends:
        if "address" in backend.values:
            span = Range(addresses.number(backend.values["address"]), 1)
            yield (*backend.at, "address"), "backend.address", span


def _shared(some: Range, others: Range) -> str:
    """The addresses that two ranges have in common, as text; empty if there are none."""
    first, last = max(some.first, others.first), min(some.last, others.last)
    return Range(first, last - first + 1).as_addresses() if first <= last else ""


def _ports(ports: Range) -> str:
    return f"{ports.first}-{ports.last}"
