"""The campaign's own result.json, trials and calibration: made of the attempts that count."""

import time
from collections.abc import Callable, Mapping
from typing import Final

from pinchpoint.campaign.judge import Figure, calibrated, figure_of
from pinchpoint.findings.curves import curves
from pinchpoint.model.campaign import Calibration, Campaign, Entry, Exclusion, What
from pinchpoint.model.result import Outcome, RunResult, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.run.run import unmeasured
from pinchpoint.store.campaign import CampaignFolder, Tally
from pinchpoint.store.codec import SCHEMA

LEAST_S: Final = 5.0  # between two writings
SHARE: Final = 0.02  # of the time that writing may take
_OUTCOMES: Final = {
    What.FAILED: Outcome.FAILED,
    What.IMPOSSIBLE: Outcome.IMPOSSIBLE,
    What.SKIPPED: Outcome.SKIPPED,
}


class Results:
    """What the units have yielded so far, and the files that say so."""

    def __init__(
        self,
        campaign: Campaign,
        scenarios: Mapping[str, Scenario],
        folder: CampaignFolder,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._campaign, self._scenarios, self._folder, self._now_s = campaign, scenarios, folder, now_s
        self._latest: dict[str, tuple[str, ScenarioResult]] = {}  # by unit, with its attempt
        self._figures: dict[str, float | None] = {}  # of the control, by attempt
        self._next_s = now_s()
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

    def changed(self, tally: Tally, unmeasured_units: Mapping[str, tuple[Outcome, str]]) -> None:
        """There is something new; written seldom enough to cost little."""
        if self._now_s() >= self._next_s:
            self.write(tally, unmeasured_units)

    def write(self, tally: Tally, unmeasured_units: Mapping[str, tuple[Outcome, str]]) -> None:
        """Write all files. Raises StoreError."""
        began_s = self._now_s()
        self._folder.gather(tally.accepted[unit.name] for unit in self._campaign.units if unit.name in tally.accepted)
        self._folder.run.write_result(self.result(tally, unmeasured_units))
        self._folder.write_calibration(self.calibration(tally))
        ended_s = self._now_s()
        self._next_s = ended_s + max(LEAST_S, (ended_s - began_s) / SHARE)

    def result(self, tally: Tally, unmeasured_units: Mapping[str, tuple[Outcome, str]]) -> RunResult:
        """Everything found so far, in the order of the units."""
        results = []
        for unit in self._campaign.units:
            if (entry := tally.accepted.get(unit.name)) and (measured := self.of(entry)):
                results.append(measured)
            elif unit.name in unmeasured_units:
                outcome, reason = unmeasured_units[unit.name]
                results.append(unmeasured(self._scenarios[unit.name], outcome, reason, 0.0))
        finished = len(results) == len(self._campaign.units)
        drawn = curves(self._campaign.sweeps, results)
        return RunResult(SCHEMA, self._folder.run.run_id, finished, tuple(results), drawn)

    def controls(self, tally: Tally) -> dict[str, list[float]]:
        """The control's figures by machine, in order of time."""
        figures: dict[str, list[float]] = {}
        for entry in tally.controls:
            if entry.attempt not in self._figures:
                result = self.of(entry)
                self._figures[entry.attempt] = figure_of(result) if result else None
            value = self._figures[entry.attempt]
            if value is not None:
                figures.setdefault(entry.machine, []).append(value)
        return figures

    def calibration(self, tally: Tally) -> Calibration:
        """All machines against each other, by what is stored."""
        controls = self.controls(tally)
        figures = [Figure("control", machine, value) for machine, values in controls.items() for value in values]
        for unit in self._campaign.units:
            entry = tally.accepted.get(unit.name)
            result = self.of(entry) if entry else None
            value = figure_of(result) if result else None
            if entry and value is not None:
                figures.append(Figure(unit.point, entry.machine, value))
        return calibrated(figures, controls, self._exclusions)
