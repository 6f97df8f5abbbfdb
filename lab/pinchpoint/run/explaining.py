"""Which counter-experiments a run makes: those that some suspicion asks for, once the unchanged bench is measured."""

from collections.abc import Mapping, Sequence

from pinchpoint.causes.explained import explanation
from pinchpoint.model.causes import Experiment, Explanation
from pinchpoint.model.result import Outcome, ScenarioResult
from pinchpoint.model.scenario import Scenario

FACTOR = "experiment"
UNCHANGED = "unchanged"
OF_THE_RATE = frozenset({Experiment.LARGE_RING, Experiment.SHORT_FRAMES})
"""Experiments that change what is lost below the capacity, so that the loss-free rates are compared."""


def experiment_of(unit: Scenario) -> Experiment | None:
    """What a unit tries; None: it is the unchanged bench."""
    level = unit.point.levels[FACTOR]
    return None if level == UNCHANGED else Experiment(str(level))


def left_out(unit: Scenario, units: Sequence[Scenario], done: Mapping[str, ScenarioResult]) -> str:
    """Why a counter-experiment is not made; empty if it is."""
    tried = experiment_of(unit)
    if tried is None:
        return ""
    reference = next(one for one in units if experiment_of(one) is None and one.point.group == unit.point.group)
    found = done.get(reference.name)
    if found is None or found.outcome is not Outcome.MEASURED or found.verdict is None:
        return "the unchanged bench has no verdict"
    wanted = {one.experiment for one in found.verdict.suspicions}
    # The device's plain forwarding is the control of everything that its threads have no time for.
    if tried in wanted or (tried is Experiment.PLAIN and wanted - OF_THE_RATE - {None}):
        return ""
    return "no suspicion asks for it"


def explained(units: Sequence[Scenario], done: Mapping[str, ScenarioResult]) -> tuple[Explanation, ...]:
    """What the measured units of each group say together; a group whose unchanged bench has no verdict says nothing."""
    groups = dict.fromkeys(unit.point.group for unit in units)
    each = (_explained([unit for unit in units if unit.point.group == group], done) for group in groups)
    return tuple(filter(None, each))


def _explained(units: Sequence[Scenario], done: Mapping[str, ScenarioResult]) -> Explanation | None:
    found = {experiment_of(unit): done[unit.name] for unit in units if unit.name in done}
    unchanged = found.get(None)
    made = {kind: one for kind, one in found.items() if kind is not None}
    return explanation(unchanged, made) if unchanged is not None else None
