"""The median of a few repeats and its interval by order statistics; pure.

Times of rare events are skewed, so their mean says little. Whatever their distribution, the
median lies between the k-th lowest and the k-th highest of n values with a probability that
follows from the binomial distribution alone (David and Nagaraja, Order Statistics, section 7.1).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from statistics import median

WANTED = 0.95


@dataclass(frozen=True)
class MedianInterval:
    """A median, its interval in the unit of the values, and how surely the interval holds the true one."""

    centre: float
    low: float
    high: float
    coverage: float  # 0..1; 0 for a single value
    n: int

    @property
    def words(self) -> str:
        """What the interval is."""
        if self.n == 1:
            return "of one repeat"
        return f"median of {self.n} repeats; the interval holds the true one with {self.coverage:.0%}"


def median_interval(values: Sequence[float]) -> MedianInterval:
    """The narrowest interval of order statistics that covers 95 %, or the extremes where none does.

    Raises ValueError where there are no values.
    """
    ranked, n = sorted(values), len(values)
    centre = median(ranked)
    place = max((k for k in range(n // 2) if _coverage(n, k) >= WANTED), default=0)
    return MedianInterval(centre, ranked[place], ranked[n - 1 - place], _coverage(n, place), n)


def _coverage(n: int, place: int) -> float:
    """That the median lies between the values at `place` from either end, counted from 0."""
    outside: float = sum(comb(n, k) for k in range(place + 1)) / 2**n
    return max(0.0, 1 - 2 * outside)
