"""Running the engine and its peer, dpdk-testpmd, for the same work on the same cores."""

import contextlib
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from pinchpoint.engine import protocol, streams
from pinchpoint.engine.process import TX_BURST, find_engine

EAL = ("--no-pci", "--in-memory", "--single-file-segments", "-m", "256")
FIVE_TUPLES = 65_536


def stream(number: int, tx_port: str, rx_port: str, rate_fps: float | None = None) -> streams.StreamRequest:
    """64-byte UDP frames cycling through 65,536 five-tuples, each with its signature."""
    layers = (
        streams.Layer(ethernet=streams.Ethernet("02:00:00:00:00:01", "02:00:00:00:00:02")),
        streams.Layer(ipv4=streams.Ipv4("16.0.0.1", "48.0.0.1")),
        streams.Layer(udp=streams.Udp(1025, 12)),
    )
    return streams.StreamRequest(
        id=number,
        tx_port=tx_port,
        rx_port=rx_port,
        rate=None if rate_fps is None else streams.Rate(fps=rate_fps),
        shape=streams.Shape(steady=streams.Steady()),
        size=streams.Size(fixed=64),
        template=streams.Template(layers=layers),
        stamped=True,
        wrong_checksums=(),
        seed=0,
        flows=FIVE_TUPLES,
        fields=(
            streams.FieldProgram("ipv4.dst", streams.Op(increment=streams.Increment(1, 65_535))),
            streams.FieldProgram("ipv4.src", streams.Op(increment=streams.Increment(1, 255))),
        ),
        tracked_flows=0,
    )


def trial(sent: Sequence[streams.StreamRequest], duration_s: float, drain_s: float = 0.0) -> protocol.Run:
    """One trial without cache-line probes."""
    return protocol.Run(
        trial="bench",
        epoch=1,
        duration_s=duration_s,
        drain_s=drain_s,
        sample_interval_s=None,
        probe_cores=None,
        verify_checksums=True,
        tx_burst=TX_BURST,
        latency_every=1,
        loopback=False,
        capture=None,
        streams=tuple(sent),
    )


@contextlib.contextmanager
def engine(ports: Sequence[protocol.PortRequest], core: int) -> Iterator["Engine"]:
    """The engine with its ports open on `core`; it ends with the block."""
    worker = protocol.WorkerRequest(core, tuple(port.name for port in ports))
    request = protocol.Open(workers=(worker,), eal_args=EAL, ports=tuple(ports), link_timeout_s=20.0)
    with subprocess.Popen(
        [find_engine()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        talk = Engine(process)
        talk.ask(protocol.LabHello())
        talk.ask(request)
        yield talk
        talk.ask(protocol.LabBye())


class Engine:
    """Questions and answers over one engine's stdin and stdout."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def ask(self, message: protocol.FromLab) -> protocol.FromEngine:
        """Send one message and return its answer; samples are not asked for, so none comes between."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(message) + b"\n")
        self._process.stdin.flush()
        answer = msgspec.json.decode(self._process.stdout.readline(), type=protocol.FromEngine)
        if isinstance(answer, protocol.Error):
            raise RuntimeError(answer.message)
        return answer

    def run(self, message: protocol.Run) -> protocol.Result:
        """One trial's account."""
        answer = self.ask(message)
        assert isinstance(answer, protocol.Result)
        return answer


@contextlib.contextmanager
def testpmd(vdevs: Sequence[str], core: int, log: Path) -> Iterator[None]:
    """Testpmd in flowgen mode with 65,536 flows of 64-byte frames, its main and forwarding lcore on `core`."""
    command = ["dpdk-testpmd", *EAL, "--no-telemetry", "--lcores", f"0@{core},1@{core}"]
    for vdev in vdevs:
        command += ["--vdev", vdev]
    command += ["--", "--forward-mode=flowgen", f"--flowgen-flows={FIVE_TUPLES}", "--txpkts=60", "--nb-cores=1"]
    # A small pool: testpmd's default does not fit into 256 MiB.
    command += ["--stats-period", "1", "--no-flush-rx", "--total-num-mbufs=16384", "--no-mlockall"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            _until_started(process, log)
            yield
        finally:
            process.send_signal(signal.SIGINT)  # with --stats-period it does not listen to Enter
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _until_started(process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 20
    while b"Port statistics" not in log.read_bytes():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"testpmd did not start: {log.read_text(errors='replace')[-500:]}")
        time.sleep(0.05)


def testpmd_sent(log: Path) -> int:
    """Frames that testpmd says it has sent, over all ports, in its last report."""
    blocks = log.read_text(errors="replace").split("Port statistics")
    return sum(int(count) for count in re.findall(r"TX-packets:\s*(\d+)", blocks[-1]))
