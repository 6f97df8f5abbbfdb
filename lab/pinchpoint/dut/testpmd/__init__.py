"""DPDK's own forwarder, dpdk-testpmd, between two ports: what a device costs that only moves frames.

vhost-user   testpmd is the client, as a switch is; the engine serves the sockets
memif        testpmd is the server and the engine the client: testpmd starts no memif port that finds no server

Sources: testpmd_app_ug/run_app and howto/telemetry in DPDK's documentation.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final

from pinchpoint.bench.requirements import Probe, hugepages
from pinchpoint.bench.resource import AnyResource, Daemon
from pinchpoint.dut import checks, device
from pinchpoint.dut.attach import by_dpdk, foundation, pages_of, port_graph
from pinchpoint.dut.device import Attachment, Freezing, Keys, Pages, RawScenario, Seen, Types, dut_of, programs
from pinchpoint.dut.program import await_start, control_cpu, detached, kept_log
from pinchpoint.host.interface import Host
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Unset
from pinchpoint.model.errors import DutError
from pinchpoint.model.hops import DropKind, HopGraph, Party
from pinchpoint.model.scenario import Guest, Port, Scenario
from pinchpoint.model.trial import ThreadLoad
from pinchpoint.observe.cpu import PacketThreads
from pinchpoint.observe.snapshot import Collector, Snapshot

PROGRAM = "dpdk-testpmd"
VHOST_USER, MEMIF = "vhost-user", "memif"
BUFFERS_PER_MB = 300  # of 2.4 kB each; the rest of the memory holds the rings and what DPDK itself takes
STATS_PERIOD_S = 65_534  # the longest for DPDK 24.11: with a period testpmd waits for a signal, without one for a key
_ANSWER_TIMEOUT_S = 2.0
_LONGEST_BYTES = 16_384  # of an answer, as DPDK's greeting says
_WORKER = re.compile(r"(rte|dpdk|lcore)-worker-?\d+")  # of DPDK 22.11, and of later and earlier ones
_NO_THREAD = re.compile("(?!)")  # its main thread only waits
_COUNTED = ("ipackets", "opackets", "imissed", "ierrors", "oerrors", "rx_nombuf")
_MISSED = {
    "imissed": ("testpmd missed on {port}", DropKind.RECEIVE_RING),
    "ierrors": ("receive errors of {port}", DropKind.MALFORMED),
}
_REFUSED = {"refused": ("transmit ring of {port} full", DropKind.TRANSMIT_RING)}
_MEMORY_MB: Final = 128  # where a scenario does not say
_PAGES: Final = pages_of(_MEMORY_MB + device.ENGINE_MEMORY_MB)


@dataclass(frozen=True)
class TestpmdDut:
    """A forwarder between two ports."""

    io: str  # VHOST_USER or MEMIF
    mode: str
    cpus: tuple[int, ...]  # that forward
    control_cpu: int | None  # None: the engine's first
    memory_mb: int
    kind: str = "testpmd"

    polls = True


class TestpmdBench(device.Bench):
    """One bench of testpmd, planned: hugepages and the process."""

    def resources(self, pages: Pages, engine: Sequence[str]) -> list[AnyResource]:
        """What every bench has, its hugepages and the process."""
        return [*foundation(self.places, pages, DEVICE.pages(self.scenario)), self.daemon()]

    def attachment(self, number: int, port: Port) -> Attachment:
        """The far end of a vhost-user port, or a memif client. Raises InputError."""
        end = by_dpdk(self.scenario, self.places, number, port)
        if dut_of(self.scenario, TestpmdDut).io == VHOST_USER:
            return end
        size = f"rsize={port.ring.bit_length() - 1}"
        return replace(end, device=f"net_memif{number},role=client,{self._memif(port.name)},{size}")

    def open(self) -> "TestpmdLive":
        """Its telemetry, once it forwards. Raises BenchError or DutError."""
        return TestpmdLive(self)

    def daemon(self) -> Daemon:
        """Its process."""
        places, control = self.places, control_cpu(self.scenario, dut_of(self.scenario, TestpmdDut).control_cpu)
        folder = (("RUNTIME_DIRECTORY", str(places.directory)),)
        argv = (PROGRAM, *self._words(control))
        # DPDK moves only the forwarding threads off the CPU.
        return detached(places, PROGRAM, f"{places.directory}/testpmd.log", argv, cpus=(control,), environment=folder)

    def _words(self, control: int) -> Iterator[str]:
        dut, ports = dut_of(self.scenario, TestpmdDut), self.scenario.ports
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


def ask(host: Host, path: str, command: str) -> Any:
    """The answer at a telemetry socket to `command`, e.g. `/ethdev/stats,0`. Raises DutError."""
    try:
        with closing(host.connect(path, packets=True)) as connection:
            connection.settimeout(_ANSWER_TIMEOUT_S)
            connection.recv(_LONGEST_BYTES)  # the greeting
            connection.sendall(command.encode())
            return json.loads(connection.recv(_LONGEST_BYTES))[command.partition(",")[0]]
    except (OSError, ValueError, KeyError) as error:
        raise DutError(f"testpmd does not answer {command} at {path}: {error}", "see its log") from error


class Ports(Collector):
    """Frames in and out of both ports, and those that each forwarding thread received."""

    name = "testpmd ports"

    def __init__(self, host: Host, telemetry: str, names: Sequence[str], cpus: Sequence[int]) -> None:
        """`names` in the order of DPDK's port numbers."""
        self._host, self._telemetry, self._names, self._cpus = host, telemetry, names, cpus
        self._refused = dict.fromkeys(names, 0)

    def read(self, at_s: float) -> Snapshot:
        """`testpmd/port/NAME/COUNTER` and `testpmd/core/CPU/received`: frames.

        Neither driver counts what its ring refused. `.../refused` are the frames that the other port received and
        this one did not send: testpmd drops what a ring does not take, and nothing else. They are too few while
        frames are on their way, and exact once they have ended.
        """
        counters = dict[str, int]()
        ports = [self._port(number) for number in range(len(self._names))]
        for number, (name, port) in enumerate(zip(self._names, ports, strict=True)):
            counters |= {f"testpmd/port/{name}/{counter}": int(port[counter]) for counter in _COUNTED}
            # Streams are dealt to the cores in the order of their ports.
            thread = f"testpmd/core/{self._cpus[number % len(self._cpus)]}/received"
            counters[thread] = counters.get(thread, 0) + int(port["ipackets"])
        for number, name in enumerate(self._names):
            # What left is read after what came: a frame between the two makes the difference too small, never too big.
            refused = int(ports[1 - number]["ipackets"]) - int(self._port(number)["opackets"])
            counters[f"testpmd/port/{name}/refused"] = self._refused[name] = max(self._refused[name], refused)
        return Snapshot(at_s, counters)

    def _port(self, number: int) -> Any:
        return ask(self._host, self._telemetry, f"/ethdev/stats,{number}")


class TestpmdLive(device.Live):
    """A testpmd that stands."""

    words = "testpmd"

    def __init__(self, bench: TestpmdBench) -> None:
        """Wait until it forwards. Raises DutError; where it has ended, with the end of its log."""
        self._host, self._daemon = bench.places.host, bench.daemon()
        self._telemetry = f"{bench.places.directory}/dpdk/rte/dpdk_telemetry.v2"
        names = [port.name for port in bench.scenario.ports]
        self._ports = Ports(self._host, self._telemetry, names, bench.scenario.dut.cpus)
        await_start(self._daemon, self._host, self._forwards, "testpmd does not forward")

    def collectors(self) -> list[Collector]:
        """Its threads and its ports."""
        return [*self.witnesses(), self._ports]

    def witnesses(self) -> list[Collector]:
        return [PacketThreads(self._host, self._daemon.pidfile, _WORKER, _NO_THREAD)]

    def versions(self) -> Mapping[str, str]:
        return {"testpmd dpdk_version": ask(self._host, self._telemetry, "/info")["version"]}

    def log(self) -> tuple[str, str] | None:
        """What it printed, as far as it is written: it prints late."""
        return kept_log(self._host, "testpmd.log", self._daemon.log)

    def _forwards(self) -> bool:
        """Whether its ports are started; forwarding begins at once."""
        return all(ask(self._host, self._telemetry, f"/ethdev/info,{number}").get("dev_started") for number in (0, 1))


class TestpmdDevice(device.Device):
    """The kind `testpmd`: DPDK's forwarder between two ports."""

    bench_type = TestpmdBench
    backend = "dpdk"
    largest_frame = 1518  # its ports have an MTU of 1,500

    def check(self, raw: RawScenario) -> None:
        """A forwarder between two ports."""
        ringless = f'dut.io is "{MEMIF}"' if raw.dut.get("io") == MEMIF else ""
        checks.between_ports(raw, self.kind, polls=True, ringless=ringless)
        cpus, control = raw.dut.get("cpus", ()), raw.dut.get("control_cpu")
        if len(cpus) > 2:
            raw.mismatch(("dut", "cpus"), "one CPU or two, since there are two ports of one queue", list(cpus))
        if control in cpus:
            raw.mismatch(("dut", "control_cpu"), "a CPU other than those of dut.cpus", control)

    def needs(self, scenario: Scenario, host: Host) -> Iterator[Probe]:
        """The program, what detaches it, and hugepages."""
        return self.probes(host, None, self.pages(scenario))

    def probes(self, host: Host, guest: Guest | None = None, pages: int = _PAGES) -> Iterator[Probe]:
        """What a device of default sizes needs."""
        yield from programs(host, {PROGRAM: "dpdk-dev", "start-stop-daemon": "dpkg", "taskset": "util-linux"})
        yield hugepages(host, pages, "set dut.memory_mb and engine.memory_mb to less")

    def pages(self, scenario: Scenario) -> int:
        """Those of testpmd and engine."""
        return pages_of(dut_of(scenario, TestpmdDut).memory_mb + scenario.engine.memory_mb)

    def standing_s(self, scenario: Scenario) -> float:
        """Testpmd takes up to three seconds to end."""
        return 6.0

    def freezing(self, scenario: Scenario) -> Freezing:
        """By stopping its one process."""
        return Freezing(PROGRAM)

    def graph(self, scenario: Scenario) -> HopGraph:
        """Receives, forwards, sends; drops are the ports' own counters."""
        return port_graph("testpmd", "forwards", "testpmd/port/", _MISSED, _REFUSED, Party.ENGINE)

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
        Key("mode", kinds.word("io", "macswap", "mac"),
            'What it does with a frame: "io": nothing; "macswap": swap its Ethernet addresses; "mac": set them.', "io"),
        Key("cpus", kinds.cpus(), "CPUs that forward, one or two.", [1]),
        Key("control_cpu", kinds.integer(0, 4095), "CPU of its other threads.", Unset("the engine's first")),
        Key("memory_mb", kinds.integer(64, 1_048_576), "Hugepage memory of testpmd, MiB.", _MEMORY_MB),
    ),
)  # fmt: skip
DEVICE = TestpmdDevice("testpmd", "DPDK's testpmd", Types(TestpmdDut), _KEYS)
