"""The configuration file of DPVS and the commands that describe a service to it (conf/dpvs.conf.items, ipvsadm(8))."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Address, summarize_address_range
from typing import Final

from pinchpoint.dut.program import braced
from pinchpoint.model.scenario import Backend, Service

SMALLEST_POOL: Final = 65_536  # connections; DPVS takes its default where the file has fewer
DEFAULT_POOL: Final = 65_536  # its own default, 2,097,152, takes gigabytes
LONGEST_S: Final = 31_535_999  # of a time-out; DPVS takes its default for a longer one or for 0
LOCAL_PORTS: Final = 64_511  # of each pool: 1,025 to 65,535 (src/sa_pool.c)
OPENING: Final = ("syn_sent", "syn_recv")
CLOSED: Final = ("fin_wait", "time_wait", "close", "close_wait", "last_ack")
_ESTABLISHED: Final = "established"
_BUFFERS: Final = 16_383  # far more than two ports with rings of 1,024 frames hold
_RING: Final = 1024
_ANSWER_US: Final = 1_000_000


def port_name(number: int) -> str:
    """What DPVS calls its port of that number."""
    return f"dpdk{number}"


def timeouts(service: Service | None) -> dict[str, int]:
    """Seconds by state of a TCP connection; those that the scenario leaves out are DPVS's own."""
    if service is None:
        return {}
    limits = ((OPENING, service.opening_s), ((_ESTABLISHED,), service.established_s), (CLOSED, service.closed_s))
    return {state: round(value) for states, value in limits if value is not None for state in states}


def pool_size(service: Service | None) -> int:
    """Connections that it can remember at once."""
    return (service.max_connections if service else None) or DEFAULT_POOL


def local_places(locals_: int, backends: Sequence[Backend], counted: int) -> int | None:
    """Connections dealt in turn that have a local port at once, of `counted` ports of all local addresses.

    Each local address has several pools of the same ports. A backend draws from one of them: its port and the lower
    16 bits of its address, added, modulo their number (sa_pool_hash in src/sa_pool.c). The other pools are of no use,
    and backends that share one empty it sooner. None: not known, since `counted` is no multiple of a pool.
    """
    pools, rest = divmod(counted, locals_ * LOCAL_PORTS)
    if rest or not pools:
        return None
    shared = Counter(((int(IPv4Address(backend.address)) & 0xFFFF) + backend.port) % pools for backend in backends)
    return locals_ * LOCAL_PORTS * len(backends) // max(shared.values())


def lines(service: Service | None, ports: int, log: str) -> Iterator[str]:
    """The file: one worker that drives one queue of every port, beside the master."""
    names = [port_name(number) for number in range(ports)]
    rings = [line for way in ("rx", "tx") for line in braced(way, "queue_number 1", f"descriptor_number {_RING}")]
    devices = [line for name in names for line in braced(f"<init> device {name}", *rings)]
    queues = [line for name in names for line in braced(f"port {name}", "rx_queue_ids 0", "tx_queue_ids 0")]
    master = braced("<init> worker cpu0", "type master", "cpu_id 0")
    worker = braced("<init> worker cpu1", "type slave", "cpu_id 1", *queues)
    pool = braced("conn", f"<init> conn_pool_size {pool_size(service)}")
    waits = braced("timeout", *(f"{state} {seconds}" for state, seconds in timeouts(service).items()))
    yield from braced("global_defs", "log_level INFO", f"log_file {log}", "<init> kni off", "lldp off")
    yield from braced("netif_defs", f"<init> pktpool_size {_BUFFERS}", "<init> pktpool_cache 256", *devices)
    # Its default of 2 ms is over before a worker that shares its core has run: what is asked would be dropped.
    yield from braced("ctrl_defs", *braced("lcore_msg", f"sync_msg_timeout_us {_ANSWER_US}"))
    yield from braced("worker_defs", *master, *worker)
    yield from braced("ipvs_defs", *pool, *braced("tcp", *waits))
    # rte_flow would steer answers to the worker that owns a local port: there is one worker.
    yield from braced("sa_pool", "<init> flow_enable off")


def setup(service: Service, ports: Mapping[str, int], dpip: str, ipvsadm: str) -> Iterator[tuple[str, ...]]:
    """Commands that make the service, once DPVS answers; `ports` gives the number of each port."""
    clients, servers = port_name(ports[service.client_port]), port_name(ports[service.server_port])
    virtual = ("-t", f"{service.address}:{service.port}")
    yield (dpip, "addr", "add", f"{service.address}/32", "dev", clients)
    for prefix in summarize_address_range(*_ends(service)):
        yield (dpip, "route", "add", str(prefix), "dev", clients)
    for address in dict.fromkeys(backend.address for backend in service.backends):
        yield (dpip, "route", "add", f"{address}/32", "dev", servers)
    yield (ipvsadm, "-A", *virtual, "-s", "rr")
    for backend in service.backends:
        real = ("-r", f"{backend.address}:{backend.port}", "-b", "-w", "1")  # -b: full-NAT
        yield (ipvsadm, "-a", *virtual, *real)
    for local in service.locals:
        yield (ipvsadm, "-P", *virtual, "-z", local, "-F", servers)


def _ends(service: Service) -> tuple[IPv4Address, IPv4Address]:
    clients = service.clients
    return IPv4Address(clients.first), IPv4Address(clients.first + clients.count - 1)
