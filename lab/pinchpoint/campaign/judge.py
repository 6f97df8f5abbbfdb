"""Compares machines with each other, and each with its own past; pure.

Against the others: a mixed model over points that several machines have measured (stats/mixed.py). A machine whose
factor to the median machine lies with its whole interval beyond the tolerance is not what the others are. Two machines
that differ do not say which of them is wrong, so it takes three. Against itself: the series of its control figures is
cut where its level changes (stats/change_points.py). A last level that lies beyond the tolerance from the first one is
a drift.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp
from statistics import median, median_high, median_low
from typing import Final

from pinchpoint.findings.curves import metrics_of
from pinchpoint.model.campaign import Calibration, Exclusion, MachineFactor
from pinchpoint.model.levels import CONFIDENCE
from pinchpoint.model.result import ScenarioResult
from pinchpoint.model.study import Bound
from pinchpoint.stats import mixed
from pinchpoint.stats.change_points import segments
from pinchpoint.stats.estimate import bound_of

SURE: Final = 0.99  # of the interval by which a machine is excluded
FEWEST_MACHINES: Final = 3
FEWEST_FIGURES: Final = 3  # of the control on a machine


@dataclass(frozen=True)
class Figure:
    """One figure at a point, on a machine."""

    point: str
    machine: str
    value: float


def figure_of(result: ScenarioResult) -> float | None:
    """The figure that machines are compared by: the first that is a number, positive; None if there is none."""
    if result.rates and (quoted := result.rates[0].quoted_fps):
        return quoted
    values = (values.value for values in metrics_of(result) if bound_of(values) is Bound.FOUND and values.value > 0)
    return next(values, None)


def calibrated(
    figures: Iterable[Figure],
    controls: Mapping[str, Sequence[float]] = {},
    exclusions: Sequence[Exclusion] = (),
) -> Calibration:
    """All machines against each other, by every point that two of them have measured."""
    kept = list(figures)
    shared = {figure.point: set[str]() for figure in kept}
    for figure in kept:
        shared[figure.point].add(figure.machine)
    equal = [figure for figure in kept if len(shared[figure.point]) > 1]
    fitted = _fit(equal)
    return Calibration(
        figure="the first figure of every point that several machines have measured",
        confidence=CONFIDENCE,
        factors=_factors(fitted, CONFIDENCE, median(fitted.effects)) if fitted else (),
        machine_sd=fitted.machine_sd if fitted else None,
        repeat_sd=fitted.repeat_sd if fitted else None,
        exclusions=tuple(exclusions),
        controls={machine: tuple(values) for machine, values in controls.items()},
    )


def _fit(figures: Sequence[Figure]) -> mixed.Mixed | None:
    return mixed.fit(
        [figure.point for figure in figures],
        [figure.machine for figure in figures],
        [figure.value for figure in figures],
    )


def _factors(fitted: mixed.Mixed, confidence: float, centre: float) -> tuple[MachineFactor, ...]:
    """Each machine over what the median one does: a bad one among few would move a mean."""
    return tuple(
        MachineFactor(name, _exp(effect - centre), _exp(effect - centre - wide), _exp(effect - centre + wide), n)
        for name, effect, error, n in zip(fitted.machines, fitted.effects, fitted.errors, fitted.counts, strict=True)
        for wide in (mixed.half_width(error, fitted.freedom, confidence),)
    )


def _exp(value: float) -> float:
    return exp(max(-50.0, min(50.0, value)))


def suspect(machine: str, controls: Mapping[str, Sequence[float]], tolerance: float) -> Exclusion | None:
    """Why this machine has to be excluded by the control figures so far, in order of time; None if it has not."""
    return _against_itself(machine, controls.get(machine, ()), tolerance) or _against_others(
        machine, controls, tolerance
    )


def _against_others(machine: str, controls: Mapping[str, Sequence[float]], tolerance: float) -> Exclusion | None:
    enough = {name: values for name, values in controls.items() if len(values) >= FEWEST_FIGURES}
    if machine not in enough or len(enough) < FEWEST_MACHINES:
        return None
    fitted = _fit([Figure("control", name, value) for name, values in enough.items() for value in values])
    if fitted is None:
        return None
    # An even number of machines has two in the middle. In a fleet of two generations, each is near one of them.
    for centre in (median_low(fitted.effects), median_high(fitted.effects)):
        own = next(factor for factor in _factors(fitted, SURE, centre) if factor.machine == machine)
        if own.low <= 1 + tolerance and own.high >= 1 / (1 + tolerance):
            return None
    reason = (
        f"{own.factor:.3g} times the median machine at the control scenario ({own.low:.3g} to {own.high:.3g}, "
        f"{SURE * 100:g} %, over {own.n} figures), tolerance {tolerance * 100:g} %"
    )
    return Exclusion(machine, reason, 0)


def _against_itself(machine: str, values: Sequence[float], tolerance: float) -> Exclusion | None:
    levels = segments(values)
    first = median(values[levels[0].first : levels[0].end]) if values else 0.0
    if len(levels) < 2 or not first:
        return None
    last = median(values[levels[-1].first : levels[-1].end])
    ratio = last / first
    if 1 / (1 + tolerance) <= ratio <= 1 + tolerance:
        return None
    reason = (
        f"its control scenario gives {ratio:.3g} times what it gave at first: the level changed after "
        f"{levels[1].first} of {len(values)} figures, tolerance {tolerance * 100:g} %"
    )
    return Exclusion(machine, reason, levels[1].first)
