"""From trials to NDR and PDR, and what is said when there can be none.

Only valid trials reach the library. A generator at its ceiling lowers the
search's maximum instead of the DUT's rate; a rate that ends at that maximum is
"at least", never found. Rates are told as offered, not as intended: what the
engine really presented to the ports at the loads that bound them (RFC 2285, 3.5.2).
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from statistics import median

from pinchpoint.model import units
from pinchpoint.model.result import ModeRates, Rate, RateStatus
from pinchpoint.model.scenario import Search
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.search.library import Bounds, LibraryError, LossRatioSearch
from pinchpoint.search.repeat import Measure, until_valid

CEILING_MARGIN = 0.98  # of the offered rate seen: a load that the generator can keep up
GENTLE = 0.7  # of the load that was too high
FAR_SHORT = 0.4
MOST_LOWERINGS = 8  # of the maximum load, in one search


@dataclass(frozen=True)
class SearchOutcome:
    """What a search found: one rate for each loss ratio, the lowest ratio (the NDR) first."""

    rates: tuple[Rate, ...]
    generator_ceiling_fps: float | None  # highest rate offered by a generator that fell short; None: none did
    modes: tuple[ModeRates, ...] = ()  # of the cores, as met; `rates` are the first one's (threshold only)


class _StoppedError(Exception):
    """The search cannot go on; the message says why."""


class _GeneratorLimitedError(Exception):
    """The generator cannot keep up with a load, and a repeat confirmed it."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(trial.reason)
        self.trial = trial


def find_rates(
    measure: Measure,
    search: Search,
    now_s: Callable[[], float],
    *,
    ceiling_fps: float | None = None,
    mode_of: Callable[[Trial], float | None] = lambda trial: None,
) -> SearchOutcome:
    """NDR and PDR of whatever `measure` measures, within search.max_duration_s by the clock `now_s`.

    `search` holds what a scenario may hold (minimum below maximum, and so on). `ceiling_fps` is the
    generator's own highest rate, if known: no load above it is tried. `mode_of` tells the distance of
    the cores during a valid trial, ns; None: not probed. MLRsearch takes its trials to be of one mode.
    Raises only what `measure` raises; every other end is told by the rates' status and reason.
    """
    watch = _Watch(measure, search, now_s, ceiling_fps)
    max_load_fps = min(search.max_load_fps, ceiling_fps or search.max_load_fps)
    if max_load_fps <= search.min_load_fps:
        return _below_minimum(search, watch, max_load_fps)
    for _ in range(MOST_LOWERINGS + 1):
        attempt = LossRatioSearch(search, max_load_fps)
        stopped = ""
        try:
            attempt.run(watch.measure)
        except _GeneratorLimitedError as error:
            max_load_fps = _lower(error.trial)
            if max_load_fps > search.min_load_fps:
                continue
            stopped = f"{watch.ceiling()}, below search.min_load_fps"
        except (_StoppedError, LibraryError) as error:
            stopped = str(error)
        judge = _Judge(search, max_load_fps, watch, stopped)
        return watch.outcome(_never_falling(judge.rate(bounds) for bounds in attempt.bounds()))
    stopped = f"{watch.ceiling()}, and fell short of ever lower loads, last {units.fps(max_load_fps)}"
    judge = _Judge(search, max_load_fps, watch, stopped)
    nothing = (Bounds(loss_ratio, None, None) for loss_ratio in sorted(search.loss_ratios))
    return watch.outcome(tuple(judge.rate(bounds) for bounds in nothing))


def _below_minimum(search: Search, watch: "_Watch", max_load_fps: float) -> SearchOutcome:
    judge = _Judge(search, max_load_fps, watch, f"{watch.ceiling()}, below search.min_load_fps")
    return watch.outcome(tuple(judge.rate(Bounds(ratio, None, None)) for ratio in sorted(search.loss_ratios)))


def _never_falling(rates: Iterable[Rate]) -> tuple[Rate, ...]:
    """The same rates, lowest loss ratio first: what satisfied one goal satisfied all more lenient ones too.

    Only unequal shortfalls of neighbouring loads can make it look otherwise.
    """
    found: list[Rate] = []
    for rate in rates:
        stricter_fps = max((other.lower_fps for other in found if other.lower_fps is not None), default=None)
        if stricter_fps is not None and rate.lower_fps is not None and rate.lower_fps < stricter_fps:
            upper_fps = None if rate.upper_fps is None else max(rate.upper_fps, stricter_fps)
            rate = replace(rate, lower_fps=stricter_fps, upper_fps=upper_fps)
        found.append(rate)
    return tuple(found)


def _lower(limited: Trial) -> float:
    """The next maximum after a load that the generator could not keep up with.

    Not at once what it offered: a DUT that is overloaded keeps all rings full, and
    that slows the generator too. Unless it fell far short, a little lower comes first.
    """
    offered_fps = CEILING_MARGIN * min(limited.offered_fps, limited.load_fps)
    fell_far_short = limited.offered_fps < FAR_SHORT * limited.load_fps
    return offered_fps if fell_far_short else max(offered_fps, GENTLE * limited.load_fps)


class _Watch:
    """Lets only valid trials through, keeps the time bound, and notes what the warnings need."""

    def __init__(
        self, measure: Measure, search: Search, now_s: Callable[[], float], known_ceiling_fps: float | None
    ) -> None:
        self._measure = measure
        self._search = search
        self._now_s = now_s
        self._end_s = now_s() + search.max_duration_s
        self._trials = 0
        self._known_fps = known_ceiling_fps if known_ceiling_fps and known_ceiling_fps < search.max_load_fps else None
        self._ceiling_fps: float | None = None
        self._offered: dict[float, list[float]] = {}  # of valid trials, by intended load

    def measure(self, duration_s: float, load_fps: float) -> Trial:
        """A valid trial. Raises _GeneratorLimitedError or _StoppedError."""
        validities: Counter[TrialValidity] = Counter()

        def counted(duration_s: float, load_fps: float) -> Trial:
            trial = self._in_time(duration_s, load_fps)
            validities[trial.validity] += 1
            return trial

        trial = until_valid(counted, duration_s, load_fps, self._search.max_repeats)
        if trial.validity is TrialValidity.GENERATOR_LIMITED:
            self._ceiling_fps = max(self._ceiling_fps or 0.0, trial.offered_fps)
            raise _GeneratorLimitedError(trial)
        if trial.validity is not TrialValidity.VALID:
            counts = ", ".join(f"{count} {validity.value}" for validity, count in validities.most_common())
            raise _StoppedError(
                f"no valid trial at {units.fps(load_fps)} in {validities.total()} tries ({counts}); "
                f"last: {trial.reason}"
            )
        self._offered.setdefault(load_fps, []).append(trial.offered_fps)
        return trial

    def offered_fps(self, load_fps: float | None) -> float | None:
        """The median rate that valid trials at an intended load really offered."""
        return None if load_fps is None else median(self._offered[load_fps])

    def _in_time(self, duration_s: float, load_fps: float) -> Trial:
        if self._now_s() >= self._end_s:
            raise _StoppedError(
                f"search.max_duration_s = {self._search.max_duration_s:g} s reached after {self._trials} trials"
            )
        self._trials += 1
        return self._measure(duration_s, load_fps)

    def ceiling(self) -> str:
        """The generator's limit in words; empty if it was never reached."""
        if self._ceiling_fps is None:
            known = units.fps(self._known_fps)
            return f"generator-limited: its ceiling on such a bench is {known}" if self._known_fps else ""
        return f"generator-limited: the engine offers at most {units.fps(self._ceiling_fps)} on this bench"

    def outcome(self, rates: tuple[Rate, ...]) -> SearchOutcome:
        return SearchOutcome(rates, self._ceiling_fps)


@dataclass(frozen=True)
class _Judge:
    """What the bounds of one goal mean in this search."""

    search: Search
    max_load_fps: float
    watch: "_Watch"
    stopped: str  # why the search ended early; empty if it did not

    def rate(self, bounds: Bounds) -> Rate:
        status, reason = self._status(bounds)
        lower_fps, upper_fps = (self.watch.offered_fps(load) for load in (bounds.lower_fps, bounds.upper_fps))
        if lower_fps is not None and upper_fps is not None:
            # Unequal shortfalls may turn neighbours round: the lower of the two is what may be claimed.
            lower_fps, upper_fps = sorted((lower_fps, upper_fps))
        return Rate(
            loss_ratio=bounds.loss_ratio,
            status=status,
            lower_fps=lower_fps,
            upper_fps=upper_fps,
            trial_duration_s=self.search.trial_duration_s,
            duration_sum_s=self.search.duration_sum_s,
            reason=reason,
        )

    def _status(self, bounds: Bounds) -> tuple[RateStatus, str]:
        lower, upper = bounds.lower_fps, bounds.upper_fps
        if upper is None and lower is not None and lower >= self.max_load_fps:
            return RateStatus.AT_LEAST, self.watch.ceiling() or "search.max_load_fps reached"
        if lower is None and upper is not None and upper <= self.search.min_load_fps:
            lost = "a frame" if bounds.loss_ratio == 0 else f"more than {units.loss(bounds.loss_ratio)}"
            minimum = units.fps(self.search.min_load_fps)
            return RateStatus.BELOW_MINIMUM, f"lost {lost} even at search.min_load_fps = {minimum}"
        if lower is not None and upper is not None and upper - lower <= self.search.relative_width * upper:
            return RateStatus.FOUND, ""
        return (
            RateStatus.REFUSED,
            self.stopped or "MLRsearch ended between bounds wider than search.relative_width",
        )
