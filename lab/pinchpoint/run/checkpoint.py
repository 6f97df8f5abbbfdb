"""run.json and result.json of a run as it grows: rewritten often enough for who watches, seldom enough to cost little.

Both are written whole, so writing them after each of some hundred units would cost as the
square of their number. What a crash takes of them stands in trials.jsonl and
measurements.jsonl, each line of which is on the disk before the next trial starts.

A run is resumed only on what it was begun on: figures of two machines, or of two switches, must not become one curve.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from pinchpoint.findings.conclusions import judged
from pinchpoint.findings.curves import curves
from pinchpoint.findings.findings import findings
from pinchpoint.findings.steps import steps
from pinchpoint.host import facts
from pinchpoint.host.interface import Host
from pinchpoint.host.machines import Machines
from pinchpoint.measure.standing import Listener, Stoppable, Task
from pinchpoint.model.comparison import ComparisonRequest
from pinchpoint.model.errors import InputError
from pinchpoint.model.result import Ceiling, Outcome, RunInfo, RunResult, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.study import Curve
from pinchpoint.model.trial import Record
from pinchpoint.run import explaining
from pinchpoint.run.host_recovery import AWAITED_S, attempts
from pinchpoint.store.codec import SCHEMA
from pinchpoint.store.folder import RunFolder

Clock = Callable[[], float]

LEAST_S = 5.0  # between two writings
SHARE = 0.02  # of a run's time that writing may take

# Tools that neither send, forward nor search change no figure; nor does a MiB of memory.
_VERSIONS = ("pinchpoint", "MLRsearch")
# Facts: the engine's version, each switch's program, each other host, what is replayed.
_NAMED = ("engine", "switch ", "host ", "capture ")
_NOT_COMPARED = ("memory",)
HINT = "start a new run: results from here cannot be combined with the stored ones"


class DifferentError(InputError):
    """What a run was begun on is not what is here: no fault of one unit."""


def require_same(info: RunInfo, lab: Host) -> None:
    """Compare the lab's machine with the one that began the run. Raises DifferentError naming all that differs."""
    host, versions = facts.host_facts(lab), facts.versions(lab)
    # What an older version did not record cannot be compared.
    pairs = [(key, info.host.get(key), host.get(key)) for key in info.host if key not in _NOT_COMPARED]
    pairs += [(key, info.versions.get(key), versions.get(key)) for key in _VERSIONS]
    lines = [f"{key}: {before or 'none'} then, {now or 'none'} now" for key, before, now in pairs if before != now]
    if lines:
        raise DifferentError(f"{info.run_id} was begun on something else: {'; '.join(lines)}", HINT)


@dataclass(frozen=True)
class RunContext:
    """What one run measures with: on which machines, where its findings go, who is shown them, and who may stop it."""

    machines: Machines
    folder: RunFolder
    listener: Listener
    on_stoppable: Callable[[Stoppable], None]
    awaited_s: float = AWAITED_S  # for a host that is lost; then what was measured there is begun anew

    def attempts(self, units: Sequence[Scenario]) -> Iterator[AbstractContextManager[None]]:
        """Contexts for one attempt each at these units; another one where hosts were lost. Raises HostLostError."""
        return attempts(self.machines, units, self.on_stoppable, awaited_s=self.awaited_s)


class Growing:
    """The two files of one run, and what the folder holds of its units."""

    def __init__(self, folder: RunFolder, units: Sequence[Scenario], now_s: Clock = time.monotonic) -> None:
        self._folder, self._units = folder, units
        is_final = (Outcome.MEASURED, Outcome.SKIPPED)
        self.info, stored = folder.read_info(), folder.so_far()
        # Benches that stand at once have no result that is final before the other's.
        at_once = self.info.comparison is not None and self.info.comparison.is_at_once
        kept = () if at_once and not stored.finished else stored.scenarios
        self.done = {result.scenario: result for result in kept if result.outcome in is_final}  # by the unit's name
        self._is_partial = False  # whether `done` holds results that a resumed run continues
        self._begun_with = self.info.versions
        self._begun = {record.scenario for record in folder.read_records()}
        self._curves: dict[str, Curve] = {}  # by group
        self._changed_info = self._changed_result = False
        self._info_pace, self._result_pace = Pace(now_s), Pace(now_s)

    def task(self, unit: str, context: RunContext) -> Task:
        """What an attempt at a unit is measured with: what earlier ones have found, and these files for its findings.

        It is taken to have begun.
        """
        folder, records = self._folder, list[Record]()
        if unit in self._begun:
            records = [record for record in folder.read_records() if record.scenario == unit]
        self._begun.add(unit)
        kept = folder.append, self.note_plan, self.note_facts, self.note_ceilings
        known = folder.path / "engine.log", records, self.info.ceilings.get(unit)
        return Task(context.listener, context.on_stoppable, *kept, folder.attach, *known)

    def note_plan(self, scenario: str, plan: tuple[str, ...]) -> None:
        """What the bench of a scenario is built of."""
        self._change(replace(self.info, plans={**self.info.plans, scenario: plan}))

    def note_ceilings(self, scenario: str, ceilings: tuple[Ceiling, ...]) -> None:
        """What was known of the generator when the search of a scenario began, so that it can be retraced."""
        self._change(replace(self.info, ceilings={**self.info.ceilings, scenario: ceilings}))

    def note_facts(self, known: Mapping[str, str]) -> None:
        """Versions, and what could not be observed. Raises DifferentError if a program or capture is another by now."""
        for key, now in known.items():
            before = self._begun_with.get(key, now)
            if before != now and key.startswith(_NAMED):
                told = f"{self.info.run_id} was begun with something else: {key}: {before} then, {now} now"
                raise DifferentError(told, HINT)
        self._change(replace(self.info, versions={**self.info.versions, **known}))

    def note_comparison(self, request: ComparisonRequest) -> None:
        """What became of the way to compare; it is on the disk when this returns."""
        self._change(replace(self.info, comparison=request))
        self._write_info()

    def changed(self, group: str) -> None:
        """`done` has a new result of this group."""
        self._curves.pop(group, None)
        self._changed_result = True
        if self._result_pace.due():
            self.flush()

    def ended_early(self, results: Sequence[ScenarioResult]) -> None:
        """Write results that a resumed run continues; they are not final."""
        for result in results:
            self._is_partial = True
            self.done[result.scenario] = result
            self.changed(result.group)

    def flush(self) -> None:
        """Write what is not written yet. Raises StoreError."""
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
        if self._changed_info:
            self._info_pace.timed(lambda: self._folder.write_info(self.info))
            self._changed_info = False

    def _result(self) -> RunResult:
        results = tuple(self.done[unit.name] for unit in self._units if unit.name in self.done)
        for sweep in self.info.sweeps:
            if sweep.group not in self._curves:
                (self._curves[sweep.group],) = curves([sweep], results)
        drawn = tuple(self._curves[sweep.group] for sweep in self.info.sweeps)
        told = (*steps(self.info.study, results), *findings(self.info.study, drawn)) if self.info.study else ()
        concluded = judged(self.info.study, drawn) if self.info.study else ()
        why = explaining.explained(self._units, self.done) if self.info.explains else ()
        is_finished = len(results) == len(self._units) and not self._is_partial
        return RunResult(SCHEMA, self._folder.run_id, is_finished, results, drawn, told, why, conclusions=concluded)


class Pace:
    """When a file may be written again: the longer it takes, the later."""

    def __init__(self, now_s: Clock) -> None:
        self._now_s = now_s
        self._next_s = now_s()

    def due(self) -> bool:
        """Whether it may be written now."""
        return self._now_s() >= self._next_s

    def timed(self, write: Callable[[], None]) -> None:
        """Write it."""
        began_s = self._now_s()
        write()
        ended_s = self._now_s()
        self._next_s = ended_s + max(LEAST_S, (ended_s - began_s) / SHARE)
