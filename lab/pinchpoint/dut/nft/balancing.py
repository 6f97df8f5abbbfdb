"""A service as nftables does it: destination NAT by a counter or a hash, source NAT by a counter.

Sources: nft(8), NAT STATEMENTS, NUMGEN EXPRESSION and HASH EXPRESSIONS. A NAT chain sees the first packet of a
connection alone, so `numgen inc` takes the backends exactly in turn.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address, summarize_address_range

from pinchpoint.host.interface import Host
from pinchpoint.model.scenario import Established, Mode, Range, Scheduler, Service

UNTRACKED = "pinchpoint-untracked"  # the counter of frames on connections that are not known
_SEED = "0x70696e63"  # of the hash: the same connections go to the same backends in every bench


def addresses(service: Service | None, established: Established | None = None) -> Iterator[str]:
    """Lines of `ip -batch`: the device's addresses, and where clients and backends are; all answer ARP requests.

    While frames are sent on connections that stand, nothing waits for such an answer of a backend.
    """
    if not service:
        return
    clients, servers = service.client_port, service.server_port
    yield f"address add {service.address}/32 dev {clients}"
    yield from (f"address add {one}/32 dev {servers}" for one in service.locals)
    yield from (f"route add {prefix} dev {clients}" for prefix in _prefixes(service.clients))
    backends = dict.fromkeys(one.address for one in service.backends)
    source = f" src {service.locals[0]}" if service.locals else ""
    yield from (f"route add {one}/32 dev {servers}{source}" for one in backends)
    if established:
        at = f"lladdr {established.server_mac} dev {servers} nud permanent"
        yield from (f"neighbour add {one} {at}" for one in backends)


def sysctls(established: Established | None) -> dict[str, str]:
    """Of the namespace, by name: a connection that it has forgotten is not taken for a new one (nf_conntrack-sysctl).

    Its frames would go on to another backend, and nothing would show that it was forgotten.
    """
    return {"net/netfilter/nf_conntrack_tcp_loose": "0"} if established else {}


def times(host: Host, netns: str) -> dict[str, str]:
    """When the namespace forgets a connection: one that is idle, one whose data nobody acknowledges."""
    names = [
        f"net/netfilter/nf_conntrack_tcp_timeout_{one}" for one in ("established", "unacknowledged", "max_retrans")
    ]
    said = host.run(["sysctl", "-n", *names], netns).split()
    return {name.replace("/", "."): f"{value} s" for name, value in zip(names, said, strict=True)}


def ruleset(service: Service, established: Established | None = None) -> Iterator[str]:
    """Lines of a ruleset."""
    yield "table ip pinchpoint-service {"
    if established:  # what is not translated is for the namespace itself: no other frame takes this chain
        yield f"  counter {UNTRACKED} {{ }}"
        yield "  chain input {"
        yield "    type filter hook input priority filter; policy accept;"
        yield f"    ip daddr {service.address} tcp dport {service.port} counter name {UNTRACKED} drop"
        yield "  }"
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
        yield f"    ct original ip daddr {service.address} counter snat to {chosen}"
        yield "  }"
    yield "}"


def _choice(service: Service) -> str:
    count = len(service.backends)
    if service.scheduler is Scheduler.HASH:
        return f"jhash ip saddr . tcp sport mod {count} seed {_SEED}"
    return f"numgen inc mod {count}"


def _prefixes(found: Range) -> Iterator[str]:
    first, last = IPv4Address(found.first), IPv4Address(found.last)
    return (str(one) for one in summarize_address_range(first, last))
