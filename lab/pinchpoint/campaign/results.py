"""The campaign's own result.json, trials and calibration: made of the attempts that count.

Compares machines with each other, and each with its own past; pure.

Against the others: a mixed model over points that several machines have measured (stats/mixed.py). A machine whose
factor to the median machine lies with its whole interval beyond the tolerance is not what the others are. Two machines
that differ do not say which of them is wrong, so it takes three. Against itself: the series of its control figures is
cut where its level changes (stats/change_points.py). A last level that lies beyond the tolerance from the first one is
a drift.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp
from statistics import median, median_high, median_low
from typing import Final

from pinchpoint.findings.curves import curves, metrics_of
from pinchpoint.model.campaign import Calibration, Campaign, Entry, Exclusion, MachineFactor
from pinchpoint.model.levels import CONFIDENCE
from pinchpoint.model.result import Outcome, RunResult, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.study import Bound
from pinchpoint.run.checkpoint import Pace
from pinchpoint.run.run import unmeasured
from pinchpoint.stats import mixed
from pinchpoint.stats.change_points import segments
from pinchpoint.stats.estimate import bound_of
from pinchpoint.store.campaign import CampaignFolder, Tally
from pinchpoint.store.codec import SCHEMA

SURE: Final = 0.99  # of the interval by which a machine is excluded
FEWEST_MACHINES: Final = 3
FEWEST_FIGURES: Final = 3  # of the control on a machine


@dataclass(frozen=True)
class Figure:
    """One figure at a point, on a machine."""

    point: str
    machine: str
    value: float


def figure_of(result: ScenarioResult) -> float | None:
    """The figure that machines are compared by: the first that is a number, positive; None if there is none."""
    if result.rates and (quoted := result.rates[0].quoted_fps):
        return quoted
    values = (values.value for values in metrics_of(result) if bound_of(values) is Bound.FOUND and values.value > 0)
    return next(values, None)


def calibrated(
    figures: Iterable[Figure],
    controls: Mapping[str, Sequence[float]] = {},
    exclusions: Sequence[Exclusion] = (),
) -> Calibration:
    """All machines against each other, by every point that two of them have measured."""
    kept = list(figures)
    shared = {figure.point: set[str]() for figure in kept}
    for figure in kept:
        shared[figure.point].add(figure.machine)
    equal = [figure for figure in kept if len(shared[figure.point]) > 1]
    fitted = _fit(equal)
    return Calibration(
        figure="the first figure of every point that several machines have measured",
        confidence=CONFIDENCE,
        factors=_factors(fitted, CONFIDENCE, median(fitted.effects)) if fitted else (),
        machine_sd=fitted.machine_sd if fitted else None,
        repeat_sd=fitted.repeat_sd if fitted else None,
        exclusions=tuple(exclusions),
        controls={machine: tuple(values) for machine, values in controls.items()},
    )


def _fit(figures: Sequence[Figure]) -> mixed.Mixed | None:
    return mixed.fit(
        [figure.point for figure in figures],
        [figure.machine for figure in figures],
        [figure.value for figure in figures],
    )


def _factors(fitted: mixed.Mixed, confidence: float, centre: float) -> tuple[MachineFactor, ...]:
    """Each machine over what the median one does: a bad one among few would move a mean."""
    return tuple(
        MachineFactor(name, _exp(effect - centre), _exp(effect - centre - wide), _exp(effect - centre + wide), n)
        for name, effect, error, n in zip(fitted.machines, fitted.effects, fitted.errors, fitted.counts, strict=True)
        for wide in (mixed.half_width(error, fitted.freedom, confidence),)
    )


def _exp(value: float) -> float:
    return exp(max(-50.0, min(50.0, value)))


def suspect(machine: str, controls: Mapping[str, Sequence[float]], tolerance: float) -> Exclusion | None:
    """Why this machine has to be excluded by the control figures so far, in order of time; None if it has not."""
    return _against_itself(machine, controls.get(machine, ()), tolerance) or _against_others(
        machine, controls, tolerance
    )


def _against_others(machine: str, controls: Mapping[str, Sequence[float]], tolerance: float) -> Exclusion | None:
    enough = {name: values for name, values in controls.items() if len(values) >= FEWEST_FIGURES}
    if machine not in enough or len(enough) < FEWEST_MACHINES:
        return None
    fitted = _fit([Figure("control", name, value) for name, values in enough.items() for value in values])
    if fitted is None:
        return None
    # An even number of machines has two in the middle. In a fleet of two generations, each is near one of them.
    for centre in (median_low(fitted.effects), median_high(fitted.effects)):
        own = next(factor for factor in _factors(fitted, SURE, centre) if factor.machine == machine)
        if own.low <= 1 + tolerance and own.high >= 1 / (1 + tolerance):
            return None
    reason = (
        f"{own.factor:.3g} times the median machine at the control scenario ({own.low:.3g} to {own.high:.3g}, "
        f"{SURE * 100:g} %, over {own.n} figures), tolerance {tolerance * 100:g} %"
    )
    return Exclusion(machine, reason, 0)


def _against_itself(machine: str, values: Sequence[float], tolerance: float) -> Exclusion | None:
    levels = segments(values)
    first = median(values[levels[0].first : levels[0].end]) if values else 0.0
    if len(levels) < 2 or not first:
        return None
    last = median(values[levels[-1].first : levels[-1].end])
    ratio = last / first
    if 1 / (1 + tolerance) <= ratio <= 1 + tolerance:
        return None
    reason = (
        f"its control scenario gives {ratio:.3g} times what it gave at first: the level changed after "
        f"{levels[1].first} of {len(values)} figures, tolerance {tolerance * 100:g} %"
    )
    return Exclusion(machine, reason, levels[1].first)


class Results:
    """What the units have yielded so far, and the files that say so."""

    def __init__(
        self,
        campaign: Campaign,
        scenarios: Mapping[str, Scenario],
        folder: CampaignFolder,
        tally: Tally,
        left_out: Mapping[str, tuple[Outcome, str]],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`left_out` has the reason of each unit that is not measured. It grows with the campaign, as `tally` does."""
        self._campaign, self._scenarios, self._folder = campaign, scenarios, folder
        self._tally, self._left_out, self._pace = tally, left_out, Pace(now_s)
        self._latest: dict[str, tuple[str, ScenarioResult]] = {}  # by unit, with its attempt
        self._figures: dict[str, float | None] = {}  # of the control, by attempt
        self._exclusions: list[Exclusion] = []

    def of(self, entry: Entry) -> ScenarioResult | None:
        """The result of a finished attempt, as it is stored."""
        known = self._latest.get(entry.unit)
        if known and known[0] == entry.attempt:
            return known[1]
        result = self._folder.attempt(entry.attempt).read_result()
        if result is None or not result.scenarios:
            return None
        last = result.scenarios[-1]
        if entry.unit in self._scenarios:
            self._latest[entry.unit] = entry.attempt, last
        return last

    def excluded(self, exclusion: Exclusion) -> None:
        """A machine is excluded."""
        self._exclusions.append(exclusion)

    def changed(self) -> None:
        """There is something new; written seldom enough to cost little."""
        if self._pace.due():
            self.write()

    def write(self) -> None:
        """Write all files. Raises StoreError."""
        self._pace.timed(self._write)

    def _write(self) -> None:
        accepted = self._tally.accepted
        self._folder.gather(accepted[unit.name] for unit in self._campaign.units if unit.name in accepted)
        self._folder.run.write_result(self._result())
        self._folder.write_calibration(self._calibration())

    def _result(self) -> RunResult:
        """Everything found so far, in the order of the units."""
        results = []
        for unit in self._campaign.units:
            if (entry := self._tally.accepted.get(unit.name)) and (measured := self.of(entry)):
                results.append(measured)
            elif unit.name in self._left_out:
                results.append(unmeasured(self._scenarios[unit.name], *self._left_out[unit.name], 0.0))
        finished = len(results) == len(self._campaign.units)
        drawn = curves(self._campaign.sweeps, results)
        return RunResult(SCHEMA, self._folder.run.run_id, finished, tuple(results), drawn)

    def controls(self) -> dict[str, list[float]]:
        """The control's figures by machine, in order of time."""
        figures = defaultdict[str, list[float]](list)
        for entry in self._tally.controls:
            if entry.attempt not in self._figures:
                result = self.of(entry)
                self._figures[entry.attempt] = figure_of(result) if result else None
            if (value := self._figures[entry.attempt]) is not None:
                figures[entry.machine].append(value)
        return dict(figures)

    def _calibration(self) -> Calibration:
        """All machines against each other, by what is stored."""
        controls = self.controls()
        figures = [Figure("control", machine, value) for machine, values in controls.items() for value in values]
        for unit in self._campaign.units:
            entry = self._tally.accepted.get(unit.name)
            result = self.of(entry) if entry else None
            if entry and result and (value := figure_of(result)) is not None:
                figures.append(Figure(unit.point, entry.machine, value))
        return calibrated(figures, controls, self._exclusions)
