"""How long a run will take, and what it leaves out: points that their neighbours make needless, and what a budget has
no time for; pure, but that `whole_s` looks at the machine.

Times are estimated before a run starts, and corrected as its units finish. The constants are what benches took on a
2-core virtual machine. They only have to be right in proportion: the ratio of spent to estimated time corrects them
group by group.

A factor marked `falling` never raises the rate. Then a point between two measured ones that
agree can only lie between them, and measuring it would add nothing. The ends come first and
the middle of what is left next (run/order.py), so that as much as possible is told early.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pinchpoint.dut.placement import alike_there
from pinchpoint.dut.registry import device_of
from pinchpoint.dut.setup import unplaceable
from pinchpoint.host.machines import Machines
from pinchpoint.measure import registry
from pinchpoint.measure.rates.run import Rates
from pinchpoint.measure.session import first_round
from pinchpoint.model import units
from pinchpoint.model.duet import RELATIVE
from pinchpoint.model.measurement import Interval, Metric
from pinchpoint.model.result import Outcome, RateStatus, ScenarioResult
from pinchpoint.model.scenario import Factor, Level, Relative, Scenario
from pinchpoint.model.study import SweepInfo
from pinchpoint.run.order import ordered

RATIO_S = 12.0  # an engine for two benches, calibration, slices until their ratio is known to some per cent
_LONG_S = 300.0
AGREE = 0.02  # between values nearer than this nothing is measured
AGREE_WITHIN_INTERVALS = 0.05  # and these, where the measurements cannot tell them apart

Done = Mapping[str, ScenarioResult]
"""What is known so far, by the unit's name."""


def expected_s(scenario: Scenario) -> float:
    """Seconds that a scenario takes from its bench's first action to its last."""
    standing_s = device_of(scenario).standing_s(scenario)
    own_s, relative = registry.measure_of(scenario).expected_s(scenario), scenario.point.relative
    if relative is Relative.NO or not isinstance(scenario.measure, Rates) or _is_reference(scenario):
        return standing_s + own_s
    ratio_s = RATIO_S + 2 * first_round(scenario)[0]
    return standing_s + ratio_s + (own_s if relative is Relative.BESIDE else 0.0)


def _is_reference(scenario: Scenario) -> bool:
    """Whether the others of its group are planned to be measured relative to it."""
    return scenario.name.removesuffix(f".r{scenario.point.repeat}") == scenario.point.reference


def whole_s(scenarios: Sequence[Scenario], machines: Machines) -> float:
    """Seconds that a run of these units takes on this machine, without those that are alike or cannot be placed."""
    left_out = {*alike_there(scenarios, machines), *unplaceable(scenarios, machines)}
    return Forecast().left_s(unit for unit in scenarios if unit.name not in left_out)


def impossible(points: Sequence[Scenario], machines: Machines) -> str:
    """How many cannot be placed on this machine, to be put behind what there is to run; empty: all can."""
    beyond = unplaceable(points, machines)
    return f"; {units.counted(len(beyond), 'point')} impossible here (CPUs, NUMA nodes)" if beyond else ""


def about(seconds: float) -> str:
    """An estimate in words, e.g. `about 38 min`: no better than to the minute when it is long."""
    return f"about {units.duration(seconds if seconds < _LONG_S else 60 * round(seconds / 60))}"


class Forecast:
    """The estimate of every unit, corrected by what finished units of its group took."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = defaultdict(float)
        self._expected: dict[str, float] = defaultdict(float)

    def finished(self, unit: Scenario, spent_s: float) -> None:
        """A unit took this long."""
        self._spent[unit.point.group] += spent_s
        self._expected[unit.point.group] += expected_s(unit)

    def unit_s(self, unit: Scenario) -> float:
        """Seconds that this unit will take: by its group's own ratio, else by that of all groups."""
        return expected_s(unit) * self._ratio(unit.point.group)

    def left_s(self, units: Iterable[Scenario]) -> float:
        """Seconds that these units will take together."""
        return math.fsum(self.unit_s(unit) for unit in units)

    def _ratio(self, group: str) -> float:
        spent_s, expected = self._spent.get(group, 0.0), self._expected.get(group, 0.0)
        if not expected:
            spent_s, expected = math.fsum(self._spent.values()), math.fsum(self._expected.values())
        return spent_s / expected if expected else 1.0


class Budget:
    """Decides, unit by unit, what a limited time is spent on."""

    def __init__(
        self, all_units: Sequence[Scenario], sweeps: Sequence[SweepInfo], limit_s: float, in_pairs: bool = False
    ) -> None:
        """`in_pairs`: one repeat of all groups is one pass, which is measured whole or not at all."""
        self._factors = {sweep.group: sweep.factors for sweep in sweeps}
        self._in_pairs = in_pairs
        self._limit_s = limit_s
        self._passes: dict[tuple[str, int], list[Scenario]] = defaultdict(list)
        for unit in all_units:
            self._passes[self._pass_of(unit)].append(unit)
        self._first = {_place(unit): unit.name for unit in all_units if unit.point.repeat == 1}

    def left_out(self, unit: Scenario, done: Done, spent_s: float, forecast: Forecast) -> str:
        """Why this unit is not measured; empty if it is."""
        return self._needless(unit, done) or self._no_time(unit, done, spent_s, forecast)

    def _needless(self, unit: Scenario, done: Done) -> str:
        if unit.point.repeat > 1:
            first = done.get(self._first.get(_place(unit), ""))
            return "" if first is None or first.outcome is not Outcome.SKIPPED else first.reason
        factors = self._factors.get(unit.point.group, ())
        falling = (factor for factor in factors if factor.falling and ordered(factor))
        return next(filter(None, (self._between(unit, factor, done) for factor in falling)), "")

    def _between(self, unit: Scenario, factor: Factor, done: Done) -> str:
        """Why the point is needless along this factor."""
        line = dict(self._line(unit, factor, done))
        place = factor.levels.index(unit.point.levels[factor.name])
        below = max((index for index in line if index < place), default=None)
        above = min((index for index in line if index > place), default=None)
        if below is None or above is None:
            return ""
        how = agreement(line[below], line[above])
        ends = " and ".join(f"{units.level(factor.levels[place])} {factor.unit}".rstrip() for place in (below, above))
        return f"between {ends}, which agree {how}: monotone" if how else ""

    def _line(self, unit: Scenario, factor: Factor, done: Done) -> Iterator[tuple[int, Metric]]:
        """Measured points that differ from this one in the factor alone: (place of the level, its main metric)."""
        own = unit.point.levels
        for other in self._passes[unit.point.group, 1]:
            level, metric = other.point.levels[factor.name], _judged(done.get(other.name))
            is_on_line = {**other.point.levels, factor.name: own[factor.name]} == own
            if is_on_line and metric is not None and level in factor.levels:
                yield factor.levels.index(level), metric

    def _no_time(self, unit: Scenario, done: Done, spent_s: float, forecast: Forecast) -> str:
        if not any(result.outcome is Outcome.MEASURED for result in done.values()):
            return ""  # a run measures something, however small its budget
        if self._in_pairs and (unit.point.repeat == 1 or self._begun(unit, done)):
            return ""  # half a pair has no ratio
        left_s = self._limit_s - spent_s
        needed, what = forecast.unit_s(unit), "this"
        if unit.point.repeat > 1 and not self._begun(unit, done):
            # A repeat of some points only would leave intervals of unequal meaning: all or none.
            whole = "pair" if self._in_pairs else "repeat"
            needed = forecast.left_s(self._rest_of_pass(unit, done))
            what = f"{whole} {unit.point.repeat}" + ("" if self._in_pairs else " of its group")
        if needed <= left_s:
            return ""
        used = f"budget of {units.duration(self._limit_s)} used"
        return used if left_s <= 0 else f"{used}: {units.duration(left_s)} left, {what} needs {units.duration(needed)}"

    def _pass_of(self, unit: Scenario) -> tuple[str, int]:
        return "" if self._in_pairs else unit.point.group, unit.point.repeat

    def _begun(self, unit: Scenario, done: Done) -> bool:
        """Whether this repeat of the group has measured something already."""
        results = (done.get(other.name) for other in self._passes[self._pass_of(unit)])
        return any(result is not None and result.outcome is Outcome.MEASURED for result in results)

    def _rest_of_pass(self, unit: Scenario, done: Done) -> list[Scenario]:
        """What a repeat that has measured nothing yet still has to try, also what had no time before this unit."""
        tried = {name for name, result in done.items() if result.outcome is not Outcome.SKIPPED}
        whole = self._passes[self._pass_of(unit)]
        return [other for other in whole if other.name not in tried and not self._needless(other, done)]


def agreement(first: Metric, second: Metric) -> str:
    """How two figures agree, e.g. `within 1.3 %`; empty if they do not, or are not the same metric."""
    if first.name != second.name:
        return ""
    largest = max(abs(first.value), abs(second.value))
    difference = abs(first.value - second.value) / largest if largest else 0.0
    if difference <= AGREE:
        return f"within {units.share(difference)}"
    mine, its = Interval.of(first), Interval.of(second)
    if not (mine.is_closed and its.is_closed and mine.overlaps(its.low, its.high)):
        return ""
    if (max(mine.high, its.high) - min(mine.low, its.low)) / largest <= AGREE_WITHIN_INTERVALS:
        return f"within their intervals ({units.share(difference)} apart)"
    return ""


def _judged(result: ScenarioResult | None) -> Metric | None:
    """The figure that a measured point is judged by, None if there is none.

    A rate that was not found is a bound of it only, and two bounds agree about nothing.
    """
    if result is None or result.outcome is not Outcome.MEASURED:
        return None
    if relative := next((metric for metric in result.metrics if metric.name == RELATIVE and metric.value), None):
        return relative
    if result.measure == Rates.kind:
        searched = result.rates[0] if result.rates else None
        name = searched.name if searched and searched.status is RateStatus.FOUND else None
        return next((metric for metric in result.metrics if metric.name == name), None)
    measure = registry.measure(result.measure)
    main = measure.judged_by or measure.main[0]
    return next((metric for metric in result.metrics if metric.name.startswith(main)), None)


def _place(unit: Scenario) -> tuple[str, frozenset[tuple[str, Level]]]:
    return unit.point.group, frozenset(unit.point.levels.items())
