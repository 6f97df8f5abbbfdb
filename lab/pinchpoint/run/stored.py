"""A run folder as it stands, each of its files read once."""

from collections.abc import Sequence
from functools import cached_property

import msgspec

from pinchpoint.findings import comparing
from pinchpoint.findings.paired_benches import alternation, of_duet, of_trials
from pinchpoint.model.comparison import Comparison, Method
from pinchpoint.model.result import Outcome, RunInfo, RunResult, ScenarioResult
from pinchpoint.model.scenario import Search
from pinchpoint.run.run import so_far
from pinchpoint.store.folder import RunFolder


class StoredRun:
    """What a run folder holds once its measuring has ended."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    @cached_property
    def info(self) -> RunInfo:
        """What was asked for."""
        return self.folder.read_info()

    @cached_property
    def result(self) -> RunResult:
        """What was found; nothing yet, if no scenario has finished."""
        return so_far(self.folder)

    @cached_property
    def comparison(self) -> Comparison | None:
        """Of a run that compared A and B, as far as it got; None for any other run."""
        if self.info.comparison is None:
            return None
        if self.info.comparison.method is Method.DUET:
            return of_duet(self.info, self.result, self.folder.read_stretches())
        if self.info.comparison.method is Method.TRIALS:
            search = msgspec.convert(self.info.scenarios[0]["search"], Search)
            names = [str(plain["name"]) for plain in self.info.scenarios]
            return of_trials(self.info, self.result, alternation(self.folder.read_trials(), names, search), search)
        return comparing.of_run(self.info, self.result)

    def ended_as(self, outcome: Outcome) -> Sequence[ScenarioResult]:
        """The scenarios with this outcome."""
        return [scenario for scenario in self.result.scenarios if scenario.outcome is outcome]
