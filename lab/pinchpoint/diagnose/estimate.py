"""One number and its interval from repeats; pure, and no wider a claim than n repeats allow."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean

CONFIDENCE = 0.95
FEWEST_FOR_T = 3  # with two repeats t is 12.7: their range says more
FEWEST_FOR_TRIMMING = 7  # one of seven is dropped at each end
FEWEST_FOR_PUBLISHED_TRIMMING = 5
_TRIMMED = 0.2  # share dropped at each end, as Yuen (1974) recommends


@dataclass(frozen=True)
class Interval:
    """A centre with its confidence interval, in the unit of the values."""

    centre: float
    low: float
    high: float


def student_t_cdf(t: float, freedom: int) -> float:
    """P(T <= t) of Student's t with whole degrees of freedom, exactly (Abramowitz and Stegun 26.7.3, 26.7.4)."""
    angle = math.atan2(t, math.sqrt(freedom))
    if freedom == 1:
        return 0.5 + angle / math.pi
    square = math.cos(angle) ** 2
    odd = freedom % 2
    term = total = math.cos(angle) if odd else 1.0
    for k in range(3 if odd else 2, freedom - 1, 2):
        term *= square * (k - 1) / k
        total += term
    within = math.sin(angle) * total
    return 0.5 + (angle + within) / math.pi if odd else 0.5 + within / 2


@cache
def student_t(share: float, freedom: int) -> float:
    """The two-sided quantile: |T| stays below it with probability `share` (0..1); relative error under 1e-9."""
    wanted = 0.5 + share / 2
    low, high = 0.0, 1.0
    while student_t_cdf(high, freedom) < wanted:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if student_t_cdf(middle, freedom) < wanted else (low, middle)
    return (low + high) / 2


def t_interval(values: Sequence[float]) -> Interval:
    """Mean and 95 % interval by Student's t; from two values on."""
    n, centre = len(values), fmean(values)
    spread = math.sqrt(sum((value - centre) ** 2 for value in values) / (n - 1) / n)
    half = student_t(CONFIDENCE, n - 1) * spread
    return Interval(centre, centre - half, centre + half)


def trimmed_t_interval(values: Sequence[float]) -> Interval:
    """Mean without a fifth at each end, and its 95 % interval (Tukey and McLaughlin 1963, Yuen 1974).

    From five values on; robust against the rare bad repeat that a shared host brings.
    """
    ranked = sorted(values)
    dropped = int(_TRIMMED * len(ranked))
    kept = ranked[dropped : len(ranked) - dropped]
    centre, h = fmean(kept), len(kept)
    winsorised = [kept[0]] * dropped + kept + [kept[-1]] * dropped
    about = fmean(winsorised)
    spread = math.sqrt(sum((value - about) ** 2 for value in winsorised) / (h * (h - 1)))
    half = student_t(CONFIDENCE, h - 1) * spread
    return Interval(centre, centre - half, centre + half)


def without_extremes(values: Sequence[float]) -> float | None:
    """The mean without the lowest and the highest value, as some publish; None below five values."""
    if len(values) < FEWEST_FOR_PUBLISHED_TRIMMING:
        return None
    return fmean(sorted(values)[1:-1])
