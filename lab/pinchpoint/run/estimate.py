"""How long a run will take: estimated before it starts, corrected as its units finish; pure.

The constants are what benches took on a 2-core virtual machine. They only have to be
right in proportion: the ratio of spent to estimated time corrects them group by group.
"""

import math
from collections import defaultdict
from collections.abc import Iterable

from pinchpoint.dut.registry import device_of
from pinchpoint.measure.rates import Rates
from pinchpoint.measure.registry import measure_of
from pinchpoint.measure.warm_up import first_round
from pinchpoint.model.scenario import Relative, Scenario

RATIO_S = 12.0  # an engine for two benches, calibration, slices until their ratio is known to some per cent


def expected_s(scenario: Scenario) -> float:
    """Seconds that a scenario takes from its bench's first action to its last."""
    standing_s = device_of(scenario).standing_s(scenario)
    own_s, relative = measure_of(scenario).expected_s(scenario), scenario.point.relative
    if relative is Relative.NO or not isinstance(scenario.measure, Rates) or _is_reference(scenario):
        return standing_s + own_s
    ratio_s = RATIO_S + 2 * first_round(scenario)[0]
    return standing_s + ratio_s + (own_s if relative is Relative.BESIDE else 0.0)


def _is_reference(scenario: Scenario) -> bool:
    """Whether the others of its group are planned to be measured relative to it."""
    return scenario.name.removesuffix(f".r{scenario.point.repeat}") == scenario.point.reference


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
