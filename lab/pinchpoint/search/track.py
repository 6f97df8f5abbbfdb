"""What trials say about a threshold that moves: the highest load a DUT carries within one loss ratio, over time.

On a shared host the threshold is a function of time, so it is tracked rather than bracketed. For trial k,

    x(k+1) = x(k) + drift + jump      the level, ln fps: a random walk with rare heavy-tailed jumps
    theta(k) = x(k) + noise           what a trial of this length meets
    P(loss at load l) = lapse + (1 - lapse) P(theta(k) < l)

with the speed of the walk, the rate of jumps, the noise and the lapse (loss whatever the load) unknown: a grid over
x and over these nuisances holds the joint posterior (a hidden Markov model; Rabiner 1989). A quiet device makes the
speeds that do not fit it improbable, and the model becomes a bisection.

An overloaded trial also measures: what the DUT forwarded is its momentary capacity. Whether that equals the threshold
is a property of the device (a collapse under overload, or a ring too small for its pauses, make them differ), so it
is one more nuisance: forwarding says nothing about the threshold, agrees with it, or exceeds it as the mean of a
trial exceeds its worst moment. When within a trial its frames were lost tells a lapse from an overload.

Paths of x are drawn by forward filtering and backward sampling (Carter and Kohn 1994; Frühwirth-Schnatter 1994). The
share of the time in which the threshold was below a load follows from each path, and so do the median over
time, its interval and the band. A trial stands for the time around it; where between two trials the level changed is
unknown, so each path divides that time at random.

The grid of x is laid anew where the paths run whenever its cells are coarser than what is known, from all trials.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Array = NDArray[np.floating[Any]]

NOISES = (0.0005, 0.002, 0.006, 0.015, 0.035, 0.08, 0.16)  # of theta from trial to trial, relative
NOISE_WEIGHTS = (1.0, 1.0, 1.5, 2.0, 2.0, 2.0, 1.0)  # more noise than none: intervals must cover
LAPSES = (0.0, 0.03, 0.15, 0.35, 0.6, 0.85)
LAPSE_WEIGHTS = (6.0, 3.0, 1.5, 1.0, 0.5, 0.3)
MOVES = ((0.0, 0.002), (0.0, 0.1), (0.01, 0.03), (0.03, 0.05), (0.08, 0.1), (0.2, 0.2))  # (drift per sqrt s, jumps/s)
MOVE_WEIGHTS = (3.0, 1.0, 1.0, 1.0, 1.0, 0.7)
FORWARDS = (-1.0, 0.0, 0.7)  # forwarded minus theta, in units of the noise; -1: they have nothing to do with each other
FORWARD_WEIGHTS = (0.4, 0.3, 0.3)
JUMP = 0.4  # mean size of a jump, ln
AGREES = 0.8  # share of the overloaded trials whose forwarding agrees, of a device whose forwarding does
EXACT = 0.01  # forwarding never says more than this about theta, relative
DEPTH = 0.02  # median relative depth of a loss that says nothing else
BEYOND = 1.4  # the threshold may lie this far outside of the loads that may be tried, ln
FIRST, NEAR, FAR = 161, 121, 60  # points of the first grid; of later ones along the paths, and over the whole range
FINEST = 2e-4  # relative: what no trial resolves
COARSE = 0.45  # width of a cell over the standard deviation of a level, above which the grid is laid anew
FINE = 0.9  # share of the levels whose cells must not be coarse: a level that is seldom visited counts, too
PATHS, ROUGH_PATHS = 200, 48
TELLING = 0.02  # share of the spread over time: differences of the level that are worth a trial
PRUNED = 1e-5  # weight of a nuisance, of the likeliest one's, below which it is given up
NORMAL_WIDTH = float(np.sqrt(2 * np.pi * np.e))  # of the flat distribution of a normal one's entropy, in deviations
UNSEEN = 0.025  # share of the time about which the track may be wrong
CERTAIN = 1e-9  # no outcome is less likely than this
# Chance that all is lost in one slice, or not, given a lapse and given an overload; None: that is not known.
BRIEF = {True: (0.98, 0.1), False: (0.02, 0.9), None: (1.0, 1.0)}
BAND = (0.1, 0.9)


@dataclass(frozen=True)
class OverTime:
    """The threshold as a distribution over the time of the trials; frames per second."""

    lower_fps: float  # of the interval of the median
    median_fps: float  # half of the time it was above
    upper_fps: float
    low_fps: float  # a tenth of the time it was below
    high_fps: float  # a tenth of the time it was above

    @property
    def width(self) -> float:
        """Of the median's interval, relative to its upper end."""
        return (self.upper_fps - self.lower_fps) / self.upper_fps

    @property
    def spread(self) -> float:
        """Of the band, relative to its upper end."""
        return (self.high_fps - self.low_fps) / self.high_fps


@dataclass(frozen=True)
class _Seen:
    """One trial; loads in ln fps."""

    at_s: float
    load: float
    forwarded: float | None  # None: it kept the ratio
    is_brief: bool | None = None  # all that was lost, was lost in one slice; None: that is not known


@dataclass(frozen=True)
class _Paths:
    """Levels drawn from the posterior."""

    cells: NDArray[np.intp]  # trial, path: index of a grid cell
    levels: Array  # trial, path: ln fps
    noise: Array  # of each path
    lapse: Array
    forward: Array


class Track:
    """The posterior of one threshold that moves. The same trials give the same answers."""

    def __init__(
        self, min_load_fps: float, max_load_fps: float, confidence: float = 0.95, *, overload_measures: bool = True
    ) -> None:
        self._low = float(np.log(min_load_fps)) - BEYOND
        self._high = float(np.log(max_load_fps)) + BEYOND
        self._tail = (1 - confidence) / 2
        forwards = FORWARDS if overload_measures else FORWARDS[:1]
        nuisances = np.meshgrid(NOISES, LAPSES, forwards, indexing="ij")
        self._noise, self._lapse, self._forward = (one.ravel()[:, None] for one in nuisances)
        forward_weights = np.array(FORWARD_WEIGHTS[: len(forwards)])
        forward_weights = forward_weights / forward_weights.sum()
        weights = np.einsum("n,l,f->nlf", NOISE_WEIGHTS, LAPSE_WEIGHTS, forward_weights).ravel()
        self._prior = np.outer(MOVE_WEIGHTS, weights)
        self._seen: list[_Seen] = []
        self._spread = 0.0  # of the levels met so far, ln
        self._lay(np.linspace(self._low, self._high, FIRST))

    def __len__(self) -> int:
        """Trials."""
        return len(self._seen)

    def add(
        self, at_s: float, load_fps: float, forwarded_fps: float | None = None, is_brief: bool | None = None
    ) -> None:
        """One more trial, around `at_s`: `forwarded_fps` is None where it kept the ratio, else what that made of it.

        `load_fps` is what was offered. What was forwarded within the ratio is forwarded_fps = received / (1 - ratio).
        """
        load, forwarded = float(np.log(load_fps)), None
        if forwarded_fps is not None:
            forwarded = max(self._low, min(float(np.log(max(forwarded_fps, 1.0))), load - FINEST / 100))
        self._seen.append(_Seen(at_s, load, forwarded, is_brief))
        self._step(self._seen[-1])
        if len(self) % 8 == 0:
            self._prune()
        if len(self) < 30 or len(self) % 6 == 0:
            self._refine()

    def quantiles_fps(self, at_s: float, shares: Sequence[float]) -> list[float]:
        """Quantiles of the level at a time to come."""
        level = self._predicted(at_s).sum(axis=(0, 1))
        return [float(value) for value in np.exp(np.interp(shares, _cumulated(level), self._edges))]

    def information(self, at_s: float, loads_fps: Sequence[float]) -> Array:
        """Bits that a trial at each load, at a time to come, is expected to tell about the level.

        As exactly as the band over time asks for: of a level that jumps, where it is now counts, not its last digit.
        """
        joint = self._predicted(at_s).sum(axis=0)  # nuisance, level
        first = np.unique(np.floor(self._x / max(TELLING * self._spread, FINEST)), return_index=True)[1]
        level = np.add.reduceat(joint.sum(axis=0), first)
        threshold = np.array([((1 - self._lapse) * joint)[self._noise[:, 0] == noise].sum(axis=0) for noise in NOISES])
        below = self._below(np.log(loads_fps)[:, None, None])
        losing = np.add.reduceat((self._lapse * joint).sum(axis=0) + (threshold * below).sum(axis=1), first, axis=1)
        told = _bits(losing.sum(axis=1)) - (level * _bits(losing / np.maximum(level, 1e-30))).sum(axis=1)
        return np.asarray(told + self._measured(joint, np.log(loads_fps)))

    def _measured(self, joint: Array, loads: Array) -> Array:
        """Bits that forwarding is expected to tell about theta if each load is too much: beyond EXACT, it tells all."""
        weights = joint.sum(axis=1)  # of each nuisance
        level = joint / np.maximum(weights[:, None], 1e-30)
        entropy = (level * np.log2(self._widths / np.maximum(level, 1e-30))).sum(axis=1)
        spread = np.maximum(2.0**entropy / NORMAL_WIDTH, self._noise[:, 0])
        bits = np.maximum(np.log2(spread / EXACT), 0.0)
        agreeing = weights * np.where(self._forward[:, 0] == 0, AGREES, 0.0) * (1 - self._lapse[:, 0]) * bits
        centre = (level * self._x).sum(axis=1)
        return np.asarray(ndtr((loads[:, None] - centre) / spread) @ agreeing)

    @property
    def mostly_lapses(self) -> float:
        """Chance that most trials exceed the ratio whatever the load."""
        return float(self._weights.sum(axis=(0, 2))[self._lapse[:, 0] > 0.5].sum())

    @property
    def tail(self) -> float:
        """Probability on either side of an interval."""
        return self._tail

    @property
    def moved(self) -> float:
        """How far apart the levels met so far are, relative: 10 and 90 % of them. Cheap, and some trials old."""
        return self._spread

    def over_time(self) -> OverTime:
        """The threshold's distribution over the time of the trials, which are one at least."""
        paths = self._paths(PATHS)
        shares = self._shares_of_time(PATHS)
        met = self._met(paths)
        each = zip(paths.levels.T, *met.transpose(0, 2, 1), shares.T, strict=True)
        found = np.array([_quantiles(*one) for one in each])
        middle, low, high, below, above = np.exp(found).T
        lower, upper = np.quantile(below, self._tail), np.quantile(above, 1 - self._tail)
        median = float(np.clip(np.median(middle), lower, upper))
        return OverTime(
            lower_fps=float(lower),
            median_fps=median,
            upper_fps=float(upper),
            low_fps=float(np.median(low)),
            high_fps=float(np.median(high)),
        )

    def moments_fps(self) -> Array:
        """For each trial the 5, 50 and 95 % quantiles of the level, given all trials; trial x 3."""
        return np.asarray(np.exp(np.quantile(self._paths(PATHS).levels, (0.05, 0.5, 0.95), axis=1).T))

    def _lay(self, points: Array) -> None:
        """Put the grid on these points, and every trial on the grid."""
        self._x = points
        self._edges = np.concatenate(([self._low], (points[1:] + points[:-1]) / 2, [self._high]))
        self._widths = np.diff(self._edges)
        self._moves: dict[int, Array] = {}
        self._ahead: tuple[float, Array] | None = None  # the last prediction: its time, and its weights
        self._filtered: list[Array] = []
        flat = self._widths / self._widths.sum()
        self._weights: Array = (self._prior[:, :, None] / self._prior.sum() * flat).astype(np.float32)
        for number, seen in enumerate(self._seen):
            self._step(seen, first=number == 0, before_s=self._seen[number - 1].at_s)

    def _step(self, seen: _Seen, first: bool | None = None, before_s: float | None = None) -> None:
        if first is None:
            first, before_s = len(self._seen) == 1, self._seen[-2].at_s if len(self._seen) > 1 else None
        moved = self._weights if first else self._weights @ self._moving(seen.at_s - (before_s or 0.0))
        likely = np.maximum(self._likelihood(seen), CERTAIN).astype(np.float32)
        weights = moved * likely
        self._weights = weights / weights.sum()
        self._filtered.append(self._weights)
        self._ahead = None

    def _predicted(self, at_s: float) -> Array:
        """Weights of (move, nuisance, level) at a time to come."""
        if self._ahead is None or self._ahead[0] != at_s:
            moved = self._weights @ self._moving(at_s - self._seen[-1].at_s) if self._seen else self._weights
            self._ahead = at_s, moved
        return self._ahead[1]

    def _moving(self, after_s: float) -> Array:
        """Chance of each level after a time, given one before it: (move, before, after). Times are rounded to 12 %."""
        key = round(8 * float(np.log(max(after_s, 1e-3))))
        if key not in self._moves:
            after_s = float(np.exp(key / 8))
            jumped = np.exp(-np.abs(self._x[None, :] - self._x[:, None]) / JUMP) * self._widths
            jumped /= jumped.sum(axis=1, keepdims=True)
            moving = partial(_moved, self._x, self._edges, after_s)
            chances = [1 - np.exp(-rate * after_s) for _, rate in MOVES]
            kept = zip(MOVES, chances, strict=True)
            self._moves[key] = np.array([(1 - p) * moving(drift) + p * jumped for (drift, _), p in kept], np.float32)
        return self._moves[key]

    def _below(self, load: Any) -> Array:
        """P(theta < load), by noise and level."""
        return np.asarray(ndtr((load - self._x) / np.array(NOISES)[:, None]))

    def _likelihood(self, seen: _Seen) -> Array:
        """Of what a trial showed, by nuisance and level."""
        number = np.searchsorted(NOISES, self._noise[:, 0])  # of each nuisance's noise
        exceeding = self._below(seen.load)[number]
        if seen.forwarded is None:
            return np.asarray((1 - self._lapse) * (1 - exceeding))
        depth = seen.load - seen.forwarded
        any_depth = _any_depth(depth)
        lapsing, other = BRIEF[seen.is_brief]
        lapsed = self._lapse * any_depth * lapsing
        plain = lapsed + (1 - self._lapse) * exceeding * any_depth * other
        spread = np.hypot(self._noise, EXACT)
        mean = self._x + np.maximum(self._forward, 0.0) * self._noise
        # That theta was below the load is known exactly, where it was below only within the measurement's own error.
        share = (self._noise / spread) ** 2
        theta = self._x + share * (seen.forwarded - mean)
        was_below = ndtr((seen.load - theta) / (self._noise * np.sqrt(1 - share)))
        measured = _normal(seen.forwarded - mean, self._noise) * was_below
        # Theta was below the load, but the mean of the trial was not: the loss is small.
        shallow = np.maximum(exceeding - ndtr((seen.load - mean) / spread), 0.0) * np.exp(-depth / DEPTH) / DEPTH
        agreeing = AGREES * (measured + shallow) + (1 - AGREES) * exceeding * any_depth
        agreed = lapsed + (1 - self._lapse) * agreeing * other
        return np.asarray(np.where(self._forward >= 0, agreed, plain))

    def _prune(self) -> None:
        """Give up nuisances that the trials have ruled out: each costs as much as a likely one."""
        weights = self._weights.sum(axis=(0, 2))
        kept = weights > PRUNED * weights.max()
        self._noise, self._lapse, self._forward = (one[kept] for one in (self._noise, self._lapse, self._forward))
        self._prior, self._weights = self._prior[:, kept], self._weights[:, kept]
        self._filtered = [one[:, kept] for one in self._filtered]
        self._ahead = None

    def _refine(self) -> None:
        """Lay the grid anew while its cells are coarser than what is known of the levels."""
        for _ in range(5):
            paths = self._paths(ROUGH_PATHS)
            known = np.maximum(paths.levels.std(axis=1, keepdims=True), FINEST)
            self._spread = float(np.subtract(*np.quantile(paths.levels, BAND[::-1])))
            if np.quantile(self._widths[paths.cells] / known, FINE) < COARSE:
                return
            aside = np.random.default_rng(2).normal(size=paths.levels.shape) * 0.8 * known
            along = np.sort((paths.levels + aside).ravel())
            near = along[np.linspace(0, len(along) - 1, NEAR).astype(int)]
            middle = along[len(along) // 2]
            scale = max(float(np.subtract(*np.quantile(along, (0.98, 0.02)))), 1e-3)
            ends = np.arcsinh((np.array((self._low, self._high)) - middle) / scale)
            far = middle + scale * np.sinh(np.linspace(ends[0], ends[1], FAR))
            points = np.unique(np.clip(np.concatenate((near, far)), self._low, self._high))
            self._lay(points[np.concatenate(([True], np.diff(points) > FINEST / 4))])

    def _paths(self, count: int) -> _Paths:
        """Levels of all trials, drawn from the joint posterior backwards in time."""
        random = np.random.default_rng(0)
        wanted = (np.arange(count) + 0.5) / count
        cumulated = np.cumsum(self._weights.ravel(), dtype=np.float64)
        place = np.minimum(np.searchsorted(cumulated, wanted * cumulated[-1]), cumulated.size - 1)
        move, nuisance, cell = np.unravel_index(place, self._weights.shape)
        cells = np.empty((len(self), count), np.intp)
        cells[-1] = cell
        for number in range(len(self) - 2, -1, -1):
            moving = self._moving(self._seen[number + 1].at_s - self._seen[number].at_s)
            weights = self._filtered[number][move, nuisance, :] * moving[move, :, cells[number + 1]]
            chance = np.cumsum(weights, axis=1, dtype=np.float64)
            drawn = random.random(count)[:, None] * chance[:, -1:]
            cells[number] = np.minimum((chance < drawn).sum(axis=1), len(self._x) - 1)
        levels = self._edges[cells] + random.random(count) * self._widths[cells]  # one place in a cell: no walk within
        nuisances = (one[nuisance, 0] for one in (self._noise, self._lapse, self._forward))
        return _Paths(cells, levels, *nuisances)

    def _met(self, paths: _Paths) -> Array:
        """The normal distribution of theta in each trial of each path, between two of its quantiles.

        (centre, scale, least, most) x trial x path. A trial that kept the ratio met a theta above its load, one that
        exceeded it a theta below, as measured where forwarding agrees; a lapse says nothing of theta.
        """
        load, measured = self._loads()
        below = ndtr((load - paths.levels) / paths.noise)
        is_lost = np.array([seen.forwarded is not None for seen in self._seen])[:, None]
        is_plain = is_lost & ~self._lapsed(paths)
        is_measured = is_plain & (paths.forward == 0)
        weight = np.where(is_measured, paths.noise**2 / (paths.noise**2 + EXACT**2), 0.0)  # of what was measured
        centre = weight * measured + (1 - weight) * paths.levels
        scale = paths.noise * np.sqrt(1 - weight)
        return np.array((centre, scale, np.where(is_lost, 0.0, below), np.where(is_plain & ~is_measured, below, 1.0)))

    def _lapsed(self, paths: _Paths) -> NDArray[np.bool_]:
        """Which trials exceeded the ratio for a lapse, drawn in each path; trial x path."""
        load, measured = self._loads()
        is_lost = np.array([seen.forwarded is not None for seen in self._seen])[:, None]
        is_measuring = paths.forward == 0
        below = ndtr((load - paths.levels) / paths.noise)
        agreeing = np.where(is_measuring, _normal(measured - paths.levels, paths.noise), below)
        lapsing, other = np.array([BRIEF[seen.is_brief] for seen in self._seen]).T[:, :, None]
        lapsed = paths.lapse * np.where(is_measuring, _any_depth(load - measured), 1.0) * lapsing
        chance = np.random.default_rng(3).random(below.shape) * (lapsed + (1 - paths.lapse) * agreeing * other)
        return np.asarray(is_lost & (chance < lapsed))

    def _loads(self) -> tuple[Array, Array]:
        """What each trial offered, and what it forwarded if it exceeded the ratio; trial x 1, ln fps."""
        load = [seen.load for seen in self._seen]
        measured = [seen.load if seen.forwarded is None else seen.forwarded for seen in self._seen]
        return np.array(load)[:, None], np.array(measured)[:, None]

    def _shares_of_time(self, count: int) -> Array:
        """The share of the time that each trial stands for, in each path; trial x path."""
        if len(self) == 1:
            return np.ones((1, count))
        between_s = np.diff([seen.at_s for seen in self._seen])
        first = np.random.default_rng(1).random((len(between_s), count)) * between_s[:, None]
        shares = np.zeros((len(self), count))
        shares[:-1] += first
        shares[1:] += between_s[:, None] - first
        shares[[0, -1]] += between_s.mean() / 2
        return np.asarray(shares / shares.sum(axis=0))


def _quantiles(levels: Array, centre: Array, scale: Array, least: Array, most: Array, shares: Array) -> list[float]:
    """Of theta over the time of one path, ln fps: median, band's ends, just below and above the median.

    Lapses are none of theta: a pause that spoils a third of the trials says how long a trial is, not where theta lies.
    Where the level moves, its median over the trials is off its median over the time between them, too.
    """
    loads = np.linspace((centre - 4 * scale).min(), (centre + 4 * scale).max(), 200)
    chance = (ndtr((loads[:, None] - centre) / scale) - least) / np.maximum(most - least, CERTAIN)
    below = (np.clip(chance, 0.0, 1.0) * shares).sum(axis=1)
    between = 0.5 / np.sqrt(len(levels))  # standard error of half of the trials, were they independent
    beside = (0.5 - UNSEEN, 0.5 + UNSEEN, 0.5 - UNSEEN - between, 0.5 + UNSEEN + between)
    *found, low, high, lowest, highest = np.interp((0.5, *BAND, *beside), below, loads)
    order = np.argsort(levels)
    middle, lower, upper = np.interp((0.5, 0.5 - between, 0.5 + between), np.cumsum(shares[order]), levels[order])
    return [float(value) for value in (*found, max(low + lower - middle, lowest), min(high + upper - middle, highest))]


def _any_depth(depth: Any) -> Any:
    """Density of a relative loss that says nothing else."""
    return DEPTH / (depth + DEPTH) ** 2


def _normal(off: Array, noise: Array) -> Array:
    """Density of what forwarding measures this far off its mean."""
    spread = np.hypot(noise, EXACT)
    return np.asarray(np.exp(-((off / spread) ** 2) / 2) / (spread * np.sqrt(2 * np.pi)))


def _moved(points: Array, edges: Array, after_s: float, drift: float) -> Array:
    """Chance of each cell after a random walk of `drift` per sqrt(s), from each point."""
    if not drift:
        return np.eye(len(points))
    reached = np.diff(ndtr((edges - points[:, None]) / (drift * after_s**0.5)), axis=1)
    return np.asarray(reached / reached.sum(axis=1, keepdims=True))


def _cumulated(weights: Array) -> Array:
    return np.concatenate(([0.0], np.cumsum(weights) / weights.sum()))


def _bits(chance: Any) -> Any:
    chance = np.clip(chance, CERTAIN, 1 - CERTAIN)
    return -chance * np.log2(chance) - (1 - chance) * np.log2(1 - chance)
