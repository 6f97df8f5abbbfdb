"""Where the level of a series changes: circular binary segmentation with permutation tests; pure.

Olshen, Venkatraman, Lucito and Wigler (2004): the stretch whose mean differs most from the rest is a change if less
than one shuffled series in a hundred has such a stretch, whatever the distribution. By values a shift is found from the
third run on, by ranks also one that outliers or a second mode hide, which is a change of level while it lasts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

FEWEST_IN_A_SEGMENT = 3
FEWEST_VALUES = 10  # below, no split is rarer by chance than SIGNIFICANCE
SIGNIFICANCE = 0.01  # of each of the two tests: at most 2 % of stationary series show a change
_STILL_THERE = 0.05  # of the two levels beside a point, once a change of the whole is known
_SHUFFLES = 999
_AT_ONCE = 1_000_000  # numbers in memory


@dataclass(frozen=True)
class Segment:
    """Values `first` to `end` - 1 of a series, of one level."""

    first: int
    end: int


def segments(values: Sequence[float]) -> tuple[Segment, ...]:
    """The series cut where its level changes; one segment if it does not, or if there are too few values to tell."""
    series = np.asarray(values, dtype=float)
    shuffled = np.random.default_rng(1)  # the same answer each time
    points = _without_needless(series, sorted(_points(series, 0, shuffled)), shuffled)
    ends = [0, *points, len(series)]
    return tuple(Segment(first, end) for first, end in pairwise(ends))


def _points(series: Numbers, offset: int, shuffled: np.random.Generator) -> Iterator[int]:
    """Where a new level begins, each part that was found cut again."""
    stretch = _stretch(series, shuffled)
    if stretch is None:
        return
    ends = [0, *(end for end in stretch if 0 < end < len(series)), len(series)]
    yield from (offset + end for end in ends[1:-1])
    for first, end in pairwise(ends):
        yield from _points(series[first:end], offset + first, shuffled)


def _stretch(series: Numbers, shuffled: np.random.Generator) -> tuple[int, int] | None:
    """The first value and the end of the stretch that differs from the rest beyond chance; None if none does."""
    n = len(series)
    if n < FEWEST_VALUES or np.ptp(series) == 0:
        return None
    weights = _weights(n)
    for scores in (series, ranks(series)):
        differences = _differences(scores, weights)
        if _rare(float(differences.max()), scores, weights, shuffled):
            place = int(differences.argmax())
            return place // (n + 1), place % (n + 1)
    return None


def ranks(series: Numbers) -> Numbers:
    """Ranks from 1; equal values share the middle one."""
    ordered = np.sort(series)
    return (np.searchsorted(ordered, series, "left") + np.searchsorted(ordered, series, "right") + 1) / 2


def _weights(n: int) -> Numbers:
    """By first value and end of a stretch: what makes its sum comparable to others'; 0 where a part is too short."""
    first, end = np.arange(n + 1)[:, None], np.arange(n + 1)[None, :]
    inside, least = end - first, FEWEST_IN_A_SEGMENT
    allowed = (inside >= least) & (n - inside >= least)
    allowed &= ((first == 0) | (first >= least)) & ((end == n) | (end <= n - least))
    return np.where(allowed, 1 / np.sqrt(np.where(allowed, inside * (n - inside), 1)), 0.0)


def _differences(scores: Numbers, weights: Numbers) -> Numbers:
    """By first value and end of a stretch: by how much its mean differs from the rest's, in times of its error."""
    centred = scores - scores.mean(axis=-1, keepdims=True)
    sums = np.concatenate([np.zeros((*scores.shape[:-1], 1)), np.cumsum(centred, axis=-1)], axis=-1)
    return np.asarray(np.abs(sums[..., None, :] - sums[..., :, None]) * weights)


def _rare(observed: float, scores: Numbers, weights: Numbers, shuffled: np.random.Generator) -> bool:
    """Whether at most SIGNIFICANCE of shuffled series reach `observed`; ends early when more do."""
    reached, most = 0, SIGNIFICANCE * (_SHUFFLES + 1) - 1
    a_time, left = max(1, _AT_ONCE // weights.size), _SHUFFLES
    chunk = min(25, a_time)
    while left:
        rows = shuffled.permuted(np.tile(scores, (min(chunk, left), 1)), axis=1)
        reached += int((_differences(rows, weights).max(axis=(1, 2)) >= observed * (1 - 1e-9)).sum())
        if reached > most:
            return False
        left -= len(rows)
        chunk = a_time
    return True


def _without_needless(series: Numbers, points: list[int], shuffled: np.random.Generator) -> list[int]:
    """Without the points whose two sides are of one level: a stretch may have been found with one end too many."""
    kept = list(points)
    while kept:
        ends = [0, *kept, len(series)]
        sides = zip(ends, kept, ends[2:], strict=False)
        doubts = [_doubt(series[first:end], point - first, shuffled) for first, point, end in sides]
        worst = max(range(len(kept)), key=doubts.__getitem__)
        if doubts[worst] <= _STILL_THERE:
            break
        del kept[worst]
    return kept


def _doubt(together: Numbers, n: int, shuffled: np.random.Generator) -> float:
    """How often chance alone parts the first `n` from the rest as far as this; by values or ranks, what is rarer."""
    shares = []
    for scores in (together, ranks(together)):
        rows, centre = shuffled.permuted(np.tile(scores, (_SHUFFLES, 1)), axis=1), scores.mean()
        observed = abs(scores[:n].mean() - centre) * (1 - 1e-9)
        apart = np.abs(rows[:, :n].mean(axis=1) - centre)
        shares.append(float((1 + (apart >= observed).sum()) / (_SHUFFLES + 1)))
    return min(shares)
