"""A running DPVS, as its tools tell (dpip(8) and ipvsadm(8) of its tree, 1.10), and its log.

A build of another release, or a damaged one, may print anything.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address
from typing import Final

from pinchpoint.bench.actions import daemon_pid
from pinchpoint.bench.resource import Daemon
from pinchpoint.dut import services
from pinchpoint.dut.attach import engine_links
from pinchpoint.dut.device import Bench, Live, in_force
from pinchpoint.dut.program import braced
from pinchpoint.dut.services import await_forgotten, served
from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.host.processes import insisted
from pinchpoint.model.addresses import prefixes
from pinchpoint.model.errors import BenchError, DutError
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import Backend, Service
from pinchpoint.observe.printed import Links
from pinchpoint.observe.snapshot import Collector, Snapshot, paths

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
    seconds = services.timeouts(service, OPENING, (_ESTABLISHED,), CLOSED) if service else {}
    return {state: round(value) for state, value in seconds.items()}


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
    virtual = ("-t", service.end)
    yield (dpip, "addr", "add", f"{service.address}/32", "dev", clients)
    for prefix in prefixes(service.clients.first, service.clients.last):
        yield (dpip, "route", "add", prefix, "dev", clients)
    for address in dict.fromkeys(backend.address for backend in service.backends):
        yield (dpip, "route", "add", f"{address}/32", "dev", servers)
    yield (ipvsadm, "-A", *virtual, "-s", "rr")
    for backend in service.backends:
        yield (ipvsadm, "-a", *virtual, "-r", backend.end, "-b", "-w", "1")  # -b: full-NAT
    for local in service.locals:
        yield (ipvsadm, "-P", *virtual, "-z", local, "-F", servers)


LOCAL_USED, LOCAL_MISSED, MISSED = "dpvs/local/used", "dpvs/local/missed", "dpvs/port/*/imissed"
_WORKER: Final = 1  # lcore of the one worker; the master has 0
_LONGEST_FLUSH_S: Final = 60.0
_ANSWER_S: Final = 5.0
_SLACK_S: Final = 5.0  # its timers have ticks, and its worker may wait for its core
_LINK: Final = re.compile(r"^\d+: (\S+): socket ")
_CPU: Final = re.compile(r"^\d+: cpu(\d{1,4}): socket ")
_NAMES: Final = re.compile(r"^\s+((?:[a-z][a-z0-9_-]*\s+)+)$")
_NUMBERS: Final = re.compile(r"^\s+((?:\d{1,20}\s+)+)$")
_POOL: Final = re.compile(r"sa_used (\d{1,20}) sa_free (\d{1,20}) sa_miss (\d{1,20})")
_SERVER: Final = re.compile(r"^\s+-> (\S+)\s+(\d{1,20})\s")
_SETTING: Final = re.compile(r"^[A-Z_]+: (\w+) = (\d{1,12})\b", re.MULTILINE)


@dataclass(frozen=True)
class Tools:
    """Its two programs, each with the socket on which it answers."""

    host: Host
    dpip: str
    ipvsadm: str
    socket: str

    @property
    def environment(self) -> tuple[tuple[str, str], ...]:
        """Where they find it."""
        return (("DPVS_IPC_FILE", self.socket),)

    def said(self, *argv: str) -> str:
        """What a command prints. Raises DutError where it fails."""
        ask = partial(self.host.run, argv, environment=self.environment)
        try:  # a worker that waits for its core may have missed what it was asked
            return insisted(ask, CommandFailed, _ANSWER_S, 0.05)
        except CommandFailed as error:
            raise DutError(f"DPVS does not answer: {error.message}", "see its log") from error


@dataclass(frozen=True)
class Pool:
    """Local addresses and ports, of all local addresses together."""

    used: int
    free: int
    misses: int  # connections for which none was free


def links(text: str) -> dict[str, dict[str, int]]:
    """`dpip -s link show`: port -> counter -> value. Raises DutError where no port is named."""
    return _blocks(text, _LINK, "dpip -s link show")


def cpus(text: str) -> dict[str, dict[str, int]]:
    """`dpip -s link show cpu`: number of a worker -> counter -> value. Raises DutError where none is named.

    pktburst: polls; zpktburst: those that brought nothing.
    """
    return _blocks(text, _CPU, "dpip -s link show cpu")


def _blocks(text: str, head: re.Pattern[str], command: str) -> dict[str, dict[str, int]]:
    """Lines of names, each followed by one of values, below a head."""
    blocks: dict[str, dict[str, int]] = {}
    current: dict[str, int] | None = None
    names: list[str] = []
    for line in text.splitlines():
        if named := head.match(line):
            current, names = blocks.setdefault(named[1], {}), []
        elif words := _NAMES.match(f"{line} "):
            names = words[1].split()
        elif current is not None and names and (values := _NUMBERS.match(f"{line} ")):
            numbers = values[1].split()
            if len(numbers) == len(names):
                current |= dict(zip(names, map(int, numbers), strict=True))
            names = []
    if not blocks:
        raise DutError(f"{command} prints {text[:100]!r}")
    return blocks


def pool(text: str) -> Pool:
    """`dpip -s addr show`: an address without a pool of ports is left out. Raises DutError where none has one."""
    each = [tuple(map(int, row)) for row in _POOL.findall(text)]
    if not each:
        raise DutError(f"dpip -s addr show names no local port: {text[:100]!r}")
    used, free, misses = (sum(column) for column in zip(*each, strict=True))
    return Pool(used, free, misses)


def dealt(text: str) -> dict[str, int]:
    """`ipvsadm -ln --stats --exact`: connections dealt to each backend, by ADDRESS:PORT."""
    return {match[1]: int(match[2]) for line in text.splitlines() if (match := _SERVER.match(line))}


def settings_in(log: str) -> dict[str, int]:
    """What it took from its configuration file, as it says while it starts; the last line of a name counts."""
    return {name: int(value) for name, value in _SETTING.findall(log)}


class Counters(Collector):
    """DPVS's counters by port, CPU and backend, and its pool of local ports, as dpip and ipvsadm print them."""

    name = "dpvs"

    def __init__(self, tools: Tools, service: Service, ports: Mapping[str, str]) -> None:
        """`ports`: DPVS's name of a port -> the scenario's."""
        self._tools, self._service, self._ports = tools, service, ports

    def read(self, at_s: float) -> Snapshot:
        """`dpvs/port/NAME/COUNTER`, `dpvs/cpu/N/COUNTER`, `dpvs/backend/N/connections`, `dpvs/local/missed`.

        Gauge `dpvs/local/used`: local addresses and ports that connections have, closed ones included.
        """
        run, tools = self._tools.said, self._tools
        by_link = links(run(tools.dpip, "-s", "link", "show"))
        counters = paths("dpvs/port", {self._ports.get(link, link): counts for link, counts in by_link.items()})
        counters |= paths("dpvs/cpu", cpus(run(tools.dpip, "-s", "link", "show", "cpu")))
        # Asked of all workers at once, it fails where one of them waits for its core.
        by_backend = dealt(run(tools.ipvsadm, "-ln", "--stats", "--exact", "--cpu", str(_WORKER)))
        for number, backend in enumerate(self._service.backends):
            counters[f"dpvs/backend/{number}/connections"] = by_backend.get(backend.end, 0)
        local = pool(run(tools.dpip, "-s", "addr", "show"))
        return Snapshot(at_s, {**counters, LOCAL_MISSED: local.misses}, {LOCAL_USED: float(local.used)})


class DpvsLive(Live):
    """A DPVS that stands."""

    words = "DPVS"

    def __init__(self, bench: Bench, daemon: Daemon, tools: Tools, log: str) -> None:
        self._scenario, self.places, self.service = bench.scenario, bench.places, served(bench.scenario)
        self._daemon, self._tools, self._log = daemon, tools, log

    def collectors(self) -> list[Collector]:
        """The links at both ends, and its own counters."""
        ports = {port_name(number): port.name for number, port in enumerate(self._scenario.ports)}
        own = Counters(self._tools, self.service, ports)
        ends = Links(self.places.host, self.places.dut_netns, "dut", list(ports.values()))
        return [*engine_links(self._scenario, self.places), ends, own]

    def told(self) -> dict[str, int]:
        """Its settings, as its log has them. Raises DutError if it has ended."""
        daemon_pid(self._daemon, self.places.host)
        return settings_in(self.places.host.read(self._log))

    def settings(self) -> Mapping[str, str]:
        """Table and time-outs. Raises BenchError where one that was set is not in force."""
        told = self.told()
        wanted = {f"tcp_timeout_{state}": value for state, value in timeouts(self.service).items()}
        wanted |= {"conn_pool_size": pool_size(self.service)}
        for name, value in wanted.items():
            in_force(f"DPVS: {name}", value, told.get(name, "nothing"))
        names = (name for name in told if name.startswith(("tcp_timeout_", "conn_")))
        return {name: str(told[name]) for name in sorted(names)}

    def versions(self) -> Mapping[str, str]:
        """Of the protocol of its tools."""
        said = self._tools.said(self._tools.ipvsadm, "-ln", "--stats", "--cpu", str(_WORKER))
        return {"dpvs": said.partition("\n")[0].removeprefix("IP Virtual Server version ").strip()}

    def dumps(self) -> Mapping[str, str]:
        """Its configuration, as it wrote it down."""
        return {"dpvs.conf": self.places.host.read(f"{self.places.directory}/dpvs.conf")}

    def log(self) -> tuple[str, str] | None:
        return "dpvs.log", self.places.host.read(self._log)

    def limits(self) -> tuple[Limit, ...]:
        """Local ports, the table, the worker."""
        local, told = self._pool(), self.told()
        held_s = float(told["tcp_timeout_time_wait"]) if "tcp_timeout_time_wait" in told else None
        held = f"time_wait {held_s:g} s" if held_s is not None else "DPVS's own time_wait"
        places = local_places(len(self.service.locals), self.service.backends, local.used + local.free)
        table = told.get("conn_pool_size")
        most = table - 1 if table else None  # it makes one place fewer (conn_pool_size_handler in ip_vs_conn.c)
        pools = "sa_used + sa_free, of which a backend draws from one pool of each local address"
        return (
            Limit(Resource.LOCAL_PORTS, places, held_s, f"{pools}, {held}", LOCAL_USED, (LOCAL_MISSED,)),
            Limit(Resource.TABLE, most, held_s, f"conn_pool_size - 1, {held}", LOCAL_USED),
            Limit(Resource.WORKER, None, None, "one worker", refused=(MISSED,)),
        )

    def flush(self) -> None:
        """Wait until it has forgotten all: nothing else makes it. Raises BenchError where that takes too long."""
        if left := await_forgotten(self.tracked, _LONGEST_FLUSH_S + _SLACK_S, 0.1):
            raise BenchError(
                f"DPVS remembers {left:,} connections after {_LONGEST_FLUSH_S:g} s: only time-outs end them",
                "set service.opening_s, established_s and closed_s to 30 or less",
            )

    def tracked(self) -> int:
        """Local addresses and ports in use: a connection has one until it is forgotten."""
        return self._pool().used

    def _pool(self) -> Pool:
        return pool(self._tools.said(self._tools.dpip, "-s", "addr", "show"))
