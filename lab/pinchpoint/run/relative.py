"""Which points of a run are measured as ratios, to which reference; the others are measured alone.

The reference of a group is the first of its points that is measured and that the engine can overload. Its bench stands,
frozen, from the first point that is measured beside it to the group's last one, or until something is measured that
needs the machine alone. Where slices show that the engine cannot overload it, and no point is relative to it yet, the
point beside it becomes the reference.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from functools import partial
from types import TracebackType

from pinchpoint.causes.experiments import OF_LOSSES
from pinchpoint.dut.device import Device
from pinchpoint.dut.registry import device_of
from pinchpoint.dut.setup import lacking_together
from pinchpoint.dut.setup import require as require_alone
from pinchpoint.findings.paired_benches import (
    is_enough,
    not_overloaded,
    of_reference,
    relative_metrics,
    surely_not_overloaded,
)
from pinchpoint.host.machines import Machines
from pinchpoint.measure.forwarding import of_trial
from pinchpoint.measure.rates.run import measure_rates
from pinchpoint.measure.standing import RunUnit, Standing, Task
from pinchpoint.measure.summary import result_of
from pinchpoint.model.causes import Turns
from pinchpoint.model.duet import RELATIVE, Stretch
from pinchpoint.model.errors import BROKEN, HostLostError, PinchpointError, RequirementError
from pinchpoint.model.measurement import Bound, Metric
from pinchpoint.model.result import Outcome, RateStatus, ScenarioResult
from pinchpoint.model.scenario import Relative, Scenario
from pinchpoint.model.site import LAB
from pinchpoint.model.trial import Record, Trial, TrialValidity
from pinchpoint.model.warning import Warn
from pinchpoint.run.duet import AlternatingSlices, SliceRecord
from pinchpoint.run.explaining import experiment_of
from pinchpoint.run.interleaved import measure_turns, overload
from pinchpoint.run.paired_benches import beside, first_of_pair, warm_pair, why_no_duet
from pinchpoint.stats.estimate import bound_of
from pinchpoint.store.folder import RunFolder

MOST_S = 60.0  # of slices of one point, however few of them could be used and however wide its interval is then
EXPLAINED_S = 15.0  # of slices of a counter-experiment, whose trials in turns have decided before


class StandingReference:
    """The bench of one reference, which stands frozen until `drop`."""

    def __init__(self, machines: Machines, reference: Scenario, task: Task) -> None:
        """Build it. Raises what building raises, nothing left behind.

        Its warm-ups are of no result, so that nothing of them is kept; what is known of programs is.
        """
        silent = Task(task.listener, note_facts=task.note_facts, engine_log=task.engine_log)
        self._machines = machines
        with ExitStack() as made:
            self._bench = made.enter_context(first_of_pair(machines, reference, silent))
            self._connection = machines.connection(reference.site)
            self._stack = made.pop_all()

    @property
    def scenario(self) -> Scenario:
        """The scenario of the bench that stands."""
        return self._bench.scenario

    @property
    def is_gone(self) -> bool:
        """Whether its host was lost meanwhile, even if it is connected again: it has undone the bench itself."""
        return self._machines.connection(self.scenario.site) != self._connection

    def drop(self) -> None:
        """Remove it. Raises BenchError for what remains."""
        with suppress(PinchpointError) if self.is_gone else nullcontext():
            self._stack.close()

    def measured(self, run_one: RunUnit, unit: Scenario, task: Task, record: SliceRecord) -> ScenarioResult:
        """A point beside it, its own rates included where the point wants them. Raises what measuring raises.

        `record` has the point's slices so far.
        """
        run_one = run_one if unit.point.relative is Relative.BESIDE else partial(run_one, ceiling_test=None)
        measure = partial(self._measure, record=record)
        result = run_one(unit, task, plan_bench=beside(self._bench), measure=measure)
        return replace(result, reference=self.scenario.name)

    def _measure(self, bench: Standing, record: SliceRecord) -> ScenarioResult:
        """Slices; before them a search where the point wants one, and of a counter-experiment trials in turns."""
        unit, began, length_s, bench = bench.scenario, time.monotonic(), MOST_S, _numbering_on(bench)
        trials, turns = list[Trial](), list[Turns]()
        searched = measure_rates(bench) if unit.point.relative is Relative.BESIDE else None
        own = replace(self._bench, task=replace(self._bench.task, on_stoppable=bench.task.on_stoppable))
        with warm_pair(own, bench) as pair:
            if unit.point.relative is Relative.TRIED:
                is_below = experiment_of(unit) in OF_LOSSES
                turns.append(measure_turns(pair, is_below, trials))
                length_s = 0.0 if is_below else EXPLAINED_S
            elif searched is None:  # a search has shown the same
                trials.append(overload(pair))
            AlternatingSlices(pair, record, is_enough).measure(length_s)
        ratio = relative_metrics(record.stretches, self.scenario.name, needs_interval=bool(turns)) if length_s else ()
        warnings, wall_s = pair.warnings, time.monotonic() - began
        if searched is not None:
            warnings, metrics = (*searched.warnings, *warnings), (*ratio, *searched.metrics)
            return replace(searched, metrics=metrics, warnings=warnings, wall_s=wall_s)
        if turns:  # which are the answer where slices give no ratio, so that it is no result that they do not
            refused = [metric for metric in ratio if metric.bound is Bound.REFUSED]
            warnings += tuple(Warn.NO_SLICE_RATIO.of(metric.note) for metric in refused)
            ratio = tuple(metric for metric in ratio if metric.bound is not Bound.REFUSED)
        metrics = (*ratio, *_explaining(trials, device_of(unit)))
        result = result_of(unit, trials, wall_s, metrics, warnings)
        return replace(result, turns=turns[0] if turns else None)


def _numbering_on(bench: Standing) -> Standing:
    """The same, whose trials of before grow by what is kept: the pair's own are numbered after those of the search."""
    records = list(bench.task.records)

    def keep(record: Record) -> None:
        bench.task.keep(record)
        records.append(record)

    return replace(bench, task=replace(bench.task, keep=keep, records=records))


def _explaining(trials: Sequence[Trial], device: Device) -> tuple[Metric, ...]:
    """Cycles, lookups and tables of the last trial: of the point alone, since slices do not measure them."""
    seen = [trial for trial in trials if trial.validity is not TrialValidity.ABORTED]
    metrics = of_trial(seen[-1], device) if seen else ()
    return tuple(replace(metric, note="; ".join(filter(None, (metric.note, "in a short trial")))) for metric in metrics)


class References:
    """Runs one unit after the other; inside the `with` block a reference may stand between them."""

    def __init__(
        self,
        machines: Machines,
        units: Sequence[Scenario],
        folder: RunFolder,
        run_one: RunUnit,
        stand: Callable[[Machines, Scenario, Task], StandingReference] = StandingReference,
        require: Callable[[Scenario, Machines], None] = require_alone,
        lacking: Callable[[Scenario, Scenario, Machines], PinchpointError | None] = lacking_together,
    ) -> None:
        """`folder` has what an interrupted run has found. `run_one` runs a unit on its own, as `run_scenario` does."""
        self._machines, self._folder, self._run_one = machines, folder, run_one
        self._stand, self._require, self._lacking = stand, require, lacking
        self._by_name = {unit.name: unit for unit in units}
        self._reference = dict[str, Scenario]()  # by group
        self._stretches = list(folder.read_stretches())
        self._standing: StandingReference | None = None
        self._related = set[str]()  # names of references that a point is a multiple of
        for result in folder.so_far().scenarios:
            if result.outcome is not Outcome.MEASURED or not _ratio_of(result):
                continue
            if result.reference == result.scenario in self._by_name:
                self._reference[result.group] = self._by_name[result.scenario]
            else:
                self._related.add(result.reference)

    def __enter__(self) -> "References":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._drop()
        else:
            self._drop_after(error)

    def require(self, unit: Scenario, machines: Machines) -> None:
        """Raises RequirementError if the machine cannot run the unit, not even with nothing else standing."""
        if self._standing is not None and self._standing.scenario.point.group != unit.point.group:
            self._drop()
        try:
            self._require(unit, machines)
        except RequirementError:
            if self._standing is None:
                raise
            self._drop()
            self._require(unit, machines)

    def run(self, unit: Scenario, task: Task) -> ScenarioResult:
        """One unit, as `run_scenario` does; beside its reference where it is to be measured so and can be."""
        if unit.point.relative is Relative.NO:
            self._drop()
            return self._run_one(unit, task)
        reference = self._reference.get(unit.point.group)
        if reference is None and unit.point.relative is Relative.TRIED:  # compared with this one, and with no other
            reference = self._by_name.get(unit.point.reference)
        if reference is None or reference.point.levels == unit.point.levels:
            return self._as_reference(unit, reference, task)
        if why := self._why_not_beside(reference, unit, task):
            self._drop()
            result = self._run_one(unit, task)
            return replace(result, warnings=(*result.warnings, Warn.NO_RELATIVE_RATE.of(why)))
        assert self._standing is not None
        record = SliceRecord(self._store, self._stretches, unit.name)
        try:
            result = self._standing.measured(self._run_one, unit, task, record)
        except BROKEN as error:  # either of the two benches may be it
            told = _lost(reference) if self._standing.is_gone else error
            self._drop_after(told)
            raise told from error
        return self._beside(result, unit, reference, record.stretches)

    def _store(self, stretch: Stretch) -> None:
        self._stretches.append(stretch)  # kept for the unit's next attempt, should its host be lost
        self._folder.append_stretch(stretch)

    def _beside(
        self, result: ScenarioResult, unit: Scenario, reference: Scenario, stretches: Sequence[Stretch]
    ) -> ScenarioResult:
        """A point's result; or that of a new reference, where the engine cannot overload the old one but the point."""
        if _ratio_of(result):
            self._related.add(reference.name)
        if unit.point.relative is Relative.TRIED:
            return result
        if reference.name in self._related or not surely_not_overloaded(stretches, "A"):
            return result
        self._drop()
        if surely_not_overloaded(stretches, "B"):
            del self._reference[unit.point.group]
            return result
        self._reference[unit.point.group] = unit
        kept = tuple(metric for metric in result.metrics if metric.name != RELATIVE)
        return replace(result, metrics=(of_reference(), *kept), reference=unit.name)

    def _as_reference(self, unit: Scenario, reference: Scenario | None, task: Task) -> ScenarioResult:
        """The group's first point, or a repeat of it; only the former may turn out to be none."""
        self._drop()
        result = self._run_one(unit, task)
        if result.outcome is not Outcome.MEASURED:
            return result
        if why := why_no_duet(unit, unit):
            return replace(result, warnings=(*result.warnings, Warn.NO_RELATIVE_RATE.of(why)))
        if reference is None and any(rate.status is RateStatus.AT_LEAST for rate in result.rates):
            return replace(result, metrics=(not_overloaded(result.most_offered_fps), *result.metrics))
        reference = self._reference.setdefault(unit.point.group, reference or unit)
        return replace(result, metrics=(of_reference(), *result.metrics), reference=reference.name)

    def _why_not_beside(self, reference: Scenario, unit: Scenario, task: Task) -> str:
        """Why the unit cannot be measured beside its reference; empty if it can, and the reference then stands."""
        if why := why_no_duet(reference, unit):
            return why
        if self._standing is not None and self._standing.scenario.name == reference.name:
            if self._standing.is_gone:
                self._drop()
                raise _lost(reference)
            return ""
        self._drop()
        if lacking := self._lacking(reference, unit, self._machines):
            return f"{lacking.message} (hint: {lacking.hint})"
        try:
            self._standing = self._stand(self._machines, reference, task)
        except BROKEN as error:
            return f"its reference {reference.name} cannot stand: {error.message}"
        return ""

    def _drop(self) -> None:
        standing, self._standing = self._standing, None
        if standing is not None:
            standing.drop()

    def _drop_after(self, error: BaseException) -> None:
        """What remains becomes a note: what failed first is what the user must know first."""
        try:
            self._drop()
        except PinchpointError as left:
            error.add_note(str(left))


def _lost(reference: Scenario) -> HostLostError:
    """Of a reference whose host may be connected again, but has undone its bench."""
    where = reference.site.address or LAB
    return HostLostError(f"{where} was lost while the reference {reference.name} stood there", f"ssh {where} true")


def _ratio_of(result: ScenarioResult) -> bool:
    """Whether it has a relative rate."""
    return any(metric.name == RELATIVE and bound_of(metric) is not Bound.REFUSED for metric in result.metrics)
