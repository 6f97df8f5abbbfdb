"""Two series measured in pairs (A B, B A, ...): by how much B differs from A, and what could hide; pure.

The logarithms of B/A are put together by Wilcoxon's signed ranks: an exact test over all ways to swap the two of a
pair, and the interval that belongs to it (Hodges and Lehmann 1963; Hollander and Wolfe, "Nonparametric Statistical
Methods", 3.1 to 3.3). They have to lie symmetrically about the true one, as they do for any distribution that A and B
share, also with a drift if the order within a pair alternates.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, pairwise
from typing import Any, TypeVar

from pinchpoint.model.groups import grouped
from pinchpoint.model.measurement import CONFIDENCE, Interval, fewest_for_interval

Value = TypeVar("Value")


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
