"""Which level of repeating varies most, and how to spend time on it: nested components of variance; pure.

A pilot repeats benches, starts of the DUT on each and measurements after each; the balanced nested analysis of variance
(method of moments; Searle, Casella and McCulloch, "Variance Components", 3.5) takes them apart. Repeats that count are
always benches: what differs from bench to bench, if too small for a pilot to see, makes an interval over measurements
on one bench too narrow (0.5 % beside a noise of 3 % lets 95 % become 75 %).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pinchpoint.stats.estimate import FEWEST_FOR_INTERVAL, rank_place

if TYPE_CHECKING:  # functions import them: `pinchpoint --help` does without numpy
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Allowed = NDArray[np.bool_]

LEVELS = ("rebuild of the bench", "restart of the DUT", "measurement")
Nested = Sequence[Sequence[Sequence[float]]]  # by rebuild, by restart, by measurement

# Half of a median's interval of 6, 7, 8 and 9 normal values, in standard deviations, by simulation: its ends are often
# the outer ranks, where the inner ones lie far off.
OF_FEW = (1.086, 0.983, 0.943, 0.856)
SURE = 0.9  # of the most rebuilds that an allocation names
MOST = 24  # restarts of a bench, and measurements after a start, that are considered
MOST_REBUILDS = 1000


@dataclass(frozen=True)
class Component:
    """How much one level varies by itself."""

    level: str
    deviation: float  # standard deviation, relative to the median
    share: float  # of the variance of a single measurement on a fresh bench
    freedom: int  # independent differences that it was estimated from: few of them miss much


@dataclass(frozen=True)
class Costs:
    """Time of each step, in seconds, without the steps inside it."""

    rebuild_s: float
    restart_s: float
    measurement_s: float


@dataclass(frozen=True)
class Allocation:
    """How often to do what, and what to expect of it."""

    rebuilds: int
    restarts: int  # on each bench: times that the DUT is started
    measurements: int  # after each start
    half_width: float  # expected of the 95 % interval, relative
    time_s: float
    most_rebuilds: int  # enough with 90 %, since the pilot saw only so many differences between benches

    @property
    def counts(self) -> tuple[int, int, int]:
        """Rebuilds, restarts, measurements."""
        return self.rebuilds, self.restarts, self.measurements


def components(values: Nested) -> tuple[Component, Component, Component]:
    """The components of the variance, in the order of LEVELS; what comes out negative is 0.

    `values[i][j][k]` is measurement k after start j on bench i, all of one sign. Raises ValueError unless every
    bench has as many starts, every start as many measurements, and each at least two.
    """
    import numpy as np

    sizes = {(len(bench), len(measured)) for bench in values for measured in bench}
    if len(values) < 2 or len(sizes) != 1 or min(next(iter(sizes))) < 2:
        raise ValueError("two or more of every level are needed, and equally many everywhere")
    measured = np.array(values)
    starts = measured.mean(axis=2)
    benches = starts.mean(axis=1)
    a, b, c = measured.shape
    freedom = (a - 1, a * (b - 1), a * b * (c - 1))
    apart = (b * c * benches.var() * a, c * starts.var(axis=1).sum() * b, measured.var(axis=2).sum() * c)
    squares = [float(sum_of_squares) / free for sum_of_squares, free in zip(apart, freedom, strict=True)]
    variances = (max(0.0, squares[0] - squares[1]) / (b * c), max(0.0, squares[1] - squares[2]) / c, squares[2])
    total, centre = math.fsum(variances), abs(float(np.median(measured)))
    one, two, three = (
        Component(level, math.sqrt(variance) / centre if centre else 0.0, variance / total if total else 0.0, free)
        for level, variance, free in zip(LEVELS, variances, freedom, strict=True)
    )
    return one, two, three


def varies_most(found: Sequence[Component]) -> Component:
    """The level with the largest share."""
    return max(found, key=lambda one: one.share)


def for_half_width(found: Sequence[Component], costs: Costs, half_width: float) -> Allocation | None:
    """The quickest way to a 95 % interval of +- `half_width` (relative); None if a thousand benches do not suffice.

    The interval is that of the median over benches (stats/estimate.py), so there are at least six.
    """
    return _best(
        found,
        costs,
        lambda variances, each_s: _enough(variances, half_width),
        lambda half_widths, times_s: (half_widths <= half_width, times_s, half_widths),
    )


def for_time(found: Sequence[Component], costs: Costs, time_s: float) -> Allocation | None:
    """The narrowest interval that `time_s` allows; None if it does not suffice for six benches."""
    return _best(
        found,
        costs,
        lambda variances, each_s: time_s / each_s + 1e-9,
        lambda half_widths, times_s: (times_s <= time_s + 1e-6, half_widths, times_s),
    )


def _best(
    found: Sequence[Component],
    costs: Costs,
    rebuilds: "Callable[[Numbers, Numbers], Numbers]",
    wished: "Callable[[Numbers, Numbers], tuple[Allowed, Numbers, Numbers]]",
) -> Allocation | None:
    """Of all numbers of starts on a bench and of measurements after a start, what is allowed and has the least figures.

    `rebuilds` is asked with the variance of a bench's mean and the time that it takes. Without whole numbers the best
    would be sqrt(cost of the level above / cost of this one x variance of this one / variance of the level above) of
    each level (Cochran, "Sampling Techniques", 10.6); with them it is quickest to try all.
    """
    import numpy as np

    bench, start, measurement = (one.deviation**2 for one in found)
    restarts, measurements = np.ogrid[1 : MOST + 1, 1 : MOST + 1]
    variances = bench + start / restarts + measurement / (restarts * measurements)
    each_s = costs.rebuild_s + restarts * (costs.restart_s + measurements * costs.measurement_s)
    counts = np.clip(rebuilds(variances, each_s), FEWEST_FOR_INTERVAL, MOST_REBUILDS).astype(int)
    half_widths = _half_widths()[counts - FEWEST_FOR_INTERVAL] * np.sqrt(variances)
    allowed, first, second = wished(half_widths, counts * each_s)
    if not allowed.any():
        return None
    row, column = min(np.argwhere(allowed), key=lambda place: (first[tuple(place)], second[tuple(place)]))
    parts = (bench, start / (row + 1), measurement / ((row + 1) * (column + 1)))
    count, half_width = int(counts[row, column]), float(half_widths[row, column])
    most = int(_enough(np.array(_underrated(parts, found)), half_width))
    time_s = float(count * each_s[row, column])
    return Allocation(count, int(row) + 1, int(column) + 1, half_width, time_s, max(count, most))


def _enough(variances: "Numbers", half_width: float) -> "Numbers":
    """The fewest benches whose interval is expected to be +- `half_width`; MOST_REBUILDS if there are none."""
    import numpy as np

    narrowest = np.minimum.accumulate(_half_widths()[:-1])
    wished = half_width / np.sqrt(np.maximum(variances, 1e-300))
    return np.asarray(FEWEST_FOR_INTERVAL + np.searchsorted(-narrowest, -wished * (1 + 1e-9)))


@cache
def _half_widths() -> "Numbers":
    """By number of benches from six on: half of the interval that stats/estimate.py makes of so many normal values.

    As expected, in standard deviations. Its ends lie between ranks, which are expected where Blom says ("Statistical
    Estimates and Transformed Beta-Variables", 1958). The asymptotic 1.96 sqrt(pi / 2n) is up to 9 % too small below 20.
    """
    import numpy as np
    from scipy.special import ndtri

    by_rank = []
    for n in range(FEWEST_FOR_INTERVAL + len(OF_FEW), MOST_REBUILDS + 1):
        outer, inwards = rank_place(n)
        first, second = (-ndtri((rank - 0.375) / (n + 0.25)) for rank in (outer, outer + 1))
        by_rank.append(first + inwards * (second - first))
    return np.array((*OF_FEW, *by_rank))


def _underrated(parts: Sequence[float], found: Sequence[Component]) -> float:
    """What a sum of variances is at most, with SURE: each was estimated from few differences (Satterthwaite 1946)."""
    from scipy.special import chdtri

    uncertain = sum(part**2 / one.freedom for part, one in zip(parts, found, strict=True))
    if not uncertain:
        return sum(parts)
    freedom = sum(parts) ** 2 / uncertain
    return sum(parts) * freedom / float(chdtri(freedom, SURE))
