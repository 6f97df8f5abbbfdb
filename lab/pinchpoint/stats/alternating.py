"""What alternating trials say about two benches: A B, B A, each at a load of its own; pure.

A bench's load rises by a step after a trial that lost no more than its loss ratio, and falls by one after another: the
up-and-down method (Dixon and Mood 1948), whose loads lie about the NDR or PDR. A turn, one trial of each, gives the
ratio of the rates at that time. A bench that forwards all that the engine offers shows a bound: then the cycles that a
packet costs are compared, at the load that both carry.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean

from pinchpoint.model.duet import SIDES
from pinchpoint.model.measurement import fewest_for_interval
from pinchpoint.stats.paired import PairedDifference, compare_over_builds, in_blocks

LAST_STEP = 0.03  # of the load, on which it goes up and down
FIRST_STEP = 8 * LAST_STEP  # halved whenever the direction changes: three times
MOST_LIMITED = 0.1  # of a bench's turns: with more of them its rate is a bound; as few move a median by little
BLOCK = 5  # turns in a row: loads of neighbouring turns are alike
FEWEST_OF_BLOCK = 3  # where longer ones would be too few for an interval
MOST_BLOCKS = 8  # of one build, whose noise lasts
LIMITED = 1 - LAST_STEP  # of the load: an engine that misses more than a step cannot offer more


class Staircase:
    """The load of one bench's next trial, settled once it goes up and down about one load."""

    def __init__(self, load_fps: float, low_fps: float, high_fps: float, seed: str, step: float) -> None:
        """`seed`: steps vary by it, since equal ones would hide differences that are smaller than a step."""
        self.load_fps = min(high_fps, max(low_fps, load_fps))
        self._low_fps, self._high_fps, self._step = low_fps, high_fps, step
        self._rose: bool | None = None
        self._random = Random(seed)

    @property
    def is_settled(self) -> bool:
        return self._step <= LAST_STEP

    def follow(self, tried: "StairTrial") -> None:
        if self._rose not in (None, not tried.loses) or (tried.is_bound and not self.is_settled):
            self._step = max(LAST_STEP, self._step / 2)
        self._rose = not tried.loses
        step = 1 + self._step * self._random.uniform(0.5, 1.5)
        factor = 1 / step if tried.loses else step
        self.load_fps = min(self._high_fps, max(self._low_fps, tried.fps * factor))


@dataclass(frozen=True)
class StairTrial:
    """One trial as the staircase sees it."""

    fps: float  # what was offered
    loses: bool  # more than the loss ratio
    is_bound: bool  # it forwards what the engine offers, and the engine offers no more
    cycles: float | None = None  # for a packet, of the busiest forwarding thread


@dataclass(frozen=True)
class Turn:
    """A trial of each bench, close in time."""

    a: StairTrial
    b: StairTrial
    build: int  # number of the two benches

    @property
    def log_ratio(self) -> float:
        """Natural logarithm of B's load over A's."""
        return math.log(self.b.fps / self.a.fps)


class Alternation:
    """Turns of two benches, built several times, as they are made or were stored."""

    def __init__(self, low_fps: float, high_fps: float) -> None:
        self._range = low_fps, high_fps
        self._stairs: dict[str, Staircase] = {}
        self._pending: dict[str, StairTrial | None] = {}
        self._is_settled = False
        self.begun = 0  # turns; the next one's order: `pair_order` in model/duet.py
        self.builds = 0
        self.turns: list[Turn] = []  # of settled staircases

    def build(self) -> None:
        """Both benches were built anew; their loads go on where they were."""
        self.builds += 1
        self._pending.clear()
        before = self._stairs
        self._stairs = {side: self._stair(side, before.get(side)) for side in SIDES}

    def _stair(self, side: str, before: Staircase | None) -> Staircase:
        step = 2 * LAST_STEP if before and before.is_settled else FIRST_STEP
        load_fps = before.load_fps if before else self._range[1]
        return Staircase(load_fps, *self._range, f"{self.builds}/{side}", step)

    def load_fps(self, side: str) -> float:
        """Of the side's next trial."""
        return self._stairs[side].load_fps

    def answer(self, side: str, tried: StairTrial | None) -> None:
        """The trial of a side; None: it has no usable account. A turn has one of each."""
        if not self._pending:
            self.begun += 1
            self._is_settled = all(stairs.is_settled for stairs in self._stairs.values())
        self._pending[side] = tried
        if tried is not None:
            self._stairs[side].follow(tried)
        if len(self._pending) == len(SIDES):
            a, b = (self._pending[side] for side in SIDES)
            if a is not None and b is not None and self._is_settled:
                self.turns.append(Turn(a, b, self.builds))
            self._pending.clear()


@dataclass(frozen=True)
class Alternated:
    """What all turns with settled staircases say."""

    turns: tuple[Turn, ...]
    rate: PairedDifference | None  # of B's rate to A's; None: no turn
    cycles: PairedDifference | None  # of B's cost of a packet to A's, at one load; None: it is not known
    a_is_bound: bool  # A forwards what the engine offers
    b_is_bound: bool


def compare_turns(turns: Sequence[Turn]) -> Alternated:
    """The ratios of B to A over all turns: from six builds on of the next build, else of these benches."""
    bounds = [fmean(getattr(turn, side).is_bound for turn in turns) > MOST_LIMITED if turns else False for side in "ab"]
    alike = (turn for turn in turns if abs(turn.log_ratio) < 2 * LAST_STEP)
    costs = [(turn.build, math.log(turn.b.cycles / turn.a.cycles)) for turn in alike if turn.b.cycles and turn.a.cycles]
    rates = [(turn.build, turn.log_ratio) for turn in turns]
    rate, cost = (compare_over_builds(values, fmean, _of_blocks) for values in (rates, costs))
    return Alternated(tuple(turns), rate, cost, *bounds)


def _of_blocks(ratios: Sequence[float]) -> list[float]:
    """The mean of each block of neighbours in time."""
    number = max(1, min(MOST_BLOCKS, len(ratios) // BLOCK))
    if len(ratios) >= FEWEST_OF_BLOCK * fewest_for_interval():
        number = max(number, fewest_for_interval())
    return [fmean(block) for block in in_blocks(ratios, number)]
