"""Two series measured in pairs (A B, B A, ...): by how much B differs from A, and what could hide; pure.

The logarithms of the ratios B/A are put together by Wilcoxon's signed ranks: an exact test over
all ways to swap the two of a pair, and the interval that belongs to it (Hodges and Lehmann 1963;
Hollander and Wolfe, "Nonparametric Statistical Methods", 3.1 to 3.3). It assumes no more than that the
ratios lie symmetrically about the true one, which holds for any distribution that A and B share: skewed,
bimodal, with outliers, and with a drift over the pairs if the order within a pair alternates. Student's
and Yuen's t assume more, and with few pairs of two modes they cover less than they say.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

CONFIDENCE = 0.95


@dataclass(frozen=True)
class PairedDifference:
    """What pairs say about the ratio of B to A."""

    ratio: float  # B / A: the pseudomedian (Hodges and Lehmann) of the pairs' ratios
    low: float  # of the interval at `confidence`; without confidence the lowest ratio of a pair
    high: float
    confidence: float | None  # at least so much; None: too few pairs for an interval
    p_value: float  # two-sided and exact: how likely a difference like this is, where there is none
    n: int  # pairs
    differs: bool  # the interval leaves 1 out, equally p_value <= 1 - confidence
    largest_hidden: float | None  # share by which B could at most differ; None: too few pairs to say
    method: str


def fewest_pairs(confidence: float = CONFIDENCE) -> int:
    """How many pairs an interval at `confidence` needs: 6 at 0.95, since all of 5 agree by chance in 1 of 16 cases."""
    return math.ceil(math.log2(2 / (1 - confidence)) - 1e-9)


def compare_pairs(a: Sequence[float], b: Sequence[float], *, confidence: float = CONFIDENCE) -> PairedDifference:
    """The ratio of B to A over pairs measured side by side: `a[i]` with `b[i]`, in alternating order.

    Values are of one unit and positive. With fewer than `fewest_pairs(confidence)` the ends are
    those of the pairs themselves, and no difference is claimed. Raises ValueError for series of different
    length, for none, for a value that is not positive, and for a confidence not between 0 and 1.
    """
    _check(a, b, confidence)
    ratios = [math.log(two / one) for one, two in zip(a, b, strict=True)]
    n = len(ratios)
    walsh = sorted((ratios[i] + ratios[j]) / 2 for i in range(n) for j in range(i, n))
    # Ties with 0 count against a difference on either side, so that equal values never make one.
    against = min(sum(one <= 0 for one in walsh), sum(one >= 0 for one in walsh))
    p_value = min(1.0, 2 * _at_most(n)[against])
    ratio = math.exp(median(walsh))
    if n < fewest_pairs(confidence):
        method = f"range of {n} pairs; an interval at {_percent(confidence)} needs {fewest_pairs(confidence)}"
        low, high = math.exp(min(ratios)), math.exp(max(ratios))
        return PairedDifference(ratio, low, high, None, p_value, n, False, None, method)
    allowed = sum(2 * share <= 1 - confidence for share in _at_most(n))
    low, high = math.exp(walsh[allowed - 1]), math.exp(walsh[-allowed])
    return PairedDifference(
        ratio=ratio,
        low=low,
        high=high,
        confidence=confidence,
        p_value=p_value,
        n=n,
        differs=low > 1 or high < 1,
        largest_hidden=max(high - 1, 1 - low),
        method=f"{_percent(confidence)}, Wilcoxon's signed ranks over {n} pairs",
    )


def _check(a: Sequence[float], b: Sequence[float], confidence: float) -> None:
    if len(a) != len(b) or not a:
        raise ValueError(f"{len(a)} values of A and {len(b)} of B: pairs are needed")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence:g} is not between 0 and 1")
    for name, values in (("A", a), ("B", b)):
        for number, value in enumerate(values, start=1):
            if not 0 < value < math.inf:
                raise ValueError(f"pair {number}: {value:g} of {name} is not positive: there is no ratio")


@cache
def _at_most(n: int) -> tuple[float, ...]:
    """By t = 0, 1, ...: the chance that the ranks 1..n of positive differences sum to t or less, signs being chance."""
    shares = [1.0]
    for rank in range(1, n + 1):
        longer = [0.0] * (len(shares) + rank)
        for total, share in enumerate(shares):
            longer[total] += share / 2
            longer[total + rank] += share / 2
        shares = longer
    sums, so_far = [], 0.0
    for share in shares:
        so_far += share
        sums.append(so_far)
    return tuple(sums)


def _percent(share: float) -> str:
    return f"{share * 100:g} %"
