"""The devices that searches are tried on, all simulated on a virtual clock, and trials on them."""

import csv
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from search_truth import Array, begins_s, thresholds_fps
from simulated import CoreDistance, RandomLoss, SimulatedInstrument, SimulatedTrial, Truth
from simulated_queue import Collapse, Jumps, Lengths, RandomWalk, Replay, Sine, StallKind, Stalls

from pinchpoint.account.validity import judge
from pinchpoint.engine.instrument import EngineResult, TrialRequest
from pinchpoint.model.scenario import Range, Stream, Validity
from pinchpoint.model.trial import Drop, Hop, Ledger, StreamCounts, Trial, Witness
from pinchpoint.search.slices import slice_s

RATIOS = (0.0, 0.005)  # NDR and PDR 0.5 %
TRIAL_S, MAX_TRAFFIC_S = 0.2, 16.0
DRAIN_S, OVERHEAD_S = 0.05, 0.05
RULES = Validity(shortfall_ratio=0.001, gap_shortfall_ratio=0.07, unexplained_ratio=1e-4, quiet_within_s=0.0)
TRACES = Path(__file__).parent / "traces"


@dataclass(frozen=True)
class Dut:
    """A simulated device, and what can be expected of a search of it."""

    name: str
    truth: Truth
    family: str = ""
    is_still: bool = False  # one load divides trials that lose from those that do not
    is_limited: bool = False  # by the generator: no rate may be called found
    sustained_fps: float | None = None  # of a device with memory: what it carries after an overload
    is_tuned_on: bool = False  # whether the search was developed on this kind, on other seeds
    trial_s: float = TRIAL_S
    max_traffic_s: float = MAX_TRAFFIC_S


def pauses(
    per_second: float, length_ms: float, lengths: Lengths = Lengths.FIXED, in_burst: int = 1, apart_s: float = 0.0005
) -> Stalls:
    """Of the device itself."""
    return Stalls(StallKind.DUT, per_second, length_ms / 1e3, lengths, in_burst, apart_s)


def recorded(path: Path) -> Replay:
    """What a switch forwarded each 0.1 s of a constant overload, relative to its median."""
    rates = [float(row["received_fps"]) for row in csv.DictReader(path.open())]
    return Replay(tuple(rate / median(rates) for rate in rates), 0.1)


def _dut(
    family: str,
    name: str,
    capacity_fps: float,
    *stalls: Stalls,
    tuned: bool = False,
    ring: int = 4096,
    still: bool = False,
    limited: bool = False,
    sustained_fps: float | None = None,
    **changes: object,
) -> Dut:
    truth = Truth(capacity_fps, ring, stalls=stalls, overhead_s=OVERHEAD_S, **changes)  # type: ignore[arg-type]
    return Dut(name, truth, family, still, limited, sustained_fps, tuned)


EXPONENTIAL, PARETO = Lengths.EXPONENTIAL, Lengths.PARETO
RARE, EXPONENTIALS = pauses(0.02, 0.3), pauses(10, 0.2, EXPONENTIAL)
STILL = (
    _dut("still", "ideal", 5e6, ring=1024, still=True, tuned=True),
    _dut("still", "quiet", 5e6, RARE, dips=0.0015, ring=1024, still=True),
    _dut("still", "small ring", 5e6, RARE, dips=0.0015, ring=64, still=True),
    _dut("still", "large ring", 5e6, RARE, dips=0.0015, ring=32_768, still=True),
    _dut("still", "ceiling below", 5e6, RARE, dips=0.0015, ceiling_fps=4e6, limited=True),
    _dut("still", "ceiling just above", 5e6, RARE, dips=0.0015, ceiling_fps=5.15e6, still=True),
    _dut("still", "gradual loss", 5e6, ring=1024, random_loss=RandomLoss(1e-3, 0.02), still=True),
)
PAUSES = (
    _dut("pauses", "0.6 ms, 10 a second, ring 4096", 10e6, pauses(10, 0.6), still=True, tuned=True),
    _dut("pauses", "0.4 ms, 10 a second, ring 1024", 4e6, pauses(10, 0.4), ring=1024, still=True),
    _dut("pauses", "0.4 ms, 10 a second, 3 % noise", 4e6, pauses(10, 0.4), ring=1024, noise=0.03, still=True),
    _dut("pauses", "0.2 ms, 20 a second, ring 512", 6e6, pauses(20, 0.2), ring=512, still=True),
    _dut("pauses", "1 ms, 6 a second, ring 4096", 8e6, pauses(6, 1.0), still=True),
    _dut("pauses", "4 ms, 20 a second, ring 256", 4e6, pauses(20, 4.0), ring=256),
    _dut("pauses", "0.5 ms, 1 a second, ring 1024", 6e6, pauses(1, 0.5), ring=1024, still=True),
    _dut("pauses", "2 ms, 0.5 a second, ring 256", 3e6, pauses(0.5, 2.0), ring=256, still=True),
)
UNDECIDED = (  # about half of the trials lose over a wide range of loads
    _dut("undecided", "0.6 ms, 4 a second, ring 4096", 10e6, pauses(4, 0.6), tuned=True),
    _dut("undecided", "2 ms, 4 a second, ring 2048", 6e6, pauses(4, 2.0), ring=2048),
    _dut("undecided", "0.2 ms exponential, 10 a second", 8e6, EXPONENTIALS, ring=1024),
)
MOVING = (
    *(_dut("moving", path.stem, 3e6, moves=recorded(path)) for path in sorted(TRACES.glob("*.csv"))),
    _dut("moving", "walk, 2 % a second", 3e6, moves=RandomWalk(0.02)),
    _dut("moving", "walk, 10 % a second", 3e6, moves=RandomWalk(0.10), tuned=True),
    _dut("moving", "jumps by 1.6, every 5 s", 3e6, moves=Jumps(1.6, 5.0)),
    _dut("moving", "sine of 20 % in 6 s, 5 % noise", 3e6, noise=0.05, moves=Sine(0.2, 6.0)),
    _dut("moving", "two modes of the cores", 3e6, core_distance=CoreDistance(dwell_s=10.0)),
    _dut("moving", "two levels within 50 ms", 3e6, moves=Jumps(1.6, 0.05, 0.005)),
)
HEAVY = (
    _dut("heavy tails", "Pareto 0.2 ms, 10 a second", 8e6, pauses(10, 0.2, PARETO), ring=1024),
    _dut("heavy tails", "Pareto 0.5 ms, 20 a second", 6e6, pauses(20, 0.5, PARETO), ring=2048),
)
SHARED = (
    *(_dut("shared host", f"{path.stem}, 0.4 ms 8 a second", 3e6, pauses(8, 0.4), ring=1024, moves=recorded(path))
      for path in sorted(TRACES.glob("*.csv"))),
    _dut("shared host", "walk, 0.4 ms 8 a second", 4e6, pauses(8, 0.4), ring=1024, moves=RandomWalk(0.05), tuned=True),
    _dut("shared host", "walk, 0.2 ms exponential", 4e6, EXPONENTIALS, ring=1024, moves=RandomWalk(0.05)),
    _dut("shared host", "jumps, 0.35 ms 8 a second", 4e6, pauses(8, 0.35), ring=1024, moves=Jumps(1.6, 5.0)),
)  # fmt: skip
MIXED = (
    _dut("mixed pauses", "0.3 ms 3 and 1.2 ms 1.5 a second", 8e6, pauses(3, 0.3), pauses(1.5, 1.2), ring=2048),
    _dut("mixed pauses", "0.5 ms 8 and 2 ms 1 a second", 6e6, pauses(8, 0.5), pauses(1, 2.0), ring=1024),
    _dut("mixed pauses", "bursts of four of 0.2 ms", 6e6, pauses(12, 0.2, in_burst=4), ring=1024),
)
LOSSY = (
    _dut("lossy", "1e-5 at any load", 5e6, ring=1024, random_loss=RandomLoss(1e-5)),
    _dut("lossy", "3e-7 at any load", 5e6, ring=1024, random_loss=RandomLoss(3e-7)),
)
REMEMBERING = (
    _dut("memory", "cliff", 4e6, ring=1024, collapse=Collapse(0.6), still=True),
    _dut("memory", "cliff that lasts 1 s", 4e6, ring=1024, collapse=Collapse(0.6, 1.0), sustained_fps=2.4e6),
    _dut("memory", "meter of 300 kpps", 3e5, ring=60_000, is_meter=True, sustained_fps=3e5),
)
DUTS = (*STILL, *PAUSES, *UNDECIDED, *MOVING, *HEAVY, *SHARED, *MIXED, *LOSSY, *REMEMBERING)


@dataclass
class Simulated:
    """One simulated device for one search: `measure` is its Measure, `now_s` its clock."""

    dut: Dut
    seed: int
    trials: list[Trial] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.truth = replace(self.dut.truth, seed=self.seed)
        self._instrument = SimulatedInstrument(self.truth)
        self._instrument.open()

    def now_s(self) -> float:
        return self._instrument.now_s()

    def measure(self, duration_s: float, load_fps: float) -> Trial:
        counts = self._instrument.count(_request(duration_s, load_fps, slice_s(duration_s)))
        trial = _trial(counts, duration_s, load_fps, self.truth.ring, str(len(self.trials)))
        self.trials.append(trial)
        return trial

    def thresholds_fps(self, loss_ratio: float) -> Array:
        """Of trials begun at irregular moments of the search, sorted; their median is the literal rate."""
        begins = begins_s(self.now_s(), self.dut.trial_s, self.seed)
        thresholds = thresholds_fps(self._instrument, self.truth, begins, self.dut.trial_s, loss_ratio)
        thresholds.sort()
        return thresholds


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


def _streams(counts: SimulatedTrial) -> tuple[StreamCounts, ...]:
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


def _trial(counts: SimulatedTrial, duration_s: float, load_fps: float, ring: int, name: str) -> Trial:
    lost = counts.refused + counts.lost_inside
    received = counts.offered - lost
    drops = (Drop("lost", lost, "simulated", "dut"),) if lost else ()
    ledger = Ledger(counts.offered, received, (Hop("dut", counts.offered, received, drops),))
    witness = Witness((), (), {}, counts.before_ns, counts.after_ns)
    streams = _streams(counts)
    result = EngineResult(True, duration_s, streams, (), (), None, None)
    judgement = judge(result, ledger, witness, load_fps, ring, RULES)
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
        threads=(),
        observed={},
        validity=judgement.validity,
        reason=judgement.reason,
        cause=judgement.cause,
        samples=tuple(counts.samples()),
    )
