"""run.json and result.json of a run as it grows: rewritten often enough for who watches, seldom enough to cost little.

Both are written whole, so writing them after each of some hundred units would cost as the
square of their number. What a crash takes of them stands in trials.jsonl and
measurements.jsonl, each line of which is on the disk before the next trial starts.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pinchpoint.findings.curves import curves
from pinchpoint.findings.findings import findings
from pinchpoint.measure.standing import Listener, Record, Stoppable
from pinchpoint.model.comparison import ComparisonRequest
from pinchpoint.model.result import Ceiling, RunInfo, RunResult, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.study import Curve
from pinchpoint.run import explaining
from pinchpoint.run.resume_check import require_same_programs
from pinchpoint.store.codec import SCHEMA
from pinchpoint.store.folder import RunFolder

Clock = Callable[[], float]

LEAST_S = 5.0  # between two writings
SHARE = 0.02  # of a run's time that writing may take


@dataclass(frozen=True)
class RunContext:
    """What one run measures with: where its findings go, who is shown them, and who may stop it."""

    folder: RunFolder
    listener: Listener
    on_stoppable: Callable[[Stoppable], None]


class Growing:
    """The two files of one run; `done` are the results so far, by the unit's name."""

    def __init__(
        self,
        folder: RunFolder,
        units: Sequence[Scenario],
        done: Mapping[str, ScenarioResult],
        now_s: Clock = time.monotonic,
    ) -> None:
        self._folder = folder
        self._units = units
        self._done = done
        self.info = folder.read_info()
        self._begun_with = self.info.versions
        self._curves: dict[str, Curve] = {}  # by group
        self._changed_info = False
        self._changed_result = False
        self._info_pace, self._result_pace = _Pace(now_s), _Pace(now_s)

    def record(self) -> Record:
        """Where the findings about one unit go: to these two files, and to the others of the folder at once."""
        return Record(
            self._folder.append_trial,
            self._folder.append_measurement,
            self.note_plan,
            self.note_facts,
            self._folder.attach,
            self._folder.path / "engine.log",
            self.note_ceilings,
        )

    def note_plan(self, scenario: str, plan: tuple[str, ...]) -> None:
        """What the bench of a scenario is built of."""
        self._change(replace(self.info, plans={**self.info.plans, scenario: plan}))

    def note_ceilings(self, scenario: str, ceilings: tuple[Ceiling, ...]) -> None:
        """What was known of the generator when the search of a scenario began, so that it can be retraced."""
        self._change(replace(self.info, ceilings={**self.info.ceilings, scenario: ceilings}))

    def note_facts(self, facts: Mapping[str, str]) -> None:
        """Versions, and what could not be observed. Raises InputError if a program is not the one of the record."""
        require_same_programs(self.info.run_id, self._begun_with, facts)
        self._change(replace(self.info, versions={**self.info.versions, **facts}))

    def note_comparison(self, request: ComparisonRequest) -> None:
        """What became of the way to compare; it is on the disk when this returns."""
        self._change(replace(self.info, comparison=request))
        if self._changed_info:
            self._write_info()

    def changed(self, group: str) -> None:
        """`done` has a new result of this group."""
        self._curves.pop(group, None)
        self._changed_result = True
        if self._result_pace.due():
            self.flush()

    def flush(self) -> None:
        """Write what is not written yet. Raises StoreError."""
        if self._changed_info:
            self._write_info()
        if self._changed_result:
            self._result_pace.timed(lambda: self._folder.write_result(self._result()))
            self._changed_result = False

    def _change(self, info: RunInfo) -> None:
        if info != self.info:
            self.info = info
            self._changed_info = True
            if self._info_pace.due():
                self._write_info()

    def _write_info(self) -> None:
        self._info_pace.timed(lambda: self._folder.write_info(self.info))
        self._changed_info = False

    def _result(self) -> RunResult:
        results = tuple(self._done[unit.name] for unit in self._units if unit.name in self._done)
        for sweep in self.info.sweeps:
            if sweep.group not in self._curves:
                (self._curves[sweep.group],) = curves([sweep], results)
        drawn = tuple(self._curves[sweep.group] for sweep in self.info.sweeps)
        told = findings(self.info.study, drawn) if self.info.study else ()
        why = explaining.explained(self._units, self._done) if self.info.explains else ()
        return RunResult(SCHEMA, self._folder.run_id, len(results) == len(self._units), results, drawn, told, why)


class _Pace:
    """When a file may be written again: the longer it takes, the later."""

    def __init__(self, now_s: Clock) -> None:
        self._now_s = now_s
        self._next_s = now_s()

    def due(self) -> bool:
        return self._now_s() >= self._next_s

    def timed(self, write: Callable[[], None]) -> None:
        began_s = self._now_s()
        write()
        ended_s = self._now_s()
        self._next_s = ended_s + max(LEAST_S, (ended_s - began_s) / SHARE)
