"""Comparisons: what differs between two benches, and by how much their numbers differ.

`compare A B` measures both at once in alternating slices, or in turns, and compares neighbours;
`compare RUN1 RUN2` compares what two runs have stored. `Trend` is one metric of one scenario
over many stored runs, and where its level changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pinchpoint.model.duet import DuetSummary
from pinchpoint.model.measurement import Estimate, Interval
from pinchpoint.model.scenario import Level


class Method(StrEnum):
    """How a run measures its two scenarios."""

    DUET = "duet"  # both benches stand at once and are measured in alternating slices
    TRIALS = "trials"  # both benches stand at once and are measured by alternating trials
    TURNS = "turns"  # one bench after the other, each built anew


@dataclass(frozen=True)
class ComparisonRequest:
    """What `run.json` holds of a run that compares two scenarios."""

    a: str  # group
    b: str
    pairs: int
    metrics: tuple[str, ...] = ()  # to be judged; none: the measure's main one
    margin: float | None = None  # share below which a difference does not matter
    fail_if_worse: float | None = None  # share from which on a worse B ends with WORSE
    method: Method = Method.TURNS
    why: str = ""  # this method and not the other; empty: it was asked for, or there was no other
    slices_s: float | None = None  # seconds of alternating slices or trials; None: in turns
    benches: int = 1  # how many times both benches are built, to stand at once
    may_fall_back: bool = False  # to trials, where the engine cannot overload the devices

    @property
    def is_at_once(self) -> bool:
        """Whether both benches stand at the same time."""
        return self.method is not Method.TURNS


class ComparisonKind(StrEnum):
    """What stands against what."""

    DUET = "duet"  # slices of two benches that stand at once: host noise hits both alike within milliseconds
    TRIALS = "trials"  # alternating trials of two benches that stand at once
    PAIRED = "paired"  # neighbours of one run: drift of the host hits both
    UNPAIRED = "unpaired"  # two runs: whatever changed on the host in between is part of the difference


class Decision(StrEnum):
    """What a comparison of one metric says."""

    HIGHER = "higher"  # B's number is
    LOWER = "lower"
    NOT_FOUND = "not_found"  # no difference, and none larger than `largest_hidden` could hide
    TOO_FEW = "too_few"  # pairs for an interval
    REFUSED = "refused"  # the numbers must not or cannot be compared; the sentence says why


class HoldsFor(StrEnum):
    """What the interval of a ratio is for."""

    BENCHES = "these two benches"  # as they stood: what one build differs from the next by is not in it
    NEXT_BUILD = "the next build of each"  # six builds of each, or more
    RUNS = "these two runs"  # what changed on the host between them is in the ratio


@dataclass(frozen=True)
class Difference:
    """One thing that is not the same on both sides."""

    what: str  # e.g. "dut.smc", "kernel"
    a: str  # in words; "none" where it is absent
    b: str


@dataclass(frozen=True)
class Differences:
    """What differs between two benches, by where it was found."""

    scenario: tuple[Difference, ...] = ()  # effective keys
    in_force: tuple[Difference, ...] = ()  # settings as the switches reported or stored them
    versions: tuple[Difference, ...] = ()
    host: tuple[Difference, ...] = ()


@dataclass(frozen=True)
class Pair:
    """Two neighbouring measurements of one metric."""

    number: int  # from 1, in the order of time
    first: str  # "A" or "B": which was measured first
    a: float | None  # None: there is no number
    b: float | None
    left_out: str  # why it is not compared; empty if it is


@dataclass(frozen=True)
class MetricComparison:
    """One metric of A and of B."""

    metric: str
    unit: str
    judged: bool  # asked for, or the main metric; others are shown without a verdict
    decision: Decision
    sentence: str  # e.g. "B is 2.1 % [1.6 .. 2.6 %] lower"
    better: bool | None = None  # B's number is the better one; None: no difference found, or neither is better, or
    # too few builds tell the build from the change
    mode: str = ""  # of the machine's cores, in which all its numbers were measured; empty: there is one, or none known
    a: Estimate | None = None
    b: Estimate | None = None
    ratio: float | None = None  # B / A
    low: float | None = None
    high: float | None = None
    holds_for: HoldsFor | None = None  # the interval is for; None: there is none, or a run stored before it was
    confidence: float | None = None  # that the ratio lies between low and high; None: low and high are extremes
    p_value: float | None = None  # None: unpaired
    largest_hidden: float | None = None  # share by which B could at most differ
    n: int = 0  # pairs that are compared, of a duet quads; 0: unpaired
    method: str = ""
    pairs: tuple[Pair, ...] = ()  # also those left out
    left_out: Mapping[str, int] = field(default_factory=dict)  # reason -> pairs

    @property
    def interval(self) -> Interval | None:
        """The ratio with its interval; None: there is none."""
        if self.ratio is None or self.low is None or self.high is None:
            return None
        return Interval(self.ratio, self.low, self.high, self.confidence, self.method)


@dataclass(frozen=True)
class Compared:
    """One scenario of A with its counterpart in B."""

    a: str  # the scenarios' names, without their repeats
    b: str
    title: str
    levels: Mapping[str, Level]
    differences: Differences  # between these two; versions and host: of the whole
    metrics: tuple[MetricComparison, ...]  # judged ones first
    notes: tuple[str, ...] = ()  # what to mind
    duet: DuetSummary | None = None  # None: measured by whole trials, or stored runs
    definitions: tuple[str, ...] = ()  # of the rates that are judged


@dataclass(frozen=True)
class Side:
    """Where A or B comes from."""

    name: str  # e.g. a run's id, or a scenario file
    started: str  # ISO 8601, UTC


@dataclass(frozen=True)
class Comparison:
    """`comparison.json`: A against B, metric by metric, and what differs between them."""

    schema: int
    kind: ComparisonKind
    a: Side
    b: Side
    differences: Differences  # of the whole: versions and host; of the scenarios if there is one only
    scenarios: tuple[Compared, ...]
    only_a: tuple[str, ...] = ()  # scenarios without counterpart
    only_b: tuple[str, ...] = ()
    margin: float | None = None
    finished: bool = True
    why: str = ""  # it was measured like this and not as a duet; empty: a duet, as asked for, or stored runs


class State(StrEnum):
    """What is known of one metric."""

    REGRESSION = "regression"  # the whole interval of the ratio is worse by more than the margin
    MIND = "mind"  # worse, or maybe beyond the margin, but not surely
    PASSED = "passed"  # surely not worse by more than the margin
    UNDECIDED = "undecided"  # there is no interval, or the numbers cannot be compared


@dataclass(frozen=True)
class Judged:
    """One judged metric of one scenario."""

    scenario: str
    metric: MetricComparison
    state: State


@dataclass(frozen=True)
class TrendRun:
    """What one run says about the metric."""

    run_id: str
    started: str  # ISO 8601, UTC
    value: float
    low: float | None  # of the run's own interval; None: none is known
    high: float | None
    changed: tuple[str, ...]  # what differs from the run before: host, versions, distance of the cores


@dataclass(frozen=True)
class TrendSegment:
    """Runs `first` to `end` - 1, of one level."""

    first: int
    end: int
    value: float  # the median of the runs
    low: float
    high: float
    interval: str  # what low and high are


@dataclass(frozen=True)
class TrendChange:
    """Where one segment ends and the next begins."""

    run_id: str  # the first run of the new level
    started: str
    ratio: float | None  # new level / old one; None: the old one is 0
    worse: bool
    changed: tuple[str, ...]  # what differs between the last run before and this one


@dataclass(frozen=True)
class Trend:
    """A metric over runs of one definition, in the order of their start."""

    scenario: str
    metric: str
    unit: str
    definition: str  # of a rate; empty for other metrics
    runs: tuple[TrendRun, ...]
    segments: tuple[TrendSegment, ...]  # empty without runs
    changes: tuple[TrendChange, ...]  # one fewer than segments
    left_out: tuple[str, ...]  # runs that cannot be compared with the newest one, each with the reason
    fewest: int  # runs below which no change can be distinguished from chance

    @property
    def too_few(self) -> bool:
        """Whether there are too few runs to tell a change from chance."""
        return len(self.runs) < self.fewest

    @property
    def worse(self) -> bool:
        """Whether the latest level is worse than the one before it."""
        return bool(self.changes) and self.changes[-1].worse
