"""Devices that are a proxy in user space, in a namespace between two veth ports: what they have in common.

A proxy accepts each connection and opens one of its own to a backend, so the kernel's TCP answers clients and
backends. What bounds it are sockets: descriptors, local ports in TIME_WAIT, the accept queue, its worker's core.
Sources: ip-sysctl and the kernel's Documentation/networking; prlimit(1), ethtool(8), tcp(7), listen(2).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from pinchpoint.bench.requirements import Probe, command
from pinchpoint.bench.resource import AnyResource, Command, Daemon, MarkedProcesses, TextFile
from pinchpoint.dut import addresses, checks, softirq
from pinchpoint.dut.device import Defaults, Freezing, Pages, RawScenario, Read, Seen
from pinchpoint.dut.proxy_live import RANGE, RELOAD, SPARE_DESCRIPTORS
from pinchpoint.dut.services import Option, Services
from pinchpoint.host.interface import PROC, Host
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key
from pinchpoint.keys.source import Source
from pinchpoint.model.hops import HopGraph
from pinchpoint.model.scenario import Family, Mode, Port, Scenario, Scheduler, Service
from pinchpoint.model.trial import BusyBy, ThreadLoad

LONG_S = 3600.0  # on a connection on which nothing is sent, unless the service says for how long it is remembered
CONNECT_S = 5.0  # for which a backend is waited for
_MOST_DESCRIPTORS = 1_048_576  # the kernel's default of fs.nr_open
_NR_OPEN = f"{PROC}/sys/fs/nr_open"
_HARD = re.compile(r"^Max open files\s+\S+\s+(\d+)", re.MULTILINE)
_CAPABLE = re.compile(r"^CapEff:\s+([0-9a-f]+)", re.MULTILINE)
_SYS_RESOURCE = 24  # the number of CAP_SYS_RESOURCE (capabilities(7))
_RUN_NS = re.compile(r"host/thread/(worker-\d+)/run_ns")

KEYS = (
    Key(
        "cpus",
        kinds.cpus(),
        "CPUs of its workers, one for each; they are also set as rps_cpus of every port, so that the kernel's TCP runs "
        "there.",
        [1],
    ),
    Key(
        "descriptors",
        kinds.integer(256, _MOST_DESCRIPTORS),
        "Files that each of its processes may open (RLIMIT_NOFILE). A connection takes two.",
        16_384,
    ),
    Key(
        "backlog",
        kinds.integer(1, 65_535),
        "Places in the accept queue of each listening socket: the backlog of listen(2), and net.core.somaxconn and "
        "net.ipv4.tcp_max_syn_backlog of the namespace.",
        4096,
    ),
)
ACTIONS = {
    RELOAD: "it loads its configuration again, while the processes before serve the connections that they have",
}
OPTIONS = (Option.LOCAL_PORTS, Option.MAX_CONNECTIONS, Option.ESTABLISHED_S)
SERVICES = Services(tuple(Scheduler), (Mode.FULL_NAT,), OPTIONS, terminates=True, families=tuple(Family))


@dataclass(frozen=True)
class ProxyDut:
    """A proxy; each kind has a subclass with its name."""

    cpus: tuple[int, ...]
    descriptors: int
    backlog: int
    kind: str

    @property
    def polls(self) -> bool:
        """Never: it waits for events."""
        return False

    @property
    def io(self) -> str:
        """Always veth pairs between its namespace and the engine's."""
        return "veth"


def spec(scenario: Scenario) -> ProxyDut:
    """The scenario's device, which is a proxy."""
    assert isinstance(scenario.dut, ProxyDut)
    return scenario.dut


def served(scenario: Scenario) -> Service:
    """The scenario's [service], which a proxy always has."""
    assert scenario.service is not None, "checked as the file was read"
    return scenario.service


def sysctls(scenario: Scenario) -> dict[str, str]:
    """Of the namespace, by name, that a bench sets."""
    backlog, ports = str(spec(scenario).backlog), served(scenario).local_ports
    values = {"net/core/somaxconn": backlog, "net/ipv4/tcp_max_syn_backlog": backlog}
    values |= addresses.sysctls(served(scenario), forwards=False)
    return {**values, RANGE: f"{ports.first} {ports.last}"} if ports else values


@dataclass(frozen=True)
class ProxyBench(softirq.KernelBench):
    """A proxy, planned; a kind adds its configuration and its command."""

    def config(self) -> Sequence[str]:
        """Lines of the program's configuration."""
        raise NotImplementedError

    def argv(self) -> Sequence[str]:
        """The program in the foreground, with its configuration."""
        raise NotImplementedError

    @property
    def config_path(self) -> str:
        """Where its configuration is."""
        return f"{self.places.directory}/{self.scenario.dut.kind}.conf"

    @property
    def socket_path(self) -> str:
        """Where it answers questions."""
        return f"{self.places.directory}/{self.scenario.dut.kind}.sock"

    def resources(self, pages: Pages, engine: Sequence[str]) -> list[AnyResource]:
        """Ports that finish their checksums, sysctls, addresses, the program."""
        netns, batch = self.places.dut_netns, f"{self.places.directory}/addresses.ip"
        settings = (f"{name}={value}" for name, value in sysctls(self.scenario).items())
        return [
            *softirq.ports(self.scenario, self.places, pages),
            *(Command(("ethtool", "-K", port.name, "tx", "off"), netns) for port in self.scenario.ports),
            Command(("sysctl", "-qw", *settings), netns),
            TextFile(batch, tuple(addresses.batch(served(self.scenario)))),
            Command(("ip", "-n", netns, "-batch", batch)),
            TextFile(self.config_path, tuple(self.config())),
            MarkedProcesses(self.places.bench_id),  # while the namespace tells whose they are: `host/processes.py`
            self.daemon(),
        ]

    def daemon(self) -> Daemon:
        """Its process, which starts all others."""
        kind, places = self.scenario.dut.kind, self.places
        pidfile, log = places.pidfile(kind), f"{places.directory}/{kind}.log"
        detached = ("start-stop-daemon", "--start", "--background", "--make-pidfile", "--pidfile", pidfile)
        limited = ("--", "prlimit", f"--nofile={spec(self.scenario).descriptors}", *self.argv())
        return Daemon(
            name=kind,
            argv=(*detached, "--output", log, "--startas", "/usr/bin/env", *limited),
            pidfile=pidfile,
            log=log,
            bench_id=places.bench_id,
            netns=places.dut_netns,
            cpus=self.scenario.dut.cpus,
            environment=places.environment,
        )


@dataclass(frozen=True)
class ProxyDevice(Defaults):
    """What kinds of proxies have in common."""

    def read(self, raw: RawScenario, source: Source) -> Callable[[], Read]:
        """Two ports, a service, and descriptors for its connections."""
        softirq.check(raw, source, self.kind)
        checks.two_ports(raw, source)
        dut, service = raw.dut, raw.tables.get("service", {})
        if raw.measure and not service:
            problem = f'expected a measure that opens connections where dut.kind is "{self.kind}": it only proxies'
            source.problem(("measure",), problem)
        most, descriptors = service.get("max_connections"), dut.get("descriptors")
        if most is not None and descriptors is not None and (least := 2 * most + SPARE_DESCRIPTORS) > descriptors:
            wanted = f"at least {least:,}, two for each of service.max_connections and {SPARE_DESCRIPTORS} others"
            source.mismatch(("dut", "descriptors"), wanted, descriptors)
        ports = (Port(**port.values) for port in raw.ports)
        return lambda: Read(self.types.dut(dut["cpus"], dut["descriptors"], dut["backlog"]), tuple(ports))

    def needs(self, scenario: Scenario, host: Host) -> Iterator[Probe]:
        """The program, and what a namespace with a proxy is made with."""
        yield from self.probes(host)
        yield descriptors(host, spec(scenario).descriptors)

    def moved(self, scenario: Scenario, cpus: tuple[int, ...]) -> Scenario:
        """The scenario with its workers on other CPUs."""
        return replace(scenario, dut=replace(spec(scenario), cpus=cpus))

    def freezing(self, scenario: Scenario) -> Freezing:
        return Freezing(
            why_not=f"the kernel's TCP, which answers for {self.title}, keeps answering while the process is frozen"
        )

    def graph(self, scenario: Scenario) -> HopGraph:
        """Only the links: it makes segments of its own, so what leaves is not what came."""
        return HopGraph(softirq.REFUSED, (softirq.RECEIVE, softirq.QUEUES, softirq.SEND), softirq.SETTLES)

    def loads(self, seen: Seen, traffic_s: float) -> tuple[ThreadLoad, ...]:
        return loads(seen, traffic_s)


def programs(host: Host, name: str, package: str) -> Iterator[Probe]:
    """The program of a Debian package, and the tools that every proxy's bench uses."""
    yield command(host, name, package)
    yield from tools(host)


def tools(host: Host) -> Iterator[Probe]:
    """What the bench of a proxy is made and read with."""
    yield command(host, "ip", "iproute2")
    yield command(host, "ss", "iproute2")
    yield command(host, "sysctl", "procps")
    yield command(host, "ethtool", "ethtool")
    yield command(host, "prlimit", "util-linux")
    yield command(host, "taskset", "util-linux")
    yield command(host, "start-stop-daemon", "dpkg")
    yield softirq.steering(host)


def descriptors(host: Host, wanted: int) -> Probe:
    """Whether this process may raise the limit of open files to `wanted` for another one (setrlimit(2))."""
    name = "descriptors"
    try:
        hard = _HARD.search(host.read(f"{PROC}/self/limits"))
        may = _CAPABLE.search(host.read(f"{PROC}/self/status"))
        is_free = bool(may and int(may[1], 16) >> _SYS_RESOURCE & 1)
        most = int(host.read(_NR_OPEN)) if is_free or not hard else int(hard[1])
    except (OSError, ValueError) as error:
        return Probe(name, True, f"how many a process may open cannot be read: {error}")
    detail = f"a process may open {most:,} files" + (f", dut.descriptors asks for {wanted:,}" if wanted > most else "")
    raised = f"sysctl fs.nr_open={wanted}" if is_free else f"ulimit -Hn {wanted} before the lab starts"
    return Probe(name, wanted <= most, detail, f"{raised}; or dut.descriptors = {most}")


def loads(seen: Seen, traffic_s: float) -> tuple[ThreadLoad, ...]:
    """The share of the time for which each worker ran.

    Which of them handled a frame is not counted: the frames that the ports received are divided among them in the
    proportion of their times.
    """
    ran = {match[1]: ns for name, ns in seen.items() if (match := _RUN_NS.fullmatch(name))}
    received = sum(n for name, n in seen.items() if name.startswith("host/link/dut/") and name.endswith("/rx_packets"))
    total = sum(ran.values())
    return tuple(
        ThreadLoad(
            name=name,
            cpu=_cpu(seen, name),
            received=int(received * ns / total) if total else 0,
            busy_share=min(1.0, ns / 1e9 / traffic_s) if traffic_s > 0 else None,
            busy_by=BusyBy.PROCESSOR_TIME if traffic_s > 0 else None,
        )
        for name, ns in sorted(ran.items(), key=lambda worker: int(worker[0].rpartition("-")[2]))
    )


def _cpu(seen: Seen, worker: str) -> int | None:
    cpu = seen.get(f"host/thread/{worker}/cpu")
    return None if cpu is None else int(cpu)
