"""The measures that there are: every MeasureKind in the `run` of a package of this folder."""

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

from pinchpoint.measure.kind import MeasureKind
from pinchpoint.model.scenario import Scenario

DEFAULT = "rates"


def measures() -> tuple[MeasureKind, ...]:
    """Every value of `measure`, in the order of the folders."""
    return tuple(_by_name().values())


def find(name: str) -> MeasureKind | None:
    """The measure of that name; None if there is none, as in a run of another release."""
    return _by_name().get(name)


def is_search(name: str) -> bool:
    """Whether the numbers of the measure of that name are NDR and PDRs of frames."""
    kind = find(name)
    return kind is not None and kind.is_search


def measure(name: str) -> MeasureKind:
    """The measure of that name, which there must be."""
    return _by_name()[name]


def measure_of(scenario: Scenario) -> MeasureKind:
    """The measure that the scenario asks for."""
    return measure(scenario.measure.kind)


@cache
def _by_name() -> Mapping[str, MeasureKind]:
    folders = [module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]) if module.ispkg]
    declared = (vars(import_module(f"pinchpoint.measure.{name}.run")).values() for name in sorted(folders))
    return {kind.name: kind for values in declared for kind in values if isinstance(kind, MeasureKind)}
