"""Capacities that move with time, for simulated devices: what a shared host does to a switch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random


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
        self.step_s = moves.step_s
        self._moves, self._random = moves, random
        self._shares: list[float] = []
        self._start = random.randrange(len(moves.shares)) if isinstance(moves, Replay) else 0
        self._left_s = 0.0  # until the next jump
        self._is_high = random.random() < 0.5
        self._phase = random.random()

    def shares(self, until_s: float) -> Sequence[float]:
        """Of the usual capacity, one for each step from time 0 until then."""
        while len(self._shares) * self.step_s < until_s:
            self._shares.append(self._next())
        return self._shares[: math.ceil(until_s / self.step_s)]

    def spans(self, begin_s: float, end_s: float) -> list[tuple[float, float]]:
        """(seconds, share of the capacity) of each span between two steps."""
        shares = self.shares(end_s)
        spans, at_s = [], begin_s
        number = int(begin_s / self.step_s + 1e-9)
        while at_s < end_s - 1e-12:
            until_s = min(end_s, (number + 1) * self.step_s)
            spans.append((until_s - at_s, shares[min(number, len(shares) - 1)]))
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
