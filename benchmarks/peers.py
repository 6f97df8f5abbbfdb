"""Running the engine and its peers for the same work on the same core."""

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec
from contest import APART
from cpu import CpuMeter, group_members

from pinchpoint.bench.builder import Builder
from pinchpoint.bench.resource import Hugepages
from pinchpoint.engine import protocol, streams
from pinchpoint.engine.process import find_engine
from pinchpoint.engine.trials import TX_BURST
from pinchpoint.host.hugepages import pool
from pinchpoint.host.local import Local

SECONDS, SMOKE_SECONDS = 2.0, 0.2  # of every sample
WARM_UP_S = 0.4
ANSWER_S = 60.0  # the longest any answer of the engine takes here
EAL = ("--no-pci", "--in-memory", "--single-file-segments", "-m", "256")
PAGES = 160  # of 2 MiB: 256 MiB and what EAL adds
FIVE_TUPLES = 65_536
LONGEST_FRAME = 1518  # of every benchmark, as of every bench whose links have an MTU of 1,500
PACKAGES = {
    "dpdk-testpmd": "dpdk-dev",
    "iperf": "iperf",
    "nft": "nftables",
    "nginx": "nginx",
    "perf": "linux-perf",
    "sockperf": "sockperf",
    "trafgen": "netsniff-ng",
    "wrk": "wrk",
}
NETPERF, NEPER = "https://github.com/HewlettPackard/netperf", "https://github.com/google/neper"
SOURCES = {"netperf": NETPERF, "netserver": NETPERF, "tcp_rr": NEPER, "tcp_crr": NEPER}

T = TypeVar("T")


def missing(*programs: str) -> str | None:
    """Why a contender that needs `programs` cannot take part, and what mends it."""
    absent = [program for program in programs if shutil.which(program) is None]
    if sources := [SOURCES[program] for program in absent if program in SOURCES]:
        return f"not in PATH, and not in Debian's main archive: build it from {sources[0]}"
    return f"not installed: apt-get install {' '.join(PACKAGES[program] for program in absent)}" if absent else None


ETHERNET = streams.Layer(ethernet=streams.Ethernet("02:00:00:00:00:01", "02:00:00:00:00:02"))
IPV4 = streams.Layer(ipv4=streams.Ipv4("16.0.0.1", "48.0.0.1"))
UDP = streams.Layer(udp=streams.Udp(1025, 12))


def increments(source: str = "ipv4.src", destination: str = "ipv4.dst") -> tuple[streams.FieldProgram, ...]:
    """All servers for the first client, then for the next one."""
    return (
        streams.FieldProgram(destination, streams.Op(increment=streams.Increment(1, 65_535))),
        streams.FieldProgram(source, streams.Op(increment=streams.Increment(1, 255))),
    )


def stream(
    number: int,
    tx_port: str,
    rx_port: str | None,
    *,
    layers: tuple[streams.Layer, ...] = (ETHERNET, IPV4, UDP),
    size: streams.Size | None = None,
    fields: tuple[streams.FieldProgram, ...] | None = None,
    stamped: bool = True,
) -> streams.StreamRequest:
    """Frames as fast as they go: 64-byte UDP through 65,536 five-tuples, each with its signature, unless told."""
    programs = increments() if fields is None else fields
    return streams.StreamRequest(
        id=number,
        tx_port=tx_port,
        rx_port=rx_port,
        rate=None,
        shape=streams.Shape(steady=streams.Steady()),
        size=size or streams.Size(fixed=64),
        template=streams.Template(layers=layers),
        stamped=stamped,
        wrong_checksums=(),
        seed=0,
        flows=FIVE_TUPLES if programs else 1,
        fields=programs,
        tracked_flows=0,
    )


def trial(
    sent: Sequence[streams.StreamRequest],
    duration_s: float,
    drain_s: float = 0.0,
    *,
    verify_checksums: bool = True,
    probe_cores: tuple[tuple[int, int], ...] = (),
) -> protocol.Run:
    """One trial, with cache-line probes between each pair of `probe_cores`."""
    return protocol.Run(
        trial="bench",
        epoch=1,
        duration_s=duration_s,
        drain_s=drain_s,
        sample_interval_s=None,
        quiet_within_s=0.0,
        probe_cores=probe_cores,
        verify_checksums=verify_checksums,
        tx_burst=TX_BURST,
        latency_every=1,
        loopback=False,
        capture=None,
        slices=None,
        streams=tuple(sent),
    )


@contextlib.contextmanager
def hugepages(pages: int) -> Iterator[None]:
    """`pages` free ones of 2 MiB inside the block, those added journalled like any bench."""
    total, free = pool(Local())
    builder = Builder(f"bench-{secrets.token_hex(3)}", Local())
    absent = max(0, pages - free)
    builder.apply([Hugepages(total, total + absent, needed=pages)] if absent else [])
    try:
        yield
    finally:
        builder.undo()


@contextlib.contextmanager
def greeted(program: str | None = None) -> Iterator["Engine"]:
    """The engine, another build of it if told, after its greeting.

    It ends with the block, by force if it does not answer.
    """
    # On all processors, wherever this process is kept: its workers choose their own.
    command = ["taskset", "-c", f"0-{(os.cpu_count() or 1) - 1}", program or find_engine(Local())]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        talk = Engine(process)
        talk.ask(protocol.LabHello())
        yield talk
        talk.ask(protocol.LabBye())
    finally:
        _end(process, process.terminate)
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()


@contextlib.contextmanager
def engine(
    ports: Sequence[protocol.PortRequest],
    workers: Sequence[protocol.WorkerRequest],
    *,
    dpdk: bool = False,
    program: str | None = None,
) -> Iterator["Engine"]:
    """The engine with its ports open."""
    with greeted(program) as talk:
        eal = EAL if dpdk else ()
        talk.ask(protocol.Open(tuple(workers), eal, tuple(ports), 20.0, LONGEST_FRAME if dpdk else msgspec.UNSET))
        yield talk


def clock_hz() -> int:
    """The clock that the engine counts cycles with."""
    with greeted() as talk:
        hello = talk.ask(protocol.LabHello())
    assert isinstance(hello, protocol.EngineHello)
    return hello.clock_hz


def one_worker(core: int, ports: Sequence[protocol.PortRequest]) -> tuple[protocol.WorkerRequest, ...]:
    """All ports on one core."""
    return (protocol.WorkerRequest(core, tuple(port.name for port in ports)),)


class Engine:
    """Questions and answers over one engine's stdin and stdout."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid

    def ask(self, message: protocol.FromLab) -> protocol.FromEngine:
        """Send one message and return its answer; samples are not asked for, so none comes between."""
        assert self._process.stdin is not None and self._process.stdout is not None
        hung = threading.Timer(ANSWER_S, self._process.kill)
        hung.start()
        try:
            self._process.stdin.write(msgspec.json.encode(message) + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        finally:
            hung.cancel()
        if not line:
            raise RuntimeError("the engine ended without an answer")
        answer: protocol.FromEngine = msgspec.json.decode(line, type=protocol.FromEngine)
        if isinstance(answer, protocol.Error):
            raise RuntimeError(answer.message)
        return answer

    def run(self, message: protocol.Run) -> protocol.Result:
        """One trial's account."""
        answer = self.ask(message)
        assert isinstance(answer, protocol.Result)
        return answer

    def during(
        self, sent: Sequence[streams.StreamRequest], seconds: float, watch: Callable[[], T]
    ) -> tuple[protocol.Result, T]:
        """The account of a trial, and what `watch`, which takes `seconds`, saw while it ran steadily."""
        with ThreadPoolExecutor(1) as other:
            running = other.submit(self.run, trial(sent, seconds + 3 * WARM_UP_S))
            time.sleep(2 * WARM_UP_S)
            seen = watch()
            return running.result(), seen


def cores_apart(core: int, other: int) -> dict[str, float]:
    """The note of how far the cores are from each other just now; none where it is unknown."""
    ports = [protocol.PortRequest(name, "mem", "pair", None, 64, 64, ()) for name in ("left", "right")]
    with engine(ports, one_worker(core, ports)) as running:
        result = running.run(trial([stream(0, "left", "right")], 0.01, probe_cores=((core, other),)))
    probes = (ns for line in result.witness.cache_lines for ns in (line.before_ns, line.after_ns))
    known = [ns for ns in probes if ns is not None]
    return {APART: sum(known) / len(known)} if known else {}


@contextlib.contextmanager
def peer(command: Sequence[str], core: int, log: Path, netns: str | None = None) -> Iterator["Peer"]:
    """A program on `core` in a process group of its own, which is ended with the block."""
    prefix = ["ip", "netns", "exec", netns] if netns else []
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*prefix, "taskset", "-c", str(core), *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Peer(process, log)
    finally:
        _end(process, lambda: os.killpg(process.pid, signal.SIGINT))
        with contextlib.suppress(ProcessLookupError):  # children that outlive their parent
            os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes], ask_to: Callable[[], None]) -> None:
    """Ask, wait, force."""
    if process.poll() is not None:
        return
    try:
        process.wait(timeout=0.2)
        return
    except subprocess.TimeoutExpired:
        ask_to()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Peer:
    """A running peer."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    def members(self) -> list[int]:
        """Its processes."""
        return group_members(self._process.pid)

    def said(self) -> str:
        """What it has printed so far."""
        return self._log.read_text(errors="replace")

    def wait_for(self, words: str, timeout_s: float = 20.0) -> None:
        """Until it has printed `words`."""
        deadline = time.monotonic() + timeout_s
        while words not in self.said():
            if self._process.poll() is not None or time.monotonic() > deadline:
                last = " | ".join(self.said().split("\n")[-6:])
                raise RuntimeError(f"{self._process.args[-1]!r} did not start: {last}")  # type: ignore[index]
            time.sleep(0.05)

    def ended(self, timeout_s: float) -> str:
        """What it printed, after it has ended by itself."""
        if self._process.wait(timeout=timeout_s) != 0:
            raise RuntimeError(f"it failed: {' | '.join(self.said().splitlines()[-3:])}")
        return self.said()


TESTPMD_STARTED = "Port statistics"


def testpmd(vdevs: Sequence[str], core: int, mode: str = "flowgen", eal: Sequence[str] = EAL) -> list[str]:
    """Testpmd with 64-byte frames (65,536 flows in flowgen mode), its main and forwarding lcore on `core`."""
    command = ["dpdk-testpmd", *eal, "--no-telemetry", "--lcores", f"0@{core},1@{core}"]
    for vdev in vdevs:
        command += ["--vdev", vdev]
    command += ["--", f"--forward-mode={mode}", "--nb-cores=1"]
    # Of the length that flowgen is told it leaves out a check sequence; txonly sends it all.
    command += ["--txpkts=64", f"--flowgen-flows={FIVE_TUPLES}"] if mode == "flowgen" else ["--txpkts=60"]
    # A small pool: testpmd's default does not fit into 256 MiB.
    return [*command, "--stats-period", "1", "--no-flush-rx", "--total-num-mbufs=16384", "--no-mlockall"]


def testpmd_rate(said: str) -> float:
    """Frames per second that testpmd says it sent: the median of its reports but the first ones."""
    rates = sorted(int(rate) for rate in re.findall(r"Tx-pps:\s+(\d+)", said) if int(rate) > 0)
    if not rates:
        raise RuntimeError("testpmd reported no rate")
    return float(rates[len(rates) // 2])


def testpmd_reported(running: Peer, timeout_s: float = 20.0) -> float:
    """The same, once it has reported one: the first is of no whole second. Raises RuntimeError if none comes."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return testpmd_rate(running.said())
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def watched(members: list[int], core: int, seconds: float) -> CpuMeter:
    """The CPU time that `members` take over the next seconds."""
    with CpuMeter(members, (core,)) as meter:
        time.sleep(seconds)
    return meter
