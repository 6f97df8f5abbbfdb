"""The messages of the seam (protocol/README.md), as strict types: unknown keys are refused."""

import msgspec

from pinchpoint.model.scenario import Range, Stream

PROTOCOL_VERSION = 1


class Message(msgspec.Struct, frozen=True, tag_field="type", forbid_unknown_fields=True, kw_only=True):
    """Base of all messages; `type` tells them apart."""


class Backend(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one port backend can do on that machine and, if it cannot, what mends it."""

    name: str
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


class OpenedPort(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A port as the engine got it."""

    name: str
    mac: str | None
    mode: str
    link_up: bool
    rx_ring: int
    tx_ring: int


class Opened(Message, frozen=True, tag="open"):
    """All ports are open and their links up."""

    ports: tuple[OpenedPort, ...]


class Sample(Message, frozen=True, tag="sample"):
    """Progress of the running trial; not an account."""

    trial: str
    elapsed_s: float
    offered: int
    sent: int
    received: int


class Latency(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One stream's latency."""

    count: int
    min_ns: int
    mean_ns: float
    stddev_ns: float
    max_ns: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p999_ns: int
    p9999_ns: int
    curve: tuple[tuple[float, int], ...]
    histogram: str


class StreamResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One stream's account."""

    id: int
    tx_port: str
    rx_port: str
    intended: int | None
    offered: int
    refused: int
    shortfall: int | None
    sent: int
    received: int
    lost: int
    duplicated: int | None
    reordered: int | None
    reorder_distance_max: int | None
    corrupt: int | None
    latency: Latency | None


class PortResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One port's account."""

    name: str
    sent: int
    refused: int
    received: int
    foreign: int
    late: int
    rx_missed: int | None
    stats: dict[str, int]


class Pacing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How evenly the engine sent."""

    largest_burst: int
    latest_ns: int | None


class WorkerResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one engine core noticed about itself."""

    core: int
    loops: int
    busy_share: float
    gap_threshold_ns: int
    gaps: int
    gap_total_ns: int
    gap_max_ns: int
    gap_max_at_s: float | None
    gap_histogram: tuple[tuple[int, int], ...]
    steal_s: float | None
    voluntary_switches: int | None
    involuntary_switches: int | None


class CacheLineResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The distance between two cores, one way."""

    cores: tuple[int, int]
    before_ns: float | None
    after_ns: float | None
    occupied_ns: tuple[int, int]


class WitnessResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Evidence about the measuring host."""

    workers: tuple[WorkerResult, ...]
    cache_line: CacheLineResult | None


class Result(Message, frozen=True, tag="result"):
    """The engine's account of one trial."""

    trial: str
    status: str
    duration_s: float
    drain_s: float
    streams: tuple[StreamResult, ...]
    ports: tuple[PortResult, ...]
    pacing: Pacing
    witness: WitnessResult


class Error(Message, frozen=True, tag="error"):
    """A request that could not be done."""

    code: str
    message: str
    hint: str | None


class Bye(Message, frozen=True, tag="bye"):
    """The engine's last word."""


FromEngine = EngineHello | Opened | Sample | Result | Error | Bye


class LabHello(Message, frozen=True, tag="hello"):
    """The lab introduces itself."""

    protocol: int = PROTOCOL_VERSION


class PortRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One port to open."""

    name: str
    backend: str
    device: str
    netns: str | None
    rx_ring: int
    tx_ring: int


class Open(Message, frozen=True, tag="open"):
    """Take cores and ports."""

    cores: tuple[int, ...]
    eal_args: tuple[str, ...]
    ports: tuple[PortRequest, ...]
    link_timeout_s: float


class Ethernet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Addresses of the template."""

    src: str
    dst: str


class Ipv4(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Network header of the template."""

    src: str
    dst: str
    ttl: int = 64
    dscp: int = 0


class Udp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ports of the template."""

    src: int
    dst: int


class FieldProgram(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One digit of the tuple index, the first one fastest."""

    field: str
    op: str
    step: int
    count: int


class StreamRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One stream to send."""

    id: int
    tx_port: str
    rx_port: str
    rate_fps: float | None
    frame_bytes: int
    eth: Ethernet
    ipv4: Ipv4
    udp: Udp
    flows: int
    fields: tuple[FieldProgram, ...]


class Run(Message, frozen=True, tag="run"):
    """One trial to run."""

    trial: str
    epoch: int
    duration_s: float
    drain_s: float
    sample_interval_s: float | None
    probe_cores: tuple[int, int] | None
    verify_checksums: bool
    streams: tuple[StreamRequest, ...]


class Stop(Message, frozen=True, tag="stop"):
    """End the running trial early."""


class LabBye(Message, frozen=True, tag="bye"):
    """Close everything and exit."""


FromLab = LabHello | Open | Run | Stop | LabBye

_FIELDS = {"ipv4_src": "ipv4.src", "ipv4_dst": "ipv4.dst", "udp_src": "udp.src", "udp_dst": "udp.dst"}


def stream_request(number: int, stream: Stream, rate_fps: float | None) -> StreamRequest:
    """A stream of the scenario in the words of the seam; ranges of one value need no program."""
    ranges: dict[str, Range] = {name: getattr(stream, name) for name in _FIELDS}
    return StreamRequest(
        id=number,
        tx_port=stream.tx_port,
        rx_port=stream.rx_port,
        rate_fps=rate_fps,
        frame_bytes=stream.frame_bytes,
        eth=Ethernet(stream.eth_src, stream.eth_dst),
        ipv4=Ipv4(_first_address(stream.ipv4_src), _first_address(stream.ipv4_dst)),
        udp=Udp(stream.udp_src.first, stream.udp_dst.first),
        flows=stream.flows,
        fields=tuple(
            FieldProgram(_FIELDS[name], "increment", 1, ranges[name].count)
            for name in stream.order
            if ranges[name].count > 1
        ),
    )


def _first_address(addresses: Range) -> str:
    return Range(addresses.first, 1).as_ipv4()
