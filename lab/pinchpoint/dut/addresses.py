"""Addresses and routes of a balancer that is an IP host between its two ports: the same for every such kind.

Sources: ip-address(8), ip-route(8); Documentation/networking/ip-sysctl.rst.
"""

from collections.abc import Iterator

from pinchpoint.model.addresses import alone, is_v6, prefixes
from pinchpoint.model.scenario import Established, Service


def batch(service: Service, established: Established | None = None) -> Iterator[str]:
    """Lines of `ip -batch`: the device's addresses, and where clients and backends are; all answer those who ask for
    an address.

    While frames are sent on connections that stand, nothing waits for such an answer of a backend.
    """
    clients, servers = service.client_port, service.server_port
    yield f"address add {_own(service.address)} dev {clients}"
    yield from (f"address add {_own(local)} dev {servers}" for local in service.locals)
    yield from (f"route add {prefix} dev {clients}" for prefix in prefixes(service.clients.first, service.clients.last))
    backends = dict.fromkeys(backend.address for backend in service.backends)
    source = f" src {service.locals[0]}" if service.locals else ""
    yield from (f"route add {alone(address)} dev {servers}{source}" for address in backends)
    if established:
        at = f"lladdr {established.server_mac} dev {servers} nud permanent"
        yield from (f"neighbour add {address} {at}" for address in backends)


def sysctls(service: Service, *, forwards: bool) -> dict[str, str]:
    """Of the namespace, by name, in this order: IPv6 on those ports whose side uses it; nothing for IPv4 alone.

    An address can be used at once, without detection of duplicates; no router is asked for.
    """
    front, back = is_v6(service.address), any(is_v6(backend.address) for backend in service.backends)
    ports = [name for name, uses in ((service.client_port, front), (service.server_port, back)) if uses]
    if not ports:
        return {}
    forwarding = {"net/ipv6/conf/all/forwarding": "1"} if forwards else {}
    settings = {"accept_dad": "0", "accept_ra": "0", "router_solicitations": "0", "disable_ipv6": "0"}
    return forwarding | {f"net/ipv6/conf/{port}/{name}": value for port in ports for name, value in settings.items()}


def _own(address: str) -> str:
    return f"{alone(address)} nodad" if is_v6(address) else alone(address)
