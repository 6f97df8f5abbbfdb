"""Made-up sweeps over the shipped quickstart, and results of their points."""

from dataclasses import replace
from itertools import product
from pathlib import Path

from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import Outcome, Rate, RateStatus, ScenarioResult
from pinchpoint.model.scenario import Factor, Point, Sweep
from pinchpoint.run.run import unmeasured
from pinchpoint.scenario import load_sweep

ROOT = Path(__file__).parents[2]


def base(file: str = "1-forward", **changes: object):
    """A shipped scenario, with keys of its file (`dut__smc`) changed as --set changes them."""
    settings = {key.replace("__", "."): value for key, value in changes.items()}
    (scenario,) = load_sweep(ROOT / "studies" / "quickstart" / f"{file}.toml", False, settings).scenarios
    return scenario


def factor(levels, name: str = "rules", falling: bool = False) -> Factor:
    return Factor(name, "", tuple(levels), falling)


def sweep(*factors: Factor, group: str = "g", repeats: int = 1, order: str = "interleaved", seed: int = 1) -> Sweep:
    """The full factorial of the factors."""
    plain = base()

    def point(levels):
        name = "-".join([group, *(f"{f.name}-{level}" for f, level in zip(factors, levels, strict=True))])
        at = Point(group, {f.name: level for f, level in zip(factors, levels, strict=True)})
        return replace(plain, name=name, point=at)

    scenarios = tuple(point(levels) for levels in product(*(f.levels for f in factors)))
    return Sweep(group, f"group {group}", factors, scenarios, repeats, order, seed)


def measured(unit, value: float, wall_s: float = 1.0, low=None, high=None) -> ScenarioResult:
    """A result with one rate that was found."""
    result = unmeasured(unit, Outcome.MEASURED, "", wall_s)
    rate = Rate(0.0, RateStatus.FOUND, value, value, 1.0, 1.0, "")
    return replace(result, rates=(rate,), metrics=(Metric(rate.name, "fps", value, low, high),))
