"""A scenario and every counter-experiment on it, as the points of one sweep."""

from collections.abc import Collection
from dataclasses import replace

from pinchpoint.causes.experiments import experiments
from pinchpoint.dut.registry import device_of
from pinchpoint.measure.rates import Rates
from pinchpoint.model.causes import Experiment
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Factor, Point, Relative, Scenario, Sweep
from pinchpoint.run.duet_run import why_no_duet
from pinchpoint.run.explaining import FACTOR, UNCHANGED


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
    reference = replace(scenario, point=_point(scenario, UNCHANGED, Relative.TRIED))
    points = [
        replace(
            variant,
            name=f"{scenario.name}.{kind.replace(' ', '-')}",
            title=f"{scenario.title}, with {kind.words}",
            point=_point(scenario, str(kind), _relative(scenario, variant)),
        )
        for kind, variant in changed.items()
    ]
    levels = (UNCHANGED, *map(str, changed))
    factor = Factor(FACTOR, "", levels, falling=False)
    return Sweep(scenario.name, f"Why: {scenario.title}", (factor,), (reference, *points), 1, "listed", 0)


def _point(scenario: Scenario, level: str, relative: Relative) -> Point:
    return Point(scenario.name, {FACTOR: level}, 1, relative, scenario.name)


def _relative(scenario: Scenario, changed: Scenario) -> Relative:
    return Relative.NO if why_no_duet(scenario, changed) else Relative.TRIED
