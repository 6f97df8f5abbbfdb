"""What trials of one length say about one threshold: the load at which half of them exceed a loss ratio.

The chance that a trial at load L exceeds the ratio is modelled as

    P(L) = lapse + (1 - lapse) * (1 - exp(-exp((ln L - mu) / noise)))

`noise` is how much the threshold varies from trial to trial, relative; `lapse` how often a trial exceeds
whatever the load, because of a rare disturbance (a stall, a dip). The curve is Weibull's, steeper above than
below, as it is when the worst moment of a trial decides. The threshold theta is where P = 0.5, not the
inflexion mu. All that is not known is a grid with a weight for each cell, so the noise need not be known
beforehand (Watson and Pelli, "QUEST", 1983; Kontsevich and Tyler, 1999, for unknown slopes; Prins, 2013, for
choosing by the information about theta alone).

How much a trial lost is used for two things only. A loss of several per cent is likelier an overload than a
disturbance. And what an overloaded DUT forwarded says where theta may be, as a prior with heavy tails.

Theta's own grid is fine where its posterior is, ever coarser outwards, and spans the whole range always: a
surprise far away is not cut off. It is laid anew, from all trials, whenever the posterior has become narrow for it.
"""

from collections import Counter
from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

NOISES = (0.0004, 0.0012, 0.0035, 0.009, 0.022, 0.055, 0.15)
NOISE_WEIGHTS = (1.0, 1.0, 1.5, 3.0, 4.0, 3.0, 1.0)  # rather too much noise than too little: intervals must cover
LAPSES = (0.0, 0.02, 0.08, 0.18, 0.3, 0.42, 0.6)
LAPSE_WEIGHTS = (6.0, 4.0, 2.0, 1.5, 1.0, 0.5, 0.5)
ARBITRARY_LAPSE = 0.4  # from here on disturbances alone make nearly half of the trials exceed, or more
VAGUE_NOISE = 0.04  # so much noise is rather two modes, or slow periods, than one threshold
UNSEEN = 0.5  # of the noise: a trial that shows no overload says less than one that does
OVERLOAD_IN_LAPSE = 0.05  # share of the disturbances that cost as much as an overload
OVERLOAD_BEYOND, OVERLOAD_SCALE = 0.3, 0.02  # share of trials far above theta that show it; how far, in ln
POINTS = 141  # of theta
BEYOND = 1.4  # the threshold may lie this far outside of the loads that may be tried, in ln
FEWEST_POINTS = 9.0  # within the central 90 %, or the grid is laid anew
FINEST = 2e-5  # relative: what no trial resolves
HINT_SHARE, HINT_SCALE = 0.7, 0.03  # of the prior's Cauchy part, in ln
Z_MOST = 5.0  # beyond it the chance is one
NEGLIGIBLE = 1e-4  # weight of a theta, of the likeliest one's, below which no load is compared for its sake
CERTAIN = 1e-9  # no outcome is less likely than this


class Seen(Enum):
    """What a trial showed."""

    WITHIN = "within"  # it lost no more than the ratio
    EXCEEDED = "exceeded"
    OVERLOADED = "overloaded"  # it exceeded the ratio by far


class Posterior:
    """Weights of all thresholds, given trials that did or did not exceed one loss ratio."""

    def __init__(self, min_load_fps: float, max_load_fps: float) -> None:
        self._low = float(np.log(min_load_fps)) - BEYOND
        self._high = float(np.log(max_load_fps)) + BEYOND
        noise, lapse = np.meshgrid(NOISES, LAPSES, indexing="ij")
        self._noise, self._lapse = noise.ravel(), lapse.ravel()
        # Where disturbances exceed more often than not there is no theta: half of the other trials, then.
        share = np.where(self._lapse < 0.5, 2 * (1 - self._lapse), 2.0)
        self._at_theta = np.log(np.log(share))
        prior = np.outer(np.array(NOISE_WEIGHTS), np.array(LAPSE_WEIGHTS)).ravel()
        self._nuisance_prior = np.log(prior / prior.sum())
        self._seen: Counter[tuple[float, Seen]] = Counter()
        self._hint: float | None = None
        self._lay(np.linspace(self._low, self._high, POINTS))

    def suppose(self, hint_fps: float) -> None:
        """Where theta may lie for another reason than the trials: a Cauchy distribution, since it may be far off."""
        self._hint = float(np.log(hint_fps))
        self._lay(self._finer() if self._is_coarse() else self._x)
        self._refine()

    def add(self, load_fps: float, seen: Seen) -> None:
        """One more trial."""
        self._seen[(load_fps, seen)] += 1
        self._log_weights += self._log_likelihood(load_fps, seen)
        self._weigh()
        self._refine()

    def quantile_fps(self, share: float) -> float:
        """The load below which theta lies with this probability."""
        return float(np.exp(self._quantile(share)))

    def single_fps(self, share: float) -> float:
        """The load at which an undisturbed trial exceeds the ratio with this probability, whatever theta and noise are.

        Between two of these lie the thresholds of single trials, as far as the noise is known: a prediction.
        """
        exceeding = self._exceeding(self._edges[:, None] - self._x[None, :])
        chance = np.einsum("etn,tn->e", exceeding, self._weights)
        return float(np.exp(np.interp(share, np.maximum.accumulate(chance), self._edges)))

    def above(self, load_fps: float) -> float:
        """The probability that theta lies above a load."""
        return float(1.0 - np.interp(np.log(load_fps), self._edges, self._cumulative))

    @property
    def disturbed(self) -> float:
        """The probability that disturbances alone make nearly half of the trials exceed, so that theta is arbitrary."""
        return float(self._weights[:, self._lapse > ARBITRARY_LAPSE].sum())

    @property
    def doubtful(self) -> float:
        """The probability that the load hardly decides: of so many disturbances, or so much noise."""
        return float(self._weights[:, (self._lapse > ARBITRARY_LAPSE) | (self._noise > VAGUE_NOISE)].sum())

    def information(self, loads_fps: Sequence[float]) -> Array:
        """Bits that a trial at each load is expected to tell about theta (not about noise and lapse)."""
        kept = self._theta > NEGLIGIBLE * self._theta.max()
        weights = self._theta[kept] / self._theta[kept].sum()
        beyond = np.log(np.asarray(loads_fps))[:, None] - self._x[None, kept]
        exceeding = self._exceeding(beyond.astype(np.float32))  # load, theta, nuisance
        undisturbed = (self._weights[kept] * (1 - self._lapse)).astype(np.float32)
        joint = self._weights[kept] @ self._lapse + np.einsum("ltn,tn->lt", exceeding, undisturbed)
        given_theta = joint / self._theta[kept]
        return np.asarray(_bits(given_theta @ weights) - _bits(given_theta) @ weights)

    def candidates_fps(self) -> list[float]:
        """Loads worth comparing: quantiles of theta."""
        shares = (0.02, 0.08, 0.16, 0.26, 0.38, 0.5, 0.62, 0.74, 0.84, 0.92, 0.98)
        return [float(value) for value in np.exp(np.interp(shares, self._cumulative, self._edges))]

    def _quantile(self, share: float) -> float:
        return float(np.interp(share, self._cumulative, self._edges))

    def _refine(self) -> None:
        while self._is_coarse():
            self._lay(self._finer())

    def _lay(self, points: Array) -> None:
        """Put theta's grid on these points, from all trials."""
        self._x = points
        self._edges = np.concatenate(([self._low], (points[1:] + points[:-1]) / 2, [self._high]))
        self._log_weights = self._log_prior()[:, None] + self._nuisance_prior[None, :]
        for (load_fps, seen), count in self._seen.items():
            self._log_weights = self._log_weights + count * self._log_likelihood(load_fps, seen)
        self._weigh()

    def _log_prior(self) -> Array:
        """Of theta: flat in its logarithm, and more near the hint."""
        flat = np.diff(self._edges) / (self._high - self._low)
        if self._hint is None:
            return np.asarray(np.log(flat))
        near = np.diff(np.arctan((self._edges - self._hint) / HINT_SCALE)) / np.pi
        return np.asarray(np.log((1 - HINT_SHARE) * flat + HINT_SHARE * near))

    def _weigh(self) -> None:
        weights = np.exp(self._log_weights - self._log_weights.max())
        self._weights: Array = weights / weights.sum()
        self._theta: Array = self._weights.sum(axis=1)
        self._cumulative = np.concatenate(([0.0], np.cumsum(self._theta)))

    def _is_coarse(self) -> bool:
        low, high = self._quantile(0.05), self._quantile(0.95)
        inside = np.searchsorted(self._edges, (low, high))
        return bool(inside[1] - inside[0] < FEWEST_POINTS and high - low > FINEST)

    def _finer(self) -> Array:
        """Points whose distance grows with that from the median (a hyperbolic sine)."""
        middle = self._quantile(0.5)
        scale = max((self._quantile(0.95) - self._quantile(0.05)) / 2, FINEST)
        ends = np.arcsinh((np.array([self._low, self._high]) - middle) / scale)
        return np.asarray(middle + scale * np.sinh(np.linspace(ends[0], ends[1], POINTS)))

    def _log_likelihood(self, load_fps: float, seen: Seen) -> Array:
        beyond = self._exceeding(np.log(load_fps) - self._x) * (1 - self._lapse)
        if seen is Seen.WITHIN:
            chance = 1 - self._lapse - beyond
        else:
            above = np.maximum(np.log(load_fps) - self._x, 0.0)[:, None]
            if seen is Seen.OVERLOADED:
                chance = OVERLOAD_IN_LAPSE * self._lapse + self._overload(above + self._noise) * beyond
            else:
                clear = self._overload(above + UNSEEN * self._noise)
                chance = (1 - OVERLOAD_IN_LAPSE) * self._lapse + (1 - clear) * beyond
        return np.asarray(np.log(np.maximum(chance, CERTAIN)))

    def _overload(self, above: Array) -> Array:
        """The share of exceeding trials, so far above theta in ln, that show an overload.

        A noisy threshold may have been as much lower in this very trial: `above` includes the noise.
        """
        return np.asarray(OVERLOAD_BEYOND * (1 - np.exp(-above / OVERLOAD_SCALE)))

    def _exceeding(self, beyond: NDArray[Any]) -> NDArray[Any]:
        """P(an undisturbed trial exceeds) at loads so far beyond theta, in ln, for every nuisance (the last axis).

        mu follows from P(theta) = 0.5. As exact as `beyond` is: single precision will do to compare loads.
        """
        kind = beyond.dtype
        z = beyond[..., None] / self._noise.astype(kind) + self._at_theta.astype(kind)
        return np.asarray(1 - np.exp(-np.exp(np.minimum(z, Z_MOST))))


def _bits(chance: Array) -> Array:
    chance = np.clip(chance, CERTAIN, 1 - CERTAIN)
    return np.asarray(-chance * np.log2(chance) - (1 - chance) * np.log2(1 - chance))
