"""What a run found: rates with their bounds, verdicts with their evidence."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from pinchpoint.model.causes import Explanation, Suspicion, Turns
from pinchpoint.model.comparison import ComparisonRequest
from pinchpoint.model.measurement import Bound, BurstResult, Interval, LossPoint, Metric, Profile
from pinchpoint.model.offload import OffloadTruth
from pinchpoint.model.scenario import Level, SearchMethod
from pinchpoint.model.study import Curve, Finding, JudgedConclusion, Need, Study, SweepInfo
from pinchpoint.model.trial import LatencySummary, Loopback, ThreadLoad, TrialValidity
from pinchpoint.model.units import Worded
from pinchpoint.model.warning import ResultWarning

SCHEMA: Final = 4
"""The version of the stored formats that this Pinchpoint writes, and the newest that it reads."""


class RateStatus(StrEnum):
    """How a rate is to be read."""

    FOUND = "found"  # between lower_fps and upper_fps
    AT_LEAST = "at_least"  # the generator's ceiling or the search's maximum came first
    BELOW_MINIMUM = "below_minimum"  # even the lowest load lost too much
    LOSES_ALWAYS = "loses_always"  # frames are lost at any load: the loss ratio (`floor`) is the number
    REFUSED = "refused"  # the bench could not support a number; see reason


BOUNDS: Final[Mapping[RateStatus, Bound]] = {
    RateStatus.FOUND: Bound.FOUND,
    RateStatus.AT_LEAST: Bound.AT_LEAST,
    RateStatus.BELOW_MINIMUM: Bound.BELOW,
    RateStatus.LOSES_ALWAYS: Bound.REFUSED,
    RateStatus.REFUSED: Bound.REFUSED,
}


class Limit(Worded):
    """What pinched the number."""

    GENERATOR = "generator", "traffic generator"
    SEARCH_MAXIMUM = "search_maximum"
    HOST = "host", "measuring host"
    WIRE = "wire", "the wire"  # a link between NICs carries no more
    FORWARDING_CORE = "forwarding_core"  # of the device: its busiest thread
    WORKER_CORE = "worker_core"  # of a balancer
    SENDER_CORE = "sender_core", "client's core"  # of a socket workload
    RECEIVER_CORE = "receiver_core", "server's core"
    RELAY_CORE = "relay_core", "relay's core"  # between kernel sockets and a port without a kernel
    SOURCE_PORTS = "source_ports", "client's source ports"  # every pair of address and port was in use
    LOCAL_PORTS = "local_ports"  # of a balancer: every port of its local addresses led to the backend already
    TABLE = "connection_table"
    MEMORY = "memory"
    DESCRIPTORS = "descriptors"
    SOFTIRQ = "softirq"
    ACCEPT_QUEUE = "accept_queue"
    BACKEND = "backend"
    PLANNED_RATE = "planned_rate"  # the scenario asked for no more
    LATENCY = "latency"  # each connection waits for its answer, and nothing is saturated
    NAMED_DROP = "named_drop"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class Band:
    """The shoulder of the loss curve; frames per second, offered."""

    low_fps: float  # 10 % of the trials lose more than the loss ratio
    high_fps: float  # 90 % of them do


@dataclass(frozen=True)
class LossFloor:
    """The share of frames that a DUT loses however low the load is."""

    loss_ratio: float  # lost over offered, of all those trials together
    lower: float  # of its interval over them, at the search's confidence
    upper: float
    load_fps: float  # the lowest of their loads
    trials: int  # at different loads, without the overloads


@dataclass(frozen=True)
class LossShare:
    """How many trials near one load lost more than the loss ratio: a point of the loss curve."""

    load_fps: float  # offered, median of the trials
    losing: int  # trials that lost more than the ratio
    trials: int

    @property
    def share(self) -> float:
        """Of the trials that lose; 0 of none."""
        return self.losing / self.trials if self.trials else 0.0


@dataclass(frozen=True)
class Claim:
    """A rate held against the trials beside it: at most half should lose just below it, at least half just above."""

    below: LossShare  # trials at most 3 % below the rate
    above: LossShare  # trials at most 3 % above it
    holds: bool  # both within their binomial error
    supported: bool | None = None  # some trial on either side is within 2 %; None: a run stored before it was kept


@dataclass(frozen=True)
class Memory:
    """What a device carries at a load near the rate depends on the load before it, as of a policer's bucket."""

    rested_fps: float  # the rate, measured after rests
    sustained_fps: float  # the rate, measured after overloads: the one that is published


@dataclass(frozen=True)
class ReceiveRate:
    """MRR, maximum receive rate: what the device forwards at the highest load that the engine offers on this bench."""

    load_fps: float  # offered, median of the trials
    estimate_fps: float  # received, median of the trials
    lower_fps: float  # of the interval of the median at `confidence`, by ranks
    upper_fps: float
    band: Band  # 10 % and 90 % quantiles of the trials
    trials: int
    trial_duration_s: float
    confidence: float

    @property
    def name(self) -> str:
        """As metrics have it."""
        return "MRR"

    @property
    def definition(self) -> str:
        """What the number means: a device that slows down under overload has a higher one in shorter trials."""
        return f"forwarded under overload in {self.trial_duration_s:g} s trials"


FAR_BELOW_MRR: Final = 0.9
"""Of what a device forwards at most. A rate without loss from there on is its own speed; one below is a matter of
pauses or bursts: an NDR's own interval and a host's moving level make smaller differences.
"""


@dataclass(frozen=True)
class PauseGap:
    """Why an NDR lies far below the MRR: pauses or bursts against the smallest ring between engine and device."""

    ring: int  # frames that it holds
    pause_s: float  # the longest pause that it absorbs at the NDR
    longer_ring: int  # frames of a ring for which a rate is predicted
    longer_ring_fps: float  # NDR that it would give if pauses are the cause: a prediction


@dataclass(frozen=True)
class Rate:
    """An NDR or PDR. Its definition includes loss ratio and trial length.

    By MLRsearch, `lower_fps` and `upper_fps` are the rates offered at the highest load that
    satisfied the goal and at the lowest that did not. By our own search they are the ends
    of the interval at `confidence`, and `estimate_fps` lies between them.
    """

    loss_ratio: float  # 0 for the NDR
    status: RateStatus
    lower_fps: float | None
    upper_fps: float | None
    trial_duration_s: float
    duration_sum_s: float
    reason: str  # empty when found
    estimate_fps: float | None = None  # None: the method gives bounds only
    confidence: float | None = None  # that the rate lies between the bounds; None: the method does not say
    method: SearchMethod = SearchMethod.MLRSEARCH
    band: Band | None = None  # None: the method knows no time, or there is no rate
    floor: LossFloor | None = None  # with LOSES_ALWAYS
    at_half: LossShare | None = None  # trials near half of the rate: a share that loses there loses at any load
    claim: Claim | None = None  # None: no rate, or no trials beside it
    memory: Memory | None = None  # None: the load before a trial does not matter, or it was not tried
    unusable_share: float | None = None  # of the search's trials, in which a receiving core of the engine stood still
    limited_by: Limit | None = None  # with AT_LEAST: GENERATOR or SEARCH_MAXIMUM; None: a run stored before it was
    exceed_ratio: float | None = None  # of the trials, that may exceed the loss ratio; None: 0.5, or another method

    @property
    def interval(self) -> Interval | None:
        """The number with both of its ends; None: it has not two."""
        if not self.lower_fps or not self.upper_fps:
            return None
        middle = self.lower_fps if self.estimate_fps is None else self.estimate_fps
        return Interval(middle, self.lower_fps, self.upper_fps, self.confidence)

    @property
    def bound(self) -> Bound:
        """How the number is to be read, as that of any metric."""
        return BOUNDS[self.status]

    @property
    def quoted_fps(self) -> float | None:
        """The number to quote: the estimate if there is one, else the lower bound; None where no rate was found."""
        if self.status in (RateStatus.REFUSED, RateStatus.LOSES_ALWAYS):
            return None
        return self.lower_fps if self.estimate_fps is None else self.estimate_fps

    @property
    def is_literal(self) -> bool:
        """Whether half of the trials lose at this load; not so of runs stored before rates were defined in this way."""
        return self.method is SearchMethod.MLRSEARCH or self.unusable_share is not None

    @property
    def decided(self) -> str:
        """How a load is decided, in words."""
        if self.method is SearchMethod.MLRSEARCH:
            most = 0.5 if self.exceed_ratio is None else self.exceed_ratio
            share = "no" if most == 0 else "at most half of the" if most == 0.5 else f"at most {most * 100:g} % of the"
            trials = f"{self.trial_duration_s:g} s {'trial exceeds' if most == 0 else 'trials exceed'}"
            return f"{share} {trials} the loss ratio, by MLRsearch over {self.duration_sum_s:g} s"
        if self.is_literal:
            lost = "nothing" if self.loss_ratio == 0 else f"at most {self.loss_ratio * 100:g} %"
            return f"half of the {self.trial_duration_s:g} s trials lose {lost} at this load"
        if self.band is None:
            return f"half of the {self.trial_duration_s:g} s trials exceed the loss ratio, by a model of all trials"
        return f"half of the {self.trial_duration_s:g} s trials are within the loss ratio at this load"

    @property
    def definition(self) -> str:
        """What the number means, in words: numbers of different definitions must not be compared silently."""
        return f"loss ratio {self.loss_ratio:g}: {self.decided}"

    @property
    def name(self) -> str:
        """`NDR` or `PDR 0.5 %`."""
        return "NDR" if self.loss_ratio == 0 else f"PDR {self.loss_ratio * 100:g} %"


@dataclass(frozen=True)
class Moment:
    """Where the NDR's threshold was at one trial of a search, given all of its trials; frames per second, offered."""

    trial_id: str
    at_s: float  # since the first trial of the search
    low_fps: float  # 10 % quantile
    median_fps: float
    high_fps: float  # 90 % quantile


@dataclass(frozen=True)
class ModeRates:
    """What a search found in one mode of the machine's cores (account/facts.py)."""

    label: str  # e.g. "cores 14 ns apart"
    distance_ns: float | None  # median of its trials; None: the cores were not probed
    trials: int  # valid ones
    traffic_s: float
    rates: tuple[Rate, ...]  # NDR first; REFUSED where the mode was not met long enough
    most_offered_fps: float | None = None  # in a valid trial: by an engine that kept up
    slowed: bool = False  # by a neighbour on the switch's core (account/facts.py)
    share: float | None = None  # of the search's trials that were in this mode; None: a run stored before bands
    median_fps: float | None = None  # of the momentary NDR in this mode; None: too few trials


CEILING_ERROR: Final = 0.03
"""How exactly a test of two seconds finds a generator's ceiling: a rate so near to it may be the generator's own."""


@dataclass(frozen=True)
class Ceiling:
    """The generator's own highest rate on a bench of this shape, back to back without the DUT."""

    fps: float  # the highest load that it kept up with
    measured: str  # ISO 8601, UTC
    key: str  # what it depends on: backend, frame sizes, streams, cores, machine
    distance_ns: float | None  # of the cores while it was measured
    received_fps: float | None = None  # what came back at that load: the generator did at least this, both ways

    def is_surpassed(self, seen_fps: float | None) -> bool:
        """Whether the generator was seen to offer clearly more: it was only a lower bound, and bounds nothing."""
        return seen_fps is not None and seen_fps > (1 + CEILING_ERROR) * self.fps


class Outcome(Worded):
    """How a scenario ended."""

    MEASURED = "measured"
    IMPOSSIBLE = "impossible", "impossible here"  # this machine lacks something that it needs; the reason says what
    SKIPPED = "skipped"  # needless, e.g. as its neighbours show; the reason says how
    FAILED = "failed"  # the bench, the engine or the DUT failed; the reason says how
    WRONG = "wrong"  # measured, and the DUT does not do what the scenario says of it; the reason says how


@dataclass(frozen=True)
class Verdict:
    """What limited a number, with its evidence, and what was ruled out."""

    limit: Limit
    headline: str  # one sentence with its figures
    evidence: tuple[str, ...]  # each a sentence with its figures
    ruled_out: tuple[str, ...]
    trial_ids: tuple[str, ...]  # the trials it rests on
    suspicions: tuple[Suspicion, ...] = ()  # causes whose signature fits, the one that explains most first


@dataclass(frozen=True)
class LatencyPoint:
    """Latency at one share of the NDR."""

    share: float
    load_fps: float
    trial_id: str
    latency: LatencySummary | None
    note: str  # why there is none, or what to mind; empty otherwise
    loopback: Loopback | None = None  # how much of it is the engine's own
    distance_ns: float | None = None  # of the cores meanwhile; None: not probed
    validity: TrialValidity = TrialValidity.VALID  # of its trial
    round_trip: LatencySummary | None = None  # instead: there and back, where two hosts have no clock in common


@dataclass(frozen=True)
class CacheLine:
    """The distance of the two cores over the run: virtual machines may have two modes."""

    median_ns: float
    min_ns: float
    max_ns: float
    probes: int
    far_share: float  # of probes on the far side of a clear gap; 0 when there is one mode
    note: str


@dataclass(frozen=True)
class ScenarioResult:
    """Everything found about one scenario."""

    scenario: str
    title: str
    rates: tuple[Rate, ...]  # NDR first
    latency: tuple[LatencyPoint, ...]
    threads: tuple[ThreadLoad, ...]  # within 2 % of the NDR, or overloaded; busy and cycles unknown: farther away
    verdict: Verdict | None
    generator_ceiling_fps: float | None  # the highest rate that the engine was seen to offer on this bench
    trials: int
    invalid_trials: Mapping[str, int]  # by validity
    traffic_s: float
    wall_s: float
    cache_line: CacheLine | None
    warnings: tuple[ResultWarning, ...]  # the gravest first
    group: str = ""  # the scenario file's stem: scenarios of one sweep share it
    levels: Mapping[str, Level] = field(default_factory=dict)  # factor -> level
    repeat: int = 1
    measure: str = "rates"  # a MeasureKind's word
    outcome: Outcome = Outcome.MEASURED
    reason: str = ""  # why not measured; empty when measured
    metrics: tuple[Metric, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)  # in force in the DUT, as it reports or stores them
    modes: tuple[ModeRates, ...] = ()  # each mode of the cores that the search met; `rates` are the first one's
    track: tuple[Moment, ...] = ()  # the NDR's threshold over the time of the search; empty: the method knows no time
    unexplained_share: float | None = None  # of the frames offered in the search; None: a run stored before it was
    ceiling: Ceiling | None = None  # that the rates were compared with; None: none is known
    most_offered_fps: float | None = None  # in a valid trial of the rates' own mode: by an engine that kept up
    burst: BurstResult | None = None  # of the measure burst
    loss_curve: tuple[LossPoint, ...] = ()  # of the measure loss_curve, the highest load first
    offload: OffloadTruth | None = None  # near the NDR; None: no flow is said to be offloaded, or it was not read
    other_verdicts: tuple[Verdict, ...] = ()  # of `rates` after the first, in their order; empty: they were not judged
    reference: str = ""  # the scenario that the relative rate is a multiple of, maybe this one; empty: no such rate
    mrr: ReceiveRate | None = None  # None: not measured, or stored before it was
    gap: PauseGap | None = None  # None: NDR and MRR lie near, or one of them is not known
    turns: Turns | None = None  # of a counter-experiment: trials in turns with the unchanged bench
    bench: Mapping[Need, int] | None = None  # what conclusions may rest on, as the bench had it; None: not recorded

    def definition_of(self, metric: str) -> str:
        """What a rate means, or a metric that is named after it; empty of other metrics.

        Numbers of different definitions are not compared.
        """
        rates = (*self.rates, *(() if self.mrr is None else (self.mrr,)))
        return next((rate.definition for rate in rates if f"{metric} ".startswith(f"{rate.name} ")), "")


@dataclass(frozen=True)
class RunResult:
    """`result.json`: the results of a run, with its curves, findings and explanations."""

    schema: int
    run_id: str
    finished: bool  # False: interrupted, resume with --resume
    scenarios: tuple[ScenarioResult, ...]
    curves: tuple[Curve, ...] = ()  # one for each group that sweeps
    findings: tuple[Finding, ...] = ()  # of a study
    explanations: tuple[Explanation, ...] = ()  # one for each scenario that the run explains
    profiles: tuple[Profile, ...] = ()  # likewise, of `pinchpoint explain`
    conclusions: tuple[JudgedConclusion, ...] = ()  # of the original that a study repeats


@dataclass(frozen=True)
class RunInfo:
    """What `run.json` holds: enough to build the same run again."""

    schema: int
    run_id: str
    started: str
    argv: tuple[str, ...]
    scenarios: tuple[Mapping[str, object], ...]  # effective scenarios as plain data, in the order they run
    sources: Mapping[str, str]  # scenario file name -> its text
    plans: Mapping[str, tuple[str, ...]]  # scenario -> the bench plan's actions
    versions: Mapping[str, str]
    host: Mapping[str, str]
    sweeps: tuple[SweepInfo, ...] = ()
    study: Study | None = None
    budget_s: float | None = None  # what the run may take; None: as long as it needs
    comparison: ComparisonRequest | None = None  # two groups measured in turns, A B B A
    explains: bool = False  # the points of a group are counter-experiments on its first one
    ceilings: Mapping[str, tuple[Ceiling, ...]] = field(default_factory=dict)  # scenario -> those its search began with
