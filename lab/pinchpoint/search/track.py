"""What trials say about the threshold that they met: the lower of a level that moves and of a bound of their own.

The threshold of a trial is the highest load of which it loses no more than the ratio, whatever the reason. For trial k

    x(k+1) = x(k) + drift + jump      the level, ln fps: what the device carries; a random walk with rare jumps
    theta(k) = min(x(k) + noise, b)   where a share of the trials has a bound b: a pause that its ring does not bear
    ln b ~ normal(place, width)

The speed of the walk, the noise, and share, place and width of the bound are unknown and do not change. They are
particles (Chopin 2002), each with the exact filter of its level on one grid (a hidden Markov model, Rabiner 1989).
Once their weights differ, particles are chosen by weight and drawn anew: a path of the level backwards in time (Carter
and Kohn 1994), then each unknown given that path and the others (Gibbs), then the filter.

A losing trial also says what the device carried in an overload, or what the ring would have borne of a pause
(slices.py). Neither is trusted fully: some devices forward less once overloaded, and a pause is a shape among slices.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from pinchpoint.model.measurement import Interval
from pinchpoint.search.slices import FINEST

Array = NDArray[np.floating[Any]]
Ints = NDArray[np.intp]

# What is believed before the first trial. The grids reach from a device that stands still to one that no interval
# describes any more; half of all devices are believed to stand still but for a jump. Decision 0089 says on which kinds
# of devices they were developed; no kind singles out a value.
NOISES = np.array((0.0005, 0.002, 0.006, 0.015, 0.035, 0.08, 0.16))  # of theta from trial to trial, relative
MOVES = ((0.0, 0.002), (0.0, 0.1), (0.01, 0.03), (0.03, 0.05), (0.08, 0.1), (0.2, 0.2))  # (drift per sqrt s, jumps/s)
MOVE_WEIGHTS = (3.0, 1.0, 1.0, 1.0, 1.0, 0.7)
JUMP = 0.4  # mean size of a jump, ln
# What an overloaded device forwards, relative to its level, ln: most forward that, the first. None: it says nothing.
OFFSETS = (0.0, -0.035, -0.07, -0.15, -0.3, -0.6, 0.035, 0.07, None)
OFFSET_ERROR = 0.3  # of an offset: how exactly it stands for those beside it
OTHERWISE = 0.03  # chance that it is not the first
# The next two were chosen by hand while the search was developed (decision 0089); no measurement singles them out.
AGREES = 0.8  # share of the overloaded trials whose forwarding agrees, of a device whose forwarding does
EXACT = 0.01  # no trial measures more exactly, relative
DEPTH, COLLAPSED = 0.02, 0.3  # median relative depth of a loss that says nothing else, and of one that is a collapse
SHAPED = 0.95  # chance that a loss has the shape among slices of what caused it
# Chance of the shape, given a pause and given an overload; None: the shape is not known.
CAUSED = {True: (SHAPED, 1 - SHAPED), False: (1 - SHAPED, SHAPED), None: (1.0, 1.0)}
HINTS = 0.5  # share of the pauses whose loss says how long they were
WIDTHS = np.array((0.003, 0.01, 0.04, 0.12, 0.35, 1.0))  # of the bound, ln
SHARES = np.array((0.003, 0.02, 0.06, 0.13, 0.23, 0.35, 0.45, 0.55, 0.65, 0.77, 0.87, 0.95, 0.99))  # with a bound
PLACES, FAR_PLACES = 60, 24  # that are tried of the bound: among loads and hints, and over the whole range
BOUNDS = 2  # kinds of pauses
PARTICLES = 64
PATHS = 64
BEYOND = 1.4  # the threshold may lie this far outside of the loads that may be tried, ln
FIRST_POINTS, NEAR_POINTS, FAR_POINTS = 101, 50, 24  # of the first grid; of later ones along paths, and everywhere
AROUND_PATHS = 0.8  # of what is not known of a level: so far from the paths the grid is fine, for those drawn next
MOST_OF_IT = (0.98, 0.02)  # of the paths: within their span the far points are as dense as at their middle
SELDOM = 12  # trials: after so many, every second one is followed by a look at the grid, and so on
TIMES, SHORTEST_S = 8, 1e-3  # times in a factor of e that are told apart, and from where on
COARSE = 0.45  # width of a cell over the standard deviation of a level, above which the grid is laid anew
CERTAIN = 1e-9  # no outcome is less likely than this
FEW = 16  # trials, of which the likelihood is a product
ROUNDS = 17  # of a bisection over the whole range
BAND = (0.1, 0.9)  # shares of the trials that lose at its ends


@dataclass(frozen=True)
class Seen:
    """One trial; loads in ln fps."""

    at_s: float
    load: float
    borne: float | None = None  # by an overload; None: it kept the ratio
    is_pause: bool | None = None
    pause: float = 0.0  # what the ring would have borne


@dataclass(frozen=True)
class OverTime:
    """The threshold as a distribution over the time of the trials; frames per second."""

    median: Interval  # half of the trials lose there
    band: Interval  # a tenth of them lose at its low end, nine tenths at the high one
    by_level: float  # share of the trials that lose at the median because of the level, not of a bound of their own


@dataclass
class _Particles:
    """What does not change, one value for each particle, and the filter of the level given it."""

    move: Ints
    noise: Ints
    offset: Ints
    place: Array  # bound x particle
    width: Ints
    share: Ints
    filtered: list[Array]  # of each trial: particle x cell

    @cached_property
    def alike(self) -> list[tuple[int, Ints]]:
        """Particles of each kind of move."""
        return [(kind, np.flatnonzero(self.move == kind)) for kind in np.unique(self.move)]

    def take(self, chosen: Ints) -> "_Particles":
        return _Particles(
            self.move[chosen], self.noise[chosen], self.offset[chosen], self.place[:, chosen],
            self.width[:, chosen], self.share[:, chosen], [weights[chosen] for weights in self.filtered],
        )  # fmt: skip


class Track:
    """The posterior of one threshold. The same trials give the same answers."""

    def __init__(
        self, min_load_fps: float, max_load_fps: float, confidence: float, *, overload_measures: bool = True
    ) -> None:
        self._low = float(np.log(min_load_fps)) - BEYOND
        self._high = float(np.log(max_load_fps)) + BEYOND
        self._tail = (1 - confidence) / 2
        self._random = np.random.default_rng(0)
        others = len(OFFSETS) - 1
        usual = (1 - OTHERWISE, *(OTHERWISE / others,) * others)
        self._offset_chances = np.array(usual if overload_measures else (*(0.0,) * others, 1.0))
        self._seen: list[Seen] = []
        self._particles = self._drawn()
        self._weights = np.zeros(PARTICLES)  # ln, of particles since they were last chosen
        self._lay(np.linspace(self._low, self._high, FIRST_POINTS))

    def __len__(self) -> int:
        return len(self._seen)

    def _drawn(self) -> _Particles:
        """From what is believed before the first trial."""
        random, count = self._random, PARTICLES
        return _Particles(
            random.choice(len(MOVES), count, p=np.array(MOVE_WEIGHTS) / sum(MOVE_WEIGHTS)),
            random.integers(len(NOISES), size=count),
            random.choice(len(OFFSETS), count, p=self._offset_chances),
            np.array([random.permutation(np.linspace(self._low, self._high, count)) for _ in range(BOUNDS)]),
            random.integers(len(WIDTHS), size=(BOUNDS, count)),
            random.integers(len(SHARES), size=(BOUNDS, count)),
            [],
        )

    def add(self, seen: Seen) -> None:
        """Weigh the particles by one more trial; draw them anew once few of them carry the weight."""
        self._seen.append(seen)
        self._tables.append(self._table(seen))
        self._weights = self._weights + self._step(self._particles, len(self) - 1)
        chance = self._chances()
        self._rejuvenate(is_due=1 / (chance**2).sum() < PARTICLES / 2)

    def _chances(self) -> Array:
        chance = np.exp(self._weights - self._weights.max())
        return np.asarray(chance / chance.sum())

    def _lay(self, points: Array) -> None:
        """Another grid; what is known on it follows from all trials."""
        self._x = points
        middles = (points[1:] + points[:-1]) / 2
        self._edges = np.concatenate(([points[0]], middles, [points[-1]]))
        self._widths = np.diff(self._edges)
        self._moves: dict[int, Array] = {}
        self._tables = [self._table(seen) for seen in self._seen]

    def _moving(self, after_s: float) -> Array:
        """Chance of each cell after a time, given one before it: (kind, after, before). Times are rounded to 12 %."""
        key = round(TIMES * float(np.log(max(after_s, SHORTEST_S))))
        if key not in self._moves:
            after_s = float(np.exp(key / TIMES))
            jumped = np.exp(-np.abs(self._x[None, :] - self._x[:, None]) / JUMP) * self._widths
            jumped /= jumped.sum(axis=1, keepdims=True)
            kinds = []
            for drift, rate in MOVES:
                stays = np.exp(-rate * after_s)
                kinds.append((stays * _moved(self._x, self._edges, after_s, drift) + (1 - stays) * jumped).T)
            self._moves[key] = np.ascontiguousarray(np.array(kinds, np.float32))
        return self._moves[key]

    def _table(self, seen: Seen) -> Array:
        """Likelihood of a trial, by (kind, noise, cell): its level was above the load; or below, by each offset."""
        noise, x = NOISES[:, None], self._x
        below = ndtr((seen.load - x) / noise)
        table = np.zeros((1 + len(OFFSETS), *below.shape), np.float32)
        table[0] = 1 - below
        if seen.borne is None:
            return table
        _, overloaded = CAUSED[seen.is_pause]
        depth, deep = (_any_depth(seen.load - seen.borne, middle) for middle in (DEPTH, COLLAPSED))
        offset = np.array(OFFSETS[:-1], float)[:, None, None]
        exact = np.hypot(EXACT, OFFSET_ERROR * offset)
        spread = np.hypot(np.hypot(noise, exact), self._widths / 2)  # no finer than the grid
        # That theta was below the load is known exactly, where it was below only within the measurement's own error.
        share = noise**2 / (noise**2 + exact**2)
        off = seen.borne - offset - x
        was_below = ndtr((seen.load - x - share * off) / (noise * np.sqrt(1 - share)))
        agreeing = AGREES * _normal(off, spread) * was_below
        table[1:-1] = overloaded * (agreeing + (1 - AGREES) * below * depth)
        table[-1] = overloaded * below * deep
        return table

    def _bounded(self, seen: Seen, place: Any, width: Any) -> tuple[Array, Array]:
        """Chance that a bound is below the load of a trial, and the likelihood of what was lost if it was."""
        below = ndtr((seen.load - place) / width)
        if seen.borne is None:
            return below, np.zeros_like(below)
        paused, _ = CAUSED[seen.is_pause]
        told = below * _any_depth(seen.load - seen.borne)
        if seen.is_pause:
            hinted = _normal(seen.pause - place, np.hypot(width, EXACT))
            told = HINTS * hinted * below + (1 - HINTS) * told
        return below, paused * told

    def _step(self, particles: _Particles, number: int) -> Array:
        """The filter after a trial is added to that of each particle; ln of its likelihood."""
        seen = self._seen[number]
        below, told = self._bounded(seen, particles.place, WIDTHS[particles.width])
        share = SHARES[particles.share]
        by_bound = (1 - share * below).prod(axis=0) if seen.borne is None else (share * told).sum(axis=0)
        table = self._tables[number]
        above, overloaded = table[0, particles.noise], table[1 + particles.offset, particles.noise]
        likely = by_bound.astype(np.float32)[:, None] * above + overloaded
        if number:
            weights = self._after(particles, seen.at_s - self._seen[number - 1].at_s) * np.maximum(likely, CERTAIN)
        else:
            weights = np.maximum(likely, CERTAIN) * (self._widths / self._widths.sum()).astype(np.float32)
        told = weights.sum(axis=1)
        particles.filtered.append(weights / told[:, None])
        return np.asarray(np.log(told.astype(np.float64)))

    def _after(self, particles: _Particles, after_s: float) -> Array:
        """The filter of each particle a time after its last trial."""
        weights = particles.filtered[-1]
        moving, moved = self._moving(after_s), np.empty_like(weights)
        for kind, same in particles.alike:
            moved[same] = weights[same] @ moving[kind].T
        return moved

    def _rejuvenate(self, *, is_due: bool) -> None:
        """Choose particles by their weights and draw them anew, once the weights differ or the grid is too coarse."""
        if not is_due and len(self) % (1 + len(self) // SELDOM):
            return
        kept = self._particles.take(self._chosen(PARTICLES))
        cells, levels = self._paths(kept)
        known = np.maximum(levels.std(axis=1, keepdims=True), FINEST)
        is_coarse = bool(np.quantile(self._widths[cells] / known, 0.9) > COARSE)
        if not (is_due or is_coarse):
            return
        self._draw(kept, cells)
        if is_coarse:
            self._lay(self._points(levels, known))
        kept = replace(kept, filtered=[])  # another set of moves
        for number in range(len(self)):
            self._step(kept, number)
        self._particles, self._weights = kept, np.zeros(PARTICLES)

    def _draw(self, particles: _Particles, cells: Ints) -> None:
        """What does not change, given a path of each particle and all else."""
        numbers, ours = np.arange(len(self))[:, None], np.arange(PARTICLES)
        shares = SHARES.astype(np.float32)
        by_level = np.array([table[:, :, path] for table, path in zip(self._tables, cells, strict=True)])
        above = by_level[numbers, 0, particles.noise, ours][:, :, None]  # trial x particle x (all that follows)
        overloaded = by_level[numbers, 1 + particles.offset, particles.noise, ours][:, :, None]
        places, spans = self._places()
        bounded = np.array([self._bounded(seen, places, WIDTHS[:, None]) for seen in self._seen], np.float32)
        is_kept = np.array([seen.borne is None for seen in self._seen])[:, None, None]
        told = np.where(is_kept, -bounded[:, 0], bounded[:, 1]).reshape(len(self), -1)  # trial x (width, place)
        nearest = np.clip(np.searchsorted(places, particles.place), 0, len(places) - 1)
        chosen = particles.width * len(places) + nearest  # of (width, place)
        for bound in range(BOUNDS):
            others = np.delete(np.arange(BOUNDS), bound)
            rest = told[:, chosen[others]] * shares[particles.share[others]]  # trial x other x particle
            # A trial that kept the ratio met none of the bounds, one that did not met one of them.
            times = np.where(is_kept[:, :, 0], (1 + rest).prod(axis=1), 1.0).astype(np.float32)[:, :, None]
            plus = np.where(is_kept, times, rest.sum(axis=1)[:, :, None])
            tried = told[:, None, :] * (times * shares[particles.share[bound]][:, None]) + plus
            prior = np.log(np.tile(spans, len(WIDTHS)))
            chosen[bound] = self._picked(_summed(tried, above, overloaded) + prior)
            particles.width[bound], place = np.unravel_index(chosen[bound], (len(WIDTHS), len(places)))
            particles.place[bound] = places[place] + (self._random.random(PARTICLES) - 0.5) * spans[place]
            tried = told[:, chosen[bound], None] * times * shares + plus  # trial x particle x share
            particles.share[bound] = self._picked(_summed(tried, above, overloaded))
        tried = tried[numbers, ours, particles.share[bound]]
        told = _summed(tried[:, None, None], by_level[:, :1], by_level[:, 1:])  # offset x noise x particle
        with np.errstate(divide="ignore"):
            prior = np.log(self._offset_chances)
        chosen = self._picked((told + prior[:, None, None]).reshape(-1, PARTICLES).T)
        particles.offset, particles.noise = np.unravel_index(chosen, told.shape[:2])
        particles.move = self._picked(self._moved_like(cells) + np.log(MOVE_WEIGHTS))

    def _moved_like(self, cells: Ints) -> Array:
        """Ln of the likelihood of each path by each kind of move; path x kind."""
        told = np.zeros((cells.shape[1], len(MOVES)))
        for number in range(1, len(self)):
            moving = self._moving(self._seen[number].at_s - self._seen[number - 1].at_s)
            told += np.log(np.maximum(moving[:, cells[number], cells[number - 1]], CERTAIN)).T
        return told

    def _places(self) -> tuple[Array, Array]:
        """Of the bound that are tried, and the span that each stands for."""
        hints = [seen.pause for seen in self._seen if seen.is_pause]
        loads = np.unique([seen.load for seen in self._seen] + hints)
        near = np.sort(np.concatenate((loads, (loads[1:] + loads[:-1]) / 2)))
        near = near[np.unique(np.linspace(0, len(near) - 1, PLACES).astype(int))]
        places = np.unique(np.concatenate((near, np.linspace(self._low, self._high, FAR_PLACES))))
        edges = np.concatenate(([self._low], (places[1:] + places[:-1]) / 2, [self._high]))
        return places, np.maximum(np.diff(edges), FINEST / 10)

    def _picked(self, told: Array) -> Ints:
        """One of each row, by ln of its likelihood."""
        chance = np.cumsum(np.exp(told - told.max(axis=1, keepdims=True)), axis=1)
        drawn = self._random.random(len(told))[:, None] * chance[:, -1:]
        return np.asarray(np.minimum((chance < drawn).sum(axis=1), told.shape[1] - 1))

    def _points(self, paths: Array, known: Array) -> Array:
        """Of a grid that is fine where the paths run."""
        along = np.sort((paths + self._random.normal(size=paths.shape) * AROUND_PATHS * known).ravel())
        near = along[np.linspace(0, len(along) - 1, NEAR_POINTS).astype(int)]
        middle, scale = along[len(along) // 2], max(float(np.subtract(*np.quantile(along, MOST_OF_IT))), 1e-3)
        ends = np.arcsinh((np.array((self._low, self._high)) - middle) / scale)
        far = middle + scale * np.sinh(np.linspace(ends[0], ends[1], FAR_POINTS))
        points = np.unique(np.clip(np.concatenate((near, far)), self._low, self._high))
        return np.asarray(points[np.concatenate(([True], np.diff(points) > FINEST / 4))])

    def _chosen(self, count: int) -> Ints:
        """Particles by their weights, as evenly as possible."""
        cumulated = np.cumsum(self._chances())
        return np.minimum(np.searchsorted(cumulated, (np.arange(count) + 0.5) / count), PARTICLES - 1)

    def _paths(self, particles: _Particles) -> tuple[Ints, Array]:
        """A level of each trial for each particle, drawn backwards in time: its cell and itself; trial x particle."""
        random, count = self._random, len(particles.move)
        cells = np.empty((len(self), count), np.intp)
        weights = particles.filtered[-1]
        for number in range(len(self) - 1, -1, -1):
            chance = np.cumsum(weights, axis=1, dtype=np.float64)
            drawn = random.random(count)[:, None] * chance[:, -1:]
            cells[number] = np.minimum((chance < drawn).sum(axis=1), len(self._x) - 1)
            if number:
                moving = self._moving(self._seen[number].at_s - self._seen[number - 1].at_s)
                weights = particles.filtered[number - 1] * moving[particles.move, cells[number]]
        return cells, self._edges[cells] + random.random(count) * self._widths[cells]  # one place in a cell: no walk

    def met_fps(self, at_s: float, quantile: float) -> float:
        """A quantile of the threshold that a trial at a time to come will meet."""
        particles = self._particles
        if not self._seen:
            return float(np.exp(self._low + (self._high - self._low) * quantile))
        ahead = self._after(particles, at_s - self._seen[-1].at_s) * self._chances()[:, None]
        width, share = WIDTHS[particles.width], SHARES[particles.share]
        points = self._edges
        below = ndtr((points - particles.place[..., None]) / width[..., None])
        above = (1 - share[..., None] * below).prod(axis=0)  # particle x point
        carried = np.zeros(len(points))
        for number, noise in enumerate(NOISES):
            same = particles.noise == number
            if same.any():
                over = 1 - ndtr((points[None, :] - self._x[:, None]) / noise)
                carried += ((ahead[same] @ over) * above[same]).sum(axis=0)
        below = np.maximum.accumulate(1 - carried)
        return float(np.exp(np.interp(quantile, below, points)))

    def over_time(self, count: int = PATHS) -> OverTime:
        """The threshold's distribution over the time of the trials, which are one at least."""
        particles = self._particles.take(self._chosen(count))
        _, paths = self._paths(particles)
        noise, place = NOISES[particles.noise], particles.place
        width, share = WIDTHS[particles.width], SHARES[particles.share]
        times_s = np.array([seen.at_s for seen in self._seen])
        spans = np.diff(times_s, prepend=times_s[:1], append=times_s[-1:])
        shares = (spans[1:] + spans[:-1])[:, None]
        shares = shares / shares.sum() if len(self) > 1 else np.ones((1, 1))
        luck = self._random.permutation(ndtri((np.arange(count) + 0.5) / count))

        def losing(loads: Array) -> tuple[Array, Array]:
            """The share of the trials of each path that lose, and how far off the share over the time may be."""
            kept = (1 - share * ndtr((loads - place) / width)).prod(axis=0) * (1 - ndtr((loads - paths) / noise))
            return 1 - (kept * shares).sum(axis=0), np.sqrt((kept * (1 - kept) * shares**2).sum(axis=0))

        def quantile(wanted: float, luck: Any = 0.0) -> Array:
            low, high = np.full(count, self._low), np.full(count, self._high)
            for _ in range(ROUNDS):
                middle = (low + high) / 2
                lost, off = losing(middle)
                is_over = lost + luck * off > wanted
                low, high = np.where(is_over, low, middle), np.where(is_over, middle, high)
            return np.asarray((low + high) / 2)

        middle = quantile(0.5, luck)
        lower, median, upper = (float(fps) for fps in np.exp(np.quantile(middle, (self._tail, 0.5, 1 - self._tail))))
        low, high = (float(np.exp(np.median(quantile(wanted)))) for wanted in BAND)
        by_level = float((ndtr((np.log(median) - paths) / noise) * shares).sum(axis=0).mean())
        return OverTime(Interval(median, lower, upper), Interval(median, low, high), by_level)

    def moments_fps(self) -> list[tuple[float, float, float]]:
        """Quantiles of the level at each trial: the band's ends and the median."""
        _, levels = self._paths(self._particles.take(self._chosen(PATHS)))
        quantiles = np.quantile(levels, (BAND[0], 0.5, BAND[1]), axis=1)
        return [(float(low), float(middle), float(high)) for low, middle, high in np.exp(quantiles).T]


def _summed(bound: Array, above: Array, overloaded: Array) -> Array:
    """Ln of the likelihood of all trials, which are the first axis."""
    likely = np.maximum(bound * above + overloaded, CERTAIN)
    ends = np.arange(0, len(likely), FEW)  # a logarithm costs more than products that stay within what floats hold
    return np.asarray(np.log(np.multiply.reduceat(likely, ends, axis=0, dtype=np.float64)).sum(axis=0))


def _normal(off: Any, spread: Any) -> Any:
    """Density of the normal distribution."""
    return np.exp(-((off / spread) ** 2) / 2) / (spread * np.sqrt(2 * np.pi))


def _any_depth(depth: Any, middle: float = DEPTH) -> Any:
    """Density of a relative loss that says nothing else."""
    return middle / (depth + middle) ** 2


def _moved(points: Array, edges: Array, after_s: float, drift: float) -> Array:
    """Chance of each cell after a random walk of `drift` per sqrt(s), from each point."""
    if not drift:
        return np.eye(len(points))
    reached = np.diff(ndtr((edges - points[:, None]) / (drift * after_s**0.5)), axis=1)
    return np.asarray(reached / reached.sum(axis=1, keepdims=True))
