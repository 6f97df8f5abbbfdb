"""The messages of the seam (protocol/README.md), as strict types: unknown keys are refused."""

from typing import Literal

from msgspec import UNSET, UnsetType

from pinchpoint.engine.connections import ConnectionsRequest, ConnectionsResult, ConnectionsSample
from pinchpoint.engine.sockets import SocketsListening, SocketsRequest, SocketsResult, SocketsSample, SocketsServed
from pinchpoint.engine.streams import Latency, Message, Part, Status, StreamRequest

PROTOCOL_VERSION = 9
LONGEST_DRAIN = 10  # times drain_s: a drain is extended while frames of its trial still arrive

BackendName = Literal["mem", "af_packet", "af_xdp", "xdp_live", "dpdk"]
ErrorCode = Literal["malformed", "protocol", "invalid", "state", "port_open", "link_down", "no_memory", "internal"]


class Backend(Part, frozen=True):
    """What one port backend can do on that machine and, if it cannot, what mends it."""

    name: str  # of a newer engine perhaps one unknown here: its version is looked at first
    available: bool
    detail: str | None
    why: str | None
    hint: str | None


class EngineHello(Message, frozen=True, tag="hello"):
    """The engine introduces itself."""

    protocol: int
    engine: str
    backends: tuple[Backend, ...]
    cores: tuple[int, ...]
    clock_hz: int


class OpenedPort(Part, frozen=True):
    """A port as the engine got it."""

    name: str
    mac: str | None
    mode: str
    link_up: bool
    queues: int
    rx_ring: int
    tx_ring: int
    max_frame_bytes: int
    speed_bps: int | None


class Opened(Message, frozen=True, tag="open"):
    """All ports are open and their links up."""

    ports: tuple[OpenedPort, ...]


class Begun(Message, frozen=True, tag="begun"):
    """A trial that waits for `go` receives from now on."""

    trial: str


class Sent(Message, frozen=True, tag="sent"):
    """Such a trial has sent everything; it receives until `stop`."""

    trial: str


class StreamSample(Part, frozen=True):
    """Progress of one stream."""

    id: int
    sent: int
    received: int


class Sample(Message, frozen=True, tag="sample"):
    """Progress of the running trial; only the result is its account."""

    trial: str
    elapsed_s: float
    offered: int
    sent: int
    received: int
    lost: int | None
    gaps_ns: int
    gap_max_ns: int
    streams: tuple[StreamSample, ...]


class Jump(Part, frozen=True):
    """The most sequence numbers that one frame was ahead of the next expected one."""

    frames: int
    at_s: float


class Silence(Part, frozen=True):
    """The longest time in which a port delivered nothing."""

    ns: int
    at_s: float


class FlowsResult(Part, frozen=True):
    """The flows that were counted one by one; `losses` holds (flow, sent, received)."""

    tracked: int
    lossy: int
    losses: tuple[tuple[int, int, int], ...]


class StreamResult(Part, frozen=True):
    """One stream's account; null is not countable."""

    id: int
    tx_port: str | None  # null: another engine sends it
    rx_port: str | None
    intended: int | None
    offered: int
    refused: int
    shortfall: int | None
    sent: int
    bytes_mean: float
    received: int | None
    lost: int | None
    duplicated: int | None
    reordered: int | None
    reorder_distance_max: int | None
    reorder_histogram: tuple[tuple[int, int], ...]
    corrupt: int | None
    late: int | None
    largest_jump: Jump | None
    last_loss_s: float | None
    latency: Latency | None
    jitter: Latency | None
    flows: FlowsResult | None
    rx_ports: tuple[str, ...] = ()
    reordered_in_flow: int | None = None
    misdelivered: int | None = None
    latency_clock: str | UnsetType = UNSET  # "kernel" or "nic": says when frames arrived; absent: the engine's


class SliceResult(Part, frozen=True):
    """The counts of one slice's group in its measured part; null is not countable, or nothing was switched."""

    group: int
    start_ns: int
    length_ns: int
    switch_ns: int | None
    offered: int
    refused: int
    received: int | None
    gap_ns: int


class PortResult(Part, frozen=True):
    """Frames that one port counted in a trial, by what became of them."""

    name: str
    sent: int
    refused: int
    received: int
    foreign: int
    late: int
    answered: int
    rx_missed: int | None
    longest_silence: Silence | None
    stats: dict[str, int]
    misdelivered: int = 0


class Pacing(Part, frozen=True):
    """How evenly the engine sent."""

    largest_burst: int
    latest_ns: int | None


class WorkerResult(Part, frozen=True):
    """What one engine core noticed about itself."""

    core: int
    loops: int
    busy_share: float
    gap_threshold_ns: int
    gaps: int
    gap_total_ns: int
    gap_max_ns: int
    gap_max_at_s: float
    gap_histogram: tuple[tuple[int, int], ...]
    gaps_longest: tuple[tuple[float, int], ...]
    steal_s: float | None
    voluntary_switches: int
    involuntary_switches: int
    frequency_hz: int | None


class CacheLineResult(Part, frozen=True):
    """The distance between two cores, one way."""

    cores: tuple[int, int]
    before_ns: float | None
    after_ns: float | None
    ipc_before: tuple[float | None, float | None]
    ipc_after: tuple[float | None, float | None]
    occupied_ns: tuple[int, int]


class LoopbackResult(Part, frozen=True):
    """The latency that the engine's own loop adds."""

    frames: int
    min_ns: int
    p50_ns: int
    p99_ns: int
    max_ns: int


class WitnessResult(Part, frozen=True):
    """Evidence about the measuring host."""

    workers: tuple[WorkerResult, ...]
    cache_lines: tuple[CacheLineResult, ...]
    loopback: LoopbackResult | None


class CaptureResult(Part, frozen=True):
    """Where the kept frames are, or why not."""

    file: str
    sent: int
    received: int
    error: str | None


class Result(Message, frozen=True, tag="result"):
    """The engine's account of one trial."""

    trial: str
    status: Status
    reason: str | None
    duration_s: float
    drain_s: float
    streams: tuple[StreamResult, ...]
    slices: tuple[SliceResult, ...] | None
    ports: tuple[PortResult, ...]
    pacing: Pacing
    witness: WitnessResult
    capture: CaptureResult | None


class Error(Message, frozen=True, tag="error"):
    """A request that could not be done."""

    code: ErrorCode
    message: str
    hint: str | None


class Bye(Message, frozen=True, tag="bye"):
    """The engine's last word."""


FromEngine = (
    EngineHello | Opened | Begun | Sent | Sample | Result | SocketsSample | SocketsResult | SocketsListening
    | SocketsServed | ConnectionsSample | ConnectionsResult | Error | Bye
)  # fmt: skip


class LabHello(Message, frozen=True, tag="hello"):
    """The lab introduces itself."""

    protocol: int = PROTOCOL_VERSION


class Address(Part, frozen=True):
    """An address that a port answers for: ARP requests and neighbour solicitations."""

    ip: str
    mac: str


class PortRequest(Part, frozen=True):
    """One port to open."""

    name: str
    backend: BackendName
    device: str
    netns: str | None
    rx_ring: int
    tx_ring: int
    answers: tuple[Address, ...]
    ring_behind: int | UnsetType = UNSET  # frames of the smallest ring behind the port, where that is known


class WorkerRequest(Part, frozen=True):
    """One core and the ports that it drives; a port that several drive has a queue for each."""

    core: int
    ports: tuple[str, ...]


class Open(Message, frozen=True, tag="open"):
    """Take cores and ports."""

    workers: tuple[WorkerRequest, ...]
    eal_args: tuple[str, ...]
    ports: tuple[PortRequest, ...]
    link_timeout_s: float
    longest_frame_bytes: int | UnsetType = UNSET  # with check sequence, where that is known


class CaptureRequest(Part, frozen=True):
    """Frames to keep for a look, and the new pcapng file that they go to."""

    file: str
    frames: int


class SlicesRequest(Part, frozen=True):
    """Groups of streams that take turns within the trial."""

    groups: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    length_ns: int
    settle_ns: int
    discard_ns: int
    hold: tuple[tuple[int, ...], ...] | None


class Run(Message, frozen=True, tag="run"):
    """One trial to run."""

    trial: str
    epoch: int
    duration_s: float
    drain_s: float
    sample_interval_s: float | None
    probe_cores: tuple[tuple[int, int], ...]
    quiet_within_s: float
    verify_checksums: bool
    tx_burst: int
    latency_every: int
    loopback: bool
    capture: CaptureRequest | None
    slices: SlicesRequest | None
    streams: tuple[StreamRequest, ...]
    wall_clock: bool | UnsetType = UNSET  # stamps by the system's time of day; absent: by the engine's own clock
    on_go: bool | UnsetType = UNSET  # receives at once, sends on `go`, ends on `stop`; absent: ends by itself


class Go(Message, frozen=True, tag="go"):
    """Begin to send in a trial that waits for it."""


class Stop(Message, frozen=True, tag="stop"):
    """End the running trial or workload early."""


class LabBye(Message, frozen=True, tag="bye"):
    """Close everything and exit."""


FromLab = LabHello | Open | Run | Go | SocketsRequest | ConnectionsRequest | Stop | LabBye
