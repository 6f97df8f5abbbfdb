"""The campaign's own result.json, trials and calibration: made of the attempts that count."""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping

from pinchpoint.campaign.machines import Figure, calibrated, figure_of
from pinchpoint.findings.curves import curves
from pinchpoint.model.campaign import Calibration, Campaign, Entry, Exclusion
from pinchpoint.model.result import Outcome, RunResult, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.run.checkpoint import Pace
from pinchpoint.run.run import unmeasured
from pinchpoint.store.campaign import CampaignFolder, Tally
from pinchpoint.store.codec import SCHEMA


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
