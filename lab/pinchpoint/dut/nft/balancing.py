"""A service as nftables does it: destination NAT by a counter or a hash, source NAT by a counter.

Sources: nft(8), NAT STATEMENTS, NUMGEN EXPRESSION and HASH EXPRESSIONS. A NAT chain sees the first packet of a
connection alone, so `numgen inc` takes the backends exactly in turn.
"""

from collections.abc import Iterator

from pinchpoint.model.scenario import Mode, Scheduler, Service

_SEED = "0x70696e63"  # of the hash: the same connections go to the same backends in every bench


def ruleset(service: Service) -> Iterator[str]:
    """Lines of a ruleset."""
    yield "table ip pinchpoint-service {"
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
