"""A service as nftables does it: destination NAT by a counter or a hash, source NAT by a counter.

Sources: nft(8), NAT STATEMENTS, NUMGEN EXPRESSION and HASH EXPRESSIONS. A NAT chain sees the first packet of a
connection alone, so `numgen inc` takes the backends exactly in turn. With a range of ports, source NAT tries those of
the range and drops the first packet where all of them lead to the same backend already.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address, summarize_address_range

from pinchpoint.model.scenario import Mode, Range, Scheduler, Service

TABLE = "pinchpoint-service"
_SEED = "0x70696e63"  # of the hash: the same connections go to the same backends in every bench


def addresses(service: Service) -> Iterator[str]:
    """Lines of `ip -batch`: the device's addresses, and where clients and backends are; all answer ARP requests."""
    clients, servers = service.client_port, service.server_port
    yield f"address add {service.address}/32 dev {clients}"
    yield from (f"address add {one}/32 dev {servers}" for one in service.locals)
    yield from (f"route add {prefix} dev {clients}" for prefix in _prefixes(service.clients))
    backends = dict.fromkeys(one.address for one in service.backends)
    source = f" src {service.locals[0]}" if service.locals else ""
    yield from (f"route add {one}/32 dev {servers}{source}" for one in backends)


def ruleset(service: Service) -> Iterator[str]:
    """Lines of a ruleset."""
    yield f"table ip {TABLE} {{"
    yield "  chain prerouting {"
    yield "    type nat hook prerouting priority dstnat; policy accept;"
    ends = ", ".join(f"{number} : {one.address} . {one.port}" for number, one in enumerate(service.backends))
    chosen = f"{_choice(service)} map {{ {ends} }}"
    yield f"    ip daddr {service.address} tcp dport {service.port} counter dnat ip to {chosen}"
    yield "  }"
    if service.mode is Mode.FULL_NAT:
        yield "  chain postrouting {"
        yield "    type nat hook postrouting priority srcnat; policy accept;"
        pool = ", ".join(f"{number} : {one}" for number, one in enumerate(service.locals))
        chosen = f"numgen inc mod {len(service.locals)} map {{ {pool} }}"
        ports = f" : {shown_ports(service.local_ports)}" if service.local_ports else ""
        yield f"    meta l4proto tcp ct original ip daddr {service.address} counter snat to {chosen}{ports}"
        yield "  }"
    yield "}"


def shown_ports(ports: Range) -> str:
    """A range of ports as rules have it."""
    return f"{ports.first}-{ports.last}"


def _choice(service: Service) -> str:
    count = len(service.backends)
    if service.scheduler is Scheduler.HASH:
        return f"jhash ip saddr . tcp sport mod {count} seed {_SEED}"
    return f"numgen inc mod {count}"


def _prefixes(found: Range) -> Iterator[str]:
    first, last = IPv4Address(found.first), IPv4Address(found.last)
    return (str(one) for one in summarize_address_range(first, last))
