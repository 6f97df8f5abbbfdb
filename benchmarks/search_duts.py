"""The devices that searches are tried on, all simulated on a virtual clock, and the truth about each."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from pinchpoint.account.validity import judge
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
from pinchpoint.engine.simulated_moves import Jumps, Moves, RandomWalk, Replay
from pinchpoint.model.scenario import Range, Stream, Validity
from pinchpoint.model.trial import Drop, Hop, Ledger, StreamCounts, Trial, Witness
from pinchpoint.search.slices import slice_s

CAPACITY_FPS = 5e6
RATIOS = (0.0, 0.005)  # NDR and PDR 0.5 %
DRAIN_S = 0.05
TRUTH_TRIALS = 1500
TRUTH_SEED = 20_000_001
TRUTH_RESOLUTION = 2e-4  # relative
TRUTH_STEP_S = 0.05  # of devices that move: a trial is thought to begin this often
RULES = Validity(shortfall_ratio=0.001, gap_shortfall_ratio=0.07, unexplained_ratio=1e-4, quiet_within_s=0.0)
TRACES = Path(__file__).parent / "traces"


@dataclass(frozen=True)
class Aims:
    """What a search of a device is held to, for either loss ratio."""

    traffic_s: float | None = None  # mean, at most
    error_median: float | None = None  # relative, of found rates, at most
    error_p90: float | None = None
    coverage: float = 0.93  # of the intervals, at least
    band: tuple[float, float] | None = None  # share of the true momentary rates that the band holds, mean
    found: float | None = None  # share of the searches, at least


@dataclass(frozen=True)
class Dut:
    """A simulated device, and what an honest search can be expected to say about it."""

    name: str
    truth: Truth
    has_ndr: bool = True  # False: frames are lost at any load, and the loss ratio is the number
    has_pdr: bool = True
    is_limited: bool = False  # by the generator: no rate may be called found
    ceiling_fps: float | None = None  # of the generator, as known to the search
    trial_s: float = 1.0
    max_traffic_s: float = 50.0
    aims: Aims = Aims()

    @property
    def moves(self) -> bool:
        """Whether its rate is a function of time, so that each search has a truth of its own."""
        truth = self.truth
        return bool(truth.moves or truth.core_distance or truth.drift_per_s or (truth.slow and not truth.stalls))


def _stalled(per_second: float, length_s: float, **changes: object) -> Truth:
    stalls = (Stalls(StallKind.DUT, per_second, length_s),)
    return replace(Truth(CAPACITY_FPS, stalls=stalls), **changes)  # type: ignore[arg-type]


def recorded(path: Path) -> Replay:
    """What a switch forwarded each 0.1 s of a constant overload, relative to its median."""
    rates = [float(row["received_fps"]) for row in csv.DictReader(path.open())]
    return Replay(tuple(rate / median(rates) for rate in rates), 0.1)


def _moving(name: str, moves: Moves | None = None, most_in_band: float = 0.98, **changes: object) -> Dut:
    truth = replace(Truth(3e6, ring=4096, moves=moves, overhead_s=0.1), **changes)  # type: ignore[arg-type]
    aims = Aims(traffic_s=30.0, error_median=0.02, error_p90=0.06, coverage=0.90, band=(0.8, most_in_band), found=1.0)
    return Dut(name, truth, trial_s=0.2, max_traffic_s=28.0, aims=aims)


QUIET = _stalled(0.02, 0.0003, dips=0.0015)
STILL = (
    # Traffic and errors are those of the search for one threshold, which this one replaced.
    Dut("ideal", Truth(CAPACITY_FPS), aims=Aims(18.5, error_p90=0.0007)),
    Dut("quiet", QUIET, aims=Aims(19.5, error_p90=0.0013)),
    Dut("noisy VM", _stalled(0.3, 0.002, dips=0.01), aims=Aims(50.0, error_p90=0.0075)),
    Dut("small ring", replace(QUIET, ring=64), aims=Aims(19.5, error_p90=0.0012)),
    Dut("large ring", replace(QUIET, ring=32_768), aims=Aims(19.5, error_p90=0.0012)),
    Dut("ceiling below", replace(QUIET, ceiling_fps=0.8 * CAPACITY_FPS), is_limited=True, aims=Aims(19.5)),
    Dut(
        "ceiling below, known",
        replace(QUIET, ceiling_fps=0.8 * CAPACITY_FPS),
        is_limited=True,
        ceiling_fps=0.8 * CAPACITY_FPS,
        aims=Aims(19.5),
    ),
    Dut("ceiling just above", replace(QUIET, ceiling_fps=1.03 * CAPACITY_FPS), aims=Aims(19.5, error_p90=0.0014)),
    Dut("gradual loss", Truth(CAPACITY_FPS, random_loss=RandomLoss(1e-3, 0.02)), aims=Aims(50.0)),
)
LOSSY = (
    Dut(
        "hostile",
        _stalled(2.0, 0.004, dips=0.02, slow=SlowPeriods(0.8, 20.0, 3.0)),
        has_ndr=False,
        has_pdr=False,
    ),
    Dut("loses 1e-6 always", Truth(CAPACITY_FPS, random_loss=RandomLoss(1e-6)), has_ndr=False),
)
MOVING = (
    *(_moving(path.stem, recorded(path)) for path in sorted(TRACES.glob("*.csv"))),
    _moving("walk, 2 % a second", RandomWalk(0.02)),
    _moving("walk, 10 % a second", RandomWalk(0.10)),
    # Of two levels, a band from 5 to 95 % of the time holds both, and so all rates.
    _moving("jumps by 1.6, every 5 s", Jumps(1.6, 5.0), most_in_band=1.0),
    _moving("jumps by 1.6, every 20 s", Jumps(1.6, 20.0), most_in_band=1.0),
    _moving("slow periods", slow=SlowPeriods(0.6, 10.0, 3.0), most_in_band=1.0),
    _moving("two modes of the cores", most_in_band=1.0, core_distance=CoreDistance(dwell_s=10.0)),
    _moving("slow drift", drift_per_s=-2e-3),
)
DUTS = (*STILL, *LOSSY, *MOVING)


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
        counts = self._instrument.count(_request(duration_s, load_fps, slice_s(duration_s)))
        trial = _trial(counts, duration_s, load_fps, self.dut.truth.ring, str(len(self.trials)))
        self.trials.append(trial)
        return trial

    def momentary_fps(self, loss_ratio: float) -> list[float]:
        """The threshold of a trial begun at each TRUTH_STEP_S of the search."""
        truth, trial_s = self.dut.truth, self.dut.trial_s
        begins = range(max(1, int((self.now_s() - trial_s) / TRUTH_STEP_S)))
        spans = (self._instrument.capacity(at * TRUTH_STEP_S, at * TRUTH_STEP_S + trial_s) for at in begins)
        return [_carried_fps(one, truth.capacity_fps, truth.ring, loss_ratio) for one in spans]


def _carried_fps(spans: Sequence[tuple[float, float]], capacity_fps: float, ring: int, loss_ratio: float) -> float:
    """The highest load of which a queue served at these capacities loses no more than a share, by bisection."""
    duration_s = sum(length_s for length_s, _ in spans)
    low = min(share for _, share in spans) * capacity_fps
    high = max(share for _, share in spans) * capacity_fps / (1 - loss_ratio) + 2 * ring / duration_s
    while high > low * (1 + TRUTH_RESOLUTION):
        middle = (low + high) / 2
        queued = lost = 0.0
        for length_s, share in spans:
            queued = max(0.0, queued + (middle - share * capacity_fps) * length_s)
            lost, queued = lost + max(0.0, queued - ring), min(queued, ring)
        low, high = (low, middle) if lost > max(0.5, loss_ratio * middle * duration_s) else (middle, high)
    return low


def threshold_fps(task: tuple[Truth, float, float]) -> float:
    """The load at which half of all trials exceed a loss ratio, by bisection over the same trials at every load."""
    truth, ratio, trial_s = task
    truth = replace(truth, ceiling_fps=math.inf, stalls=(), seed=TRUTH_SEED)  # of the trials that no stall spoils
    low, high = 0.01 * truth.capacity_fps, 2 * truth.capacity_fps
    for trials, margin, resolution in ((100, 1.1, 0.02), (TRUTH_TRIALS, 1.0, TRUTH_RESOLUTION)):
        while high > low * (1 + resolution):
            middle = (low * high) ** 0.5
            is_over = _exceeding(truth, middle, ratio, trial_s, trials) > 0.5
            low, high = (low, middle) if is_over else (middle, high)
        low, high = low / margin, high * margin
    return float((low * high) ** 0.5)


def _exceeding(truth: Truth, load_fps: float, ratio: float, trial_s: float, trials: int) -> float:
    """The share of trials at one load that lose more than `ratio`."""
    instrument = SimulatedInstrument(truth)
    request = _request(trial_s, load_fps)
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


def _request(duration_s: float, load_fps: float, sample_s: float | None = None) -> TrialRequest:
    return TrialRequest("t", 1, duration_s, DRAIN_S, load_fps, (STREAM,), (), sample_s=sample_s)


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


def _trial(counts: Counts, duration_s: float, load_fps: float, ring: int, name: str) -> Trial:
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
        id=name,
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
        samples=counts.samples,
    )
