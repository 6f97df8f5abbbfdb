"""Which points of a run are measured as ratios, to which reference; the others are measured alone.

The reference of a group is the first of its points that is measured and that the engine can overload. Its bench stands,
frozen, from the first point that is measured beside it to the group's last one, or until something is measured that
needs the machine alone. Where slices show that the engine cannot overload it, and no point is relative to it yet, the
point beside it becomes the reference.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import TracebackType

from pinchpoint.dut import requirements
from pinchpoint.findings.paired_benches import not_overloaded, of_reference, surely_not_overloaded
from pinchpoint.host.machines import Machines
from pinchpoint.measure.listener import Listener
from pinchpoint.measure.standing import Record, Recorded, RunUnit, Stoppable
from pinchpoint.model.duet import RELATIVE, Stretch
from pinchpoint.model.errors import (
    BenchError,
    DutError,
    EngineError,
    HostLostError,
    PinchpointError,
    RequirementError,
)
from pinchpoint.model.result import Outcome, RateStatus, ScenarioResult
from pinchpoint.model.scenario import LAB, Relative, Scenario
from pinchpoint.model.study import Bound
from pinchpoint.run.duet_run import why_no_duet
from pinchpoint.run.reference_bench import ReferenceBench
from pinchpoint.stats.estimate import bound_of


class References:
    """Runs one unit after the other; inside the `with` block a reference may stand between them."""

    def __init__(
        self,
        machines: Machines,
        units: Sequence[Scenario],
        done: Iterable[ScenarioResult],
        stretches: Sequence[Stretch],
        keep: Callable[[Stretch], None],
        run_one: RunUnit,
        run_alone: RunUnit,
        stand: Callable[[Machines, Scenario, Listener, Record], ReferenceBench] = ReferenceBench,
        require: Callable[[Scenario, Machines], None] = requirements.require,
        lacking: Callable[[Scenario, Scenario, Machines], PinchpointError | None] = requirements.lacking_together,
    ) -> None:
        """`done` and `stretches`: what an interrupted run has found. `run_one` runs a unit with its own search and
        the engine's ceiling, `run_alone` without the ceiling.
        """
        self._machines = machines
        self._by_name = {unit.name: unit for unit in units}
        self._reference = dict[str, Scenario]()  # by group
        self._stretches = list(stretches)
        self._keep = keep
        self._run_one, self._run_alone = run_one, run_alone
        self._stand, self._require, self._lacking = stand, require, lacking
        self._standing: ReferenceBench | None = None
        self._related = set[str]()  # names of references that a point is a multiple of
        for result in done:
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
        try:
            self._drop()
        except PinchpointError as left:
            if error is None:
                raise
            error.add_note(str(left))  # what failed first is what the user must know first

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

    def run(
        self,
        unit: Scenario,
        record: Record,
        listener: Listener,
        recorded: Recorded,
        on_stoppable: Callable[[Stoppable], None] = lambda _: None,
    ) -> ScenarioResult:
        """One unit, as `run_scenario` does; beside its reference where it is to be measured so and can be."""
        arguments = record, listener, recorded, on_stoppable
        if unit.point.relative is Relative.NO:
            self._drop()
            return self._run_one(unit, *arguments)
        reference = self._reference.get(unit.point.group)
        if reference is None and unit.point.relative is Relative.TRIED:  # compared with this one, and with no other
            reference = self._by_name.get(unit.point.reference)
        if reference is None or reference.point.levels == unit.point.levels:
            return self._as_reference(unit, reference, arguments)
        why = self._why_not_beside(reference, unit, listener, record)
        if why:
            self._drop()
            result = self._run_one(unit, *arguments)
            return replace(result, warnings=(*result.warnings, f"no relative rate: {why}"))
        assert self._standing is not None
        is_searched = unit.point.relative is Relative.BESIDE
        runs = self._run_one if is_searched else self._run_alone
        mine = [stretch for stretch in self._stretches if stretch.scenario == unit.name]

        def keep(stretch: Stretch) -> None:
            mine.append(stretch)
            self._stretches.append(stretch)  # kept for the unit's next attempt, should its host be lost
            self._keep(stretch)

        try:
            result = self._standing.measured(runs, unit, tuple(mine), keep, arguments)
        except (BenchError, DutError, EngineError) as error:
            raise self._dropped_after(error) from error  # either of the two benches may be the broken one
        return self._beside(result, unit, reference, mine)

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

    def _as_reference(
        self,
        unit: Scenario,
        reference: Scenario | None,
        arguments: tuple[Record, Listener, Recorded, Callable[[Stoppable], None]],
    ) -> ScenarioResult:
        """The group's first point, or a repeat of it; only the former may turn out to be none."""
        self._drop()
        result = self._run_one(unit, *arguments)
        if result.outcome is not Outcome.MEASURED:
            return result
        if why := why_no_duet(unit, unit):
            return replace(result, warnings=(*result.warnings, f"no relative rate: {why}"))
        if reference is None and any(rate.status is RateStatus.AT_LEAST for rate in result.rates):
            return replace(result, metrics=(not_overloaded(result.most_offered_fps), *result.metrics))
        reference = self._reference.setdefault(unit.point.group, reference or unit)
        return replace(result, metrics=(of_reference(), *result.metrics), reference=reference.name)

    def _why_not_beside(self, reference: Scenario, unit: Scenario, listener: Listener, record: Record) -> str:
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
            self._standing = self._stand(self._machines, reference, listener, record)
        except (BenchError, DutError, EngineError) as error:
            return f"its reference {reference.name} cannot stand: {error.message}"
        return ""

    def _drop(self) -> None:
        standing, self._standing = self._standing, None
        if standing is not None:
            standing.drop()

    def _dropped_after(self, error: PinchpointError) -> PinchpointError:
        """The error, with what remained; of a host that was lost meanwhile, that."""
        assert self._standing is not None
        if self._standing.is_gone:
            error = _lost(self._standing.scenario)
        try:
            self._drop()
        except PinchpointError as left:
            error.add_note(str(left))
        return error


def _lost(reference: Scenario) -> HostLostError:
    """Of a reference whose host may be connected again, but has undone its bench."""
    where = reference.remote.address if reference.remote else LAB
    return HostLostError(f"{where} was lost while the reference {reference.name} stood there", f"ssh {where} true")


def _ratio_of(result: ScenarioResult) -> bool:
    """Whether it has a relative rate."""
    return any(metric.name == RELATIVE and bound_of(metric) is not Bound.REFUSED for metric in result.metrics)
