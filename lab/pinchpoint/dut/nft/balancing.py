"""A service as nftables does it: destination NAT by a counter or a hash, source NAT by a counter.

Sources: nft(8), NAT STATEMENTS, NUMGEN EXPRESSION and HASH EXPRESSIONS. A NAT chain sees the first packet of a
connection alone, so `numgen inc` takes the backends exactly in turn.
"""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, summarize_address_range

from pinchpoint.model.scenario import Backend, Mode, Range, Scheduler, Service

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
    yield "table ip pinchpoint-service {"
    yield "  chain prerouting {"
    yield "    type nat hook prerouting priority dstnat; policy accept;"
    yield f"    {_dealt(service, service.backends)}"
    yield "  }"
    if service.mode is Mode.FULL_NAT:
        yield "  chain postrouting {"
        yield "    type nat hook postrouting priority srcnat; policy accept;"
        pool = ", ".join(f"{number} : {one}" for number, one in enumerate(service.locals))
        chosen = f"numgen inc mod {len(service.locals)} map {{ {pool} }}"
        yield f"    ct original ip daddr {service.address} counter snat to {chosen}"
        yield "  }"
    yield "}"


def dealt_to(service: Service, backends: Sequence[Backend]) -> Iterator[str]:
    """Lines that deal new connections to these in the place of those before, in one transaction."""
    yield "flush chain ip pinchpoint-service prerouting"
    if backends:
        yield f"add rule ip pinchpoint-service prerouting {_dealt(service, backends)}"


def again(service: Service) -> Iterator[str]:
    """Lines that load the whole ruleset in the place of the one that is there, in one transaction."""
    yield "delete table ip pinchpoint-service"
    yield from ruleset(service)


def _dealt(service: Service, backends: Sequence[Backend]) -> str:
    ends = ", ".join(f"{number} : {one.address} . {one.port}" for number, one in enumerate(backends))
    chosen = f"{_choice(service, len(backends))} map {{ {ends} }}"
    return f"ip daddr {service.address} tcp dport {service.port} counter dnat ip to {chosen}"


def _choice(service: Service, count: int) -> str:
    if service.scheduler is Scheduler.HASH:
        return f"jhash ip saddr . tcp sport mod {count} seed {_SEED}"
    return f"numgen inc mod {count}"


def _prefixes(found: Range) -> Iterator[str]:
    first, last = IPv4Address(found.first), IPv4Address(found.last)
    return (str(one) for one in summarize_address_range(first, last))
