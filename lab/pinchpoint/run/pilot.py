"""A pilot: one scenario on several benches, after several starts of the DUT on each, several times after each.

It says which level of repeating varies most, and how to spend time on it. The balanced nested analysis of variance
(method of moments; Searle, Casella and McCulloch, "Variance Components", 3.5) takes the levels apart. Repeats that
count are always benches: where these differ by less than a pilot can see (0.5 % beside a noise of 3 %), an interval of
95 % over measurements on one bench holds in 75 % of cases.
"""

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate, product
from statistics import NormalDist, fmean, median, variance
from typing import Any

from pinchpoint.bench.builder import Builder
from pinchpoint.dut.setup import Setup
from pinchpoint.findings.curves import of_repeats
from pinchpoint.host.machines import Machines
from pinchpoint.host.priority import preferred
from pinchpoint.measure.registry import measure_of
from pinchpoint.measure.standing import Listener, Task, opened, standing_bench
from pinchpoint.model.measurement import Bound, fewest_for_interval
from pinchpoint.model.result import Outcome, ScenarioResult
from pinchpoint.model.scenario import Level, Point, Scenario
from pinchpoint.run.checkpoint import RunContext
from pinchpoint.run.run import run_all
from pinchpoint.run.scenario import planned
from pinchpoint.stats.estimate import rank_place

LEVELS = ("rebuild of the bench", "restart of the DUT", "measurement")
Nested = Sequence[Sequence[Sequence[float]]]  # by rebuild, by restart, by measurement

# Half of a median's interval of so few normal values, in standard deviations, by simulation: its ends are often the
# outer ranks, where the inner ones lie far off.
_OF_FEW = {6: 1.086, 7: 0.983, 8: 0.943, 9: 0.856}
_SURE = NormalDist().inv_cdf(0.9)
_MOST = 24  # restarts of a bench, and measurements after a start, that are considered
MOST_REBUILDS = 1000


@dataclass(frozen=True)
class Costs:
    """Time of each step, in seconds, without the steps inside it."""

    rebuild_s: float
    restart_s: float
    measurement_s: float


@dataclass(frozen=True)
class Size:
    """How often each level is repeated."""

    benches: int
    starts: int  # of the DUT, on each bench
    measurements: int  # after each start

    @property
    def every(self) -> Iterator[tuple[int, int, int]]:
        """(bench, start, measurement), each from 1, in the order they are made."""
        return product(range(1, self.benches + 1), range(1, self.starts + 1), range(1, self.measurements + 1))


@dataclass
class Spent:
    """Seconds that each step took, one entry a step."""

    building: list[float] = field(default_factory=list)  # with its removal
    restarting: list[float] = field(default_factory=list)
    measuring: list[float] = field(default_factory=list)

    def costs(self) -> Costs:
        """The median of each step; a bench is built with its DUT started, which is counted as a start."""
        restart_s = median(self.restarting) if self.restarting else 0.0
        building_s = median(self.building) if self.building else 0.0
        return Costs(max(0.0, building_s - restart_s), restart_s, median(self.measuring) if self.measuring else 0.0)


def unit(scenario: Scenario, bench: int, start: int, measurement: int) -> Scenario:
    """The scenario as one measurement of its pilot."""
    name = f"{scenario.name}-bench{bench}-start{start}-{measurement}"
    return replace(scenario, name=name, point=Point(scenario.name, {"bench": bench, "start": start}, measurement))


def run_pilot(
    context: RunContext, scenario: Scenario, size: Size
) -> tuple[Mapping[tuple[int, int, int], ScenarioResult], Costs]:
    """Every measurement by its place, and what each step costs; all is kept in the run folder as it ends.

    Raises what a run raises; the bench is then removed, and what was measured stays in the folder.
    """
    units = {place: unit(scenario, *place) for place in size.every}
    with _Benches(context.machines) as benches:
        result = run_all(context, [*units.values()], benches.run)
    by_name = {of_unit.scenario: of_unit for of_unit in result.scenarios}
    return {place: by_name[measured.name] for place, measured in units.items()}, benches.spent.costs()


class _Benches:
    """Runs the units of a pilot; inside the `with` block a bench stands on for the units that share it."""

    def __init__(self, machines: Machines) -> None:
        self.spent = Spent()
        self._machines = machines
        self._stack = ExitStack()  # of the bench that stands
        self._place: tuple[Level, Level] | None = None  # its number, and of the DUT's start there

    def __enter__(self) -> "_Benches":
        return self

    def __exit__(self, *error: Any) -> None:
        took_s = _seconds(lambda: self._stack.__exit__(*error))
        if self.spent.building:
            self.spent.building[-1] += took_s

    def run(self, unit: Scenario, task: Task) -> ScenarioResult:
        """One unit, on the bench that stands if it is of that, after a start of its own if it wants one."""
        place = unit.point.levels["bench"], unit.point.levels["start"]
        if self._place is None or place[0] != self._place[0]:
            self.__exit__(None, None, None)
            self._setup, self._engine = planned(self._machines, unit, task)
            self._stack.enter_context(preferred())
            self.spent.building.append(_seconds(lambda: self._build(task.listener)))
        elif place != self._place:
            self.spent.restarting.append(_seconds(lambda: restart_dut(self._builder, self._setup, task.listener)))
        self._place = place
        setup = replace(self._setup, scenario=replace(self._setup.scenario, name=unit.name, point=unit.point))
        began = time.monotonic()
        with opened(setup, self._engine, task, began) as bench:
            settings = bench.live.settings()
            result = replace(measure_of(unit).run(bench), settings=settings)
        self.spent.measuring.append(time.monotonic() - began)
        task.listener.scenario_ends(result)
        return result

    def _build(self, listener: Listener) -> None:
        self._builder = self._stack.enter_context(standing_bench(self._setup, listener))


def _seconds(step: Callable[[], object]) -> float:
    """How long a step takes."""
    began = time.monotonic()
    step()
    return time.monotonic() - began


def restart_dut(builder: Builder, setup: Setup, listener: Listener) -> None:
    """End the switch and start it again: database, namespaces, links and hugepages stay, rules are made anew."""
    ending = setup.bench.ends_with_it(setup.resources)
    builder.apply([resource for resource in setup.resources if resource not in ending], listener.building)
    builder.apply(setup.resources, listener.building)


def metrics_of(results: Mapping[tuple[int, int, int], ScenarioResult]) -> tuple[str, ...]:
    """Those to judge a pilot by: every rate, or the first metric of a measure without rates."""
    measured = [result for result in results.values() if result.outcome is Outcome.MEASURED]
    rates = dict.fromkeys(rate.name for result in measured for rate in result.rates)
    return tuple(rates) or tuple(dict.fromkeys(result.metrics[0].name for result in measured if result.metrics))[:1]


def nested(
    metric: str, size: Size, results: Mapping[tuple[int, int, int], ScenarioResult]
) -> tuple[list[list[list[float]]], str, str]:
    """The metric's values by bench, start and measurement, its unit, and why there are none; empty if there are."""
    values: dict[tuple[int, int, int], float] = {}
    unit, reasons = "", list[str]()
    for place in size.every:
        repeats = of_repeats([results[place]])
        estimate = repeats.estimates.get(metric)
        if estimate is None or estimate.bound is not Bound.FOUND:
            reasons.append(repeats.notes.get(metric) or results[place].reason or "not measured")
        else:
            values[place], unit = estimate.value, estimate.unit
    if reasons:
        told = f"no number in {len(reasons)} of {len(results)} measurements; the first: {reasons[0].splitlines()[0]}"
        return [], unit, told
    ranges: Sequence[range] = [range(1, count + 1) for count in (size.benches, size.starts, size.measurements)]
    return [[[values[i, j, k] for k in ranges[2]] for j in ranges[1]] for i in ranges[0]], unit, ""


@dataclass(frozen=True)
class Component:
    """How much one level varies by itself."""

    level: str
    deviation: float  # standard deviation, relative to the median
    share: float  # of the variance of a single measurement on a fresh bench
    freedom: int  # independent differences that it was estimated from: few of them miss much


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
        """How many rebuilds, restarts and measurements, the outermost first."""
        return self.rebuilds, self.restarts, self.measurements


def components(values: Nested) -> tuple[Component, Component, Component]:
    """The components of the variance of values of one sign, in the order of LEVELS; what comes out negative is 0.

    Raises ValueError unless every bench has as many starts, every start as many measurements, and each at least two.
    """
    sizes = {(len(bench), len(measured)) for bench in values for measured in bench}
    if len(values) < 2 or len(sizes) != 1 or min(next(iter(sizes))) < 2:
        raise ValueError("two or more of every level are needed, and equally many everywhere")
    (a, (b, c)) = len(values), sizes.pop()
    every = [measured for bench in values for measured in bench]
    starts = [[fmean(measured) for measured in bench] for bench in values]
    of_benches = b * c * variance([fmean(bench) for bench in starts])
    of_starts, of_measurements = c * fmean(map(variance, starts)), fmean(map(variance, every))
    variances = (max(0.0, of_benches - of_starts) / (b * c), max(0.0, of_starts - of_measurements) / c, of_measurements)
    total, centre = math.fsum(variances), abs(median(value for measured in every for value in measured))
    freedom = (a - 1, a * (b - 1), a * b * (c - 1))
    rebuild, restart, measurement = (
        Component(level, math.sqrt(own) / centre if centre else 0.0, own / total if total else 0.0, free)
        for level, own, free in zip(LEVELS, variances, freedom, strict=True)
    )
    return rebuild, restart, measurement


def varies_most(components: Sequence[Component]) -> Component:
    """The level with the largest share."""
    return max(components, key=lambda component: component.share)


def for_half_width(components: Sequence[Component], costs: Costs, half_width: float) -> Allocation | None:
    """The quickest way to a 95 % interval of +- `half_width` (relative); None if a thousand benches do not suffice.

    The interval is that of the median over benches (stats/estimate.py), so there are at least six.
    """
    every = _allocations(components, costs, lambda spread, _each_s: _enough(spread, half_width))
    able = [advice for advice in every if advice.half_width <= half_width]
    return min(able, key=lambda advice: (advice.time_s, advice.half_width), default=None)


def for_time(components: Sequence[Component], costs: Costs, time_s: float) -> Allocation | None:
    """The narrowest interval that `time_s` allows; None if it does not suffice for six benches."""
    every = _allocations(components, costs, lambda _spread, each_s: math.floor(time_s / each_s + 1e-9))
    able = [advice for advice in every if advice.time_s <= time_s + 1e-6]
    return min(able, key=lambda advice: (advice.half_width, advice.time_s), default=None)


def _allocations(
    components: Sequence[Component], costs: Costs, rebuilds: Callable[[float, float], int]
) -> Iterator[Allocation]:
    """For each number of starts on a bench and of measurements after a start, the benches that are needed or allowed.

    `rebuilds` is asked with the variance of one bench's mean and the time that it takes.
    """
    bench, start, measurement = (component.deviation**2 for component in components)
    for restarts in range(1, _MOST + 1):
        for measurements in range(1, _MOST + 1):
            parts = (bench, start / restarts, measurement / (restarts * measurements))
            spread = sum(parts)
            each_s = costs.rebuild_s + restarts * (costs.restart_s + measurements * costs.measurement_s)
            count = min(MOST_REBUILDS, max(fewest_for_interval(), rebuilds(spread, each_s)))
            half_width = _half_width(count) * math.sqrt(spread)
            most = _enough(spread * _underrated(parts, components), half_width)
            yield Allocation(count, restarts, measurements, half_width, count * each_s, max(count, most))


def _enough(spread: float, half_width: float) -> int:
    """The fewest benches whose interval is expected to be +- `half_width`; MOST_REBUILDS if there are none."""
    wished = half_width / math.sqrt(spread) if spread else math.inf
    return fewest_for_interval() + bisect_left(_narrowest(), -wished * (1 + 1e-9), key=lambda width: -width)


@cache
def _narrowest() -> tuple[float, ...]:
    """By number of benches, but for the last: the narrowest half of an interval of so many or fewer."""
    return tuple(accumulate(map(_half_width, range(fewest_for_interval(), MOST_REBUILDS)), min))


@cache
def _half_width(n: int) -> float:
    """Half of the interval that stats/estimate.py makes of n normal values, as expected, in standard deviations.

    Its ends lie between ranks, which are expected where Blom says (1958). The asymptotic 1.96 sqrt(pi / 2n) is up to
    9 % too small below 20 values.
    """
    if n in _OF_FEW:
        return _OF_FEW[n]
    outer, inwards = rank_place(n)
    first, second = (-NormalDist().inv_cdf((rank - 0.375) / (n + 0.25)) for rank in (outer, outer + 1))
    return first + inwards * (second - first)


def _underrated(parts: Sequence[float], components: Sequence[Component]) -> float:
    """By what factor a sum of variances, each estimated from few differences, may be larger: in 10 % it is by more.

    Degrees of freedom by Satterthwaite (1946), the quantile of chi squared by Wilson and Hilferty (1931).
    """
    uncertain = sum(part**2 / component.freedom for part, component in zip(parts, components, strict=True))
    freedom = sum(parts) ** 2 / uncertain if uncertain else math.inf
    spread = 2 / (9 * freedom)
    return 1 / (1 - spread - _SURE * math.sqrt(spread)) ** 3
