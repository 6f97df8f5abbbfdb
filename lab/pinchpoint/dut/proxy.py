"""Devices that are a proxy in user space, in a namespace between two veth ports: what they have in common.

A proxy accepts each connection and opens one of its own to a backend, so the kernel's TCP answers clients and
backends. What bounds it are sockets: descriptors, local ports in TIME_WAIT, the accept queue, its worker's core.
Sources: ip-sysctl and the kernel's Documentation/networking; prlimit(1), ethtool(8), tcp(7), listen(2).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from pinchpoint.bench.requirements import Probe
from pinchpoint.bench.resource import AnyResource, Command, Daemon, MarkedProcesses, TextFile
from pinchpoint.dut import addresses, checks, softirq
from pinchpoint.dut.device import Device, Freezing, Pages, RawScenario, Seen, between, dut_of, programs
from pinchpoint.dut.program import detached
from pinchpoint.dut.services import BY_TUPLE, Option, Services, served
from pinchpoint.host.interface import PROC, Host
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Unset
from pinchpoint.model.hops import HopGraph
from pinchpoint.model.scenario import Family, Guest, Mode, Scenario, Scheduler
from pinchpoint.model.trial import ThreadLoad

SPARE_DESCRIPTORS = 64  # of listening sockets, logs, pipes and event queues
SOCKET = ".sock"
RELOAD = "reload"
RANGE = "net/ipv4/ip_local_port_range"
TW_REUSE = "net/ipv4/tcp_tw_reuse"
LONG_S = 3600.0  # on a connection on which nothing is sent, unless the service says for how long it is remembered
CONNECT_S = 5.0  # for which a backend is waited for
_MOST_DESCRIPTORS = 1_048_576  # the kernel's default of fs.nr_open
_NR_OPEN = f"{PROC}/sys/fs/nr_open"
_HARD = re.compile(r"^Max open files\s+\S+\s+(\d+)", re.MULTILINE)
_CAPABLE = re.compile(r"^CapEff:\s+([0-9a-f]+)", re.MULTILINE)
_SYS_RESOURCE = 24  # the number of CAP_SYS_RESOURCE (capabilities(7))
_TOOLS = {  # with which its bench is made and read
    "ip": "iproute2", "ss": "iproute2", "sysctl": "procps", "ethtool": "ethtool", "prlimit": "util-linux",
    "taskset": "util-linux", "start-stop-daemon": "dpkg",
}  # fmt: skip

KEYS = (
    Key("cpus", kinds.cpus(),
        "CPUs of its workers, one for each; they are also set as rps_cpus of every port, so that the kernel's TCP runs "
        "there.", [1]),
    Key("descriptors", kinds.integer(256, _MOST_DESCRIPTORS),
        "Files that each of its processes may open (RLIMIT_NOFILE). A connection takes two.", 16_384),
    Key("backlog", kinds.integer(1, 65_535),
        "Places in the accept queue of each listening socket: the backlog of listen(2), and net.core.somaxconn and "
        "net.ipv4.tcp_max_syn_backlog of the namespace.", 4096),
    Key("tcp_tw_reuse", kinds.integer(0, 2),
        "net.ipv4.tcp_tw_reuse of the namespace. 1: a connection to a backend may use a local port in TIME-WAIT again "
        "after a second, where both ends send time stamps (`service.timestamps`); 0: never; 2: of the loopback alone.",
        Unset("the kernel's own")),
)  # fmt: skip
ACTIONS = {RELOAD: "it loads its configuration again, while the processes before serve the connections that they have"}
OPTIONS = (Option.LOCAL_PORTS, Option.MAX_CONNECTIONS, Option.ESTABLISHED_S, Option.VLAN)
SERVICES = Services(
    BY_TUPLE, (Mode.FULL_NAT,), OPTIONS, is_required=True, terminates=True, families=tuple(Family)
)  # fmt: skip
CONFIGURED = replace(SERVICES, schedulers=tuple(Scheduler), has_weights=True, most_virtual=SPARE_DESCRIPTORS // 2,
    options=(*OPTIONS, Option.HEALTH_S, Option.PROXY_PROTOCOL))  # fmt: skip


@dataclass(frozen=True)
class ProxyDut(softirq.KernelDut):
    """A TCP proxy of any kind: its CPUs, descriptors and backlog."""

    cpus: tuple[int, ...]
    descriptors: int
    backlog: int
    kind: str
    tcp_tw_reuse: int | None = None


def spec(scenario: Scenario) -> ProxyDut:
    """The scenario's device, which is a proxy."""
    return dut_of(scenario, ProxyDut)


def sysctls(scenario: Scenario) -> dict[str, str]:
    """Of the namespace, by name, that a bench sets."""
    backlog, ports = str(spec(scenario).backlog), served(scenario).local_ports
    values = {"net/core/somaxconn": backlog, "net/ipv4/tcp_max_syn_backlog": backlog}
    values |= addresses.sysctls(served(scenario), forwards=False)
    if (reuse := spec(scenario).tcp_tw_reuse) is not None:
        values[TW_REUSE] = str(reuse)
    return {**values, RANGE: f"{ports.first} {ports.last}"} if ports else values


class ProxyBench(softirq.KernelBench):
    """A proxy, planned; a kind adds its configuration and its command."""

    config_form: ClassVar[str] = "conf"  # with which the name of its configuration's file ends

    def config(self) -> Iterable[str]:
        """Lines of the program's configuration."""
        raise NotImplementedError

    def argv(self) -> Sequence[str]:
        """The program in the foreground, with its configuration."""
        raise NotImplementedError

    def file(self, ending: str) -> str:
        """One of its files in the folder of the bench; `SOCKET`: where it answers questions."""
        return f"{self.places.directory}/{self.scenario.dut.kind}{ending}"

    @property
    def config_path(self) -> str:
        """Where its configuration is."""
        return self.file(f".{self.config_form}")

    def resources(self, pages: Pages, engine: Sequence[str]) -> list[AnyResource]:
        """Ports that finish their checksums, sysctls, addresses, the program."""
        netns = self.places.dut_netns
        return [
            *softirq.ports(self.scenario, self.places, pages),
            *(Command(("ethtool", "-K", port.name, "tx", "off"), netns) for port in self.scenario.ports),
            *addresses.set_sysctls(sysctls(self.scenario), netns),
            *addresses.ip_batch(self.places, "addresses.ip", addresses.batch(served(self.scenario))),
            TextFile(self.config_path, tuple(self.config())),
            MarkedProcesses(self.places.bench_id),  # while the namespace tells whose they are: `host/processes.py`
            self.daemon(),
        ]

    def daemon(self) -> Daemon:
        """Its process, which starts all others."""
        dut, places = spec(self.scenario), self.places
        argv = ("prlimit", f"--nofile={dut.descriptors}", *self.argv())
        return detached(places, dut.kind, self.file(".log"), argv, netns=places.dut_netns, cpus=dut.cpus)


_ADVICE = {
    "descriptors": ("raise dut.descriptors",), "accept-queue": ("raise dut.backlog",),
    "worker-core": ("name more CPUs in dut.cpus",), "local-ports": ("set dut.tcp_tw_reuse = 1",),
}  # fmt: skip


class ProxyDevice(Device):
    """What kinds of proxies have in common."""

    def advice(self, cause: str, seen: Seen) -> Sequence[str]:
        """Of the service's keys and its own."""
        return (*super().advice(cause, seen), *_ADVICE.get(cause, ()))

    def check(self, raw: RawScenario) -> None:
        """Two ports, and descriptors for the connections."""
        softirq.check(raw, self.kind)
        checks.two_ports(raw)
        service, descriptors = raw.tables.get("service", {}), raw.dut.get("descriptors")
        most = service.get("max_connections")
        if most is not None and descriptors is not None and (least := 2 * most + SPARE_DESCRIPTORS) > descriptors:
            wanted = f"at least {least:,}, two for each of service.max_connections and {SPARE_DESCRIPTORS} others"
            raw.mismatch(("dut", "descriptors"), wanted, descriptors)

    def needs(self, scenario: Scenario, host: Host) -> Iterator[Probe]:
        """The program, and what a namespace with a proxy is made with."""
        yield from self.probes(host)
        yield descriptors(host, spec(scenario).descriptors)
        yield from softirq.tags(scenario, host)

    def probes(self, host: Host, guest: Guest | None = None) -> Iterator[Probe]:
        """What the bench of a proxy is made and read with."""
        yield from programs(host, _TOOLS)
        yield softirq.steering(host)

    def freezing(self, scenario: Scenario) -> Freezing:
        kernel = f"the kernel's TCP, which answers for {self.title}"
        return Freezing(why_not=f"{kernel}, keeps answering while the process is frozen")

    def graph(self, scenario: Scenario) -> HopGraph:
        """Only the links: it makes segments of its own, so what leaves is not what came."""
        return HopGraph(softirq.REFUSED, (softirq.RECEIVE, softirq.QUEUES, softirq.SEND), softirq.SETTLES)

    def loads(self, seen: Seen, traffic_s: float) -> tuple[ThreadLoad, ...]:
        """The share of the time for which each worker ran.

        Which of them handled a frame is not counted: the frames that the ports received are divided among them in the
        proportion of their times.
        """
        ran = {int(number): ns for number, ns in between(seen, "host/thread/worker-", "/run_ns").items()}
        frames, everything = softirq.received(seen), sum(ran.values()) or 1.0
        cpu_of = {number: seen.get(f"host/thread/worker-{number}/cpu") for number in ran}
        return tuple(
            softirq.load_by_time(f"worker-{n}", cpu_of[n], frames * ns / everything, ns / 1e9, traffic_s)
            for n, ns in sorted(ran.items())
        )


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
