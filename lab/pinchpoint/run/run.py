"""A whole run: its units one after the other into one run folder, resumable at any trial."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pinchpoint.dut.placement import alike_there
from pinchpoint.dut.setup import require as require_alone
from pinchpoint.host import facts
from pinchpoint.host.interface import Host
from pinchpoint.host.machines import Machines
from pinchpoint.measure.standing import RunUnit, Undoable
from pinchpoint.measure.summary import scenario_result
from pinchpoint.model.errors import OF_A_UNIT, BenchError, PinchpointError, RequirementError, StoreError
from pinchpoint.model.result import Outcome, RunInfo, RunResult, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.run import explaining
from pinchpoint.run.budget import Budget, Forecast
from pinchpoint.run.checkpoint import Clock, DifferentError, Growing, RunContext
from pinchpoint.run.comparison import BothBenches
from pinchpoint.store.codec import SCHEMA

Require = Callable[[Scenario, Machines], None]
MOST_FAILURES = 3  # in a row: then it is the machine and not the point


def describe_run(
    lab: Host,
    run_id: str,
    argv: Sequence[str],
    scenarios: Sequence[Mapping[str, object]],
    sources: Mapping[str, str],
    *asked: Any,
    **further: Any,
) -> RunInfo:
    """What `run.json` says before the first scenario starts; `asked`, `further`: fields of RunInfo from `sweeps` on.

    With `sweeps` the run goes on past what is impossible or fails; without, the first error ends it.
    """
    plain, started = tuple(scenarios), datetime.now(UTC).isoformat()
    of_lab = facts.versions(lab), facts.host_facts(lab)
    return RunInfo(SCHEMA, run_id, started, tuple(argv), plain, dict(sources), {}, *of_lab, *asked, **further)


def run_all(
    context: RunContext,
    units: Sequence[Scenario],
    run_one: RunUnit,
    require: Require = require_alone,
    now_s: Clock = time.monotonic,
) -> RunResult:
    """Run what the folder does not hold yet; its result.json grows as units end, and is whole however the run ends.

    Trials of a unit that was interrupted are answered from the record; a unit that was impossible or failed is tried
    again.

    Raises what a plain scenario raises; of a sweep, the last of MOST_FAILURES failures in a row, or the last error if
    nothing was measured.
    """
    run = _Run(context, units, run_one, require, now_s)
    with run.stored():
        for unit, number in run.left():
            run.keep(unit, run.left_out(unit) or run.measured(unit, number))
    return context.folder.so_far()


class _Run:
    """One run between its first unit and its last."""

    def __init__(
        self, context: RunContext, units: Sequence[Scenario], run_one: RunUnit, require: Require, now_s: Clock
    ) -> None:
        self._context, self._units, self._require = context, units, require
        self._alike = alike_there(units, context.machines)
        self._files = Growing(context.folder, units, now_s)
        self._done = self._files.done
        info = self._files.info
        in_pairs = info.comparison is not None
        at_once = info.comparison is not None and info.comparison.is_at_once
        self._both = BothBenches(units, self._files, context) if at_once else None  # which hold a budget themselves
        self._run_one = run_one if self._both is None else self._both.run
        self._budget = None if info.budget_s is None or at_once else Budget(units, info.sweeps, info.budget_s, in_pairs)
        self._forecast = Forecast()
        self._failures = 0  # in a row
        self._error: PinchpointError | None = None  # the last that became an outcome

    @contextmanager
    def stored(self) -> Iterator[None]:
        """What was found inside is on the disk, however the block ends."""
        try:
            yield
        except BaseException as error:
            try:
                self._files.ended_early(self._both.so_far if self._both else ())
                self._files.flush()
            except StoreError as unwritten:
                if not isinstance(error, StoreError):  # one full disk is one error
                    error.add_note(str(unwritten))  # what failed first is what the user must know first
            raise
        self._files.flush()

    def left(self) -> Iterator[tuple[Scenario, int]]:
        """The unit to take next, and its number, until all have a result. Raises what ends the run."""
        for unit in self._units:
            if unit.name in self._done:
                self._learn(unit, self._done[unit.name])
        while left := [unit for unit in self._units if unit.name not in self._done]:
            unit = explaining.next_of(left, self._done) if self._files.info.explains else left[0]
            yield unit, 1 + len(self._units) - len(left)
            if self._failures == MOST_FAILURES and self._error is not None:
                raise self._error
        if self._error is not None and not any(result.outcome is Outcome.MEASURED for result in self._done.values()):
            raise self._error

    def keep(self, unit: Scenario, result: ScenarioResult) -> None:
        """It has its result."""
        self._done[unit.name] = result
        self._learn(unit, result)
        self._files.changed(unit.point.group)

    def left_out(self, unit: Scenario) -> ScenarioResult | None:
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

    def measured(self, unit: Scenario, number: int) -> ScenarioResult:
        """Its result on a bench of its own; of a sweep also that it is impossible or failed."""
        self._context.on_stoppable(Undoable())
        left = (other for other in self._units if other.name not in self._done and other.name not in self._alike)
        self._context.listener.run_left(self._forecast.left_s(left))
        self._context.listener.scenario_begins(unit, number, len(self._units))
        is_swept, began = bool(self._files.info.sweeps) and not self._both, time.monotonic()
        try:
            if is_swept:
                self._require(unit, self._context.machines)
            for attempt in self._context.attempts(self._units if self._both else [unit]):
                with attempt:
                    result = self._run_one(unit, self._files.task(unit.name, self._context))
        except OF_A_UNIT as error:
            if not is_swept or isinstance(error, DifferentError):
                raise
            self._error = error
            outcome = Outcome.IMPOSSIBLE if isinstance(error, RequirementError) else Outcome.FAILED
            self._failures += outcome is Outcome.FAILED
            told = "\n".join((str(error), *getattr(error, "__notes__", ())))  # e.g. what could not be removed
            result = unmeasured(unit, outcome, told, time.monotonic() - began)
            self._context.listener.scenario_ends(result)
            return result
        if self._both is None:  # of two benches at once each has its half, and no more
            result = replace(result, wall_s=max(result.wall_s, time.monotonic() - began))  # the removal included
        if not is_swept:
            return result
        # A unit that ended in order may still have yielded nothing that can be judged.
        self._failures = self._failures + 1 if result.outcome is Outcome.FAILED else 0
        if self._failures:
            self._error = BenchError(f"{result.scenario}: {result.reason}")
        return result

    def _learn(self, unit: Scenario, result: ScenarioResult) -> None:
        if result.outcome is Outcome.MEASURED:
            self._forecast.finished(unit, result.wall_s)


def unmeasured(unit: Scenario, outcome: Outcome, reason: str, wall_s: float) -> ScenarioResult:
    """The result of a unit that yielded no figure."""
    return replace(scenario_result(unit, wall_s), outcome=outcome, reason=reason)
