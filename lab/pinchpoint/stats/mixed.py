"""Machines against each other at equal points: a linear mixed model with the machine as a random effect, by REML; pure.

    log value = point + machine + rest,   machine ~ N(0, machine_sd^2), rest ~ N(0, repeat_sd^2)

Points are fixed effects, taken out by their means (Patterson and Thompson, 1971). The one ratio of variances that is
left has a profiled likelihood, exact through the eigenvalues of a matrix as large as there are machines. Effects are
the best linear unbiased predictions (Henderson, 1975; Searle, Casella and McCulloch, "Variance Components", 6.6, 7.4).
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

Numbers = NDArray[np.float64]
_RATIOS: Final = (-14.0, 14.0)  # natural logarithm of machine variance over rest variance that is looked through


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


def fit(points: Sequence[Hashable], machines: Sequence[str], values: Sequence[float]) -> Mixed | None:
    """The model of positive values; None if too few are left once each point has its own level, or if the machines
    fall into groups that have no point in common.

    Points that only one machine measured say something of the rest alone. Raises ValueError for a value that is
    not positive.
    """
    if any(not value > 0 or math.isinf(value) for value in values):
        raise ValueError("values have to be positive and finite")
    names = tuple(dict.fromkeys(machines))
    kinds = list(dict.fromkeys(points))
    freedom = len(values) - len(kinds)
    if len(names) < 2 or freedom < len(names):
        return None
    y = np.log(np.asarray(values, dtype=float))
    at = np.asarray([kinds.index(point) for point in points])
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
    apart = np.where(roots > 0, weights, 0.0)  # what all machines have in common cannot be told from the points
    errors = np.sqrt(repeat_variance * np.einsum("ij,j,ij->i", vectors, apart, vectors))
    return Mixed(
        names,
        tuple(map(float, effects)),
        tuple(map(float, errors)),
        tuple(machines.count(name) for name in names),
        math.sqrt(ratio * repeat_variance),
        math.sqrt(repeat_variance),
        freedom,
    )


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
