"""The seam between deciding and acting: everything that can run a trial is an Instrument.

`ProcessInstrument` (process.py) is the real engine behind its JSON lines, `JoinedInstrument` (multi_engine.py)
several of them; `SimulatedInstrument` (benchmarks/simulated.py) has a virtual clock and a known truth.
Nothing above this interface can tell which one it talks to.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pinchpoint.engine.streams import Step
from pinchpoint.model.scenario import Stream
from pinchpoint.model.trial import Cause, Loopback, Sample, StreamCounts, WorkerWitness

Heard = Callable[[Sample], None]


HIGHEST_FPS = 1e9  # that the seam knows (protocol/schema.json): no engine presents frames so fast


def duration_of(frames: int, rate_fps: float) -> float:
    """Seconds in which a rate intends exactly this many frames: half a frame more, so that no rounding loses one."""
    return (frames + 0.5) / rate_fps


@dataclass(frozen=True)
class Slices:
    """Groups of streams take turns within one trial: one slice after another, in `order`, until the trial ends.

    In a slice only its group is sent. If the slice before was of another group, nothing is sent for `settle_s`,
    and the next `discard_s` are sent but not counted; the rest is measured.
    """

    groups: tuple[tuple[int, ...], ...]  # positions of the request's streams; each stream is in exactly one group
    order: tuple[int, ...]  # the group of each slice; repeats
    length_s: float  # of one slice, settle_s and discard_s included
    settle_s: float
    discard_s: float
    hold: tuple[tuple[int, ...], ...] | None = None
    """Process ids of each group's device: stopped while another group is sent, continued before its own slice, and
    all of them when the trial ends, however it ends. None: nothing is stopped."""


@dataclass(frozen=True)
class TrialRequest:
    """One trial to run: `load_fps` is divided among the streams by their shares.

    With `slices` each group has the whole load while it is sent, divided among its own streams.
    """

    trial_id: str
    epoch: int  # 0..255, differs between neighbouring trials so that late frames can be recognised
    duration_s: float
    drain_s: float
    load_fps: float
    streams: tuple[Stream, ...]
    probe_cores: tuple[tuple[int, int], ...]  # pairs whose cache-line distance is measured before and after
    step: Step | None = None  # None: one load all along
    sample_s: float | None = None  # seconds between two samples; None: none are taken
    live: bool = True  # samples are awaited as they come; else nobody wakes for each of them
    quiet_within_s: float = 0.0  # at most, waited for a moment in which nobody else uses the second of probe_cores
    burst_frames: int | None = None
    """Exactly this many frames, all due at the start, as fast as the engine presents them. `duration_s` and
    `load_fps` are then those of HIGHEST_FPS, and the account's `sent_duration_s` is how long the burst took."""
    there_and_back: bool = False  # who receives sends back, so that one clock times both ways; one engine sends
    slices: Slices | None = None  # None: all streams are sent all the time; else without `step` and `burst_frames`


@dataclass(frozen=True)
class PortCounts:
    """The engine's account of one of its ports; None is not countable."""

    name: str
    sent: int
    refused: int
    received: int
    foreign: int
    late: int
    rx_missed: int | None  # dropped before the engine could read them
    stats: Mapping[str, int]
    answered: int = 0  # ARP requests and neighbour solicitations
    longest_silence_s: float | None = None  # in which it delivered nothing while frames were sent
    longest_silence_at_s: float | None = None  # since the start of the trial
    speed_bps: int | None = None  # of a NIC's link; None: it has none, or does not say
    tx_share: float | None = None  # of what the link carries, used by what was sent
    rx_share: float | None = None  # and by what came back


@dataclass(frozen=True)
class SliceCounts:
    """What the engine counted in the measured part of one slice."""

    group: int
    start_s: float  # when the measured part began, since the start of the trial
    length_s: float  # of the measured part; 0: the trial ended, or the engine stood still, before it began
    switch_s: float | None
    """How long after the start of the slice the devices had been stopped and continued; None: nothing was switched.
    More than `settle_s`: the engine came late, and the device had less time than was asked for."""
    offered: int
    refused: int
    received: int | None  # by arrival at the engine; None is not countable
    gap_s: float  # in which the engine's cores stood still within the measured part


@dataclass(frozen=True)
class Noise:
    """What several engines together know against the account of a trial."""

    cause: Cause
    reason: str  # for people


@dataclass(frozen=True)
class EngineResult:
    """The engine's own account of one trial."""

    completed: bool  # False: stopped early, or aborted for a reason
    sent_duration_s: float
    streams: tuple[StreamCounts, ...]
    ports: tuple[PortCounts, ...]
    workers: tuple[WorkerWitness, ...]
    cache_line_before_ns: float | None
    cache_line_after_ns: float | None
    pacing: Mapping[str, float] = field(default_factory=dict)  # largest_burst (frames), latest_ns
    ipc: Mapping[int, tuple[float | None, float | None]] = field(default_factory=dict)  # by core: before, after
    probe_occupied_ns: Mapping[int, int] = field(default_factory=dict)  # processor time of the probes, by core
    reason: str | None = None  # why it could not continue; None: it ended on time, or was stopped
    loopback: Loopback | None = None
    noise: Noise | None = None  # None of one engine alone
    slices: tuple[SliceCounts, ...] = ()  # in the order of time, if the request asked for slices


class Instrument(Protocol):
    """Runs trials on a bench that exists."""

    def open(self) -> Mapping[str, str]:
        """Take the ports; returns facts for the record (versions, port modes).

        Raises EngineError or RequirementError, naming what is missing.
        """

    def run(self, request: TrialRequest, heard: Heard | None = None) -> EngineResult:
        """Run one trial to its end, drain included; `heard` gets its samples as they come, or later if not `live`.

        Raises EngineError if the engine dies, and whatever `heard` raises.
        """

    def stop(self) -> None:
        """End the running trial early; `run` then returns its account. For signal handlers."""

    def close(self) -> None:
        """Release everything; may be called twice."""
