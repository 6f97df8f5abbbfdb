"""One trial: what was asked, what was sent, what came back, and who saw it happen."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pinchpoint.model import units
from pinchpoint.model.hops import DropKind
from pinchpoint.model.units import Worded

WARM_UP = "warm-up"  # the phase that prepares the DUT and is never judged
LATENCY_PHASE = "latency"  # the phase that times frames below the NDR
ALTERNATING = "alternating"  # the phase of trials of two benches, one after the other
_MOST_NAMED = 3  # counters of many
OVERLOADED = 0.03
"""Share of the offered frames that is not forwarded, from which a trial or a slice was an overload. Pauses that the
rings do not bear cost less; a device that forwards more may be able to carry all of it.
"""


class TrialValidity(Worded):
    """Whether the account of a trial can be used."""

    VALID = "valid"
    GENERATOR_LIMITED = "generator_limited"  # the generator did not offer the load, although its core ran
    NOISY_HOST = "noisy_host"  # the host took the engine's core for longer than the account bears
    COUNTER_MISMATCH = "counter_mismatch"  # counters contradict each other
    CHANGED = "changed"  # rules, limits or a process of the device are no longer those of the beginning
    ABORTED = "aborted"


class Cause(Worded):
    """What made the account of a trial unusable, in words that many trials share. Sentences about it: Record.reason."""

    GENERATOR = "generator", "the generator did not offer the load"
    SENDER_STOOD_STILL = "sender_stood_still", "the engine's core stood still"  # so that too little was offered
    # While others sent what its ring could not hold:
    RECEIVER_STOOD_STILL = "receiver_stood_still", "the engine's core stood still while others sent"
    RECEIVER_TAKEN = (
        "receiver_taken",
        "the device's threads had the engine's core (the other trials may be its quieter ones)",
    )
    BURST_INTERRUPTED = "burst_interrupted", "the engine's core stood still within the burst"
    REFLECTOR = "reflector", "the engine that sends back lost frames"
    APART = "apart", "two engines did not send together"
    CONTRADICTION = "contradiction", "counters contradict each other"
    STOPPED = "stopped", "stopped on request"
    ENDED = "ended", "ended early"
    DEVICE_DIED = "device_died", "the device died"


@dataclass(frozen=True)
class Drop:
    """Frames dropped for a reason that some counter names."""

    name: str  # e.g. "receive ring of left full"
    frames: int
    counter: str  # where the count was read, e.g. "engine: refused", "host/link/dut/left/rx_dropped"
    limits: str  # who could not keep up: "dut", "engine" or "host"; or the "rules" that say so
    reason: str = ""  # `name` for any port, with `{port}` in its place; empty in runs before it was recorded
    port: str = ""  # of the DUT, at which they were dropped; empty: at none, or in runs before it was recorded
    kind: DropKind = DropKind.OTHER  # also in runs before it was recorded


@dataclass(frozen=True)
class Hop:
    """A place on the path where frames are counted in and out; None is not countable."""

    name: str
    frames_in: int | None
    frames_out: int | None
    drops: tuple[Drop, ...] = ()

    @property
    def unexplained(self) -> int | None:
        """Frames that came in, and neither went on nor were dropped by name; negative: more went on."""
        if self.frames_in is None or self.frames_out is None:
            return None
        return self.frames_in - self.frames_out - sum(drop.frames for drop in self.drops)


@dataclass(frozen=True)
class Ledger:
    """The account of one trial: offered = received + drops at named hops + unexplained."""

    offered: int
    received: int  # distinct frames
    hops: tuple[Hop, ...]
    resets: tuple[str, ...] = ()
    """Counters read for the account that went back meanwhile: what they counted in the trial is not known."""
    copies: int = 0
    """Copies of frames that the device made and that did not come back: as many drops may have cost no frame."""

    @property
    def dropped(self) -> int:
        """Frames dropped at named places."""
        return sum(drop.frames for hop in self.hops for drop in hop.drops)

    @property
    def unexplained(self) -> int:
        """Frames that no counter accounts for; negative if counters saw more than was sent and copied."""
        missing = self.offered - self.received - self.dropped
        return missing if missing >= 0 else min(0, missing + self.copies)


def went_back_words(names: Sequence[str]) -> str:
    """What it means that these went back. One alone is no restart: that takes all of what was restarted back."""
    if len(names) == 1:
        return f"{names[0]} went back: what it counted meanwhile is not known"
    more = f" and {units.number(len(names) - _MOST_NAMED)} more" if len(names) > _MOST_NAMED else ""
    restarted = "a port or the device was restarted, or its counters were cleared"
    return f"counters went back: {', '.join(names[:_MOST_NAMED])}{more}: {restarted}"


@dataclass(frozen=True)
class LatencySummary:
    """A distribution of times, e.g. of one-way latency through the bench; nanoseconds."""

    count: int
    min_ns: int  # below 0: received before it was sent, by the clocks of two hosts; all else counts it as 0
    mean_ns: float
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p999_ns: int
    p9999_ns: int
    max_ns: int
    curve: tuple[tuple[float, int], ...]  # (quantile 0..1, nanoseconds), rising
    clock_error_ns: float | None = None  # by which every time may be wrong: two hosts' clocks; None: one clock
    stddev_ns: float | None = None  # None: a run stored before it was kept


@dataclass(frozen=True)
class Jump:
    """The most sequence numbers that one frame was ahead of the next expected one."""

    frames: int
    at_s: float  # since the start of the trial


@dataclass(frozen=True)
class Sample:
    """Totals of a trial at one time; exact, but of instants up to a few milliseconds apart."""

    elapsed_s: float  # since the start of the trial
    offered: int
    lost: int | None  # refused, or overtaken and not come yet; None: not countable
    gaps_s: float = 0.0  # in gaps of the engine's cores, all together
    gap_max_s: float = 0.0  # the longest of them since the sample before
    received: int | None = None  # distinct frames that came back; None in older records


@dataclass(frozen=True)
class StreamCounts:
    """The engine's account of one stream; None is not countable. Words: protocol/README.md."""

    stream: int
    tx_port: str
    rx_port: str | None  # None: nobody is there to count them
    intended: int | None
    offered: int
    refused: int
    shortfall: int | None
    sent: int
    received: int | None
    lost: int | None
    duplicated: int | None
    reordered: int | None
    corrupt: int | None
    latency: LatencySummary | None
    late: int | None = (
        None  # carry this stream's id, but belong to an earlier trial or came too late to be distinguished
    )
    reorder_distance_max: int | None = None  # in sequence numbers, of a reordered frame to the highest before it
    largest_jump: Jump | None = None
    jitter: LatencySummary | None = None  # spacings of neighbouring frames, received against sent (RFC 3550, 6.4.1)
    last_loss_s: float | None = None  # since the start: when a frame was last refused or passed over; None: never
    reordered_in_flow: int | None = None  # of those reordered, those after a later frame with the same headers
    round_trip: LatencySummary | None = None  # there and back, of a trial whose receivers send back; the counts are too
    latency_histogram: str = ""  # `model.hdr`, nanoseconds; kept of trials that measure latency, on one clock


@dataclass(frozen=True)
class WorkerWitness:
    """What one engine core noticed about itself during the trial."""

    core: int
    busy_share: float  # of its loop time spent in iterations that moved frames
    gap_threshold_ns: int
    gaps: int  # loop gaps over the threshold
    gap_total_ns: int
    gap_max_ns: int
    gap_max_at_s: float | None  # since the start of the trial
    steal_s: float | None
    voluntary_switches: int | None
    involuntary_switches: int | None
    ports: tuple[str, ...] = ()  # that it drives; empty: all of them
    gaps_longest: tuple[tuple[float, int], ...] = ()  # (seconds into the trial, nanoseconds), the longest first
    frequency_hz: int | None = None  # of its core at the end, as the kernel reports it
    host: str = ""  # of its core, where a bench spans hosts; empty: the device's

    @property
    def where(self) -> str:
        """`core 2`; of another machine than the device's `core 2 on gen`."""
        return f"core {self.core} on {self.host}" if self.host else f"core {self.core}"


@dataclass(frozen=True)
class Loopback:
    """The engine's own share of every latency: its loop over two ports in memory; nanoseconds."""

    frames: int
    min_ns: int
    p50_ns: int
    p99_ns: int
    max_ns: int


@dataclass(frozen=True)
class ThreadWitness:
    """What the host did to one DUT thread during the trial."""

    name: str  # as the kernel has it, e.g. "worker-1"
    core: int | None
    run_delay_ns: int | None  # runnable but not running (schedstat)
    involuntary_switches: int | None
    own_delay_ns: int = 0  # at most, of run_delay_ns: other threads of the DUT had the core


@dataclass(frozen=True)
class Witness:
    """What the host did to the engine and the DUT, from the first frame to the last."""

    workers: tuple[WorkerWitness, ...]
    dut_threads: tuple[ThreadWitness, ...]
    steal_s: Mapping[int, float]  # by CPU, of those the bench uses
    cache_line_before_ns: float | None  # engine core to the device's, one way; of several the mean
    cache_line_after_ns: float | None
    loopback: Loopback | None = None
    ipc: Mapping[int, tuple[float | None, float | None]] = field(default_factory=dict)
    """By core, before and after: instructions a cycle that it executed, fewer while another thread shares it."""
    siblings_s: Mapping[int, float] = field(default_factory=dict)
    """By CPU: time used there by threads of the DUT that forward no frames, e.g. of its slow path."""


class BusyBy(Worded):
    """How it is known for how much of the time a thread was busy."""

    CYCLES = "cycles", "its own count of cycles"  # those spent on packets, of the cycles of the sending time
    PROCESSOR_TIME = "processor_time", "its processor time"  # the kernel counts the time for which it ran


@dataclass(frozen=True)
class ThreadLoad:
    """One forwarding thread of the DUT over the trial; None is not countable."""

    name: str  # as the device calls it, e.g. "softirq on CPU 2"
    cpu: int | None  # None: it has none of its own
    received: int  # frames
    recirculated: int | None = None  # frames, of their second and further passes through the datapath
    busy_share: float | None = None  # of the sending time
    busy_by: BusyBy | None = None  # how that is known; None: it is not
    cycles_per_packet: float | None = None  # busy cycles per packet received
    clock_hz: float | None = None  # cycles per second of its CPU, as the counters ran
    ports: tuple[str, ...] = ()  # of which it polls a receive queue; empty: the DUT does not say
    slow_path: int | None = None  # lookups that no cache of the device answered, those that were lost included
    detail: Mapping[str, float] = field(default_factory=dict)
    """The device's own figures; `Device.figures` says what each is called and means."""


@dataclass(frozen=True)
class ThreadFigure:
    """What a device says of one of its own figures (`ThreadLoad.detail`)."""

    title: str  # what it is called, e.g. above its column
    meaning: str  # a noun phrase
    answers: str = ""  # of lookups: who answered them; figures of the same word are added up. Empty: no lookups


@dataclass(frozen=True, kw_only=True)
class Record:
    """What every trial leaves, whatever was sent or done: when it was, what was counted, and whether that can be used.

    Frames leave a `Trial`; everything else leaves a `Measurement` (model/measurement.py).
    """

    id: str  # unique within the run, e.g. "forward-0007"
    scenario: str
    repeat: int
    started: str  # ISO 8601, UTC
    wall_s: float  # from the lab's call to its answer, all reading included
    ledger: Ledger | None  # in the unit of what was sent; None: nothing was sent that can be accounted for
    witness: Witness | None  # None: of no core that sends
    threads: tuple[ThreadLoad, ...]
    observed: Mapping[str, float]  # every counter difference and gauge, by collector
    validity: TrialValidity
    reason: str  # why not valid, for people; empty when valid
    cause: Cause | None = None  # why not valid; None: valid, of no cause that is known, or stored before causes were


@dataclass(frozen=True, kw_only=True)
class Trial(Record):
    """One transmission of frames at one intended load for one duration, with its complete account.

    `repeat` counts the trials of this phase that had this load before.
    """

    phase: str  # "warm-up", "search", "latency", "mrr"; of other measures also "load", "burst", "reach", "loss curve"
    duration_s: float  # intended
    load_fps: float  # intended, all streams together
    sent_duration_s: float  # as the engine measured it
    intended: int
    offered: int
    received: int
    streams: tuple[StreamCounts, ...]
    ledger: Ledger
    witness: Witness
    samples: tuple[Sample, ...] = ()  # of trials that are looked at over time
    burst_frames: int | None = None  # this many frames as one burst; None: a load for its duration

    @property
    def lost(self) -> int:
        """Offered frames that did not come back."""
        return self.offered - self.received

    @property
    def loss_ratio(self) -> float:
        """Lost over offered; 0 when nothing was offered."""
        return self.lost / self.offered if self.offered else 0.0

    @property
    def is_whole(self) -> bool:
        """Whether frames were offered all the time, even if less than the load; so a sender did not stand still."""
        return self.validity in (TrialValidity.VALID, TrialValidity.GENERATOR_LIMITED)

    @property
    def is_usable(self) -> bool:
        """Whether it says what the device does with what was offered, even if that was less than the load."""
        return self.offered > 0 and (self.is_whole or self.cause is Cause.SENDER_STOOD_STILL)

    @property
    def busiest_cost(self) -> tuple[float, float] | None:
        """Busy share and cycles per packet of the busiest forwarding thread; None: no thread tells both."""
        known = ((thread.busy_share, thread.cycles_per_packet) for thread in self.threads)
        return max(((busy, cycles) for busy, cycles in known if busy and cycles), default=None)

    @property
    def latency(self) -> LatencySummary | None:
        """Of the stream whose 99th percentile is highest: the one that a user would feel."""
        return _highest(stream.latency for stream in self.streams)

    @property
    def round_trip(self) -> LatencySummary | None:
        """The same of the way there and back; None but for a trial whose receivers send back."""
        return _highest(stream.round_trip for stream in self.streams)

    @property
    def offered_fps(self) -> float:
        """The rate at which frames were presented to the ports."""
        return self.offered / self.sent_duration_s if self.sent_duration_s else 0.0

    @property
    def carried_fps(self) -> float:
        """Frames that came back, over the time of sending."""
        return self.received / self.sent_duration_s if self.sent_duration_s else 0.0

    @property
    def forwarded_fps(self) -> float:
        """Frames a second that came back while the trial was sent; without samples, all that came back over that time.

        Samples of the time after sending, in which the engine waits for the last frames, are left out.
        """
        counted = [
            (sample.elapsed_s, sample.received)
            for sample in self.samples
            if sample.received is not None and sample.elapsed_s <= self.sent_duration_s
        ]
        if not counted or counted[-1][0] <= counted[0][0]:
            return self.carried_fps
        (began_s, first), (ended_s, last) = counted[0], counted[-1]
        return (last - first) / (ended_s - began_s)


def _highest(summaries: Iterable[LatencySummary | None]) -> LatencySummary | None:
    return max((summary for summary in summaries if summary), key=lambda summary: summary.p99_ns, default=None)
