"""Which level of repeating varies most, and how to spend time on it: nested components of variance; pure.

A number differs from one bench to the next, on one bench from one start of the DUT to the next, and between
measurements after one start. A pilot repeats all three; the balanced nested analysis of variance (method of
moments; Searle, Casella and McCulloch, "Variance Components", 3.5) takes them apart.

Repeats that count are always benches: what differs from bench to bench and is too small for a pilot to see
makes an interval over measurements on one bench narrow and wrong (0.5 % beside a noise of 3 % lets 95 % become
75 %). What the components decide is how much to do on each bench.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from pinchpoint.stats.estimate import FEWEST_FOR_INTERVAL

LEVELS = ("rebuild of the bench", "restart of the DUT", "measurement")
Nested = Sequence[Sequence[Sequence[float]]]  # by rebuild, by restart, by measurement

# Half of the 95 % interval of a median of n about normal values is 1.96 x 1.2533 standard deviations over sqrt(n).
_HALF_WIDTH = 1.96 * math.sqrt(math.pi / 2)
_MOST = 24  # restarts of a bench, and measurements after a start, that are considered
_MOST_REBUILDS = 1000


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

    @property
    def counts(self) -> tuple[int, int, int]:
        """Rebuilds, restarts, measurements."""
        return self.rebuilds, self.restarts, self.measurements


def components(values: Nested) -> tuple[Component, Component, Component]:
    """The components of the variance, in the order of LEVELS; what comes out negative is 0.

    `values[i][j][k]` is measurement k after start j on bench i, all of one sign. Raises ValueError unless every
    bench has as many starts, every start as many measurements, and each at least two.
    """
    a, b, c = _sizes(values)
    starts = [[fmean(measured) for measured in bench] for bench in values]
    benches = [fmean(bench) for bench in starts]
    whole = fmean(benches)
    square_a = b * c * math.fsum((one - whole) ** 2 for one in benches) / (a - 1)
    square_b = c * _within(starts, benches) / (a * (b - 1))
    flat = [measured for bench in values for measured in bench]
    square_c = _within(flat, [one for bench in starts for one in bench]) / (a * b * (c - 1))
    found = (max(0.0, square_a - square_b) / (b * c), max(0.0, square_b - square_c) / c, square_c)
    total, centre = math.fsum(found), abs(median([one for measured in flat for one in measured]))
    freedom = (a - 1, a * (b - 1), a * b * (c - 1))
    one, two, three = (
        Component(level, math.sqrt(variance) / centre if centre else 0.0, variance / total if total else 0.0, free)
        for level, variance, free in zip(LEVELS, found, freedom, strict=True)
    )
    return one, two, three


def _sizes(values: Nested) -> tuple[int, int, int]:
    sizes = {(len(bench), len(measured)) for bench in values for measured in bench}
    if len(values) < 2 or len(sizes) != 1 or min(next(iter(sizes))) < 2:
        raise ValueError("two or more of every level are needed, and equally many everywhere")
    ((b, c),) = sizes
    return len(values), b, c


def _within(groups: Sequence[Sequence[float]], centres: Sequence[float]) -> float:
    return math.fsum((one - centre) ** 2 for group, centre in zip(groups, centres, strict=True) for one in group)


def varies_most(found: Sequence[Component]) -> Component:
    """The level with the largest share."""
    return max(found, key=lambda one: one.share)


def for_half_width(found: Sequence[Component], costs: Costs, half_width: float) -> Allocation | None:
    """The quickest way to a 95 % interval of +- `half_width` (relative); None if a thousand benches do not suffice.

    The interval is that of the median over benches (stats/estimate.py), so there are at least six.
    """

    def rebuilds(variance: float, _each_s: float) -> int:
        return math.ceil(variance * (_HALF_WIDTH / half_width) ** 2 - 1e-9)

    able = [one for one in _allocations(found, costs, rebuilds) if one.half_width <= half_width]
    return min(able, key=lambda one: (one.time_s, one.half_width), default=None)


def for_time(found: Sequence[Component], costs: Costs, time_s: float) -> Allocation | None:
    """The narrowest interval that `time_s` allows; None if it does not suffice for six benches."""

    def rebuilds(_variance: float, each_s: float) -> int:
        return math.floor(time_s / each_s + 1e-9)

    able = [one for one in _allocations(found, costs, rebuilds) if one.time_s <= time_s + 1e-6]
    return min(able, key=lambda one: (one.half_width, one.time_s), default=None)


def _allocations(
    found: Sequence[Component], costs: Costs, rebuilds: Callable[[float, float], int]
) -> Iterator[Allocation]:
    """For each number of starts on a bench and of measurements after a start, the benches that are needed or allowed.

    `rebuilds` is asked with the variance of one bench's mean and the time that it takes. Without whole numbers the best
    would be sqrt(cost of the level above / cost of this one x variance of this one / variance of the level
    above) of each level (Cochran, "Sampling Techniques", 10.6); with them it is quickest to try all.
    """
    bench, start, measurement = (one.deviation**2 for one in found)
    for restarts in range(1, _MOST + 1):
        for measurements in range(1, _MOST + 1):
            variance = bench + start / restarts + measurement / (restarts * measurements)
            each_s = costs.rebuild_s + restarts * (costs.restart_s + measurements * costs.measurement_s)
            count = min(_MOST_REBUILDS, max(FEWEST_FOR_INTERVAL, rebuilds(variance, each_s)))
            half_width = _HALF_WIDTH * math.sqrt(variance / count)
            yield Allocation(count, restarts, measurements, half_width, count * each_s)
