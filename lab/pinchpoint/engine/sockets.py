"""Messages of workloads over kernel sockets (protocol/README.md, "Sockets"); engine/sockets runs them."""

import math
from typing import Literal

from msgspec import UNSET, UnsetType

from pinchpoint.engine.streams import Latency, Message, Part, Status

Kind = Literal["stream", "rr", "crr"]
Transport = Literal["tcp", "udp"]
Close = Literal["client", "server", "reset"]
Wait = Literal["block", "spin"]


class Place(Part, frozen=True):
    """Where a thread is to run; null: the engine's own namespace."""

    netns: str | None
    core: int
    cpus: tuple[int, ...] | UnsetType = UNSET  # among which the kernel may move it; absent: it is pinned to `core`


class SocketsRequest(Message, frozen=True, tag="sockets"):
    """One workload to run."""

    trial: str
    kind: Kind
    transport: Transport
    client: Place | None  # None: another engine has it, and this one the server alone
    server: Place | None  # None: another engine has it, which listens at `target`
    sources: tuple[str, ...]
    listen: str | None
    port: int
    target: str | None
    connections: int
    request_bytes: int
    response_bytes: int
    rate_tps: float | None
    warm_up_s: float
    duration_s: float
    transactions: int | None
    timeout_s: float
    close: Close
    wait: Wait
    repeats: int
    sample_interval_s: float | None

    def __post_init__(self) -> None:
        """Raises ValueError for NaN and infinity: JSON has neither, and the null written instead is no limit.

        Also for a request of neither end.
        """
        if self.client is None and self.server is None:
            raise ValueError("client: expected a place for it, or for the server")
        for name in ("rate_tps", "warm_up_s", "duration_s", "timeout_s", "sample_interval_s"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise ValueError(f"{name}: expected a finite number, got {value}")


class SocketsSample(Message, frozen=True, tag="sockets_sample"):
    """Totals since the workload began, warm-up and earlier repeats included; not an account."""

    trial: str
    elapsed_s: float
    transactions: int
    failed: int
    received_bytes: int


class PlaceFacts(Part, frozen=True):
    """Where a thread ran."""

    core: int
    numa_node: int | None


class Failures(Part, frozen=True):
    """Failed transactions by kind, and what failed first."""

    refused: int
    address_unavailable: int
    timeout: int
    reset: int
    short: int
    unreachable: int
    other: int
    first: str | None


class Connection(Part, frozen=True):
    """One standing connection's share of the window; null is not countable."""

    transactions: int | None
    received_bytes: int | None
    goodput_bps: float | None
    retransmits: int | None


class ThreadWitness(Part, frozen=True):
    """What a thread used, and who disturbed it, in the window."""

    user_s: float
    system_s: float
    voluntary_switches: int
    involuntary_switches: int
    steal_s: float | None
    retransmitted_segments: int | None


class Change(Part, frozen=True):
    """From one level to another: less than half or more than twice; medians in what was counted, per second."""

    at_s: float
    before_per_s: float
    after_per_s: float


class Trend(Part, frozen=True):
    """How a rate moved within its window; medians in what was counted (bytes of a stream), per second."""

    first_third_per_s: float
    last_third_per_s: float
    change: Change | None


class SocketsRun(Part, frozen=True):
    """One of the repeats; null is not countable, or not of this kind."""

    began_ns: int
    duration_s: float
    intended: int | None
    shortfall: int | None
    transactions: int | None
    transactions_per_s: float | None
    failed: int | None
    failed_share: float | None
    failures: Failures
    unfinished: int
    received_bytes: int | None
    goodput_bps: float | None
    latency: Latency | None
    service: Latency | None
    latest_ns: int | None
    per_second: tuple[int, ...]
    trend: Trend | None
    connections: tuple[Connection, ...]
    client: ThreadWitness
    server: ThreadWitness | None
    time_wait: tuple[int | None, int | None]
    cache_line_ns: tuple[float | None, float | None]


class Summary(Part, frozen=True):
    """Mean over repeats, and half of its 95 % interval (Student's t; null of one repeat)."""

    mean: float
    stddev: float
    n: int
    ci95: float | None


class SocketsResult(Message, frozen=True, tag="sockets_result"):
    """The account of a workload: its ends, a run for each repeat, and their summary."""

    trial: str
    status: Status
    reason: str | None
    hint: str | None
    kind: Kind
    transport: Transport
    close: Close | None
    wait: Wait
    target: str
    client: PlaceFacts
    server: PlaceFacts | None
    source_ports: int | None
    runs: tuple[SocketsRun, ...]
    transactions_per_s: Summary | None
    goodput_bps: Summary | None


class SocketsListening(Message, frozen=True, tag="sockets_listening"):
    """Where a server listens whose client is another engine's."""

    trial: str
    address: str


class ServedConnection(Part, frozen=True):
    """What one stream brought."""

    received_bytes: int
    goodput_bps: float


class ServedWindow(Part, frozen=True):
    """What a server counted in its window, by its own clock; null where requests were answered."""

    duration_s: float
    received_bytes: int | None
    goodput_bps: float | None
    per_second: tuple[int, ...]
    trend: Trend | None
    connections: tuple[ServedConnection, ...]
    thread: ThreadWitness


class SocketsServed(Message, frozen=True, tag="sockets_served"):
    """The account of such a server."""

    trial: str
    status: Status
    reason: str | None
    address: str
    server: PlaceFacts
    window: ServedWindow | None
