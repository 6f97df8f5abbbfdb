"""Machines against each other at equal points, and each against its own past: which of them is excluded; pure.

Against the others: a linear mixed model with the machine as a random effect, by REML.

    log value = point + machine + rest,   machine ~ N(0, machine_sd^2), rest ~ N(0, repeat_sd^2)

Points are fixed effects, taken out by their means (Patterson and Thompson, 1971). The one ratio of variances that is
left has a profiled likelihood, exact through the eigenvalues of a matrix as large as there are machines. Effects are
the best linear unbiased predictions (Henderson, 1975; Searle, Casella and McCulloch, "Variance Components", 6.6, 7.4).
A machine whose factor to the median machine lies with its whole interval beyond the tolerance is not what the others
are. Two machines that differ do not say which of them is wrong, so it takes three.

Against itself: the series of its control figures is cut where its level changes (stats/change_points.py). A last level
that lies beyond the tolerance from the first one is a drift.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median, median_high, median_low
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from pinchpoint.findings.curves import metrics_of
from pinchpoint.model.campaign import Calibration, Exclusion, MachineFactor
from pinchpoint.model.measurement import CONFIDENCE, Bound
from pinchpoint.model.result import ScenarioResult
from pinchpoint.stats.change_points import segments
from pinchpoint.stats.estimate import bound_of

Numbers = NDArray[np.float64]
_RATIOS: Final = (-14.0, 14.0)  # natural logarithm of machine variance over rest variance that is looked through
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


@dataclass(frozen=True)
class Mixed:
    """Estimates, in the unit of the logarithm: 0.01 is 1 %."""

    machines: tuple[str, ...]
    effects: tuple[float, ...]  # of the machines, their sum about 0
    errors: tuple[float, ...]  # standard errors of prediction, of each machine against the mean of all
    counts: tuple[int, ...]  # values of each machine
    machine_sd: float
    repeat_sd: float
    freedom: int  # values without those that the points took


def fit(figures: Sequence[Figure]) -> Mixed | None:
    """The model of positive values; None if too few are left once each point has its own level, or if the machines
    fall into groups that have no point in common.

    Points that only one machine measured say something of the rest alone. Raises ValueError for a value that is
    not positive.
    """
    values, machines = [figure.value for figure in figures], [figure.machine for figure in figures]
    if any(not value > 0 or math.isinf(value) for value in values):
        raise ValueError("values have to be positive and finite")
    names, kinds = tuple(dict.fromkeys(machines)), list(dict.fromkeys(figure.point for figure in figures))
    freedom = len(values) - len(kinds)
    if len(names) < 2 or freedom < len(names):
        return None
    y = np.log(np.asarray(values, dtype=float))
    at = np.asarray([kinds.index(figure.point) for figure in figures])
    z = np.asarray([[name == machine for name in names] for machine in machines], dtype=float)
    y, z = _centred(y[:, None], at, len(kinds))[:, 0], _centred(z, at, len(kinds))
    roots, vectors = np.linalg.eigh(z.T @ z)
    roots = np.where(roots > 1e-9, roots, 0.0)
    if np.count_nonzero(roots) < len(names) - 1:
        return None
    seen, total = vectors.T @ (z.T @ y), float(y @ y)
    ratio = _ratio(roots, seen, total, freedom)
    repeat_variance = float(_rest(np.asarray([ratio]), roots, seen, total)[0]) / freedom
    weights = ratio / (1 + ratio * roots)
    effects = vectors @ (weights * seen)
    if not ratio:  # no difference was seen; how large one may be, the values alone say
        weights = np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0)
    apart = np.where(roots > 0, weights, 0.0)  # a difference that all machines share looks like one of the points
    errors = np.sqrt(repeat_variance * np.einsum("ij,j,ij->i", vectors, apart, vectors))
    machine_sd, repeat_sd = math.sqrt(ratio * repeat_variance), math.sqrt(repeat_variance)
    every = tuple(map(float, effects)), tuple(map(float, errors)), tuple(map(machines.count, names))
    return Mixed(names, *every, machine_sd, repeat_sd, freedom)


def _centred(columns: Numbers, at: NDArray[np.int64], kinds: int) -> Numbers:
    """Each column without its mean at every point."""
    sums = np.zeros((kinds, columns.shape[1]))
    np.add.at(sums, at, columns)
    counts = np.bincount(at, minlength=kinds)[:, None]
    return np.asarray(columns - (sums / counts)[at])


def _rest(ratios: Numbers, roots: Numbers, seen: Numbers, total: float) -> Numbers:
    """The residual sum of squares at each ratio of variances."""
    ratios = ratios[:, None]
    return np.asarray(np.maximum(total - np.sum(ratios * seen**2 / (1 + ratios * roots), axis=1), 1e-30))


def _ratio(roots: Numbers, seen: Numbers, total: float, freedom: int) -> float:
    """Of the variances, by the largest residual likelihood; 0 where the machines do not differ."""

    def losses(ratios: Numbers) -> Numbers:
        rest = freedom * np.log(_rest(ratios, roots, seen, total))
        return np.asarray(rest + np.sum(np.log1p(ratios[:, None] * roots), axis=1))

    def loss(logarithm: float) -> float:
        return float(losses(np.exp([logarithm]))[0])

    grid = np.linspace(*_RATIOS, 57)
    best = grid[np.argmin(losses(np.exp(grid)))]
    optimum = optimize.minimize_scalar(loss, bounds=(best - 0.5, best + 0.5), method="bounded", options={"xatol": 1e-5})
    return math.exp(float(optimum.x)) if loss(float(optimum.x)) < float(losses(np.zeros(1))[0]) else 0.0


def half_width(error: float, freedom: int, confidence: float) -> float:
    """Of the interval round an effect, by Student's t."""
    return float(special.stdtrit(max(1, freedom), (1 + confidence) / 2)) * error


def calibrated(
    figures: Sequence[Figure], controls: Mapping[str, Sequence[float]] = {}, exclusions: Sequence[Exclusion] = ()
) -> Calibration:
    """All machines against each other, by every point that two of them have measured."""
    machines = Counter(point for point, _ in {(figure.point, figure.machine) for figure in figures})
    fitted = fit([figure for figure in figures if machines[figure.point] > 1])
    return Calibration(
        figure="the first figure of every point that several machines have measured",
        confidence=CONFIDENCE,
        factors=_factors(fitted, CONFIDENCE, median(fitted.effects)) if fitted else (),
        machine_sd=fitted.machine_sd if fitted else None,
        repeat_sd=fitted.repeat_sd if fitted else None,
        exclusions=tuple(exclusions),
        controls={machine: tuple(values) for machine, values in controls.items()},
    )


def _factors(fitted: Mixed, confidence: float, centre: float) -> tuple[MachineFactor, ...]:
    """Each machine over what the median one does: a bad one among few would move a mean."""
    return tuple(
        MachineFactor(name, _exp(effect - centre), _exp(effect - centre - wide), _exp(effect - centre + wide), n)
        for name, effect, error, n in zip(fitted.machines, fitted.effects, fitted.errors, fitted.counts, strict=True)
        for wide in (half_width(error, fitted.freedom, confidence),)
    )


def _exp(value: float) -> float:
    return math.exp(max(-50.0, min(50.0, value)))


def suspect(machine: str, controls: Mapping[str, Sequence[float]], tolerance: float) -> Exclusion | None:
    """Why this machine has to be excluded by the control figures so far, in order of time; None if it has not."""
    drift = _against_itself(machine, controls.get(machine, ()), tolerance)
    return drift or _against_others(machine, controls, tolerance)


def _against_others(machine: str, controls: Mapping[str, Sequence[float]], tolerance: float) -> Exclusion | None:
    enough = {name: values for name, values in controls.items() if len(values) >= FEWEST_FIGURES}
    if machine not in enough or len(enough) < FEWEST_MACHINES:
        return None
    fitted = fit([Figure("control", name, value) for name, values in enough.items() for value in values])
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
    ratio = median(values[levels[-1].first : levels[-1].end]) / first
    if 1 / (1 + tolerance) <= ratio <= 1 + tolerance:
        return None
    reason = (
        f"its control scenario gives {ratio:.3g} times what it gave at first: the level changed after "
        f"{levels[1].first} of {len(values)} figures, tolerance {tolerance * 100:g} %"
    )
    return Exclusion(machine, reason, levels[1].first)
