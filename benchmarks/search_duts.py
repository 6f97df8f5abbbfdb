"""The devices that searches are tried on, all simulated on a virtual clock, and the truth about each."""

import math
from dataclasses import dataclass, field, replace

from pinchpoint.diagnose.cache_line import of_trial
from pinchpoint.diagnose.validity import judge
from pinchpoint.engine.instrument import TrialRequest
from pinchpoint.engine.simulated import (
    CoreDistance,
    Counts,
    RandomLoss,
    SimulatedInstrument,
    SlowPeriods,
    StallKind,
    Stalls,
    Truth,
)
from pinchpoint.model.scenario import Range, Stream, Validity
from pinchpoint.model.trial import Drop, Hop, Ledger, StreamCounts, Trial, Witness

CAPACITY_FPS = 5e6
RATIOS = (0.0, 0.005)  # NDR and PDR 0.5 %
TRIAL_S = 1.0
DRAIN_S = 0.1
TRUTH_TRIALS = 1500
TRUTH_SEED = 20_000_001
TRUTH_RESOLUTION = 2e-4  # relative
RULES = Validity(shortfall_ratio=0.001, gap_shortfall_ratio=0.05, unexplained_ratio=1e-4, quiet_within_s=0.0)


@dataclass(frozen=True)
class Dut:
    """A simulated device, and what an honest search can be expected to say about it."""

    name: str
    truth: Truth
    has_ndr: bool = True  # False: frames are lost at any load, and an NDR must be refused
    is_limited: bool = False  # by the generator: no rate may be called found
    ceiling_fps: float | None = None  # of the generator, as known to the search
    is_probed: bool = False  # the search is told the distance of the cores
    aims: tuple[float, float] | None = None  # seconds of traffic, relative error at the 90th percentile


def _stalled(per_second: float, length_s: float, **changes: object) -> Truth:
    stalls = (Stalls(StallKind.DUT, per_second, length_s),)
    return replace(Truth(CAPACITY_FPS, stalls=stalls), **changes)  # type: ignore[arg-type]


QUIET = _stalled(0.02, 0.0003, dips=0.0015)
TWO_MODES = CoreDistance(dwell_s=10.0)
DUTS = (
    Dut("ideal", Truth(CAPACITY_FPS)),
    Dut("quiet", QUIET, aims=(20.0, 0.005)),
    Dut("noisy VM", _stalled(0.3, 0.002, dips=0.01), aims=(50.0, 0.0075)),
    Dut("hostile", _stalled(2.0, 0.004, dips=0.02, slow=SlowPeriods(0.8, 20.0, 3.0)), has_ndr=False),
    Dut("small ring", replace(QUIET, ring=64)),
    Dut("large ring", replace(QUIET, ring=32_768)),
    Dut("ceiling below", replace(QUIET, ceiling_fps=0.8 * CAPACITY_FPS), is_limited=True),
    Dut(
        "ceiling below, known",
        replace(QUIET, ceiling_fps=0.8 * CAPACITY_FPS),
        is_limited=True,
        ceiling_fps=0.8 * CAPACITY_FPS,
    ),
    Dut("ceiling just above", replace(QUIET, ceiling_fps=1.03 * CAPACITY_FPS)),
    Dut("two modes, probed", replace(QUIET, core_distance=TWO_MODES), is_probed=True),
    Dut("two modes, hidden", replace(QUIET, core_distance=TWO_MODES)),
    Dut("slow drift", replace(QUIET, drift_per_s=-1e-4)),
    Dut("gradual loss", Truth(CAPACITY_FPS, random_loss=RandomLoss(1e-3, 0.02))),
    Dut("loses 1e-6 always", Truth(CAPACITY_FPS, random_loss=RandomLoss(1e-6)), has_ndr=False),
)


@dataclass
class Simulated:
    """One simulated device for one search: `measure` is its Measure, `now_s` its clock."""

    dut: Dut
    seed: int
    trials: list[Trial] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._instrument = SimulatedInstrument(replace(self.dut.truth, seed=self.seed))
        self._instrument.open()

    def now_s(self) -> float:
        return self._instrument.now_s()

    def measure(self, duration_s: float, load_fps: float) -> Trial:
        counts = self._instrument.count(_request(duration_s, load_fps, self.dut.is_probed))
        trial = _trial(counts, duration_s, load_fps, self.dut.truth.ring)
        self.trials.append(trial)
        return trial

    def mode_of(self, trial: Trial) -> float | None:
        return of_trial(trial) if self.dut.is_probed else None


def true_devices(dut: Dut) -> tuple[Truth, ...]:
    """What has a rate of its own: the device as a whole, then each mode of its cores."""
    whole = replace(dut.truth, drift_per_s=0.0, ceiling_fps=math.inf, seed=TRUTH_SEED)
    distance = whole.core_distance
    if distance is None:
        return (whole,)
    near = replace(whole, core_distance=None)
    return (whole, near, replace(near, capacity_fps=distance.far_capacity * whole.capacity_fps))


def threshold_fps(task: tuple[Truth, float]) -> float:
    """The load at which half of all trials exceed a loss ratio, by bisection over the same trials at every load."""
    truth, ratio = task
    low, high = 0.01 * truth.capacity_fps, 2 * truth.capacity_fps
    for trials, margin, resolution in ((100, 1.1, 0.02), (TRUTH_TRIALS, 1.0, TRUTH_RESOLUTION)):
        while high > low * (1 + resolution):
            middle = (low * high) ** 0.5
            low, high = (low, middle) if _exceeding(truth, middle, ratio, trials) > 0.5 else (middle, high)
        low, high = low / margin, high * margin
    return (low * high) ** 0.5


def _exceeding(truth: Truth, load_fps: float, ratio: float, trials: int) -> float:
    """The share of trials at one load that lose more than `ratio`."""
    instrument = SimulatedInstrument(truth)
    request = _request(TRIAL_S, load_fps, is_probed=False)
    counts = (instrument.count(request) for _ in range(trials))
    return sum(one.refused + one.lost_inside > ratio * one.offered for one in counts) / trials


ONE = Range(1, 1)
STREAM = Stream(
    "left",
    "right",
    64,
    1.0,
    "02:00:00:00:00:01",
    "02:00:00:00:00:02",
    ONE,
    ONE,
    ONE,
    ONE,
    ("ipv4_dst", "ipv4_src", "udp_dst", "udp_src"),
    1,
)


def _request(duration_s: float, load_fps: float, is_probed: bool) -> TrialRequest:
    return TrialRequest("t", 1, duration_s, DRAIN_S, load_fps, (STREAM,), (0, 1) if is_probed else None)


def _streams(counts: Counts) -> tuple[StreamCounts, ...]:
    sent = counts.offered - counts.refused
    return (
        StreamCounts(
            stream=0,
            tx_port="left",
            rx_port="right",
            intended=counts.intended,
            offered=counts.offered,
            refused=counts.refused,
            shortfall=counts.intended - counts.offered,
            sent=sent,
            received=sent - counts.lost_inside,
            lost=counts.refused + counts.lost_inside,
            duplicated=0,
            reordered=0,
            corrupt=0,
            latency=None,
            last_loss_s=None,
        ),
    )


def _trial(counts: Counts, duration_s: float, load_fps: float, ring: int) -> Trial:
    lost = counts.refused + counts.lost_inside
    received = counts.offered - lost
    drops = (Drop("lost", lost, "simulated", "dut"),) if lost else ()
    ledger = Ledger(counts.offered, received, (Hop("dut", counts.offered, received, drops),))
    witness = Witness((), (), {}, counts.before_ns, counts.after_ns)
    streams = _streams(counts)
    judgement = judge(
        completed=True,
        streams=streams,
        ledger=ledger,
        witness=witness,
        load_fps=load_fps,
        duration_s=duration_s,
        ring=ring,
        rules=RULES,
    )
    return Trial(
        id="",
        scenario="simulated",
        phase="search",
        repeat=0,
        started="",
        duration_s=duration_s,
        load_fps=load_fps,
        sent_duration_s=duration_s,
        wall_s=duration_s,
        intended=counts.intended,
        offered=counts.offered,
        received=received,
        streams=streams,
        ledger=ledger,
        witness=witness,
        pmds=(),
        observed={},
        validity=judgement.validity,
        reason=judgement.reason,
        cause=judgement.cause,
    )
