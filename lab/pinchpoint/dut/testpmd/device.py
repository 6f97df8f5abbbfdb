"""testpmd as a kind of device (testpmd_app_ug/run_app in DPDK's documentation).

vhost-user   testpmd is the client, as a switch is; the engine serves the sockets
memif        testpmd is the server and the engine the client: testpmd starts no memif port that finds no server
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pinchpoint.bench.requirements import Probe, command, hugepages
from pinchpoint.bench.resource import AnyResource, Daemon
from pinchpoint.dut import checks
from pinchpoint.dut.attach import by_dpdk, foundation, pages_of
from pinchpoint.dut.device import (
    Attachment,
    Defaults,
    Freezing,
    Keys,
    Pages,
    PlainBench,
    RawScenario,
    Read,
    Seen,
    Types,
)
from pinchpoint.dut.places import Places
from pinchpoint.dut.testpmd.live import Ports, TestpmdLive
from pinchpoint.host.interface import Host
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Unset
from pinchpoint.keys.reader import Values
from pinchpoint.keys.source import Source
from pinchpoint.model.hops import DropCounter, DropKind, HopGraph, Party, Place, Refused
from pinchpoint.model.scenario import Port, Scenario
from pinchpoint.model.trial import ThreadLoad

PROGRAM = "dpdk-testpmd"
VHOST_USER, MEMIF = "vhost-user", "memif"
BUFFERS_PER_MB = 300  # of 2.4 kB each; the rest of the memory holds the rings and what DPDK itself takes
STATS_PERIOD_S = 65_534  # the longest for DPDK 24.11: with a period testpmd waits for a signal, without one for a key


@dataclass(frozen=True)
class TestpmdDut:
    """A forwarder between two ports."""

    io: str  # VHOST_USER or MEMIF
    mode: str
    cpus: tuple[int, ...]  # that forward
    control_cpu: int | None  # None: the engine's first
    memory_mb: int
    kind: str = "testpmd"

    @property
    def polls(self) -> bool:
        """Always: its workers poll the ports."""
        return True


def spec(scenario: Scenario) -> TestpmdDut:
    """What the scenario says of its device."""
    assert isinstance(scenario.dut, TestpmdDut)
    return scenario.dut


@dataclass(frozen=True)
class TestpmdBench(PlainBench):
    """One bench of testpmd, planned: hugepages and the process."""

    def resources(self, pages: Pages, engine: Sequence[str]) -> list[AnyResource]:
        """What every bench has, its hugepages and the process."""
        return [*foundation(self.places, pages, _pages(self.scenario)), self._daemon()]

    def attachment(self, number: int, port: Port) -> Attachment:
        """The far end of a vhost-user port, or a memif client. Raises InputError."""
        end = by_dpdk(self.scenario, self.places, number, port)
        if spec(self.scenario).io == VHOST_USER:
            return end
        size = f"rsize={port.ring.bit_length() - 1}"
        return replace(end, device=f"net_memif{number},role=client,{self._memif(port.name)},{size}")

    def open(self) -> TestpmdLive:
        """Its telemetry, once it forwards. Raises BenchError or DutError."""
        telemetry = f"{self.places.directory}/dpdk/rte/dpdk_telemetry.v2"
        names = [port.name for port in self.scenario.ports]
        host = self.places.host
        ports = Ports(host, telemetry, names, spec(self.scenario).cpus)
        return TestpmdLive(host, self._daemon(), telemetry, ports)

    def _daemon(self) -> Daemon:
        places, pidfile = self.places, self.places.pidfile(PROGRAM)
        log, control = f"{places.directory}/testpmd.log", _control_cpu(self.scenario)
        detached = ("start-stop-daemon", "--start", "--background", "--make-pidfile", "--pidfile", pidfile)
        return Daemon(
            name=PROGRAM,
            argv=(*detached, "--output", log, "--startas", "/usr/bin/env", "--", PROGRAM, *self._words(control)),
            pidfile=pidfile,
            log=log,
            bench_id=places.bench_id,
            cpus=(control,),  # DPDK moves only the forwarding threads off it
            environment=(*places.environment, ("RUNTIME_DIRECTORY", str(places.directory))),
        )

    def _words(self, control: int) -> Iterator[str]:
        dut, ports = spec(self.scenario), self.scenario.ports
        lcores = ",".join(str(cpu) for cpu in (control, *dut.cpus))
        yield from ("-l", lcores, "--main-lcore", str(control), "--no-pci", "--in-memory", "-m", str(dut.memory_mb))
        for number, port in enumerate(ports):
            if dut.io == MEMIF:
                yield f"--vdev=net_memif{number},role=server,{self._memif(port.name)}"
            else:
                yield f"--vdev=net_vhost{number},iface={self.places.vhost_socket(port.name)},queues=1,client=1"
        ring = max(port.ring for port in ports)
        yield from ("--", f"--forward-mode={dut.mode}", f"--nb-cores={len(dut.cpus)}", f"--rxd={ring}", f"--txd={ring}")
        yield f"--total-num-mbufs={BUFFERS_PER_MB * dut.memory_mb}"
        yield from ("--disable-link-check", f"--stats-period={STATS_PERIOD_S}")

    def _memif(self, port: str) -> str:
        return f"socket={self.places.directory}/memif-{port}.sock,socket-abstract=no"


def _control_cpu(scenario: Scenario) -> int:
    asked = spec(scenario).control_cpu
    return scenario.engine.cpus[0] if asked is None else asked


def _pages(scenario: Scenario) -> int:
    return pages_of(spec(scenario).memory_mb + scenario.engine.memory_mb)


@dataclass(frozen=True)
class TestpmdDevice(Defaults):
    """The kind `testpmd`: DPDK's forwarder between two ports."""

    def read(self, raw: RawScenario, source: Source) -> Callable[[], Read]:
        """A forwarder between two ports."""
        checks.own_cpus(raw, source, "cpus", polls=True)
        if raw.dut.get("io") == MEMIF:
            checks.no_vhost(raw, source, f'dut.io is "{MEMIF}"')
        else:
            checks.no_nics(raw, source, 'dut.kind is "testpmd"')
        checks.no_hosts(raw, source, "testpmd")
        checks.names(raw, source)
        checks.two_ports(raw, source)
        checks.one_queue(raw, source, 'dut.kind is "testpmd"')
        cpus, control = raw.dut.get("cpus", ()), raw.dut.get("control_cpu")
        if len(cpus) > 2:
            source.mismatch(("dut", "cpus"), "one CPU or two, since there are two ports of one queue", list(cpus))
        if control in cpus:
            source.mismatch(("dut", "control_cpu"), "a CPU other than those of dut.cpus", control)
        dut = raw.dut
        return lambda: Read(
            TestpmdDut(dut["io"], dut["mode"], dut["cpus"], dut["control_cpu"], dut["memory_mb"]),
            tuple(Port(**port.values) for port in raw.ports),
        )

    def largest_frame(self, dut: Values) -> int:
        """1,518 bytes: its ports have an MTU of 1,500."""
        return 1518

    def needs(self, scenario: Scenario, host: Host) -> Iterator[Probe]:
        """The program, what detaches it, and hugepages."""
        yield command(host, PROGRAM, "dpdk-dev")
        yield command(host, "start-stop-daemon", "dpkg")
        yield command(host, "taskset", "util-linux")
        yield hugepages(host, _pages(scenario), "set dut.memory_mb and engine.memory_mb to less")

    def pages(self, scenario: Scenario) -> int:
        """Those of testpmd and engine."""
        return _pages(scenario)

    def standing_s(self, scenario: Scenario) -> float:
        """Testpmd takes up to three seconds to end."""
        return 6.0

    def moved(self, scenario: Scenario, cpus: tuple[int, ...]) -> Scenario:
        """Other CPUs that forward."""
        return replace(scenario, dut=replace(spec(scenario), cpus=cpus))

    def bench(self, scenario: Scenario, places: Places) -> TestpmdBench:
        return TestpmdBench(scenario, places)

    def freezing(self, scenario: Scenario) -> Freezing:
        """By stopping its one process."""
        return Freezing(PROGRAM)

    def graph(self, scenario: Scenario) -> HopGraph:
        """Receives, forwards, sends; drops are the ports' own counters."""
        port = "testpmd/port/{port}/"
        came, sent, refused = (port + counter for counter in ("ipackets", "opackets", "refused"))
        drops = tuple(
            DropCounter(port + counter, reason, Party.DUT, kind)
            for counter, reason, kind in (
                ("imissed", "testpmd missed on {port}", DropKind.RECEIVE_RING),
                ("ierrors", "receive errors of {port}", DropKind.MALFORMED),
            )
        )
        receives = Place("testpmd receives", (came, *(drop.counter for drop in drops)), (came,), drops)
        ring = DropCounter(refused, "transmit ring of {port} full", Party.ENGINE, DropKind.TRANSMIT_RING)
        return HopGraph(
            Refused("receive ring of {port} full", Party.DUT),
            (
                receives,
                Place("testpmd forwards", (came,), (sent, refused)),
                Place("testpmd sends", (sent, refused), (sent,), (ring,)),
            ),
            ("testpmd/port/",),
        )

    def loads(self, seen: Seen, traffic_s: float) -> tuple[ThreadLoad, ...]:
        """What each thread received. It always polls, and testpmd counts no cycles without a build option."""
        counted = {int(name.split("/")[2]): int(n) for name, n in seen.items() if name.startswith("testpmd/core/")}
        return tuple(ThreadLoad(f"testpmd core {core}", core, received) for core, received in sorted(counted.items()))

    def advice(self, cause: str, seen: Seen) -> Sequence[str]:
        """Its memory and its CPUs."""
        return _ADVICE.get(cause, ())


_ADVICE: Final[Mapping[str, tuple[str, ...]]] = {
    "buffers": ("raise dut.memory_mb",),
    "preempted": ("name other CPUs in dut.cpus",),
}

_KEYS = Keys(
    dut=(
        Key("io", kinds.word(VHOST_USER, MEMIF), "How frames reach it: rings of vhost-user or of memif.", VHOST_USER),
        Key(
            "mode",
            kinds.word("io", "macswap", "mac"),
            'What it does with a frame: "io": nothing; "macswap": swap its Ethernet addresses; "mac": set them.',
            "io",
        ),
        Key("cpus", kinds.cpus(), "CPUs that forward, one or two.", [1]),
        Key("control_cpu", kinds.integer(0, 4095), "CPU of its other threads.", Unset("the engine's first")),
        Key("memory_mb", kinds.integer(64, 1_048_576), "Hugepage memory of testpmd, MiB.", 128),
    ),
)
DEVICE = TestpmdDevice("testpmd", "DPDK's testpmd", Types(TestpmdDut), _KEYS)
