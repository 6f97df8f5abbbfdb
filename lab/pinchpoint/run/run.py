"""A whole run: its units one after the other into one run folder, resumable at any trial."""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from pinchpoint.dut import requirements
from pinchpoint.dut.placement import alike_there
from pinchpoint.host import facts
from pinchpoint.host.interface import Host
from pinchpoint.host.machines import Machines
from pinchpoint.measure.standing import Listener, Recorded, RunUnit, Stoppable, Undoable
from pinchpoint.measure.summary import scenario_result
from pinchpoint.model.comparison import ComparisonRequest
from pinchpoint.model.errors import (
    BenchError,
    DutError,
    EngineError,
    InputError,
    PinchpointError,
    RequirementError,
    StoreError,
)
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.result import Outcome, RunInfo, RunResult, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.study import Study, SweepInfo
from pinchpoint.model.trial import Trial
from pinchpoint.run import explaining
from pinchpoint.run.budget import Budget
from pinchpoint.run.checkpoint import Clock, Growing, RunContext
from pinchpoint.run.estimate import Forecast
from pinchpoint.run.resume_check import DifferentError
from pinchpoint.store.codec import SCHEMA
from pinchpoint.store.folder import RunFolder

Kept = TypeVar("Kept", Trial, Measurement)

MOST_FAILURES = 3  # in a row: then it is the machine and not the point


def describe_run(
    lab: Host,
    run_id: str,
    argv: Sequence[str],
    scenarios: Sequence[Mapping[str, object]],
    sources: Mapping[str, str],
    sweeps: Sequence[SweepInfo] = (),
    study: Study | None = None,
    budget_s: float | None = None,
    comparison: ComparisonRequest | None = None,
    explains: bool = False,
) -> RunInfo:
    """What `run.json` says before the first scenario starts.

    With `sweeps` the run goes on past what is impossible or fails; without, the first error ends it.
    """
    return RunInfo(
        schema=SCHEMA,
        run_id=run_id,
        started=datetime.now(UTC).isoformat(),
        argv=tuple(argv),
        scenarios=tuple(scenarios),
        sweeps=tuple(sweeps),
        study=study,
        budget_s=budget_s,
        comparison=comparison,
        explains=explains,
        sources=dict(sources),
        plans={},
        versions=facts.versions(),
        host=facts.host_facts(lab),
    )


def run_all(
    machines: Machines,
    scenarios: Sequence[Scenario],
    folder: RunFolder,
    listener: Listener,
    on_stoppable: Callable[[Stoppable], None],
    run_one: RunUnit,
    require: Callable[[Scenario, Machines], None] = requirements.require,
    now_s: Clock = time.monotonic,
) -> RunResult:
    """Run what `folder` does not hold yet; its result.json grows as units end, and is whole however the run ends.

    Trials of a unit that was interrupted are answered from the record; a unit that was
    impossible or failed is tried again. Raises what a plain scenario raises; of a sweep,
    the last of MOST_FAILURES failures in a row, or the last error if nothing was measured.
    """
    return _Run(machines, scenarios, RunContext(folder, listener, on_stoppable), run_one, require, now_s).whole()


class _Run:
    """One run between its first unit and its last."""

    def __init__(
        self,
        machines: Machines,
        units: Sequence[Scenario],
        context: RunContext,
        run_one: RunUnit,
        require: Callable[[Scenario, Machines], None],
        now_s: Clock,
    ) -> None:
        self._machines = machines
        self._units = units
        self._context = context
        self._run_one = run_one
        self._require = require
        self._alike = alike_there(units, machines)
        self._done = {result.scenario: result for result in so_far(context.folder).scenarios if _final(result)}
        self._files = Growing(context.folder, units, self._done, now_s)
        self._budget = _budget(units, self._files.info)
        self._forecast = Forecast()
        self._failures = 0  # in a row
        self._error: PinchpointError | None = None  # the last that became an outcome

    def whole(self) -> RunResult:
        try:
            self._all()
        except BaseException as error:
            try:
                self._files.flush()
            except StoreError as unwritten:
                if unwritten.message != getattr(error, "message", ""):
                    error.add_note(str(unwritten))  # what failed first is what the user must know first
            raise
        self._files.flush()
        return so_far(self._context.folder)

    def _all(self) -> None:
        for unit in self._units:
            if unit.name in self._done:
                self._learn(unit, self._done[unit.name])
        trials, measurements = (
            _by_scenario(self._context.folder.read_trials()),
            _by_scenario(self._context.folder.read_measurements()),
        )
        while left := [unit for unit in self._units if unit.name not in self._done]:
            unit = explaining.next_of(left, self._done) if self._files.info.explains else left[0]
            number = 1 + len(self._units) - len(left)
            ceilings = self._files.info.ceilings.get(unit.name)
            recorded = Recorded(trials.pop(unit.name, ()), measurements.pop(unit.name, ()), ceilings)
            result = self._left_out(unit) or self._measured(unit, number, recorded)
            self._done[unit.name] = result
            self._learn(unit, result)
            self._files.changed(unit.point.group)
            if self._failures == MOST_FAILURES and self._error is not None:
                raise self._error
        if self._error is not None and not any(result.outcome is Outcome.MEASURED for result in self._done.values()):
            raise self._error

    def _left_out(self, unit: Scenario) -> ScenarioResult | None:
        """The result of a unit for which there is no need or no time."""
        reason = self._alike.get(unit.name, "")
        if not reason and self._files.info.explains:
            reason = explaining.left_out(unit, self._units, self._done)
        if not reason and self._budget is not None:
            spent_s = math.fsum(result.wall_s for result in self._done.values())
            is_first = self._files.info.explains and explaining.is_first(unit, self._done)
            if not (is_first and spent_s < (self._files.info.budget_s or 0.0)):
                reason = self._budget.left_out(unit, self._done, spent_s, self._forecast)
        if not reason:
            return None
        result = unmeasured(unit, Outcome.SKIPPED, reason, 0.0)
        self._context.listener.scenario_ends(result)
        return result

    def _measured(self, unit: Scenario, number: int, recorded: Recorded) -> ScenarioResult:
        self._context.on_stoppable(Undoable())
        left = (other for other in self._units if other.name not in self._done and other.name not in self._alike)
        self._context.listener.run_left(self._forecast.left_s(left))
        self._context.listener.scenario_begins(unit, number, len(self._units))
        if not self._files.info.sweeps:
            return self._run_unit(unit, recorded)
        began = time.monotonic()
        try:
            self._require(unit, self._machines)
            result = self._run_unit(unit, recorded)
        except RequirementError as error:
            self._error = error
            result = unmeasured(unit, Outcome.IMPOSSIBLE, _words(error), time.monotonic() - began)
        except DifferentError:
            raise
        except (BenchError, EngineError, DutError, InputError) as error:
            self._error = error
            self._failures += 1
            result = unmeasured(unit, Outcome.FAILED, _words(error), time.monotonic() - began)
        else:
            self._judge(result)
            return result
        self._context.listener.scenario_ends(result)
        return result

    def _judge(self, result: ScenarioResult) -> None:
        """A unit that ended in order may still have yielded nothing that can be judged."""
        if result.outcome is not Outcome.FAILED:
            self._failures = 0
            return
        self._failures += 1
        self._error = BenchError(f"{result.scenario}: {result.reason}")

    def _run_unit(self, unit: Scenario, recorded: Recorded) -> ScenarioResult:
        context, began = self._context, time.monotonic()
        result = self._run_one(unit, self._files.record(), context.listener, recorded, context.on_stoppable)
        return replace(result, wall_s=max(result.wall_s, time.monotonic() - began))  # the bench's removal included

    def _learn(self, unit: Scenario, result: ScenarioResult) -> None:
        if result.outcome is Outcome.MEASURED:
            self._forecast.finished(unit, result.wall_s)


def unmeasured(unit: Scenario, outcome: Outcome, reason: str, wall_s: float) -> ScenarioResult:
    """The result of a unit that yielded no figure."""
    return replace(scenario_result(unit, wall_s), outcome=outcome, reason=reason)


def so_far(folder: RunFolder) -> RunResult:
    """What a run has found; nothing yet, if no scenario has finished."""
    return folder.read_result() or RunResult(SCHEMA, folder.run_id, False, (), (), ())


def _final(result: ScenarioResult) -> bool:
    return result.outcome in (Outcome.MEASURED, Outcome.SKIPPED)


def _budget(units: Sequence[Scenario], info: RunInfo) -> Budget | None:
    return (
        None
        if info.budget_s is None
        else Budget(units, info.sweeps, info.budget_s, in_pairs=info.comparison is not None)
    )


def _by_scenario(kept: Iterable[Kept]) -> dict[str, list[Kept]]:
    by_name: dict[str, list[Kept]] = defaultdict(list)
    for record in kept:
        by_name[record.scenario].append(record)
    return by_name


def _words(error: PinchpointError) -> str:
    """The error with its notes, e.g. what could not be removed."""
    return "\n".join((str(error), *getattr(error, "__notes__", ())))
