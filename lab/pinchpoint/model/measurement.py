"""What is measured besides rates: what was asked, what was found, and who saw it happen.

A trial (model/trial.py) is one transmission of frames; a `Measurement` is anything else
that is measured once: sockets that exchange bytes, rules or ports that are made. Bursts and loss curves
(`BurstResult`, `LossPoint`; RFC 2544, 26.3 and 26.4, and RFC 9004), what another generator than the engine was seen to
send (`Foreign`), and what one trial of its own shows of a saturated thread's time and of drops (`Profile`) are made of
many trials, or of none.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pinchpoint.model.interval import Bound
from pinchpoint.model.trial import ThreadLoad, TrialValidity

CARRIED = "that carried packets"
"""The note of a count of items, such as flows, of which only those in use are counted."""


@dataclass(frozen=True)
class Metric:
    """One figure with its interval; every measure yields some, and every curve is drawn from them."""

    name: str  # what it is, the same for every scenario: "NDR", "goodput", "rr p99", "cycles per packet"
    unit: str  # "fps", "bit/s", "1/s", "s", "ns", "cycles", "share", "count", "bytes", "x" (times)
    value: float
    low: float | None = None  # of the interval within this one measurement; None: none is known
    high: float | None = None
    note: str = ""  # what the value and its interval are; of a refused one the reason
    bound: Bound | None = None  # how to read the value; None: by its ends, one end alone being a bound
    cautions: tuple[str, ...] = ()  # what a reader must mind, a sentence each
    disturbed: bool = False  # no valid trial or window stands behind it; a caution says so

    @property
    def remarks(self) -> tuple[str, ...]:
        """Everything to say about the figure, the parts of its note first."""
        lead = ("refused",) if self.bound is Bound.REFUSED else ()
        return tuple(filter(None, (*lead, *self.note.split("; "), *self.cautions)))


@dataclass(frozen=True)
class LevelChange:
    """A rate that fell to less than half within one window, or rose to more than twice, and stayed there."""

    at_s: float  # since the window began
    before: float  # median rate before that; units of the measurement's first metric
    after: float  # median rate from then on


@dataclass(frozen=True)
class Measurement:
    """One measurement with its complete account."""

    id: str  # unique within the run, e.g. "flows-0003"
    scenario: str
    kind: str  # a MeasureKind's word
    repeat: int  # from 1, within the scenario
    started: str  # ISO 8601, UTC
    wall_s: float
    metrics: tuple[Metric, ...]
    account: Mapping[str, object]  # what the instrument answered, as plain data
    observed: Mapping[str, float]  # every counter difference and gauge, by collector
    threads: tuple[ThreadLoad, ...]
    validity: TrialValidity
    reason: str  # why not valid; empty when valid
    change: LevelChange | None = None  # the rate was not stationary in its own window; None: none was seen


@dataclass(frozen=True)
class BurstTest:
    """One search for the longest burst without loss."""

    longest: int  # frames of the longest burst that came back whole; 0: not one did
    lost_at: int | None  # frames of the shortest burst that lost some; None: the longest tried did not
    rate_fps: float | None  # offered within the longest burst; None where there is none
    trial_ids: tuple[str, ...]  # its bursts, in the order they were sent


@dataclass(frozen=True)
class BurstResult:
    """All tests of a scenario, and the buffer that follows from them; None is not known."""

    tests: tuple[BurstTest, ...]
    rate_fps: float  # offered within the bursts: the median of the tests' longest
    rate_words: str  # what that rate is
    throughput_fps: float | None  # of the DUT
    throughput_words: str  # which throughput, and of what trial length; or why there is none
    implied_s: float | None  # average longest burst / rate
    corrected_s: float | None  # implied x (1 - throughput / rate)

    @property
    def average(self) -> float:
        """Frames of the longest burst, averaged over the tests (RFC 2544, 26.4); 0 without tests."""
        return sum(test.longest for test in self.tests) / len(self.tests) if self.tests else 0.0


@dataclass(frozen=True)
class LossPoint:
    """One load of a loss curve; low and high are `interval` (measure/loss_curve/run.py)."""

    share: float  # of the highest load
    load_fps: float  # intended
    offered_fps: float  # median
    loss: float | None  # lost / offered, median; None: no trial could be judged
    loss_low: float | None
    loss_high: float | None
    forwarded_fps: float | None  # received per second of sending, median
    forwarded_low: float | None
    forwarded_high: float | None
    trials: int  # valid ones
    lossless: bool  # none of the trials lost a frame, and there was one
    interval: str  # what low and high are
    reason: str  # why trials are missing; empty if none are
    generator_limited: bool  # the generator did not offer the load: nothing is known of the DUT at it


@dataclass(frozen=True)
class Sent:
    """What one port sent. Rates are in frames per second, times in seconds, lengths in bytes without check sequence."""

    port: str
    frames: int  # that were read
    missed: int | None  # that came faster than they could be read; they count as sent; None: the wire cannot tell
    duration_s: float  # from the first frame to the last
    mean_fps: float  # of all of them
    median_fps: float | None  # of periods of 0.1 s that were sent in whole; None: fewer than three
    low_fps: float | None  # 5 % of those periods were below
    high_fps: float | None  # 5 % were above
    shortest: int
    longest: int
    mean_bytes: float
    most_in_1_ms: int
    dispersion: float | None  # variance over mean of the frames in 1 ms: 0 like a clock, 1 like chance
    longest_silence_s: float
    checked: int  # frames that were looked into
    wrong_checksums: int
    not_ip: int
    flows: int  # five-tuples
    flows_at_least: bool
    answered_flows: int  # five-tuples whose reverse another port sent


@dataclass(frozen=True)
class Wire:
    """The core that read the frames; shares of the time from the first one to the last."""

    carries: bool  # the frames from port to port, too, so that the generator may wait for it
    busy: float
    still: float  # while another program had it


@dataclass(frozen=True)
class Foreign:
    """A generator's command, and what it sent into the ports of a wire."""

    command: str
    ended: str  # how it ended
    wire: Wire
    sent: tuple[Sent, ...]  # by port


@dataclass(frozen=True)
class FunctionShare:
    """Samples that found a forwarding thread in one function, those in functions that it calls left out."""

    function: str  # empty: its file has no symbol for it
    source: str  # the file it is from, without folders: a program, a library; `kernel`, or a kernel module in brackets
    samples: int
    share: float  # of the profile's samples


@dataclass(frozen=True)
class DropReason:
    """Frames that the kernel freed for a reason, in its own word."""

    reason: str  # e.g. `NEIGH_FAILED`
    frames: int  # that were recorded
    share: float  # of all that were


@dataclass(frozen=True)
class Profile:
    """Samples of the forwarding threads of one scenario's device, at a load that saturates it."""

    scenario: str
    reason: str = ""  # why there is no sample, with the command that mends it; empty if there are some
    event: str = ""  # what perf sampled by: `cycles`, or `cpu-clock` where the processor's counters are not available
    load_fps: float | None = None  # of the trial in which it was sampled
    offered: int = 0  # frames of that trial
    received: int = 0
    threads: tuple[str, ...] = ()  # that were sampled, as the device calls them
    samples: int = 0
    unnamed: int = 0  # of them, in code without a symbol
    elsewhere: int = 0  # further samples of the same CPUs outside of receive softirqs; 0 where threads were sampled
    functions: tuple[FunctionShare, ...] = ()  # most samples first; their samples add up to `samples`
    file: str = ""  # of the folded stacks, below attachments/
    drops: tuple[DropReason, ...] = ()  # of a trial of its own, most frames first
    no_drops: str = ""  # why there are none; empty: there are some, or no kernel forwards
