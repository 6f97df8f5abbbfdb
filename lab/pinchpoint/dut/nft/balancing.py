"""A service as nftables does it: destination NAT by a counter or a hash, source NAT by a counter.

Sources: nft(8), NAT STATEMENTS, NUMGEN EXPRESSION and HASH EXPRESSIONS. A NAT chain sees the first packet of a
connection alone, so `numgen inc` takes the backends exactly in turn. With a range of ports, source NAT tries those of
the range and drops the first packet where all of them lead to the same backend already. `nft -f` takes a file as one
transaction, so that rules can be replaced while connections are opened.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pinchpoint.dut.addresses import TIMEOUT, read_sysctls
from pinchpoint.dut.places import Places
from pinchpoint.dut.program import braced
from pinchpoint.dut.services import is_full
from pinchpoint.host.interface import Host
from pinchpoint.model.scenario import Backend, Established, Family, Range, Scheduler, Service

TABLE = "pinchpoint-service"
UNTRACKED = "pinchpoint-untracked"  # the counter of frames on connections that are not known
_MSS = 1460
SYN_PROXY_SYSCTLS: Final = {"net/netfilter/nf_conntrack_tcp_loose": "0", "net/ipv4/tcp_syncookies": "1"}
"""An acknowledgment of a cookie must not be taken for a connection under way (nf_conntrack-sysctl)."""
_SEED = "0x70696e63"  # of the hash: the same connections go to the same backends in every bench


def word(service: Service) -> str:
    """The family as nft(8) has it, of tables and of statements."""
    return "ip6" if service.family is Family.IPV6 else "ip"


def sysctls(established: Established | None) -> dict[str, str]:
    """Of the namespace, by name: a connection that it has forgotten is not taken for a new one (nf_conntrack-sysctl).

    Its frames would go on to another backend, and nothing would show that it was forgotten.
    """
    return {"net/netfilter/nf_conntrack_tcp_loose": "0"} if established else {}


def times(host: Host, netns: str) -> dict[str, str]:
    """When the namespace forgets a connection: one that is idle, one whose data nobody acknowledges."""
    names = (f"{TIMEOUT}{state}" for state in ("established", "unacknowledged", "max_retrans"))
    return {name.replace("/", "."): f"{value} s" for name, value in read_sysctls(host, netns, names).items()}


def ruleset(service: Service, established: Established | None = None) -> list[str]:
    """Lines of a ruleset."""
    chains = list[str]()
    if established:  # what is not translated is for the namespace itself: no other frame takes this chain
        forgotten = f"{_frames_of(service)} counter name {UNTRACKED} drop"
        chains += [f"counter {UNTRACKED} {{ }}", *_chain("input", "filter hook input priority filter", forgotten)]
    chains += _chain("prerouting", "nat hook prerouting priority dstnat", _dealt(service, service.backends))
    if is_full(service):
        pool = ", ".join(f"{number} : {local}" for number, local in enumerate(service.locals))
        chosen = f"numgen inc mod {len(service.locals)} map {{ {pool} }}"
        ports = f" : {shown_ports(service.local_ports)}" if service.local_ports else ""
        of_service = f"meta l4proto tcp ct original {word(service)} daddr {service.address}"
        translated = f"{of_service} counter snat to {chosen}{ports}"
        chains += _chain("postrouting", "nat hook postrouting priority srcnat", translated)
    return braced(f"table {word(service)} {TABLE}", *chains)


def syn_proxy(service: Service) -> list[str]:
    """Lines of a second table: SYNs are not tracked, and the kernel answers them and what follows by cookies.

    Its own SYN to a backend leaves by the output hook, where it is dealt as others are before routing.
    """
    untracked = f"{_frames_of(service)} tcp flags & (fin|syn|rst|ack) == syn notrack"
    proxied = f"ct state invalid,untracked synproxy mss {_MSS} wscale 7 timestamp sack-perm"
    return braced(
        f"table {word(service)} {TABLE}-syns",
        *_chain("raw", "filter hook prerouting priority raw", untracked),
        *_chain("input", "filter hook input priority filter", f"{_frames_of(service)} {proxied}"),
        *_chain("output", "nat hook output priority -100", _dealt(service, service.backends)),
    )


def _chain(name: str, hook: str, rule: str) -> list[str]:
    return braced(f"chain {name}", f"type {hook}; policy accept;", rule)


def _frames_of(service: Service) -> str:
    """Which frames are for the service, in a rule."""
    return f"{word(service)} daddr {service.address} tcp dport {service.port}"


def shown_ports(ports: Range) -> str:
    """A range of ports as rules have it."""
    return f"{ports.first}-{ports.last}"


def dealt_to(service: Service, backends: Sequence[Backend]) -> Iterator[str]:
    """Lines that deal new connections to these in the place of those before, in one transaction."""
    yield f"flush chain {word(service)} {TABLE} prerouting"
    if backends:
        yield f"add rule {word(service)} {TABLE} prerouting {_dealt(service, backends)}"


def again(service: Service) -> Iterator[str]:
    """Lines that load the whole ruleset in the place of the one that is there, in one transaction."""
    yield f"delete table {word(service)} {TABLE}"
    yield from ruleset(service)


def _dealt(service: Service, backends: Sequence[Backend]) -> str:
    ends = ", ".join(f"{number} : {backend.address} . {backend.port}" for number, backend in enumerate(backends))
    chosen = f"{_choice(service, len(backends))} map {{ {ends} }}"
    return f"{_frames_of(service)} counter dnat {word(service)} to {chosen}"


def _choice(service: Service, count: int) -> str:
    if service.scheduler is Scheduler.HASH:
        return f"jhash {word(service)} saddr . tcp sport mod {count} seed {_SEED}"
    return f"numgen inc mod {count}"


class Rebalancing:
    """Backends removed and added. Connections that are open keep theirs: only their first packet meets the rules."""

    def __init__(self, service: Service, places: Places) -> None:
        self._service, self._places = service, places
        self._removed = set[int]()

    def remove(self, backend: int) -> None:
        """Deal to the others. Raises BenchError."""
        self._removed.add(backend)
        self._deal()

    def add(self, backend: int) -> None:
        """Deal to it again. Raises BenchError."""
        self._removed.discard(backend)
        self._deal()

    def reload(self) -> None:
        """Delete the table and load it again. Raises BenchError."""
        self._load(again(self._service))

    def _deal(self) -> None:
        left = [backend for number, backend in enumerate(self._service.backends) if number not in self._removed]
        self._load(dealt_to(self._service, left))

    def _load(self, lines: Iterable[str]) -> None:
        path, host = f"{self._places.directory}/changed.nft", self._places.host
        host.write(path, "".join(f"{line}\n" for line in lines))
        host.run(["nft", "-f", path], self._places.dut_netns)
