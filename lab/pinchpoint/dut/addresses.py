"""A device's namespace as an IP host between its ports: addresses, routes, sysctls; the same for every such kind.

Sources: ip-address(8), ip-route(8), sysctl(8); Documentation/networking/ip-sysctl.rst, nf_conntrack-sysctl.rst.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import ceil

from pinchpoint.bench.resource import AnyResource, Command, TextFile
from pinchpoint.dut.device import in_force
from pinchpoint.dut.places import Places
from pinchpoint.dut.services import timeouts
from pinchpoint.host.interface import Host
from pinchpoint.model.addresses import alone, is_v6, prefixes, shown
from pinchpoint.model.scenario import Established, Service, Transport

TIMEOUT = "net/netfilter/nf_conntrack_tcp_timeout_"
UDP_TIMEOUT = "net/netfilter/nf_conntrack_udp_timeout"  # of an exchange that has lasted less than two seconds


def batch(service: Service, established: Established | None = None) -> Iterator[str]:
    """Lines of `ip -batch`: the device's addresses, and where clients and backends are; all answer those who ask for
    an address.

    While frames are sent on connections that stand, nothing waits for such an answer of a backend.
    """
    clients, servers = service.client_port, service.server_port
    virtual = (shown(service.virtual.first + n) for n in range(service.address_count))
    yield from (f"address add {_own(address)} dev {clients}" for address in virtual)
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


def routing(ports: Iterable[str]) -> dict[str, str]:
    """Sysctls of a namespace that forwards, by name: whatever the source, and it sends no redirect."""
    # In force as the greater of, or either of, `all` and the port's own.
    settings = [f"{place}/{name}" for place in ("all", *ports) for name in ("rp_filter", "send_redirects")]
    return {"net/ipv4/ip_forward": "1", **{f"net/ipv4/conf/{setting}": "0" for setting in settings}}


def tracking(service: Service) -> dict[str, str]:
    """Time-outs of connection tracking that the service sets, as sysctls of the namespace."""
    if service.transport is Transport.UDP:
        return {} if service.closed_s is None else {UDP_TIMEOUT: str(ceil(service.closed_s))}
    opening, closed = ("syn_sent", "syn_recv"), ("time_wait", "close")  # closed by FINs from both sides, by a reset
    seconds = timeouts(service, opening, ("established",), closed)
    return {f"{TIMEOUT}{state}": str(ceil(value)) for state, value in seconds.items()}


def set_sysctls(values: Mapping[str, str], netns: str | None) -> list[AnyResource]:
    """What sets them; nothing where there are none. Without a namespace they are the kernel's."""
    return [Command(("sysctl", "-qw", *map("=".join, values.items())), netns)] if values else []


def read_sysctls(host: Host, netns: str, names: Iterable[str]) -> dict[str, str]:
    """Sysctls of a namespace as they are, by name."""
    names = list(names)
    said = host.run(["sysctl", "-n", *names], netns).splitlines()
    return dict(zip(names, (" ".join(value.split()) for value in said), strict=True))


def sysctls_in_force(host: Host, netns: str, wanted: Mapping[str, str], also: Iterable[str] = ()) -> dict[str, str]:
    """The same by their dotted names; `wanted` may leave one open. Raises BenchError where another value was set."""
    actual = read_sysctls(host, netns, (*wanted, *also))
    return {name.replace("/", "."): in_force(name, wanted.get(name) or value, value) for name, value in actual.items()}


def ip_batch(places: Places, file: str, lines: Iterable[str]) -> list[AnyResource]:
    """What has ip(8) carry lines out in the device's namespace; `file`: of the bench, which holds them."""
    path = f"{places.directory}/{file}"
    return [TextFile(path, tuple(lines)), Command(("ip", "-n", places.dut_netns, "-batch", path))]


def _own(address: str) -> str:
    return f"{alone(address)} nodad" if is_v6(address) else alone(address)
