"""Two series measured in pairs (A B, B A, ...): by how much B differs from A, and what could hide; pure.

The logarithms of B/A are put together by Wilcoxon's signed ranks: an exact test over all ways to swap the two of a
pair, and the interval that belongs to it (Hodges and Lehmann 1963; Hollander and Wolfe, "Nonparametric Statistical
Methods", 3.1 to 3.3). They have to lie symmetrically about the true one, as they do for any distribution that A and B
share, also with a drift if the order within a pair alternates.

Pairs that are looked at after each of them bear only bets. Without an effect either bench of a pair is as likely to
come out ahead. The evidence is the wealth of a gambler who bets on pairs that show the effect, with P(win) uniform
between 1/2 and 1: without the effect it ever reaches 1 / alpha with a probability of at most alpha, however often one
looks (Ville 1939; Shafer, "Testing by betting", 2021).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, pairwise
from statistics import median
from typing import Any, TypeVar

from pinchpoint.model.causes import Turned
from pinchpoint.model.groups import grouped
from pinchpoint.model.measurement import CONFIDENCE, Interval, fewest_for_interval

Value = TypeVar("Value")
CERTAIN = 120.0
"""Of the wealth: an error of 1 in 120. Three bets and one side of an interval of 95 % may confirm a cause, or five bets
and no interval (causes/experiments.py): together 5 % at most.
"""


@dataclass(frozen=True)
class PairedDifference(Interval):
    """What pairs say about the ratio B / A: the pseudomedian (Hodges and Lehmann) of the pairs' ratios.

    Without a level there are too few pairs for an interval: the ends are the lowest and the highest ratio of a pair.
    """

    p_value: float = 1.0  # two-sided and exact: how likely a difference like this is, where there is none
    n: int = 0  # pairs
    is_of_builds: bool = False  # each pair is a build of both benches; else the benches are the same in all

    @property
    def differs(self) -> bool:
        """Whether the interval leaves 1 out, equally p_value <= 1 - level."""
        return self.level is not None and self.tells_apart

    @property
    def largest_hidden(self) -> float | None:
        """The share by which B could at most differ; None: too few pairs to say."""
        return None if self.level is None else self.reach


def compare_pairs(a: Sequence[float], b: Sequence[float], *, confidence: float = CONFIDENCE) -> PairedDifference:
    """The ratio of B to A over pairs measured side by side: `a[i]` with `b[i]`, in alternating order.

    Raises ValueError for series of different length or none, a value not above 0, a confidence not between 0 and 1.
    """
    if len(a) != len(b) or not a:
        raise ValueError(f"{len(a)} values of A and {len(b)} of B: pairs are needed")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence:g} is not between 0 and 1")
    for number, pair in enumerate(zip(a, b, strict=True), start=1):
        for name, value in zip("AB", pair, strict=True):
            if not 0 < value < math.inf:
                raise ValueError(f"pair {number}: {value:g} of {name} is not positive: there is no ratio")
    return compare_log_ratios([math.log(b_value / a_value) for a_value, b_value in zip(a, b, strict=True)], confidence)


def compare_log_ratios(ratios: Sequence[float], confidence: float = CONFIDENCE) -> PairedDifference:
    """The same of natural logarithms of B / A, at least one; where they are too few, their range and no difference."""
    n, sure, walsh = len(ratios), f"{confidence * 100:g} %", _walsh(ratios)
    # Ties with 0 count against a difference on either side, so that equal values never make one.
    against = min(sum(mean <= 0 for mean in walsh), sum(mean >= 0 for mean in walsh))
    p_value, ratio = min(1.0, 2 * _at_most(n)[against]), math.exp(pseudomedian(ratios))
    if n < fewest_for_interval(confidence):
        method = f"range of {n} pairs; an interval at {sure} needs {fewest_for_interval(confidence)}"
        low, high = math.exp(min(ratios)), math.exp(max(ratios))
        return PairedDifference(ratio, low, high, None, method, p_value=p_value, n=n)
    allowed = sum(2 * share <= 1 - confidence for share in _at_most(n))
    low, high = math.exp(walsh[allowed - 1]), math.exp(walsh[-allowed])
    method = f"{sure}, Wilcoxon's signed ranks over {n} pairs"
    return PairedDifference(ratio, low, high, confidence, method, p_value=p_value, n=n)


def compare_over_builds(
    values: Sequence[tuple[int, Value]],
    of_build: Callable[[Sequence[Value]], float],
    of_blocks: Callable[[Sequence[Value]], list[float]],
) -> PairedDifference | None:
    """The ratio over builds of both benches where they are enough for an interval, else over blocks of time.

    `values`: in the order of time, each with the number of its build; None without any. `of_build` and `of_blocks`
    make natural logarithms of B / A, of one build and of all blocks.
    """
    by_build = grouped(values)
    if len(by_build) >= fewest_for_interval():
        return replace(compare_log_ratios([of_build(own) for own in by_build.values()]), is_of_builds=True)
    return compare_log_ratios(of_blocks([value for _, value in values])) if values else None


def pseudomedian(values: Sequence[float]) -> float:
    """The median of the means of all pairs, each value with itself included (Hodges and Lehmann 1963)."""
    walsh = _walsh(values)
    return float(walsh[(len(walsh) - 1) // 2] + walsh[len(walsh) // 2]) / 2


def in_blocks(values: Sequence[Value], number: int) -> list[Sequence[Value]]:
    """The values in so many blocks of neighbours, of as equal numbers as there may be."""
    ends = [round(place * len(values) / number) for place in range(number + 1)]
    return [values[first:end] for first, end in pairwise(ends)]


def _walsh(values: Sequence[float]) -> Any:
    """These means, in order."""
    import numpy as np  # which commands that compare nothing do without

    return np.sort(np.add.outer(values, values)[np.triu_indices(len(values))] / 2)


@cache
def _at_most(n: int) -> tuple[float, ...]:
    """By t = 0, 1, ...: the chance that the ranks 1..n of positive differences sum to t or less, signs being chance."""
    ways = [1]
    for rank in range(1, n + 1):
        ways = [without + with_it for without, with_it in zip(ways + [0] * rank, [0] * rank + ways, strict=True)]
    return tuple(total / 2**n for total in accumulate(ways))


@dataclass(frozen=True)
class Gain:
    """By what factor B does better than A in one pair."""

    value: float  # above 1: B does better
    is_at_least: bool = True  # A could do no better than it did, so that a gain is at least this
    is_at_most: bool = True  # B could do no better than it did


def wealth(wins: int, losses: int) -> float:
    """The wealth that a stake of 1 has become after these wins and losses, in any order.

    The integral of (2p)^wins (2 - 2p)^losses over p from 1/2 to 1, times 2, by the binomial distribution.
    """
    pairs = wins + losses
    return sum(math.comb(pairs + 1, won) for won in range(wins + 1)) / ((pairs + 1) * math.comb(pairs, wins))


def turned(gains: Sequence[Gain], effect: float, alike: float = 1.0) -> Turned:
    """Evidence that B does better by more than the factor `effect`, that it does not, that it does worse, that not.

    `alike`: the gain of a bench that does as well. A gain that is not known to be large counts against a large one, and
    so does the reverse. Only for doing no worse each gain counts as it is: it is about this load, and not about others.
    """
    better = sum(gain.is_at_least and gain.value > alike * effect for gain in gains)
    no_better = sum(gain.is_at_most and gain.value < alike * effect for gain in gains)
    worse = sum(gain.is_at_most and gain.value < alike / effect for gain in gains)
    no_worse = sum(gain.value > alike / effect for gain in gains)
    middle = median(gain.value for gain in gains) if gains else None
    sure = (wealth(won, len(gains) - won) >= CERTAIN for won in (better, no_better, worse, no_worse))
    return Turned(middle, len(gains), better, *sure)
