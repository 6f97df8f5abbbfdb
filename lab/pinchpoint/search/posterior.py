"""What trials of one length say about one threshold: the load at which half of them exceed a loss ratio.

The chance that a trial at load L exceeds the ratio is modelled as

    P(L) = lapse + (1 - lapse) * logistic((ln L - mu) / noise)

`noise` is how much the threshold varies from trial to trial, relative; `lapse` how often a trial exceeds
whatever the load, because of a rare disturbance (a stall, a dip). The threshold theta is where P = 0.5, not
the inflexion mu. All that is not known is a grid with a weight for each cell, so nothing is assumed about the
shape of the answer, and the noise need not be known beforehand (Watson and Pelli, "QUEST", 1983; Kontsevich
and Tyler, "Bayesian adaptive estimation of psychometric slope and threshold", 1999).

Theta's own grid is fine where its posterior is, ever coarser outwards, and spans the whole range always: a
surprise far away is not cut off. It is laid anew, from all trials, whenever the posterior has become narrow for it.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

NOISES = (0.0003, 0.001, 0.003, 0.006, 0.012, 0.025, 0.06, 0.2)
NOISE_WEIGHTS = (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
LAPSES = (0.0, 0.02, 0.08, 0.18, 0.3, 0.42)
LAPSE_WEIGHTS = (4.0, 3.0, 2.0, 1.0, 1.0, 1.0)
POINTS = 141  # of theta
BEYOND = 1.4  # the threshold may lie this far outside of the loads that may be tried, in ln
FEWEST_POINTS = 9.0  # within the central 90 %, or the grid is laid anew
CERTAIN = 1e-9  # no outcome is less likely than this


class Posterior:
    """Weights of all thresholds, given trials that did or did not exceed one loss ratio."""

    def __init__(self, min_load_fps: float, max_load_fps: float) -> None:
        self._low = float(np.log(min_load_fps)) - BEYOND
        self._high = float(np.log(max_load_fps)) + BEYOND
        noise, lapse = np.meshgrid(NOISES, LAPSES, indexing="ij")
        self._noise, self._lapse = noise.ravel(), lapse.ravel()
        prior = np.outer(np.array(NOISE_WEIGHTS), np.array(LAPSE_WEIGHTS)).ravel()
        self._nuisance_prior = np.log(prior / prior.sum())
        self._seen: Counter[tuple[float, bool]] = Counter()
        self._lay(np.linspace(self._low, self._high, POINTS))

    def add(self, load_fps: float, exceeded: bool) -> None:
        """One more trial."""
        self._seen[(load_fps, exceeded)] += 1
        self._log_weights += self._log_likelihood(load_fps, exceeded)
        self._weigh()
        while self._is_coarse():
            self._lay(self._finer())

    def quantile_fps(self, share: float) -> float:
        """The load below which theta lies with this probability."""
        return float(np.exp(self._quantile(share)))

    def above(self, load_fps: float) -> float:
        """The probability that theta lies above a load."""
        return float(1.0 - np.interp(np.log(load_fps), self._edges(), self._cumulative))

    def information(self, loads_fps: Sequence[float], hint_fps: float | None = None) -> Array:
        """Bits that a trial at each load is expected to tell about theta (not about noise and lapse).

        `hint_fps` is where theta is supposed, for this choice alone: it moves attention, not the posterior.
        """
        weights = self._theta * self._attention(hint_fps)
        kept = weights > 1e-7 * weights.max()
        weights = weights[kept] / weights[kept].sum()
        chances = self._chances(np.log(np.asarray(loads_fps)), self._x[kept])  # load, theta, nuisance
        given_theta = np.einsum("ltn,tn->lt", chances, self._weights[kept]) / self._theta[kept]
        return np.asarray(_bits(given_theta @ weights) - _bits(given_theta) @ weights)

    def candidates_fps(self, hint_fps: float | None = None) -> list[float]:
        """Loads worth comparing: quantiles of theta."""
        weights = self._theta * self._attention(hint_fps)
        cumulative = _cumulative(weights / weights.sum())
        shares = (0.02, 0.08, 0.16, 0.26, 0.38, 0.5, 0.62, 0.74, 0.84, 0.92, 0.98)
        return [float(value) for value in np.exp(np.interp(shares, cumulative, self._edges()))]

    def _attention(self, hint_fps: float | None) -> Array:
        if hint_fps is None:
            return np.ones_like(self._x)
        return np.asarray(1e-3 + 1 / (1 + ((self._x - np.log(hint_fps)) / HINT_SCALE) ** 2))

    def _quantile(self, share: float) -> float:
        return float(np.interp(share, self._cumulative, self._edges()))

    def _edges(self) -> Array:
        middles = (self._x[1:] + self._x[:-1]) / 2
        return np.concatenate(([self._low], middles, [self._high]))

    def _lay(self, points: Array) -> None:
        """Put theta's grid on these points, from all trials."""
        self._x = points
        widths = np.diff(self._edges())
        self._log_weights = np.log(widths)[:, None] + self._nuisance_prior[None, :]
        for (load_fps, exceeded), count in self._seen.items():
            self._log_weights = self._log_weights + count * self._log_likelihood(load_fps, exceeded)
        self._weigh()

    def _weigh(self) -> None:
        weights = np.exp(self._log_weights - self._log_weights.max())
        self._weights: Array = weights / weights.sum()
        self._theta: Array = self._weights.sum(axis=1)
        self._cumulative = _cumulative(self._theta)

    def _is_coarse(self) -> bool:
        inside = np.searchsorted(self._edges(), (self._quantile(0.05), self._quantile(0.95)))
        spans = self._quantile(0.95) - self._quantile(0.05)
        return bool(inside[1] - inside[0] < FEWEST_POINTS and spans > FINEST)

    def _finer(self) -> Array:
        """Points whose distance grows with that from the median (a hyperbolic sine)."""
        middle = self._quantile(0.5)
        scale = max((self._quantile(0.95) - self._quantile(0.05)) / 2, FINEST)
        ends = np.arcsinh((np.array([self._low, self._high]) - middle) / scale)
        return np.asarray(middle + scale * np.sinh(np.linspace(ends[0], ends[1], POINTS)))

    def _log_likelihood(self, load_fps: float, exceeded: bool) -> Array:
        chance = self._chances(np.log(np.array([load_fps])), self._x)[0]
        return np.asarray(np.log(chance if exceeded else 1 - chance))

    def _chances(self, loads: Array, thetas: Array) -> Array:
        """P(trial exceeds) for every load, theta and nuisance; mu follows from P(theta) = 0.5."""
        from_theta = loads[:, None, None] - thetas[None, :, None]
        argument = from_theta / self._noise + np.log(1 - 2 * self._lapse)
        logistic = 0.5 + 0.5 * np.tanh(argument / 2)
        chance = self._lapse + (1 - self._lapse) * logistic
        return np.asarray(np.clip(chance, CERTAIN, 1 - CERTAIN))


HINT_SCALE = 0.03  # of the Cauchy distribution round a hint, in ln
FINEST = 2e-5  # relative: what no trial resolves


def _cumulative(weights: Array) -> Array:
    return np.concatenate(([0.0], np.cumsum(weights)))


def _bits(chance: Array) -> Array:
    chance = np.clip(chance, CERTAIN, 1 - CERTAIN)
    return np.asarray(-chance * np.log2(chance) - (1 - chance) * np.log2(1 - chance))
