"""Addresses, routes and neighbours of a namespace that routes: the engine at the far ends has no IP stack.

Each port has a next hop of its own, 169.254.0.N with the port's number, which is in no subnet (`onlink`) and whose
Ethernet address is fixed: nothing asks for it by ARP. Sources: ip-route(8), ip-neighbour(8), ip-sysctl in the kernel.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address, summarize_address_range

from pinchpoint.dut import addresses
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Scenario, Stream

_NEXT_HOPS = int(IPv4Address("169.254.0.0"))
_FAR_END = "02:00:00:00:00:02"  # where no stream ends: any unicast address will do


@dataclass(frozen=True)
class Route:
    """Where addresses are reached, translated ones among them."""

    to: str  # IPv4 prefix
    port: str


def batch(scenario: Scenario, explicit: tuple[Route, ...]) -> tuple[str, ...]:
    """Lines of `ip -batch`: every port's address, next hop, and the routes. Raises InputError."""
    macs, lines = _macs(scenario), list[str]()
    hops = {port.name: str(IPv4Address(_NEXT_HOPS + n)) for n, port in enumerate(scenario.ports, start=1)}
    far = {stream.rx_port: stream.eth_dst for stream in reversed(scenario.streams)}
    for port, hop in hops.items():
        if port in macs:
            change = f"link set dev {port} address {macs[port]}"
            # The driver of a guest's interface takes an address only while that is down.
            lines += [f"link set dev {port} down", change, f"link set dev {port} up"] if scenario.guest else [change]
        lines.append(f"neighbour add {hop} lladdr {far.get(port, _FAR_END)} dev {port} nud permanent")
    routes = explicit or (() if scenario.service else of_streams(scenario))
    return (*lines, *(f"route add {route.to} via {hops[route.port]} dev {route.port} onlink" for route in routes))


def of_streams(scenario: Scenario) -> tuple[Route, ...]:
    """To each stream's destinations by its receiving port. Raises InputError where a destination has two ports."""
    routes = dict[Route, None]()
    for number, stream in enumerate(scenario.streams):
        for other in scenario.streams[:number]:
            if other.rx_port != stream.rx_port and _overlap(stream, other):
                raise InputError(
                    f"{scenario.path}: streams to {other.rx_port} and to {stream.rx_port} have destinations in "
                    f"common: {other.ipv4_dst.as_addresses()} and {stream.ipv4_dst.as_addresses()}",
                    "give them different ipv4_dst, or say by [[route]] where addresses are",
                )
        first, last = IPv4Address(stream.ipv4_dst.first), IPv4Address(stream.ipv4_dst.last)
        routes |= dict.fromkeys(Route(str(prefix), stream.rx_port) for prefix in summarize_address_range(first, last))
    return tuple(routes)


def _overlap(a: Stream, b: Stream) -> bool:
    return a.ipv4_dst.first <= b.ipv4_dst.last and b.ipv4_dst.first <= a.ipv4_dst.last


def _macs(scenario: Scenario) -> dict[str, str]:
    """The address that each port must have to take its stream's frames as its own. Raises InputError."""
    macs: dict[str, str] = {}
    for stream in scenario.streams:
        if int(stream.eth_dst[:2], 16) & 1:
            raise InputError(
                f"{scenario.path}: eth_dst = {stream.eth_dst} is a group address, whose frames a router does not take",
                "give every stream a unicast eth_dst",
            )
        if (mac := macs.setdefault(stream.tx_port, stream.eth_dst)) != stream.eth_dst:
            raise InputError(
                f"{scenario.path}: streams from {stream.tx_port} have two eth_dst, {mac} and {stream.eth_dst}; a "
                "router's port has one address",
                "give the streams from one port the same eth_dst",
            )
    return macs


def sysctls(scenario: Scenario) -> dict[str, str]:
    """Of the namespace, by name."""
    of_service = addresses.sysctls(scenario.service, forwards=True) if scenario.service else {}
    return addresses.routing(port.name for port in scenario.ports) | of_service
