"""The queue of a simulated device over one trial; pauses and moves of its capacity, over all of its time.

A capacity moves as on a shared host.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

PARETO = 1.5  # tail index of pauses with a heavy tail: their mean is finite, their variance is not
SHORT_S = 1e-12  # no step of a queue is shorter


class StallKind(StrEnum):
    """Who stands still during a stall."""

    ENGINE = "engine"
    DUT_THREAD = "dut_thread"
    DUT = "dut"


class Lengths(StrEnum):
    """How the lengths of stalls are distributed."""

    FIXED = "fixed"
    EXPONENTIAL = "exponential"
    PARETO = "pareto"


@dataclass(frozen=True)
class Stalls:
    """Stalls of one kind: how many a second on average, and how long each is (on average)."""

    kind: StallKind
    per_second: float
    length_s: float
    lengths: Lengths = Lengths.FIXED
    in_burst: int = 1  # this many follow each other
    apart_s: float = 0.002  # from the end of one in a burst to the beginning of the next


@dataclass(frozen=True)
class Stall:
    """One of them; `at_s` may be before the trial that it reaches into."""

    kind: StallKind
    at_s: float
    length_s: float


@dataclass(frozen=True)
class Collapse:
    """A device that carries less once it has lost frames, until its queue is empty or for a time."""

    share: float  # of the capacity
    lasts_s: float = 0.0  # since the last loss, beyond the trial; 0: until the queue is empty


class Stalling:
    """Stalls over all of the time, which grows as it is asked for: what happens between trials is no part of them."""

    def __init__(self, kinds: Sequence[Stalls], seed: int) -> None:
        self._kinds = [(stalls, Random(f"{seed}/stalls/{number}")) for number, stalls in enumerate(kinds)]
        self._made: list[list[Stall]] = [[] for _ in kinds]
        self._until_s = [0.0] * len(kinds)

    def between(self, begin_s: float, end_s: float) -> list[Stall]:
        """Those that touch a span, by the time since its begin."""
        touching = []
        for number, made in enumerate(self._made):
            self._extend(number, end_s)
            first = bisect_right(made, begin_s, key=lambda stall: stall.at_s + stall.length_s)
            for stall in made[first:]:
                if stall.at_s >= end_s:
                    break
                touching.append(Stall(stall.kind, stall.at_s - begin_s, stall.length_s))
        return sorted(touching, key=lambda stall: stall.at_s)

    def _extend(self, number: int, end_s: float) -> None:
        stalls, random = self._kinds[number]
        while self._until_s[number] <= end_s:
            at_s = self._until_s[number] + random.expovariate(stalls.per_second / stalls.in_burst)
            for _ in range(stalls.in_burst):
                length_s = _length_s(stalls, random)
                self._made[number].append(Stall(stalls.kind, at_s, length_s))
                at_s += length_s + stalls.apart_s
            self._until_s[number] = at_s - stalls.apart_s if stalls.in_burst > 1 else at_s - length_s - stalls.apart_s


def _length_s(stalls: Stalls, random: Random) -> float:
    if stalls.lengths is Lengths.EXPONENTIAL:
        return random.expovariate(1 / stalls.length_s)
    if stalls.lengths is Lengths.PARETO:
        return stalls.length_s * (1 - 1 / PARETO) * random.paretovariate(PARETO)
    return stalls.length_s


@dataclass(frozen=True)
class Replay:
    """A recording: shares of the usual capacity, one for each `step_s`, from a random start on and round again."""

    shares: tuple[float, ...]
    step_s: float


@dataclass(frozen=True)
class RandomWalk:
    """The logarithm of the capacity walks at random."""

    per_sqrt_s: float  # standard deviation after one second
    step_s: float = 0.02


@dataclass(frozen=True)
class Jumps:
    """The capacity jumps between its usual value and a multiple of it."""

    factor: float
    every_s: float  # mean; exponentially distributed
    step_s: float = 0.02


@dataclass(frozen=True)
class Sine:
    """The capacity swings round its usual value, from a random phase on."""

    swing: float  # relative
    period_s: float
    step_s: float = 0.02


Moves = Replay | RandomWalk | Jumps | Sine


class Path:
    """One course of a capacity over time, constant within each step; it grows as it is asked for."""

    def __init__(self, moves: Moves, random: Random) -> None:
        self._moves, self._random = moves, random
        self._shares: list[float] = []
        self._start = random.randrange(len(moves.shares)) if isinstance(moves, Replay) else 0
        self._left_s = 0.0  # until the next jump
        self._is_high = random.random() < 0.5
        self._phase = random.random()

    def spans(self, begin_s: float, end_s: float) -> list[tuple[float, float]]:
        """(seconds, share of the capacity) of each span between two steps."""
        while len(self._shares) * self._moves.step_s < end_s:
            self._shares.append(self._next())
        spans, at_s = [], begin_s
        number = int(begin_s / self._moves.step_s + 1e-9)
        while at_s < end_s - 1e-12:
            until_s = min(end_s, (number + 1) * self._moves.step_s)
            spans.append((until_s - at_s, self._shares[min(number, len(self._shares) - 1)]))
            at_s, number = until_s, number + 1
        return spans

    def _next(self) -> float:
        moves, count = self._moves, len(self._shares)
        if isinstance(moves, Replay):
            return moves.shares[(self._start + count) % len(moves.shares)]
        if isinstance(moves, RandomWalk):
            before = self._shares[-1] if self._shares else 1.0
            return before * math.exp(self._random.gauss(0.0, moves.per_sqrt_s * moves.step_s**0.5))
        if isinstance(moves, Sine):
            return 1 + moves.swing * math.sin(2 * math.pi * (self._phase + count * moves.step_s / moves.period_s))
        if self._left_s <= 0.0:
            self._left_s = self._random.expovariate(1 / moves.every_s)
            self._is_high = not self._is_high
        self._left_s -= moves.step_s
        return moves.factor if self._is_high else 1.0


def paused(spans: Sequence[tuple[float, float]], stalls: Sequence[Stall]) -> Iterator[tuple[float, float]]:
    """(seconds, share of the capacity) of each span, with none while one of `stalls` lasts."""
    edges, until_s = [], 0.0
    for stall in stalls:  # in order of their beginnings
        if stall.at_s + stall.length_s > until_s:
            edges.append((max(stall.at_s, until_s), stall.at_s + stall.length_s))
            until_s = edges[-1][1]
    at_s = 0.0
    for length_s, share in spans:
        end_s = at_s + length_s
        while edges and edges[0][0] < end_s:
            begin_s, stop_s = edges[0]
            if begin_s > at_s:
                yield begin_s - at_s, share
                at_s = begin_s
            yield min(stop_s, end_s) - at_s, 0.0
            at_s = min(stop_s, end_s)
            if stop_s > end_s:
                break
            edges.pop(0)
        if end_s > at_s:
            yield end_s - at_s, share
        at_s = end_s


class Queue:
    """Frames lost and frames that wait, both piecewise linear in time."""

    def __init__(
        self,
        spans: Sequence[tuple[float, float]],
        rate_fps: float,
        capacity_fps: float,
        ring: int,
        *,
        waiting: float = 0.0,
        collapse: Collapse | None = None,
        collapsed_s: float = 0.0,
    ) -> None:
        """`waiting` frames are there at the begin; for `collapsed_s` a collapse lasts from before."""
        self._at_s, self._lost, self._waiting = [0.0], [0.0], [waiting]
        self._ring, self._collapse = ring, collapse
        self._collapsed_s = collapsed_s  # until then
        self.last_loss_s: float | None = None
        for length_s, share in spans:
            while length_s > SHORT_S:
                length_s -= self._step(length_s, rate_fps, capacity_fps * share)

    def _step(self, most_s: float, rate_fps: float, capacity_fps: float) -> float:
        at_s, lost, waiting = self._at_s[-1], self._lost[-1], self._waiting[-1]
        if self._collapse is not None and at_s < self._collapsed_s:
            capacity_fps *= self._collapse.share
            most_s = min(most_s, self._collapsed_s - at_s)
        surplus_fps = rate_fps - capacity_fps
        if surplus_fps > 0 and waiting < self._ring:
            most_s = min(most_s, (self._ring - waiting) / surplus_fps)
            waiting = min(self._ring, waiting + surplus_fps * most_s)
        elif surplus_fps > 0:
            if self._collapse is not None and at_s >= self._collapsed_s:
                most_s = SHORT_S  # from the first loss on it serves less
            lost += surplus_fps * most_s
            self.last_loss_s = at_s + most_s
            if self._collapse is not None:
                self._collapsed_s = at_s + most_s + self._collapse.lasts_s if self._collapse.lasts_s else math.inf
        elif waiting > 0 and surplus_fps < 0:
            most_s = min(most_s, waiting / -surplus_fps)
            waiting = max(0.0, waiting + surplus_fps * most_s)
        if waiting < 1e-9:
            waiting = 0.0
            if self._collapse is not None and not self._collapse.lasts_s:
                self._collapsed_s = 0.0
        most_s = max(most_s, SHORT_S)
        self._at_s.append(at_s + most_s)
        self._lost.append(lost)
        self._waiting.append(waiting)
        return most_s

    def at(self, time_s: float) -> tuple[float, float]:
        """Frames lost since the trial began, and frames that wait, both then."""
        after = bisect_right(self._at_s, time_s)
        if after == len(self._at_s):
            return self._lost[-1], self._waiting[-1]
        share = (time_s - self._at_s[after - 1]) / (self._at_s[after] - self._at_s[after - 1])
        lost, waiting = (
            series[after - 1] + share * (series[after] - series[after - 1]) for series in (self._lost, self._waiting)
        )
        return lost, waiting

    @property
    def collapsed_s(self) -> float:
        """Until when a collapse lasts, since the trial began."""
        return 0.0 if math.isinf(self._collapsed_s) else self._collapsed_s
