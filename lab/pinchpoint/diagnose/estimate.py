"""One number and its interval from repeats; pure, and no wider a claim than n repeats allow.

The number is the median and its interval rests on ranks alone, so that it holds for any distribution:
repeats on shared hosts are skewed, contaminated and often of two modes. Student's t of the mean and Yuen's
of the trimmed mean do not hold there (docs/method.md has the table; tests/unit/diagnose/test_estimate.py the
simulation): with a quarter of the repeats in another mode Yuen's covers in half of all cases, at 7 repeats as at 20.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, median

CONFIDENCE = 0.95
FEWEST_FOR_INTERVAL = 6  # the range of five holds the median in 93.75 % of cases, and nothing holds it more often
FEWEST_FOR_PUBLISHED_TRIMMING = 5
_GAP = 0.5  # of the range: so far apart two neighbours are two modes, and nothing is known between them


@dataclass(frozen=True)
class Interval:
    """A centre with the ends of its interval, in the unit of the values."""

    centre: float
    low: float
    high: float


def median_interval(values: Sequence[float]) -> Interval:
    """The median and its 95 % interval from ranks, for any continuous distribution; below six values their range.

    The ends lie between two order statistics, at the share that Hettmansperger and Sheather (1986)
    give, or on the outer one where the inner is far off. Raises ValueError for no values.
    """
    if not values:
        raise ValueError("an interval of no values")
    ranked = sorted(values)
    n, centre = len(ranked), median(ranked)
    if n < FEWEST_FOR_INTERVAL:
        return Interval(centre, ranked[0], ranked[-1])
    outer, inwards = _place(n)
    far = _GAP * (ranked[-1] - ranked[0])

    def end(first: int, step: int) -> float:
        gap = ranked[first + step] - ranked[first]
        return ranked[first] if abs(gap) > far else ranked[first] + inwards * gap

    return Interval(centre, end(outer - 1, 1), end(n - outer, -1))


@cache
def _place(n: int) -> tuple[int, float]:
    """The outer order statistic (from 1, counted from either end), and by what share to go to the next one inwards."""

    def covered(k: int) -> float:
        """How often the median lies between the k-th lowest and the k-th highest of n."""
        return 1 - 2 * math.fsum(math.comb(n, i) * 0.5**n for i in range(k))

    outer = max(k for k in range(1, n // 2 + 1) if covered(k) >= CONFIDENCE)
    too_much = (covered(outer) - CONFIDENCE) / (covered(outer) - covered(outer + 1))
    return outer, (n - outer) * too_much / (outer + (n - 2 * outer) * too_much)


def without_extremes(values: Sequence[float]) -> float | None:
    """The mean without the lowest and the highest value, as some publish; None below five values."""
    if len(values) < FEWEST_FOR_PUBLISHED_TRIMMING:
        return None
    return fmean(sorted(values)[1:-1])
