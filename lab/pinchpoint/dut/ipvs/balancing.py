"""A service as IPVS has it: a virtual server that masquerades, and source NAT of what that sends.

Sources: ipvsadm(8); iptables-extensions(8), ipvs, statistic and SNAT; Documentation/networking/ipvs-sysctl.rst.
IPVS alone changes the destination. For full-NAT its connections are tracked (net.ipv4.vs.conntrack), so that source NAT
sees the first packet of each.
"""

from collections.abc import Iterator

from pinchpoint.dut import addresses
from pinchpoint.model.addresses import alone, bracketed
from pinchpoint.model.scenario import Family, Mode, Range, Scheduler, Service

# Maglev hashing (net/netfilter/ipvs/ip_vs_mh.c) with the client's port: `sh` has 256 places, which two or four backends
# divide evenly and three do not.
_SCHEDULERS = {Scheduler.ROUND_ROBIN: ("rr",), Scheduler.HASH: ("mh", "-b", "mh-port")}
_FORWARDING = {Mode.FULL_NAT: "-m", Mode.DNAT: "-m", Mode.DIRECT: "-g"}  # masquerading, gatewaying
MODULES = {Scheduler.ROUND_ROBIN: "ip_vs_rr", Scheduler.HASH: "ip_vs_mh"}
_ANY_PORT = Range(1024, 64_512)  # what source NAT takes without a range
# Fixed times of IPVS's own table for a SYN that is not followed up, and for a connection that both sides have closed
# (net/netfilter/ipvs/ip_vs_proto_tcp.c, tcp_timeouts). With a connection it forgets the one that is tracked.
OPENING_S, CLOSED_S = 60, 120
TRACKING = "net/netfilter"
LIMIT, TIME_WAIT = f"{TRACKING}/nf_conntrack_max", f"{addresses.TIMEOUT}time_wait"
_CHAINS = f"{TRACKING}/nf_conntrack_buckets"
RECORDED = (_CHAINS, TIME_WAIT)  # whether the service sets them or not
_MOST_CHAINS = 262_144  # what a kernel chooses that has more than 4 GiB


def is_full(service: Service) -> bool:
    """Whether connections are tracked beside IPVS's own table, for source NAT."""
    return service.mode is Mode.FULL_NAT


def virtual(service: Service) -> tuple[str, str]:
    """The virtual server, as options of ipvsadm."""
    return "-t", service.end


def restore(family: Family) -> str:
    """Loads rules of source NAT, as every guest's kernel takes them: user-mode Linux has no nf_tables for IPv4."""
    return "ip6tables-legacy-restore" if family is Family.IPV6 else "iptables-legacy-restore"


def commands(service: Service) -> Iterator[tuple[str, ...]]:
    """The virtual server with its backends, in order."""
    yield ("ipvsadm", "-A", *virtual(service), "-s", *_SCHEDULERS[service.scheduler])
    for backend in service.backends:
        yield ("ipvsadm", "-a", *virtual(service), "-r", backend.end, _FORWARDING[service.mode], "-w", "1")


def timeout(service: Service) -> tuple[str, ...] | None:
    """The one time-out of IPVS's that the service sets; 0 leaves the others."""
    if service.established_s is None:
        return None
    return ("ipvsadm", "--set", str(int(service.established_s)), "0", "0")


def local_ports(service: Service) -> Range:
    """Ports of each local address that source NAT may take."""
    return service.local_ports or _ANY_PORT


def source_nat(service: Service) -> Iterator[str]:
    """A file of iptables-restore(8): local addresses in turn, each with its ports.

    The n-th rule takes one in (count - n) of the connections that reach it. SNAT itself would choose by a hash of
    client and backend.
    """
    ports, count = local_ports(service), len(service.locals)
    range_of_ports = f"{ports.first}-{ports.first + ports.count - 1}"
    sent = f"-p tcp -m ipvs --vaddr {alone(service.address)} --vport {service.port} --vdir ORIGINAL"
    yield "*nat"
    for number, local in enumerate(service.locals):
        turn = f" -m statistic --mode nth --every {count - number} --packet 0" if count - number > 1 else ""
        yield f"-A POSTROUTING {sent}{turn} -j SNAT --to-source {bracketed(local)}:{range_of_ports}"
    yield "COMMIT"


def sysctls(service: Service) -> dict[str, str]:
    """Of the namespace, by name: it forwards whatever the source, balances, and remembers as the service says."""
    routing = addresses.routing((service.client_port, service.server_port))
    routing["net/ipv4/vs/conntrack"] = str(int(is_full(service)))
    return routing | addresses.sysctls(service, forwards=True) | tracking(service)


def table_size(service: Service) -> dict[str, str]:
    """The kernel's own, which no namespace has: places, and as many chains of them as the kernel itself would make."""
    if service.max_connections is None:
        return {}
    chains = min(service.max_connections, _MOST_CHAINS)
    return {LIMIT: str(service.max_connections), _CHAINS: str(chains)}


def tracking(service: Service) -> dict[str, str]:
    """The time-outs of connection tracking that the service sets."""
    return addresses.tracking(service) if is_full(service) else {}
