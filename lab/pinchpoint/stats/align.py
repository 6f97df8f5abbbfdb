"""How far two clocks are apart, from the rates that two hosts counted on the two ends of one wire. Pure.

The rates are resampled to equal steps, and the ranks of their changes are correlated at every lag within reach. Chance
finds a high correlation somewhere if it may look often enough: a lag counts only if all lags and pairs of ports tried
together would exceed it by chance once in `1 / CHANCE` times (Fisher's z, Bonferroni's bound).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pinchpoint.stats.change_points import ranks

CHANCE: Final = 0.001
SHORTEST_S: Final = 0.001  # a reading shorter than this says nothing of a rate
LEAST_STEPS: Final = 10  # that two series must share
MOST_STEPS: Final = 2000  # of a series: what bounds the work, however long a recording is
LARGEST: Final = 1e18  # seconds or frames that a recording can hold; differences of more overflow
MOST_LAGS: Final = 400  # tried, half of them in either direction

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Span:
    """Frames counted from `begin_s` to `end_s`, seconds of the host's own clock."""

    begin_s: float
    end_s: float
    frames: float


@dataclass(frozen=True)
class Alignment:
    """One clock against another."""

    ahead_s: float  # of the second clock
    correlation: float  # of the ranks of both rates' changes, so aligned


def align(first: Sequence[Span], second: Sequence[Span], tried: int = 1) -> Alignment | None:
    """How far the second clock is ahead of the first; None if the rates do not tell.

    `tried`: pairs of series that the caller tries. Steady rates tell nothing, and neither do recordings that share too
    little time within the lags that are tried: 200 steps of half a reading in either direction.
    """
    first, second = _in_order(first), _in_order(second)
    if not first or not second:
        return None
    step_s = _step_s(first, second)
    a, b = _sampled(first, step_s), _sampled(second, step_s)
    least = max(LEAST_STEPS, min(len(a), len(b)) // 2)
    nominal = round((first[0].begin_s - second[0].begin_s) / step_s)  # shift at which both clocks are right
    shifts = range(nominal - MOST_LAGS // 2, nominal + MOST_LAGS // 2 + 1)
    lags = [(_correlation(a, b, shift, least), shift) for shift in shifts]
    best, shift = max(lags, key=lambda lag: (lag[0][0], -abs(lag[1] - nominal)))
    correlation, shared = best
    if not shared or correlation <= _by_chance(shared, len(lags) * tried):
        return None
    ahead_s = second[0].begin_s - first[0].begin_s + shift * step_s
    return Alignment(ahead_s, correlation)


def _in_order(spans: Iterable[Span]) -> list[Span]:
    """Those that say something of a rate, none overlapping the one before."""
    kept = list[Span]()
    for span in sorted(spans, key=lambda span: span.end_s):
        begin_s = max(span.begin_s, kept[-1].end_s) if kept else span.begin_s
        # A comparison with NaN is false, so NaN is not possible either.
        is_possible = all(abs(value) <= LARGEST for value in (begin_s, span.end_s, span.frames))
        if is_possible and span.end_s - begin_s >= SHORTEST_S:
            kept.append(Span(begin_s, span.end_s, span.frames))
    return kept


def _step_s(first: Sequence[Span], second: Sequence[Span]) -> float:
    """Half of a typical reading; longer where a recording is so long that there were too many."""
    typical_s = max(median(span.end_s - span.begin_s for span in series) for series in (first, second))
    longest_s = max(series[-1].end_s - series[0].begin_s for series in (first, second))
    return max(typical_s / 2, longest_s / MOST_STEPS)


def _sampled(series: Sequence[Span], step_s: float) -> Floats:
    """The ranks of the changes of the rate over a reading, in steps from the series' begin.

    No frame is counted between two readings. Two rates that only drift correlate at some lag whatever they have to do
    with each other; their changes do not. Ranks stand for the changes, so that one great change of each is not all that
    counts.
    """
    times = np.array([time for span in series for time in (span.begin_s, span.end_s)])
    counted = np.repeat(np.cumsum([0.0, *(span.frames for span in series)]), 2)[1:-1]
    edges = times[0] + step_s * np.arange(int((times[-1] - times[0]) / step_s) + 1)
    rates = np.diff(np.interp(edges, times, counted))
    return ranks(rates[2:] - rates[:-2])


def _correlation(a: Floats, b: Floats, shift: int, least: int) -> tuple[float, int]:
    """(Pearson's correlation of a[i] with b[i + shift], steps shared); (0, 0) if it is not defined."""
    begin, end = max(0, -shift), min(len(a), len(b) - shift)
    if end - begin < least:
        return 0.0, 0
    x, y = a[begin:end] - a[begin:end].mean(), b[begin + shift : end + shift] - b[begin + shift : end + shift].mean()
    size = math.sqrt(float(x @ x) * float(y @ y))
    return (float(x @ y) / size, end - begin) if size > 0 else (0.0, 0)


def _by_chance(shared: int, tries: int) -> float:
    """The correlation that the best of so many tries exceeds by chance once in 1 / CHANCE times.

    Two steps stand for one reading, and a change is over two steps: about a third of them are independent.
    """
    independent = max(shared // 3, 4)
    z = NormalDist().inv_cdf(1 - CHANCE / tries)
    return math.tanh(z / math.sqrt(independent - 3))
