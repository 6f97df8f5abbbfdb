"""DPVS, a balancer on DPDK, of the user's own build (packaging/build-dpvs): one worker between veth ports.

`live`  its configuration file and the commands that describe a service to it; one that runs: what its tools print,
        settings, counters, limits

Sources: conf/dpvs.conf.items and doc/tutorial.md of DPVS 1.10.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from pinchpoint.bench.requirements import Probe
from pinchpoint.bench.resource import AnyResource, Command, Daemon, Namespace, TextFile
from pinchpoint.dut import checks
from pinchpoint.dut.attach import by_veth, foundation, port_graph, veths
from pinchpoint.dut.device import Attachment, Bench, Device, Keys, Pages, RawScenario, Seen, Types, dut_of, programs
from pinchpoint.dut.dpvs import live
from pinchpoint.dut.dpvs.live import DpvsLive, Tools
from pinchpoint.dut.program import control_cpu, detached
from pinchpoint.dut.services import Option, Services
from pinchpoint.host.interface import Host
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Unset
from pinchpoint.model.hops import DropKind, HopGraph
from pinchpoint.model.scenario import Guest, Mode, Port, Scenario, Scheduler
from pinchpoint.model.trial import ThreadLoad

PROGRAM = "dpvs"
_PORT = "dpvs/port/"
_DROPS = {
    "imissed": ("receive ring of {port} full", DropKind.RECEIVE_RING),
    "rx_nombuf": ("no buffer on {port}", DropKind.BUFFERS),
    "ierrors": ("receive errors of {port}", DropKind.MALFORMED),
}
_UNSENT = {"oerrors": ("transmit errors of {port}", DropKind.TRANSMIT_RING)}
_START_S = 30.0  # in which it clears its memory and answers
_BUILD = "packaging/build-dpvs DPVS_TREE DPDK_TREE FOLDER, then --set dut.program=FOLDER/bin/dpvs"


@dataclass(frozen=True)
class DpvsDut:
    """A balancer with one worker."""

    cpus: tuple[int, ...]  # the worker's
    control_cpu: int | None  # the master's, which polls too; None: the engine's first
    memory_mb: int
    program: str | None
    kind: str = "dpvs"

    polls = True
    io = "veth"  # which DPDK's af_packet driver reads


class DpvsBench(Bench):
    """One bench of DPVS, planned: veth ports, its configuration, the daemon, the service."""

    def resources(self, pages: Pages, engine: Sequence[str]) -> list[AnyResource]:
        """Ports, the configuration file, the process, and what describes the service to it."""
        places, service, tools = self.places, self.scenario.service, self._tools()
        numbers = {port.name: number for number, port in enumerate(self.scenario.ports)}
        setup = live.setup(service, numbers, tools.dpip, tools.ipvsadm) if service else ()
        wait = ("timeout", f"{_START_S:g}", "sh", "-c", _WAIT, tools.dpip)
        return [
            *foundation(places, pages),
            Namespace(places.dut_netns),
            *veths(self.scenario, places),
            TextFile(self._file("conf"), tuple(live.lines(service, len(numbers), self._file("log")))),
            self._daemon(),
            # Its tools do not wait: they fail until it serves its socket.
            Command(wait, environment=tools.environment, timeout_s=_START_S + 5),
            *(Command(argv, environment=tools.environment) for argv in setup),
        ]

    def attachment(self, number: int, port: Port) -> Attachment:
        """The far end of a veth pair. Raises InputError."""
        return by_veth(self.scenario, self.places, port, "af_packet")

    def facts(self) -> Mapping[str, str]:
        """Where its two threads poll."""
        control = control_cpu(self.scenario, dut_of(self.scenario, DpvsDut).control_cpu)
        shared = ", which the engine uses too" if control in self.scenario.engine.cpus else ""
        return {"DPVS polls": f"worker on CPU {self.scenario.dut.cpus[0]}, master on CPU {control}{shared}"}

    def open(self) -> DpvsLive:
        return DpvsLive(self, self._daemon(), self._tools(), self._file("log"))

    def _file(self, ending: str) -> str:
        return f"{self.places.directory}/dpvs.{ending}"

    def _tools(self) -> Tools:
        folder = PurePosixPath(dut_of(self.scenario, DpvsDut).program or f"/{PROGRAM}").parent
        return Tools(self.places.host, f"{folder}/dpip", f"{folder}/ipvsadm", self._file("ipc"))

    def _daemon(self) -> Daemon:
        places, dut = self.places, dut_of(self.scenario, DpvsDut)
        own = ("-c", self._file("conf"), "-p", self._file("own-pid"), "-x", self._file("ipc"))
        lcores = f"0@{control_cpu(self.scenario, dut.control_cpu)},1@{dut.cpus[0]}"
        eal = ("--lcores", lcores, "--no-pci", "--no-huge", "-m", str(dut.memory_mb))
        vdevs = (f"--vdev=net_af_packet{n},iface={port.name}" for n, port in enumerate(self.scenario.ports))
        argv = (dut.program or PROGRAM, *own, "--", *eal, f"--file-prefix={places.bench_id}", *vdevs)
        folder = (("RUNTIME_DIRECTORY", str(places.directory)),)
        return detached(places, PROGRAM, self._file("out"), argv, netns=places.dut_netns, environment=folder)


_WAIT = 'until "$0" link show >/dev/null 2>&1; do sleep 0.1; done'


class DpvsDevice(Device):
    """The kind `dpvs`: a full-NAT balancer on DPDK, one worker between two veth ports."""

    bench_type = DpvsBench
    largest_frame = 1518  # its ports have an MTU of 1,500

    def check(self, raw: RawScenario) -> None:
        """A balancer between two ports."""
        checks.between_ports(raw, self.kind, polls=True, ringless='dut.kind is "dpvs"')
        _check_service(raw)
        cpus, control = raw.dut.get("cpus", ()), raw.dut.get("control_cpu")
        if len(cpus) > 1:
            problem = "one CPU: more workers need ports that steer frames to them (rte_flow), which veth ports do not"
            raw.mismatch(("dut", "cpus"), problem, list(cpus))
        if control in cpus:
            raw.mismatch(("dut", "control_cpu"), "a CPU other than that of dut.cpus", control)

    def needs(self, scenario: Scenario, host: Host) -> Iterator[Probe]:
        """The program with its tools beside it."""
        return self.probes(host, None, dut_of(scenario, DpvsDut).program)

    def probes(self, host: Host, guest: Guest | None = None, path: str | None = None) -> Iterator[Probe]:
        """What a service needs; the program is given on the command line, never in a file."""
        yield from programs(host, {"ip": "iproute2", "start-stop-daemon": "dpkg"})
        wrong = "not given" if path is None else what_is_wrong(host, path)
        yield Probe("dut.program", not wrong, f"{path or 'dpvs'}: {wrong or 'there'}", f"build it: {_BUILD}")

    def standing_s(self, scenario: Scenario) -> float:
        """It clears its memory first."""
        return 8.0

    def moved(self, scenario: Scenario, cpus: tuple[int, ...]) -> Scenario:
        """Another CPU for the worker."""
        return super().moved(scenario, cpus[:1])

    def loads(self, seen: Seen, traffic_s: float) -> tuple[ThreadLoad, ...]:
        """What its worker received. It polls: neither its processor time nor its empty polls say how busy it was."""
        received = sum(int(n) for name, n in seen.items() if name.startswith(_PORT) and name.endswith("/ipackets"))
        return (ThreadLoad("DPVS worker", None, received),) if received else ()

    def graph(self, scenario: Scenario) -> HopGraph:
        """Receives, balances, sends; drops are the ports' own counters."""
        return port_graph("DPVS", "balances", _PORT, _DROPS, _UNSENT)


def _check_service(raw: RawScenario) -> None:
    """DPVS takes its numbers: it would replace others by its defaults."""
    most = raw.tables["service"].get("max_connections")
    if most is not None and most < live.SMALLEST_POOL:
        wanted = f"{live.SMALLEST_POOL:,} or more: DPVS makes no smaller table (conn_pool_size)"
        raw.mismatch(("service", "max_connections"), wanted, most)
    for key in (Option.OPENING_S, Option.ESTABLISHED_S, Option.CLOSED_S):
        checks.whole_seconds(raw, key, 1, live.LONGEST_S, f", 1 to {live.LONGEST_S:,}")


def what_is_wrong(host: Host, path: str) -> str:
    """Why a build cannot be the balancer; empty if it can."""
    beside = PurePosixPath(path).parent
    absent = [str(file) for file in (path, beside / "dpip", beside / "ipvsadm") if host.which(str(file)) is None]
    return f"not executable: {', '.join(absent)}" if absent else ""


_KEYS = Keys(
    dut=(
        Key("cpus", kinds.cpus(), "The CPU of its worker.", [1]),
        Key("control_cpu", kinds.integer(0, 4095),
            "CPU of its master, which polls too: shared with the engine, it takes up to half of that CPU.",
            Unset("the engine's first")),
        Key("memory_mb", kinds.integer(512, 1_048_576), "Memory, MiB, in pages of 4 KiB (--no-huge).", 1024),
        Key("program", kinds.absolute_path(),
            "The program, with `dpip` and `ipvsadm` beside it, as packaging/build-dpvs leaves them. Taken from the "
            "command line only (`--set dut.program=/path/to/dpvs`): a file must not choose what runs as root.",
            Unset("none: required"), command_line_only=True),
    ),
    services=Services((Scheduler.ROUND_ROBIN,), (Mode.FULL_NAT,),
        (Option.MAX_CONNECTIONS, Option.OPENING_S, Option.ESTABLISHED_S, Option.CLOSED_S), is_required=True),
)  # fmt: skip
DEVICE = DpvsDevice("dpvs", "DPVS", Types(DpvsDut), _KEYS)
