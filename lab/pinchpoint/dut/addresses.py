"""Addresses and routes of a balancer that is an IP host between its two ports: the same for every such kind.

Sources: ip-address(8), ip-route(8).
"""

from collections.abc import Iterator
from ipaddress import IPv4Address, summarize_address_range

from pinchpoint.model.scenario import Range, Service


def batch(service: Service) -> Iterator[str]:
    """Lines of `ip -batch`: the device's addresses, and where clients and backends are; all answer ARP requests."""
    clients, servers = service.client_port, service.server_port
    yield f"address add {service.address}/32 dev {clients}"
    yield from (f"address add {one}/32 dev {servers}" for one in service.locals)
    yield from (f"route add {prefix} dev {clients}" for prefix in _prefixes(service.clients))
    backends = dict.fromkeys(one.address for one in service.backends)
    source = f" src {service.locals[0]}" if service.locals else ""
    yield from (f"route add {one}/32 dev {servers}{source}" for one in backends)


def _prefixes(found: Range) -> Iterator[str]:
    first, last = IPv4Address(found.first), IPv4Address(found.last)
    return (str(one) for one in summarize_address_range(first, last))
