"""Several simulated devices on one host, which moves: for tests of trials in slices.

All devices share the host's factor, which multiplies every capacity and is a function of time. What they differ by
is `relative`, and that is what slices of one trial are to find.

Its limits, beside those of simulated.py: a device that is not sent holds no frames, so that a slice begins with an
empty ring and loses what the ring would have taken; and no latency is measured.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from pinchpoint.engine.instrument import EngineResult, Heard, SliceCounts, Slices, TrialRequest
from pinchpoint.engine.simulated import SimulatedInstrument, Truth
from pinchpoint.engine.simulated_queue import StallKind
from pinchpoint.engine.whole import divide, port_counts, stream_counts
from pinchpoint.model.errors import EngineError
from pinchpoint.model.trial import StreamCounts

Host = Callable[[float], float]
STEP_S = 0.001  # within which the host's factor is taken as constant


def steady(_at_s: float) -> float:
    """A host that does not move."""
    return 1.0


class Walk:
    """A host whose factor is a random walk in its logarithm, with jumps, that comes back towards 1."""

    def __init__(self, per_s: float, seed: int, jump: float = 1.0, jump_every_s: float = math.inf) -> None:
        """`per_s` is the standard deviation of a second's walk, relative; a jump multiplies or divides by `jump`."""
        self._per_step = per_s * math.sqrt(STEP_S)
        self._jump = math.log(jump)
        self._jump_chance = STEP_S / jump_every_s
        self._random = Random(f"{seed}/host")
        self._logs = [0.0]

    def __call__(self, at_s: float) -> float:
        step = max(0, int(at_s / STEP_S))
        while len(self._logs) <= step:
            log = self._logs[-1] + self._random.gauss(0.0, self._per_step)
            if self._random.random() < self._jump_chance:
                # Away from where it is, so that it stays within two jumps of its middle.
                log += self._jump if log < 0 else -self._jump
            self._logs.append(log)
        return math.exp(self._logs[step])


@dataclass(frozen=True)
class Twins:
    """The devices of the groups of slices, in their order."""

    relative: tuple[float, ...]  # capacity of each, as a share of the truth's
    host: Host = steady
    scatter: float = 0.0  # standard deviation of a slice's capacity, relative: what no twin shares
    thaw_s: float = 0.0  # after a change of groups: the device forwards nothing
    switch_s: float = 50e-6  # of stopping and continuing the devices


@dataclass
class _Flow:
    """What a group has come to since the start, in fractions of frames."""

    seconds: float = 0.0
    offered: float = 0.0
    forwarded: float = 0.0
    lost: float = 0.0

    def counts(self) -> tuple[int, int, int]:
        """(offered, refused, received), whole and each never less than before but for one frame."""
        offered = math.floor(self.offered + 1e-6)
        taken = min(offered, math.floor(self.forwarded + 1e-6))
        return offered, offered - taken, taken - math.floor(self.lost + 1e-6)


@dataclass(frozen=True)
class _Window:
    """One slice, in seconds since the start of the trial."""

    group: int
    changes: bool
    start_s: float
    send_s: float
    measure_s: float
    end_s: float


class SimulatedDuet(SimulatedInstrument):
    """A SimulatedInstrument whose host moves, and whose trials may be in slices: a group for each twin.

    A trial without slices is one of the first twin, whatever its `relative` says of the truth.
    """

    def __init__(self, truth: Truth, twins: Twins, engine_core: int = 0, dut_core: int = 1) -> None:
        super().__init__(truth, engine_core, dut_core)
        self._twins = twins

    def capacity(self, begin_s: float, end_s: float) -> list[tuple[float, float]]:
        spans, at_s = [], begin_s
        for length_s, scale in super().capacity(begin_s, end_s):
            for low_s, high_s in pairwise(_cut(at_s, at_s + length_s)):
                spans.append((high_s - low_s, scale * self._twins.host((low_s + high_s) / 2)))
            at_s += length_s
        return spans

    def run(self, request: TrialRequest, heard: Heard | None = None) -> EngineResult:
        """One trial of the model. Raises EngineError if not open, or if there are more groups than twins."""
        slices = request.slices
        if slices is None:
            return super().run(request, heard)
        if not self._is_open:
            raise EngineError("simulated engine: not open")
        if len(slices.groups) > len(self._twins.relative):
            raise EngineError(f"simulated engine: {len(slices.groups)} groups, {len(self._twins.relative)} devices")
        self._runs += 1
        begin_s = self._clock_s
        trial = self._next(request)
        self.dut_threads = (self._dut_thread(trial),)
        stalls = {
            kind: [(stall.at_s, stall.at_s + stall.length_s) for stall in trial.of_kind(kind)] for kind in StallKind
        }
        random = Random(f"{self._truth.seed}/{self._runs}/slices")
        sliced = _Sliced(self._truth, self._twins, request, stalls, random)
        counts = tuple(
            sliced.slice(window, lambda low_s, high_s: self.capacity(begin_s + low_s, begin_s + high_s))
            for window in _windows(slices, request.duration_s)
        )
        streams = sliced.streams()
        return EngineResult(
            completed=True,
            sent_duration_s=request.duration_s,
            streams=streams,
            ports=port_counts(streams),
            workers=(trial.worker(self._engine_core),),
            cache_line_before_ns=self._modes.at(begin_s) if request.probe_cores else None,
            cache_line_after_ns=self._modes.at(begin_s + request.duration_s) if request.probe_cores else None,
            slices=counts,
        )


@dataclass
class _Sliced:
    """One trial in slices."""

    truth: Truth
    twins: Twins
    request: TrialRequest
    stalls: Mapping[StallKind, Sequence[tuple[float, float]]]  # begin, end
    random: Random
    flows: dict[int, _Flow] = field(default_factory=dict)

    def slice(self, window: _Window, spans: Callable[[float, float], Sequence[tuple[float, float]]]) -> SliceCounts:
        """Sends one slice; what its measured part counts."""
        flow = self.flows.setdefault(window.group, _Flow())
        scale = self.twins.relative[window.group] * max(0.0, self.random.gauss(1.0, self.twins.scatter))
        capacity_fps = self.truth.capacity_fps * scale
        frozen = (window.start_s, window.start_s + self.twins.thaw_s if window.changes else window.start_s)
        for low_s, high_s in ((window.send_s, window.measure_s), (window.measure_s, window.end_s)):
            before = flow.counts()
            at_s = low_s
            for length_s, host in spans(low_s, high_s) if high_s > low_s else ():
                self._send(flow, (at_s, at_s + length_s), capacity_fps * host, frozen)
                at_s += length_s
        offered, refused, received = (max(0, now - then) for now, then in zip(flow.counts(), before, strict=True))
        is_held = self.request.slices is not None and self.request.slices.hold is not None
        return SliceCounts(
            group=window.group,
            start_s=window.measure_s,
            length_s=window.end_s - window.measure_s,
            switch_s=self.twins.switch_s if is_held and window.changes else None,
            offered=offered,
            refused=refused,
            received=received,
            gap_s=_overlap(self.stalls[StallKind.ENGINE], window.measure_s, window.end_s),
        )

    def _send(self, flow: _Flow, span: tuple[float, float], capacity_fps: float, frozen: tuple[float, float]) -> None:
        rate_fps = min(self.request.load_fps, self.truth.ceiling_fps)
        length_s, silent_s = span[1] - span[0], _overlap(self.stalls[StallKind.ENGINE], *span)
        sent_s = length_s - silent_s
        paused = [*self.stalls[StallKind.DUT], *self.stalls[StallKind.DUT_THREAD], frozen]
        stopped_s = min(sent_s, _overlap(paused, *span))
        forwarded = min(rate_fps, capacity_fps) * (sent_s - stopped_s)
        flow.seconds += length_s
        flow.offered += rate_fps * sent_s
        flow.forwarded += forwarded
        flow.lost += forwarded * self.truth.loss_ratio

    def streams(self) -> tuple[StreamCounts, ...]:
        """The account of each stream over the whole trial."""
        assert self.request.slices is not None
        accounts = {}
        for group, numbers in enumerate(self.request.slices.groups):
            flow = self.flows.get(group, _Flow())
            offered, refused, received = flow.counts()
            intended = max(offered, math.floor(self.request.load_fps * flow.seconds + 1e-6))
            shares = [self.request.streams[number].share for number in numbers]
            parts = (divide(total, shares) for total in (intended, offered, refused, offered - refused - received))
            for number, *counts in zip(numbers, *parts, strict=True):
                accounts[number] = stream_counts(number, self.request.streams[number], counts)
        return tuple(accounts[number] for number in sorted(accounts))


def _windows(slices: Slices, duration_s: float) -> Iterator[_Window]:
    """The slices of a trial, as protocol/README.md says."""
    before = None
    for number in range(math.ceil(duration_s / slices.length_s * (1 - 1e-12))):
        group = slices.order[number % len(slices.order)]
        changes = group != before
        start_s, end_s = number * slices.length_s, min(duration_s, (number + 1) * slices.length_s)
        send_s = min(end_s, start_s + (slices.settle_s if changes else 0.0))
        measure_s = min(end_s, send_s + (slices.discard_s if changes else 0.0))
        yield _Window(group, changes, start_s, send_s, measure_s, end_s)
        before = group


def _cut(begin_s: float, end_s: float) -> list[float]:
    """The ends of the span and what lies between them at a step's distance."""
    first, last = math.floor(begin_s / STEP_S) + 1, math.ceil(end_s / STEP_S)
    edges = [step * STEP_S for step in range(first, last)]
    return [begin_s, *edges[bisect_right(edges, begin_s) :], end_s]


def _overlap(stalls: Sequence[tuple[float, float]], begin_s: float, end_s: float) -> float:
    return math.fsum(max(0.0, min(end_s, high_s) - max(begin_s, low_s)) for low_s, high_s in stalls)
