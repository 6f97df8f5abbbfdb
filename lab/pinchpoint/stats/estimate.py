"""One number and its interval from repeats; pure, and no wider a claim than n repeats allow.

The number is the median and its interval rests on ranks alone, so that it holds for any distribution: repeats on shared
hosts are skewed, contaminated and often of two modes, where Student's t of the mean and Yuen's of the trimmed mean do
not hold (docs/decisions/0039 has the table, tests/unit/stats/test_estimate.py the simulation).
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate
from statistics import fmean, median, quantiles

from pinchpoint.model.measurement import CONFIDENCE, Bound, Estimate, Interval, Metric, fewest_for_interval, is_largest
from pinchpoint.model.result import Band, ReceiveRate
from pinchpoint.model.trial import Trial

FEWEST_FOR_PUBLISHED_TRIMMING = 5
_GAP = 0.5  # of the range: so far apart two neighbours are two modes, and nothing is known between them


def median_interval(values: Sequence[float], of: str = "repeats") -> Interval:
    """The median and its 95 % interval from ranks, for any distribution; below six values their range.

    `of` is what was repeated, in the plural. The level is how often the distribution's median lies within; 0 of a
    single value.
    The ends lie between two order statistics, at the share that Hettmansperger and Sheather (1986) give. They are the
    outer one, which is enough for any distribution (David and Nagaraja, "Order Statistics", 7.1), where the inner is
    far off, or infinite, and where values come in steps: where two are alike, or one is 0, as losses often are.
    Raises ValueError for no values.
    """
    if not values:
        raise ValueError("an interval of no values")
    ranked = sorted(values)
    n, centre = len(ranked), median(ranked)
    if n < fewest_for_interval():
        meaning = "a single value" if n == 1 else f"lowest and highest of {n} {of}"
        return Interval(centre, ranked[0], ranked[-1], _coverages(n)[0], meaning)
    outer, inwards = rank_place(n)
    inwards = 0.0 if 0 in ranked or len(set(ranked)) < n else inwards
    far = _GAP * (ranked[-1] - ranked[0])

    def end(first: int, step: int) -> float:
        gap = ranked[first + step] - ranked[first]
        return ranked[first] + inwards * gap if inwards and abs(gap) < far else ranked[first]

    covered = CONFIDENCE if inwards else _coverages(n)[outer - 1]
    meaning = f"{CONFIDENCE * 100:g} %, of the median by ranks over {n} {of}"
    return Interval(centre, end(outer - 1, 1), end(n - outer, -1), covered, meaning)


@cache
def _coverages(n: int) -> tuple[float, ...]:
    """By k = 1, 2, ...: how often the median lies between the k-th lowest and the k-th highest of n."""
    outside = accumulate(math.comb(n, i) for i in range(max(1, n // 2)))
    return tuple(1 - count / 2 ** (n - 1) for count in outside)


@cache
def rank_place(n: int) -> tuple[int, float]:
    """The outer order statistic of an interval's ends (from 1, from either end), and the share of the gap inwards."""
    outer = sum(covered >= CONFIDENCE for covered in _coverages(n))
    covered, inner = _coverages(n)[outer - 1 : outer + 1]
    too_much = (covered - CONFIDENCE) / (covered - inner)
    return outer, (n - outer) * too_much / (outer + (n - 2 * outer) * too_much)


def without_extremes(values: Sequence[float]) -> float | None:
    """The mean without the lowest and the highest value, as some publish; None below five values."""
    return fmean(sorted(values)[1:-1]) if len(values) >= FEWEST_FOR_PUBLISHED_TRIMMING else None


def bound_of(metric: Metric) -> Bound:
    """How a metric's value is to be read. One that does not say so and has one end only is a bound."""
    if metric.bound is not None:
        return metric.bound
    if (metric.low is None) == (metric.high is None):
        return Bound.FOUND
    return Bound.AT_LEAST if metric.high is None else Bound.BELOW


def estimate(metrics: Sequence[Metric]) -> Estimate:
    """One metric over its repeats, none of them refused.

    The interval is taken at the lower ends for its low and at the upper ends for its high: so it is never narrower than
    what one search leaves open. A single "at least" leaves it open above, a single "below" open below.
    """
    values = [metric.value for metric in metrics]
    closed = [Interval.of(metric).closed for metric in metrics]
    lows, highs = [interval.low for interval in closed], [interval.high for interval in closed]
    bounds = set(map(bound_of, metrics))
    n, first = len(values), metrics[0]
    if n > 1 and is_largest(first.name):
        return Estimate(first.unit, max(values), None, None, n, f"the largest of {n} repeats")
    known = n > 1 or first.low is not None or first.high is not None
    # One repeat with one end only is open at the other, and so is the median of all.
    open_above = Bound.AT_LEAST in bounds or any(metric.high is None and metric.low is not None for metric in metrics)
    open_below = Bound.BELOW in bounds or any(metric.low is None and metric.high is not None for metric in metrics)
    low, high = median_interval(lows), median_interval(highs)
    words = low.meaning if n > 1 else first.note or "of the one measurement"
    if n >= fewest_for_interval() and lows != highs:
        words += ", widened by each one's own bounds"
    low_end = low.low if known and not open_below else None
    high_end = high.high if known and not open_above else None
    bound = next((bound for bound in (Bound.AT_LEAST, Bound.BELOW) if bound in bounds), Bound.FOUND)
    made = Estimate(first.unit, median(values), low_end, high_end, n, words if known else "")
    level = first.level if n == 1 else low.level
    return replace(made, trimmed_mean=without_extremes(values), bound=bound, level=level)


def receive_rate(trials: Sequence[Trial]) -> ReceiveRate | None:
    """The MRR, maximum receive rate, of trials at one load and of one length; None of fewer than six whole ones.

    As CSIT publishes it (docs.fd.io/csit), without what rings still held when sending ended: at 1 Mpps a ring of 4,096
    frames would add 2 % to a trial of 0.2 s.
    """
    whole = [trial for trial in trials if trial.is_whole and trial.offered]
    if len(whole) < fewest_for_interval():
        return None
    forwarded = [trial.forwarded_fps for trial in whole]
    known, tenths = median_interval(forwarded), quantiles(forwarded, n=10, method="inclusive")
    load_fps, interval = median(trial.offered_fps for trial in whole), (known.value, known.low, known.high)
    band, length_s = Band(tenths[0], tenths[-1]), whole[0].duration_s
    return ReceiveRate(load_fps, *interval, band, len(whole), length_s, CONFIDENCE)
