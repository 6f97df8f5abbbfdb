"""Figures with their intervals, and what is measured besides rates: what was asked, what was found, and who saw it.

An `Interval` is a value with its ends, its arithmetic and its words. Stored records keep value and ends in fields of
their own, where an end that is open or not known is None: `Interval.of` reads them and `figures` gives them back. Here
such an end is infinite, so that arithmetic needs no cases. A `Metric` is a figure with its name, an `Estimate` one over
all repeats.

A `Measurement` is the record of a trial of anything but frames (model/trial.py): connections, sockets that exchange
bytes, rules or ports that are made. Bursts and loss curves (`BurstResult`, `LossPoint`; RFC 2544, 26.3 and 26.4, and
RFC 9004), what another generator than the engine was seen to send (`Foreign`), and what one trial of its own shows of a
saturated thread's time and of drops (`Profile`) are made of many trials, or of none.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol, Self

from pinchpoint.model import units
from pinchpoint.model.causes import Suspicion
from pinchpoint.model.trial import Ledger, Record, Witness

CONFIDENCE: Final = 0.95
"""Of intervals, unless a scenario asks for another (search.confidence): the convention of the field."""
NORMAL: Final = 1.96
"""Standard deviations of a normal distribution that lie within CONFIDENCE, either way."""


def fewest_for_interval(level: float = CONFIDENCE) -> int:
    """How many values an interval by ranks needs: 6 at 0.95, since all of 5 lie on one side in 1 of 16 cases."""
    return math.ceil(math.log2(2 / (1 - level)) - 1e-9)


class Bound(units.Worded):
    """How a number is to be read."""

    FOUND = "found"
    AT_LEAST = "at_least"  # something else ended first, e.g. the traffic generator: the true value is no smaller
    BELOW = "below"  # even the lowest load was too much: the true value is no larger
    BETWEEN = "between"  # refused as a number, but it lies between two ends, and only those count
    REFUSED = "refused"  # the bench could not support a number


class HasInterval(Protocol):
    """A record with a value and two ends; None: the end is open or not known."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


@dataclass(frozen=True)
class Interval:
    """A value between two ends, all in one unit; an end that is open or not known is infinite."""

    value: float
    low: float = -math.inf
    high: float = math.inf
    level: float | None = None  # how often, of 1, the truth lies within, at least; None: it is not known
    meaning: str = ""  # what the ends are and hold for, e.g. `95 %, of the median by ranks over 7 repeats`
    bound: Bound = Bound.FOUND

    @classmethod
    def of(cls, record: HasInterval) -> "Interval":
        """Of a stored record."""
        low, high = record.low, record.high
        return Interval(record.value, -math.inf if low is None else low, math.inf if high is None else high)

    @property
    def is_closed(self) -> bool:
        """Whether both ends are known."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def figures(self) -> tuple[float, float | None, float | None]:
        """Value, low and high as records store them."""
        low, high = (end if math.isfinite(end) else None for end in (self.low, self.high))
        return self.value, low, high

    @property
    def closed(self) -> Self:
        """The same, an open end at the value itself."""
        low, high = (end if math.isfinite(end) else self.value for end in (self.low, self.high))
        return replace(self, low=low, high=high)

    @property
    def possible(self) -> Self:
        """The same, without an end on the side that a bound leaves open."""
        closed = self.closed
        if self.bound is Bound.AT_LEAST:
            return replace(closed, high=math.inf)
        return replace(closed, low=-math.inf) if self.bound is Bound.BELOW else self

    @property
    def width(self) -> float:
        """Relative to the upper end."""
        return (self.high - self.low) / self.high

    @property
    def tells_apart(self) -> bool:
        """Of a ratio: whether 1, which means no difference, lies outside; without two ends it does not."""
        return self.is_closed and not self.low <= 1.0 <= self.high

    @property
    def reach(self) -> float:
        """Of a ratio: how far from 1 it may be, either way."""
        return max(self.high - 1, 1 - self.low)

    def __mul__(self, factor: float) -> Self:
        return replace(self, value=self.value * factor, low=self.low * factor, high=self.high * factor)

    def __truediv__(self, divisor: float) -> Self:
        return replace(self, value=self.value / divisor, low=self.low / divisor, high=self.high / divisor)

    def widened(self, below: float, above: float) -> Self:
        """The same, its ends this much farther out, as shares of each."""
        return replace(self, low=self.low * (1 - below), high=self.high * (1 + above))

    def reaching(self, low: float, high: float) -> Self:
        """The same, from `low` to `high` at least."""
        return replace(self, low=min(self.low, low), high=max(self.high, high))

    def overlaps(self, low: float, high: float) -> bool:
        """Whether some value lies within it and from `low` to `high`."""
        return max(self.low, low) <= min(self.high, high)

    def ends(self, unit: str, step: units.Step | None = None) -> str:
        """Both ends in one unit, e.g. `3.10 to 3.12 Mpps`; empty without two."""
        return units.quantity_range(self.low, self.high, unit, step) if self.is_closed else ""

    @property
    def times(self) -> str:
        """Of a ratio, e.g. `2.04 x [1.90 .. 2.20]`, `at least 2.04 x`, `between 1.9 and 2.2 x`."""
        said = {Bound.AT_LEAST: "at least ", Bound.BELOW: "at most "}.get(self.bound, "") + units.times(self.value)
        if not self.is_closed:
            return said
        low, high = (units.times(end).removesuffix(" x") for end in (self.low, self.high))
        return f"between {low} and {high} x" if self.bound is Bound.BETWEEN else f"{said} [{low} .. {high}]"


@dataclass(frozen=True)
class Estimate:
    """One metric at one point, all repeats together."""

    unit: str
    value: float  # the median of the repeats; of BETWEEN the middle, for drawing only
    low: float | None
    high: float | None
    n: int  # repeats it rests on
    interval: str  # what low and high are, e.g. "95 %, of the median by ranks over 7 repeats" or "bounds of the search"
    trimmed_mean: float | None = None  # lowest and highest dropped, as some publish; from 5 repeats on
    bound: Bound = Bound.FOUND  # never REFUSED: a refused number is none
    level: float | None = None  # how often the truth lies between the ends, at least; None: it is not recorded

    @property
    def quoted(self) -> str:
        """The number to quote: `3.10 Mpps`, `at least 7.10 Mpps` or `below 10.0 kpps`; else `3.05 to 3.20 Mpps`."""
        if self.bound is Bound.BETWEEN:
            return Interval.of(self).ends(self.unit)
        lead = {Bound.AT_LEAST: "at least ", Bound.BELOW: "below "}.get(self.bound, "")
        return f"{lead}{units.quantity(self.value, self.unit)}"


def ratio(over: Estimate | None, under: Estimate | None) -> Interval | None:
    """`over` by `under`; None if either is missing or zero, or if both are only bounds.

    The ends combine the worst ends of both, so they cover at least as often.
    """
    if over is None or under is None or under.value <= 0 or over.value <= 0:
        return None
    opposite = {Bound.AT_LEAST: Bound.BELOW, Bound.BELOW: Bound.AT_LEAST}.get(under.bound, under.bound)
    bound = opposite if over.bound is Bound.FOUND else over.bound
    low = over.low / under.high if over.low is not None and under.high else -math.inf
    high = over.high / under.low if over.high is not None and under.low else math.inf
    quotient = Interval(over.value / under.value, low, high, bound=bound)
    is_unknown = opposite not in (Bound.FOUND, bound) or (bound is Bound.BETWEEN and not quotient.is_closed)
    return None if is_unknown else quotient


CARRIED = "that carried packets"
"""The note of a count of items, such as flows, of which only those in use are counted."""
RATES: Final = ("fps", "bit/s", "1/s")
"""Units of metrics that say how much was carried in a second."""
THREAD_BUSY: Final = "thread busy"
"""The metric of the busiest forwarding thread's busy share."""
CYCLES: Final = "cycles per packet"
"""The metric of what a packet cost the forwarding threads."""
_LOOKUP_SHARE: Final = "lookup share of "
_AT_ONE_LOAD: Final = " at "  # a metric of one load of several ends so, with the load


def lookup_share(answered_by: str) -> str:
    """The metric of the share of all lookups that one cache of the device answered, or its slow path."""
    return f"{_LOOKUP_SHARE}{answered_by}"


def answered_by(metric: str) -> str:
    """Who answered, of such a metric; empty of any other."""
    name = metric.removeprefix(_LOOKUP_SHARE)
    return "" if name == metric or _AT_ONE_LOAD in name else name


MRR: Final = "MRR"
"""The metric of the maximum receive rate."""
_BAND: Final = ("band low", "band high")
_FORMER_BAND: Final = ("best sustained",)  # in runs stored before rates were literal


def band_metrics(rate: str) -> tuple[str, str]:
    """The metrics of a rate's band: the loads at which 10 % and 90 % of the trials lose (`Band` in model/result.py)."""
    low, high = (f"{rate} {end}" for end in _BAND)
    return low, high


def is_largest(metric: str) -> bool:
    """Whether it is the largest of all that was seen: of several measurements, the largest of theirs."""
    return metric.endswith(" max")


def is_band(metric: str) -> bool:
    """Whether a metric is an end of some rate's band."""
    return metric.endswith((*_BAND, *_FORMER_BAND))


def is_rate(metric: str) -> bool:
    """Whether a metric is an NDR or PDR itself."""
    return (metric == "NDR" or metric.startswith("PDR")) and not is_band(metric)


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
    level: float | None = None  # how often the truth lies between the ends, at least; None: the note says it

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


@dataclass(frozen=True, kw_only=True)
class Measurement(Record):
    """A trial of anything but frames, with its complete account: a load of connections, a window of sockets, a build.

    `repeat` counts from 1 within the scenario.
    """

    kind: str  # a MeasureKind's word
    metrics: tuple[Metric, ...]
    account: Mapping[str, object]  # what the instrument answered, as plain data
    change: LevelChange | None = None  # the rate was not stationary in its own window; None: none was seen
    ledger: Ledger | None = None  # in connections, of a load of them; None: anything else, or a run stored before
    witness: Witness | None = None  # of the cores that open them; likewise


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
    suspicions: tuple[Suspicion, ...] = ()  # causes that these reasons name
    no_drops: str = ""  # why there are none; empty: there are some, or no kernel forwards
