"""An instrument with a virtual clock and a known truth, so that the lab is tested in milliseconds.

The model is a fluid: frames arrive at a constant rate at one queue of `ring`
frames that is served at a constant rate, `capacity_fps`.

* Overload: what arrives above the capacity fills the ring, then is refused.
* Noise: each trial's capacity is the true one times a normal factor. Dips: it is lower by half a normal one.
* Slow periods: now and then the DUT has a share of its capacity, and nothing tells. Drift: it changes with time.
* Stalls: Poisson events, alone or in bursts. `ENGINE`: the engine's core stands
  still and never offers the frames that fell due meanwhile; it reports the gap. `DUT_THREAD`: the host takes the
  core from the DUT; `dut_threads` reports the delay. `DUT`: the DUT pauses by
  itself and nobody reports anything, which is a loss that is the DUT's own. They come between trials, too.
* Collapse: a DUT that has lost frames serves less for a while. Meter: its ring is a bucket of tokens.
* A step of the load: what arrives until `recovery_s` after it is lost, if the load before it was too much.
* A stop: for a time the DUT forwards nothing, and loses what comes without refusing it, so that nobody knows before
  frames come again.
* A constant share of the frames that the DUT loses whatever the load; and frames lost one by one at random,
  ever more of them as the load comes near the capacity (or as many at any load).
* A generator ceiling: frames due above it are never offered.
* Core distance: near and far, changing at random times; far scales the capacity.
* Failures: a port's link goes down during a chosen trial, which ends there and is aborted.

* A burst (TrialRequest.burst_frames) arrives at the generator's ceiling, and its last frame ends the trial.

Its limits: no other bursts but those after a gap, no memory from one trial to the
next but for core distance, collapse and meter, one queue for all streams, and latency that is
a formula. The same seed and the same requests give the same results.

It must never stand in for a measurement: it exists to test the search, the
sweep, the store and the report, and says "simulated" in the facts it gives.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

from pinchpoint.engine.instrument import EngineResult, Heard, PortCounts, TrialRequest, duration_of
from pinchpoint.engine.simulated_moves import Moves, Path
from pinchpoint.engine.simulated_queue import Collapse, Queue, Stall, Stalling, StallKind, Stalls, paused
from pinchpoint.engine.whole import divide, poisson, port_counts, stream_counts
from pinchpoint.model.errors import EngineError
from pinchpoint.model.trial import LatencySummary, Sample, StreamCounts, ThreadWitness, WorkerWitness

GAP_THRESHOLD_NS = 20_000
BASE_LATENCY_NS = 5_000


@dataclass(frozen=True)
class CoreDistance:
    """Two modes of the distance between engine and DUT core; each lasts `dwell_s` on average."""

    near_ns: float = 30.0
    far_ns: float = 160.0
    dwell_s: float = 10.0
    far_capacity: float = 0.5  # capacity when far, as a share of the capacity when near


@dataclass(frozen=True)
class SlowPeriods:
    """Times of a lower capacity that nobody reports; both lengths are means."""

    capacity: float  # as a share of the usual one
    every_s: float  # from the end of one to the beginning of the next
    length_s: float


@dataclass(frozen=True)
class RandomLoss:
    """Each frame is lost with this chance at the capacity, and e times as rarely for each `scale` below it."""

    ratio: float
    scale: float = math.inf  # of the load, relative to the capacity; inf: as often at any load


@dataclass(frozen=True)
class PortFailure:
    """The link of `port` goes down in one trial, counted from 1; it is up again before the next."""

    trial: int
    port: str
    after_s: float  # since the start of that trial


@dataclass(frozen=True)
class Stop:
    """The DUT forwards nothing for a time, in every trial that is long enough."""

    after_s: float  # since the start of the trial
    length_s: float = math.inf


@dataclass(frozen=True)
class Truth:
    """What the simulated bench really is."""

    capacity_fps: float
    ring: int = 1024
    noise: float = 0.0  # standard deviation of a trial's capacity, relative
    dips: float = 0.0  # of a trial's capacity downwards: the size of a normal variable of this standard deviation
    slow: SlowPeriods | None = None
    moves: Moves | None = None  # of the capacity with time; no counter shows them
    drift_per_s: float = 0.0  # of the capacity, relative
    random_loss: RandomLoss | None = None
    loss_ratio: float = 0.0  # lost by the DUT whatever the load
    ceiling_fps: float = math.inf  # the generator offers no more
    stalls: tuple[Stalls, ...] = ()
    core_distance: CoreDistance | None = None
    failures: tuple[PortFailure, ...] = ()
    recovery_s: float = 0.0  # after an overload that a step of the load ends
    stop: Stop | None = None
    collapse: Collapse | None = None  # under overload
    is_meter: bool = False  # the ring is a bucket of tokens: it delays nothing, and fills at the capacity all the time
    overhead_s: float = 0.05  # of each trial, besides traffic and drain
    seed: int = 0


@dataclass(frozen=True)
class Counts:
    """The frames of one trial, all streams together, and the distance of the cores at its ends, if probed."""

    intended: int
    offered: int
    refused: int
    lost_inside: int
    before_ns: float | None
    after_ns: float | None
    samples: tuple[Sample, ...]


@dataclass(frozen=True)
class _State:
    """What a device remembers of the trial before."""

    taken: float = 0.0  # tokens, of a meter
    collapsed_until_s: float = 0.0  # by the instrument's clock


class SimulatedInstrument:
    """An Instrument for tests; `now_s` is its clock."""

    def __init__(self, truth: Truth, engine_core: int = 0, dut_core: int = 1) -> None:
        """The cores are those that the witnesses name."""
        self._truth = truth
        self._engine_core = engine_core
        self._dut_core = dut_core
        self._clock_s = 0.0
        self._runs = 0
        self._is_open = False
        self._modes = _Modes(truth.core_distance, Random(f"{truth.seed}/modes"))
        self._path = Path(truth.moves, Random(f"{truth.seed}/moves")) if truth.moves else None
        self._slow = _Slow(truth.slow, Random(f"{truth.seed}/slow"))
        self._stalling = Stalling(truth.stalls, truth.seed)
        self._state = _State()
        self.dut_threads: tuple[ThreadWitness, ...] = ()
        """What the host did to the DUT's thread during the last trial."""

    def open(self) -> Mapping[str, str]:
        """Facts that say that nothing here was measured."""
        self._is_open = True
        return {"engine": "simulated", "seed": str(self._truth.seed)}

    def now_s(self) -> float:
        """The virtual clock, seconds since the instrument was made."""
        return self._clock_s

    def stop(self) -> None:
        """Nothing to stop: virtual trials end at once."""

    def close(self) -> None:
        """Trials are refused from now on; may be called twice."""
        self._is_open = False

    def run(self, request: TrialRequest, heard: Heard | None = None) -> EngineResult:
        """One trial of the model; its samples are delivered at its end. Raises EngineError if not open."""
        if not self._is_open:
            raise EngineError("simulated engine: not open")
        self._runs += 1
        failure = next((failure for failure in self._truth.failures if failure.trial == self._runs), None)
        if failure is not None:
            request = replace(request, duration_s=min(failure.after_s, request.duration_s), drain_s=0.0)
        if request.burst_frames is not None:
            rate_fps = min(request.load_fps, self._truth.ceiling_fps)
            request = replace(request, load_fps=rate_fps, duration_s=duration_of(request.burst_frames, rate_fps))
        begin_s, end_s = self._clock_s, self._clock_s + request.duration_s
        trial = self._next(request)
        self.dut_threads = (self._dut_thread(trial),)
        for sample in trial.samples() if heard else ():
            assert heard is not None
            heard(sample)
        probed = bool(request.probe_cores)
        return EngineResult(
            completed=failure is None,
            sent_duration_s=request.duration_s,
            streams=trial.streams(),
            ports=trial.ports(),
            workers=(trial.worker(self._engine_core),),
            cache_line_before_ns=self._modes.at(begin_s) if probed else None,
            cache_line_after_ns=self._modes.at(end_s) if probed else None,
            reason=f"{failure.port}: its link went down" if failure else None,
        )

    def count(self, request: TrialRequest) -> Counts:
        """One trial as `run` makes it, without failures or a burst and told in few words: a tenth of the time."""
        self._runs += 1
        begin_s = self._clock_s
        trial = self._next(request)
        before_ns = after_ns = None
        if request.probe_cores:
            before_ns, after_ns = self._modes.at(begin_s), self._modes.at(begin_s + request.duration_s)
        counts = trial.intended, trial.offered, trial.refused, trial.lost_inside
        return Counts(*counts, before_ns, after_ns, tuple(trial.samples()) if request.sample_s else ())

    def _next(self, request: TrialRequest) -> "_Trial":
        """The trial that begins now; the clock moves to its end."""
        end_s = self._clock_s + request.duration_s
        spans, stalls = self.capacity(self._clock_s, end_s), self._stalling.between(self._clock_s, end_s)
        trial = _Trial(self._truth, request, spans, stalls, self._state, self._clock_s, self._runs)
        idle_s = request.drain_s + self._truth.overhead_s
        taken = (
            max(0.0, trial.queue.at(math.inf)[1] - self._truth.capacity_fps * idle_s) if self._truth.is_meter else 0.0
        )
        self._state = _State(taken, self._clock_s + trial.queue.collapsed_s)
        self._clock_s = end_s + idle_s
        return trial

    def stalls(self, begin_s: float, end_s: float) -> list[Stall]:
        """Those that touch a span, by the time since its begin."""
        return self._stalling.between(begin_s, end_s)

    def capacity(self, begin_s: float, end_s: float) -> list[tuple[float, float]]:
        """(seconds, share of the usual capacity) of each span in which the capacity is constant."""
        drifted = 1.0 + self._truth.drift_per_s * (begin_s + end_s) / 2
        spans, at_s = [], begin_s
        for length_s, scale in self._modes.spans(begin_s, end_s):
            for inner_s, slow in self._slow.spans(at_s, at_s + length_s):
                moved = self._path.spans(at_s, at_s + inner_s) if self._path else [(inner_s, 1.0)]
                spans += [(part_s, drifted * scale * slow * share) for part_s, share in moved]
                at_s += inner_s
        return spans

    def _dut_thread(self, trial: "_Trial") -> ThreadWitness:
        stalls = trial.of_kind(StallKind.DUT_THREAD)
        return ThreadWitness(
            name=f"forwarding-{self._dut_core:02d}",
            core=self._dut_core,
            run_delay_ns=round(math.fsum(stall.length_s for stall in stalls) * 1e9),
            involuntary_switches=len(stalls),
        )


class _Modes:
    """The core distance over time: which share of a span is far."""

    def __init__(self, distance: CoreDistance | None, random: Random) -> None:
        self._distance = distance
        self._random = random
        self._changes_s = [0.0]  # the distance is near from an even change to the next, far from an odd one

    def at(self, time_s: float) -> float | None:
        if self._distance is None:
            return None
        return self._distance.far_ns if self._is_far(time_s) else self._distance.near_ns

    def spans(self, begin_s: float, end_s: float) -> list[tuple[float, float]]:
        """(seconds, capacity scale) of each span between two changes."""
        if self._distance is None:
            return [(end_s - begin_s, 1.0)]
        self._extend(end_s)
        inside = [change for change in self._changes_s if begin_s < change < end_s]
        edges = [begin_s, *inside, end_s]
        return [
            (high - low, self._distance.far_capacity if self._is_far((low + high) / 2) else 1.0)
            for low, high in pairwise(edges)
        ]

    def _is_far(self, time_s: float) -> bool:
        self._extend(time_s)
        return sum(change <= time_s for change in self._changes_s) % 2 == 0

    def _extend(self, time_s: float) -> None:
        dwell_s = self._distance.dwell_s if self._distance else math.inf
        while self._changes_s[-1] <= time_s:
            self._changes_s.append(self._changes_s[-1] + self._random.expovariate(1 / dwell_s))


class _Slow:
    """Slow periods over time."""

    def __init__(self, slow: SlowPeriods | None, random: Random) -> None:
        self._slow = slow
        self._random = random
        self._changes_s = [0.0]  # usual from an even change to the next, slow from an odd one

    def spans(self, begin_s: float, end_s: float) -> list[tuple[float, float]]:
        """(seconds, capacity scale) of each span between two changes."""
        if self._slow is None:
            return [(end_s - begin_s, 1.0)]
        while self._changes_s[-1] <= end_s:
            mean_s = self._slow.every_s if len(self._changes_s) % 2 else self._slow.length_s
            self._changes_s.append(self._changes_s[-1] + self._random.expovariate(1 / mean_s))
        edges = [begin_s, *(change for change in self._changes_s if begin_s < change < end_s), end_s]
        before = sum(change <= begin_s for change in self._changes_s)
        return [
            (high - low, 1.0 if (before + number) % 2 else self._slow.capacity)
            for number, (low, high) in enumerate(pairwise(edges))
        ]


class _Trial:
    """The fluid model of one trial, in frames of all streams together."""

    def __init__(self, truth: Truth, request: TrialRequest, spans: Sequence[tuple[float, float]],
                 stalls: Sequence[Stall], state: "_State", begin_s: float, number: int) -> None:  # fmt: skip
        self._truth = truth
        self._request = request
        random = Random(f"{truth.seed}/{number}")
        self._capacity_fps = max(0.0, truth.capacity_fps * random.gauss(1.0, truth.noise))
        if truth.dips:
            self._capacity_fps *= max(0.0, 1.0 - abs(random.gauss(0.0, truth.dips)))
        self._stalls = stalls
        self._rate_fps = min(request.load_fps, truth.ceiling_fps)
        step = request.step
        self._falls_s = min(step.after_s, request.duration_s) if step else request.duration_s
        self._later = step.to_share if step else 1.0
        self.intended = math.floor(request.load_fps * self._seconds(request.duration_s))
        self.offered = max(0, math.floor(self._rate_fps * self._seconds(request.duration_s)) - self._skipped())
        stops = [stall for stall in stalls if stall.kind is not StallKind.ENGINE]
        served = list(paused(spans, stops)) if stops else spans
        self.queue = Queue(
            served, self._rate_fps, self._capacity_fps, truth.ring, waiting=state.taken, collapse=truth.collapse,
            collapsed_s=state.collapsed_until_s - begin_s,
        )  # fmt: skip
        self._overloaded = self._overload()
        self.refused = min(self.offered, round(self._overloaded + self._recovering(math.inf)))
        carried = self.offered - self.refused
        self._scattered = round(carried * truth.loss_ratio) + self._lost_at_random(carried, random)
        self.lost_inside = min(carried, self._scattered + round(self._stopped(math.inf)))

    def of_kind(self, kind: StallKind) -> list[Stall]:
        """Those that began in the trial."""
        return [stall for stall in self._stalls if stall.kind is kind and stall.at_s >= 0]

    def _skipped(self) -> int:
        """Frames that fell due during gaps of the engine: never offered."""
        return math.floor(math.fsum(stall.length_s for stall in self.of_kind(StallKind.ENGINE)) * self._rate_fps)

    def _seconds(self, until_s: float) -> float:
        """Of sending at the full rate, until then."""
        return min(until_s, self._falls_s) + max(0.0, until_s - self._falls_s) * self._later

    def _overload(self) -> float:
        lost, queued = self.queue.at(math.inf)
        if self._falls_s < self._request.duration_s:  # the load steps down before the end
            lost = max(0.0, (lost + queued) * self._falls_s / self._request.duration_s - self._truth.ring)
        return lost

    def _recovering(self, until_s: float) -> float:
        """Frames lost after the step, until then."""
        lasts_s = min(self._truth.recovery_s, max(0.0, until_s - self._falls_s)) if self._overloaded else 0.0
        return min(lasts_s, self._request.duration_s - self._falls_s) * self._rate_fps * self._later

    def _stopped(self, until_s: float) -> float:
        """Frames that came while the DUT had stopped, until then."""
        stop, until_s = self._truth.stop, min(until_s, self._request.duration_s)
        if stop is None or until_s <= stop.after_s:
            return 0.0
        ends_s = min(until_s, stop.after_s + stop.length_s)
        return self._rate_fps * (self._seconds(ends_s) - self._seconds(stop.after_s))

    def _goes_on(self, at_s: float) -> bool:
        """Whether the DUT has forwarded again since it stopped, so that frames overtake those that it lost."""
        return self._truth.stop is None or at_s > self._truth.stop.after_s + self._truth.stop.length_s

    def samples(self) -> Iterator[Sample]:
        """Totals at each multiple of the request's interval."""
        interval_s = self._request.sample_s or math.inf
        gaps = self.of_kind(StallKind.ENGINE)
        before_s = 0.0
        for number in range(1, math.floor(self._request.duration_s / interval_s * (1 + 1e-9)) + 1):
            at_s = number * interval_s
            passed = [gap.length_s for gap in gaps if gap.at_s < at_s]
            if self._request.step:
                overloaded, queued = self._overloaded * min(1.0, at_s / self._falls_s), 0.0
            else:
                overloaded, queued = self.queue.at(at_s)
                queued = 0.0 if self._truth.is_meter else queued
            offered = math.floor(self._rate_fps * (self._seconds(at_s) - sum(passed)))
            stopped = self._stopped(at_s)
            lost = overloaded + self._recovering(at_s) + offered * self._truth.loss_ratio + stopped
            recent = [gap.length_s for gap in gaps if before_s <= gap.at_s < at_s]
            known, received = lost if self._goes_on(at_s) else lost - stopped, offered - round(lost + queued)
            yield Sample(at_s, offered, round(known), sum(passed), max(recent, default=0.0), received)
            before_s = at_s

    def _last_loss_s(self) -> float | None:
        ends = [] if self.queue.last_loss_s is None else [self.queue.last_loss_s]
        if self._overloaded and self._falls_s < self._request.duration_s:
            ends = [min(self._falls_s + self._truth.recovery_s, self._request.duration_s)]
        if (stop := self._truth.stop) and self._stopped(math.inf) and self._goes_on(self._request.duration_s):
            ends.append(stop.after_s + stop.length_s)
        if self._scattered:
            ends.append(self._request.duration_s)
        return max(ends, default=None)

    def _lost_at_random(self, frames: int, random: Random) -> int:
        loss = self._truth.random_loss
        if loss is None:
            return 0
        below = self._rate_fps / self._truth.capacity_fps - 1
        return poisson(frames * min(1.0, loss.ratio * math.exp(min(0.0, below / loss.scale))), random)

    def streams(self) -> tuple[StreamCounts, ...]:
        shares = [stream.share for stream in self._request.streams]
        parts = [divide(total, shares) for total in (self.intended, self.offered, self.refused, self.lost_inside)]
        latency = self._latency()
        return tuple(
            stream_counts(number, stream, counts, latency, self._last_loss_s())
            for number, (stream, counts) in enumerate(zip(self._request.streams, zip(*parts, strict=True), strict=True))
        )

    def ports(self) -> tuple[PortCounts, ...]:
        return port_counts(self.streams())

    def worker(self, core: int) -> WorkerWitness:
        gaps = self.of_kind(StallKind.ENGINE)
        longest = max(gaps, key=lambda gap: gap.length_s, default=None)
        return WorkerWitness(
            core=core,
            busy_share=0.0 if math.isinf(self._truth.ceiling_fps) else self._rate_fps / self._truth.ceiling_fps,
            gap_threshold_ns=GAP_THRESHOLD_NS,
            gaps=len(gaps),
            gap_total_ns=round(math.fsum(gap.length_s for gap in gaps) * 1e9),
            gap_max_ns=round(longest.length_s * 1e9) if longest else 0,
            gap_max_at_s=longest.at_s if longest else None,
            steal_s=0.0,
            voluntary_switches=0,
            involuntary_switches=len(gaps),
        )

    def _latency(self) -> LatencySummary | None:
        """M/D/1 waiting time below the capacity, a full ring above it."""
        if self.offered == self.refused or not self._capacity_fps:
            return None
        service_ns = 1e9 / self._capacity_fps
        load = self._rate_fps / self._capacity_fps
        queue = load / (2 * (1 - load)) if load < 1 else math.inf
        mean_ns = BASE_LATENCY_NS + service_ns * min(queue, self._truth.ring)
        p50, p90, p99, p999, p9999, most = (round(mean_ns * scale) for scale in (0.9, 1.3, 1.6, 2, 2.5, 3))
        return LatencySummary(
            count=self.offered - self.refused,
            min_ns=BASE_LATENCY_NS,
            mean_ns=mean_ns,
            p50_ns=p50,
            p90_ns=p90,
            p99_ns=p99,
            p999_ns=p999,
            p9999_ns=p9999,
            max_ns=most,
            curve=((0.5, p50), (0.9, p90), (0.99, p99), (0.999, p999), (0.9999, p9999), (1.0, most)),
        )
