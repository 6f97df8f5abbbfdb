"""Which counter-experiments a run makes: those that some suspicion asks for, once the unchanged bench is measured."""

from collections.abc import Mapping, Sequence

from pinchpoint.causes.experiments import OF_LOSSES, explanation
from pinchpoint.model.causes import Experiment, Explanation
from pinchpoint.model.result import Outcome, ScenarioResult
from pinchpoint.model.scenario import Scenario

FACTOR = "experiment"
UNCHANGED = "unchanged"


def experiment_of(unit: Scenario) -> Experiment | None:
    """What a unit tries; None: it is the unchanged bench."""
    level = unit.point.levels[FACTOR]
    return None if level == UNCHANGED else Experiment(str(level))


def left_out(unit: Scenario, units: Sequence[Scenario], done: Mapping[str, ScenarioResult]) -> str:
    """Why a counter-experiment is not made; empty if it is."""
    tried = experiment_of(unit)
    if tried is None:
        return ""
    reference = next(other for other in units if experiment_of(other) is None and other.point.group == unit.point.group)
    unchanged = done.get(reference.name)
    if unchanged is None or unchanged.outcome is not Outcome.MEASURED or unchanged.verdict is None:
        return "the unchanged bench has no verdict"
    allowed = {experiment_of(other) for other in units if other.point.group == unit.point.group}
    wanted = {suspicion.experiment for suspicion in unchanged.verdict.suspicions} & allowed
    # The device's plain forwarding is the control of everything that its threads have no time for.
    if tried in wanted or (tried is Experiment.PLAIN and wanted - OF_LOSSES - {None}):
        return ""
    return "not needed"


def next_of(left: Sequence[Scenario], done: Mapping[str, ScenarioResult]) -> Scenario:
    """Which of the units that are left is next: of counter-experiments the one that the likeliest cause asks for."""
    unchanged = done.get(left[0].point.reference)
    if unchanged is None or unchanged.verdict is None:
        return left[0]
    wanted = [suspicion.experiment for suspicion in unchanged.verdict.suspicions]
    own = [unit for unit in left if unit.point.group == left[0].point.group]
    return min(own, key=lambda unit: _place(wanted, experiment_of(unit)))


def _place(wanted: Sequence[Experiment | None], tried: Experiment | None) -> int:
    return wanted.index(tried) if tried in wanted else len(wanted)


def is_first(unit: Scenario, done: Mapping[str, ScenarioResult]) -> bool:
    """Whether no counter-experiment of its group is measured yet: an explanation begins one while there is any time."""
    names = [
        name for name, result in done.items() if result.group == unit.point.group and result.outcome is Outcome.MEASURED
    ]
    return names == [unit.point.reference]


def explained(units: Sequence[Scenario], done: Mapping[str, ScenarioResult]) -> tuple[Explanation, ...]:
    """What the measured units of each group say together; a group whose unchanged bench has no verdict says nothing."""
    groups = dict.fromkeys(unit.point.group for unit in units)
    each = (_explained([unit for unit in units if unit.point.group == group], done) for group in groups)
    return tuple(filter(None, each))


def _explained(units: Sequence[Scenario], done: Mapping[str, ScenarioResult]) -> Explanation | None:
    results = {experiment_of(unit): done[unit.name] for unit in units if unit.name in done}
    unchanged = results.get(None)
    made = {kind: result for kind, result in results.items() if kind is not None}
    return explanation(unchanged, made) if unchanged is not None else None
