"""An instrument with a virtual clock and a known truth, so that the lab is tested in milliseconds.

The model is a fluid: frames arrive at a constant rate at one queue of `ring`
frames that is served at a constant rate, `capacity_fps`.

* Overload: what arrives above the capacity fills the ring, then is refused.
* Noise: each trial's capacity is the true one times a normal factor. Dips: it is lower by half a normal one.
* Moves: its capacity changes with time, and nothing tells.
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
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

from simulated_queue import Collapse, Moves, Path, Queue, Stall, Stalling, StallKind, Stalls, paused

from pinchpoint.engine.instrument import EngineResult, Heard, PortCounts, TrialRequest, duration_of
from pinchpoint.model.errors import EngineError
from pinchpoint.model.trial import LatencySummary, Sample, StreamCounts, ThreadWitness, WorkerWitness

ENGINE_CORE, DUT_CORE = 0, 1  # that the witnesses name
GAP_THRESHOLD_NS = 20_000
BASE_LATENCY_NS = 5_000
QUANTILES = (0.5, 0.9, 0.99, 0.999, 0.9999, 1.0)


@dataclass(frozen=True)
class CoreDistance:
    """Two modes of the distance between engine and DUT core; each lasts `dwell_s` on average."""

    near_ns: float = 30.0
    far_ns: float = 160.0
    dwell_s: float = 10.0
    far_capacity: float = 0.5  # capacity when far, as a share of the capacity when near


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
    moves: Moves | None = None  # of the capacity with time; no counter shows them
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


class SimulatedInstrument:
    """An Instrument for tests; `now_s` is its clock."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._clock_s = 0.0
        self._runs = 0
        self._is_open = False
        distance, moves = truth.core_distance, truth.moves
        self._modes = _Modes(distance, Random(f"{truth.seed}/modes")) if distance else None
        self._path = Path(moves, Random(f"{truth.seed}/moves")) if moves else None
        self._stalling = Stalling(truth.stalls, truth.seed)
        self._taken = 0.0  # tokens, of a meter, when the last trial ended
        self._collapsed_until_s = 0.0  # by the clock
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
        failure = next((failure for failure in self._truth.failures if failure.trial == self._runs + 1), None)
        if failure is not None:
            request = replace(request, duration_s=min(failure.after_s, request.duration_s), drain_s=0.0)
        if request.burst_frames is not None:
            rate_fps = min(request.load_fps, self._truth.ceiling_fps)
            request = replace(request, load_fps=rate_fps, duration_s=duration_of(request.burst_frames, rate_fps))
        trial = self.count(request)
        self.dut_threads = (trial.dut_thread(),)
        if heard:
            for sample in trial.samples():
                heard(sample)
        streams = trial.streams()
        return EngineResult(
            completed=failure is None,
            sent_duration_s=request.duration_s,
            streams=streams,
            ports=_port_counts(streams),
            workers=(trial.worker(),),
            cache_line_before_ns=trial.before_ns,
            cache_line_after_ns=trial.after_ns,
            reason=f"{failure.port}: its link went down" if failure else None,
        )

    def count(self, request: TrialRequest) -> "SimulatedTrial":
        """A trial without failures or a burst, begun now, in a tenth of the time; the clock moves to its end."""
        self._runs += 1
        begin_s, end_s = self._clock_s, self._clock_s + request.duration_s
        spans, stalls = self.capacity(begin_s, end_s), self.stalls(begin_s, end_s)
        collapsed_s = self._collapsed_until_s - begin_s
        trial = SimulatedTrial(self._truth, request, spans, stalls, self._runs, self._taken, collapsed_s)
        if request.probe_cores and self._modes:
            trial.before_ns, trial.after_ns = self._modes.distance_ns(begin_s), self._modes.distance_ns(end_s)
        idle_s = request.drain_s + self._truth.overhead_s
        taken = trial.queue.at(math.inf)[1] - self._truth.capacity_fps * idle_s if self._truth.is_meter else 0.0
        self._taken, self._collapsed_until_s = max(0.0, taken), begin_s + trial.queue.collapsed_s
        self._clock_s = end_s + idle_s
        return trial

    def stalls(self, begin_s: float, end_s: float) -> list[Stall]:
        """Those that touch a span, by the time since its begin."""
        return self._stalling.between(begin_s, end_s)

    def capacity(self, begin_s: float, end_s: float) -> list[tuple[float, float]]:
        """(seconds, share of the usual capacity) of each span in which the capacity is constant."""
        spans, at_s = [], begin_s
        for length_s, scale in self._modes.spans(begin_s, end_s) if self._modes else [(end_s - begin_s, 1.0)]:
            moved = self._path.spans(at_s, at_s + length_s) if self._path else [(length_s, 1.0)]
            spans += [(part_s, scale * share) for part_s, share in moved]
            at_s += length_s
        return spans


class _Modes:
    """The core distance over time: near from an even change to the next, far from an odd one."""

    def __init__(self, distance: CoreDistance, random: Random) -> None:
        self._distance = distance
        self._random = random
        self._changes_s = [0.0]

    def distance_ns(self, at_s: float) -> float:
        return self._distance.far_ns if self._is_far(at_s) else self._distance.near_ns

    def spans(self, begin_s: float, end_s: float) -> list[tuple[float, float]]:
        """(seconds, capacity scale) of each span between two changes."""
        self._extend(end_s)
        edges = [begin_s, *(change for change in self._changes_s if begin_s < change < end_s), end_s]
        return [
            (high - low, self._distance.far_capacity if self._is_far((low + high) / 2) else 1.0)
            for low, high in pairwise(edges)
        ]

    def _is_far(self, at_s: float) -> bool:
        self._extend(at_s)
        return bisect_right(self._changes_s, at_s) % 2 == 0

    def _extend(self, until_s: float) -> None:
        while self._changes_s[-1] <= until_s:
            self._changes_s.append(self._changes_s[-1] + self._random.expovariate(1 / self._distance.dwell_s))


class SimulatedTrial:
    """The fluid model of one trial, in frames of all streams together."""

    def __init__(self, truth: Truth, request: TrialRequest, spans: Sequence[tuple[float, float]],
                 stalls: Sequence[Stall], number: int, taken: float, collapsed_s: float) -> None:  # fmt: skip
        self._truth, self._request, self._stalls = truth, request, stalls
        self.before_ns: float | None = None  # distance of the cores at either end; None: not probed
        self.after_ns: float | None = None
        random = Random(f"{truth.seed}/{number}")
        self._capacity_fps = max(0.0, truth.capacity_fps * random.gauss(1.0, truth.noise))
        if truth.dips:
            self._capacity_fps *= max(0.0, 1.0 - abs(random.gauss(0.0, truth.dips)))
        self._rate_fps = min(request.load_fps, truth.ceiling_fps)
        step = request.step
        self._falls_s = min(step.after_s, request.duration_s) if step else request.duration_s
        self._later = step.to_share if step else 1.0
        self.intended = math.floor(request.load_fps * self._seconds(request.duration_s))
        # A load that falls below the ceiling is offered whole.
        self._later = min(request.load_fps * self._later, truth.ceiling_fps) / self._rate_fps if self._rate_fps else 1.0
        skipped_s = math.fsum(stall.length_s for stall in self.of_kind(StallKind.ENGINE))  # due then, never offered
        due = math.floor(self._rate_fps * self._seconds(request.duration_s))
        self.offered = max(0, due - math.floor(skipped_s * self._rate_fps))
        stops = [stall for stall in stalls if stall.kind is not StallKind.ENGINE]
        served = list(paused(spans, stops)) if stops else spans
        self.queue = Queue(
            served, self._rate_fps, self._capacity_fps, truth.ring, waiting=taken, collapse=truth.collapse,
            collapsed_s=collapsed_s,
        )  # fmt: skip
        self._overloaded = self._overload()
        self.refused = min(self.offered, round(self._overloaded + self._recovering(math.inf)))
        carried = self.offered - self.refused
        self._scattered = round(carried * truth.loss_ratio) + self._lost_at_random(carried, random)
        self.lost_inside = min(carried, self._scattered + round(self._stopped(math.inf)))

    def of_kind(self, kind: StallKind) -> list[Stall]:
        """Those that began in the trial."""
        return [stall for stall in self._stalls if stall.kind is kind and stall.at_s >= 0]

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
        return _poisson(frames * min(1.0, loss.ratio * math.exp(min(0.0, below / loss.scale))), random)

    def streams(self) -> tuple[StreamCounts, ...]:
        """The account of each stream."""
        latency, last_loss_s = self._latency(), self._last_loss_s()
        shares = [stream.share for stream in self._request.streams]
        parts = [_divide(total, shares) for total in (self.intended, self.offered, self.refused, self.lost_inside)]
        accounts = []
        for number, stream in enumerate(self._request.streams):
            intended, offered, refused, inside = (part[number] for part in parts)
            accounts.append(StreamCounts(
                stream=number, tx_port=stream.tx_port, rx_port=stream.rx_port, intended=intended, offered=offered,
                refused=refused, shortfall=intended - offered, sent=offered - refused,
                received=offered - refused - inside, lost=inside, duplicated=0, reordered=0, corrupt=0,
                latency=latency, last_loss_s=last_loss_s,
            ))  # fmt: skip
        return tuple(accounts)

    def dut_thread(self) -> ThreadWitness:
        """What the host did to the DUT's thread."""
        stalls = self.of_kind(StallKind.DUT_THREAD)
        run_delay_ns = round(math.fsum(stall.length_s for stall in stalls) * 1e9)
        return ThreadWitness(f"forwarding-{DUT_CORE:02d}", DUT_CORE, run_delay_ns, len(stalls))

    def worker(self) -> WorkerWitness:
        """What the engine's core noticed."""
        gaps = self.of_kind(StallKind.ENGINE)
        longest = max(gaps, key=lambda gap: gap.length_s, default=None)
        longest_ns, longest_at_s = (round(longest.length_s * 1e9), longest.at_s) if longest else (0, None)
        busy = 0.0 if math.isinf(self._truth.ceiling_fps) else self._rate_fps / self._truth.ceiling_fps
        total_ns = round(math.fsum(gap.length_s for gap in gaps) * 1e9)
        return WorkerWitness(
            ENGINE_CORE, busy, GAP_THRESHOLD_NS, len(gaps), total_ns, longest_ns, longest_at_s,
            steal_s=0.0, voluntary_switches=0, involuntary_switches=len(gaps),
        )  # fmt: skip

    def _latency(self) -> LatencySummary | None:
        """M/D/1 waiting time below the capacity, a full ring above it."""
        if self.offered == self.refused or not self._capacity_fps:
            return None
        service_ns = 1e9 / self._capacity_fps
        load = self._rate_fps / self._capacity_fps
        queue = load / (2 * (1 - load)) if load < 1 else math.inf
        mean_ns = BASE_LATENCY_NS + service_ns * min(queue, self._truth.ring)
        times = [round(mean_ns * scale) for scale in (0.9, 1.3, 1.6, 2, 2.5, 3)]
        p50, p90, p99, p999, p9999, most = times
        count, curve = self.offered - self.refused, tuple(zip(QUANTILES, times, strict=True))
        return LatencySummary(count, BASE_LATENCY_NS, mean_ns, p50, p90, p99, p999, p9999, most, curve)


def _poisson(mean: float, random: Random) -> int:
    """A Poisson variable; of a large mean, the normal one that it comes near to."""
    if mean > 100:
        return max(0, round(random.gauss(mean, math.sqrt(mean))))
    count, left = 0, mean - random.expovariate(1.0)
    while left > 0:
        count, left = count + 1, left - random.expovariate(1.0)
    return count


def _divide(total: int, shares: Sequence[float]) -> list[int]:
    """Whole parts of `total` in proportion to `shares`, adding up to it."""
    parts = [math.floor(total * share / math.fsum(shares)) for share in shares]
    parts[0] += total - sum(parts)
    return parts


def _port_counts(streams: Sequence[StreamCounts]) -> tuple[PortCounts, ...]:
    """The account of every port that a stream names, if nothing else passed it."""
    names = dict.fromkeys(name for stream in streams for name in (stream.tx_port, stream.rx_port) if name is not None)
    ports = []
    for name in names:
        sending = [stream for stream in streams if stream.tx_port == name]
        sent, refused = sum(stream.sent for stream in sending), sum(stream.refused for stream in sending)
        received = sum(stream.received or 0 for stream in streams if stream.rx_port == name)
        ports.append(PortCounts(name, sent, refused, received, foreign=0, late=0, rx_missed=0, stats={}))
    return tuple(ports)
