"""Counter-experiments: a scenario with all that it allows as one sweep, and which of these points a run makes.

It makes those that some suspicion asks for, once the unchanged bench is measured.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import msgspec

from pinchpoint.causes.experiments import OF_LOSSES, experiments, explanation
from pinchpoint.dut.registry import device_of
from pinchpoint.measure.rates.run import Rates
from pinchpoint.model.causes import Experiment, Explanation
from pinchpoint.model.errors import InputError
from pinchpoint.model.result import Outcome, ScenarioResult
from pinchpoint.model.scenario import Factor, Point, Relative, Scenario, Sweep
from pinchpoint.run.paired_benches import why_no_duet

FACTOR = "experiment"
UNCHANGED = "unchanged"


def sweep_of(scenario: Scenario, free_cpus: Collection[int] = ()) -> Sweep:
    """The scenario and every counter-experiment on it as the points of one sweep. Raises InputError.

    Each is measured beside the unchanged bench, in turns, where that is possible, else by its own search.
    """
    if not isinstance(scenario.measure, Rates):
        message = f'{scenario.path}: measure = "{scenario.measure.kind}" has no rate to explain'
        raise InputError(message, 'use a scenario with measure = "rates"')
    changed = experiments(scenario, device_of(scenario).experiments(scenario), free_cpus)
    if (control := changed.pop(Experiment.PLAIN, None)) is not None:
        changed[Experiment.PLAIN] = control  # last: what suspicions ask for has the first claim on the time

    def point(level: str, relative: Relative) -> Point:
        return Point(scenario.name, {FACTOR: level}, 1, relative, scenario.name)

    points = [
        replace(
            variant,
            name=f"{scenario.name}.{kind.replace(' ', '-')}",
            title=f"{scenario.title}, with {kind.words}",
            point=point(str(kind), Relative.NO if why_no_duet(scenario, variant) else Relative.TRIED),
        )
        for kind, variant in changed.items()
    ]
    every = (replace(scenario, point=point(UNCHANGED, Relative.TRIED)), *points)
    factor = Factor(FACTOR, "", (UNCHANGED, *map(str, changed)), falling=False)
    return Sweep(scenario.name, f"Why: {scenario.title}", (factor,), every, 1, "listed", 0)


def allowed(scenario: Scenario) -> frozenset[Experiment]:
    """The counter-experiments that would change anything of a scenario, as if its host had a free CPU."""
    if not isinstance(scenario.measure, Rates):
        return frozenset()
    every, same = experiments(scenario, device_of(scenario).experiments(scenario), (0,)), _without_lines(scenario)
    return frozenset(kind for kind, changed in every.items() if _without_lines(changed) != same)


def _without_lines(value: object) -> object:
    """A scenario as plain data, but for the places in its file: two rules of one text are the same rule."""
    if isinstance(value, Scenario):
        return _without_lines(msgspec.to_builtins(value, order="sorted"))
    if isinstance(value, list | tuple):
        return [_without_lines(element) for element in value]
    if isinstance(value, dict):
        return {key: _without_lines(inner) for key, inner in value.items() if key != "line"}
    return value


def experiment_of(unit: Scenario) -> Experiment | None:
    """What a unit tries; None: it is the unchanged bench."""
    level = unit.point.levels[FACTOR]
    return None if level == UNCHANGED else Experiment(str(level))


def left_out(unit: Scenario, units: Sequence[Scenario], done: Mapping[str, ScenarioResult]) -> str:
    """Why a counter-experiment is not made; empty if it is."""
    tried = experiment_of(unit)
    if tried is None:
        return ""
    allowed = {experiment_of(other): other for other in units if other.point.group == unit.point.group}
    unchanged = done.get(allowed[None].name)
    if unchanged is None or unchanged.outcome is not Outcome.MEASURED or unchanged.verdict is None:
        return "the unchanged bench has no verdict"
    wanted = {suspicion.experiment for suspicion in unchanged.verdict.suspicions} & allowed.keys()
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

    def place(unit: Scenario) -> int:
        tried = experiment_of(unit)
        return wanted.index(tried) if tried in wanted else len(wanted)

    return min((unit for unit in left if unit.point.group == left[0].point.group), key=place)


def is_first(unit: Scenario, done: Mapping[str, ScenarioResult]) -> bool:
    """Whether no counter-experiment of its group is measured yet: an explanation begins one while there is any time."""
    own = [name for name, result in done.items() if result.group == unit.point.group]
    return [name for name in own if done[name].outcome is Outcome.MEASURED] == [unit.point.reference]


def explained(units: Sequence[Scenario], done: Mapping[str, ScenarioResult]) -> tuple[Explanation, ...]:
    """What the measured units of each group say together; a group whose unchanged bench has no verdict says nothing."""
    groups: dict[str, dict[Experiment | None, ScenarioResult]] = {}
    for unit in units:
        if unit.name in done:
            groups.setdefault(unit.point.group, {})[experiment_of(unit)] = done[unit.name]
    told = []
    for results in groups.values():
        if (unchanged := results.get(None)) is not None:
            made = {kind: result for kind, result in results.items() if kind is not None}
            told.append(explanation(unchanged, made))
    return tuple(filter(None, told))
