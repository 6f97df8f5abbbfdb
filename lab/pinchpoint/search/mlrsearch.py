"""MLRsearch 1.2.1 (FD.io CSIT; draft-ietf-bmwg-mlrsearch): the cross-check of our own search.

By its documented interface. Its own time bound goes by the computer's clock, so it is set out of reach; the measurer
ends a search by raising. Only valid trials reach the library. A generator at its ceiling lowers the search's maximum
instead of the DUT's rate; a rate that ends at that maximum is "at least", never found. Rates are told as offered, not
as intended (RFC 2285, 3.5.2).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median

from MLRsearch import AbstractMeasurer, Config, GoalResult, MeasurementResult, MultipleLossRatioSearch, SearchGoal

from pinchpoint.model import units
from pinchpoint.model.result import Ceiling, Rate, RateStatus
from pinchpoint.model.scenario import Search
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.search.rates import Measure, SearchOutcome, until_valid
from pinchpoint.search.reach import Reach

_NEVER_S = 1e12


class _StoppedError(Exception):
    """No further trial, and why; `limited`: a trial of which a repeat confirmed that the generator cannot keep up."""

    def __init__(self, reason: str, limited: Trial | None = None) -> None:
        super().__init__(reason)
        self.limited = limited


def find(measure: Measure, search: Search, now_s: Callable[[], float], ceilings: Sequence[Ceiling]) -> SearchOutcome:
    """NDR and PDRs by MLRsearch, the lowest loss ratio first. Raises only what a trial raises."""
    measurer, reach = _Measurer(measure, search, now_s), Reach(search, ceilings)
    goals = [_goal(search, loss_ratio) for loss_ratio in sorted(search.loss_ratios)]
    while True:
        config = Config(
            goals=goals,
            min_load=search.min_load_fps,
            max_load=reach.top_fps,
            search_duration_max=_NEVER_S,
            warmup_duration=0.0,
        )
        library, stopped = MultipleLossRatioSearch(config), ""
        try:
            library.search(measurer, debug=lambda _: None)  # the first trial is a full one at the maximum load
        except _StoppedError as error:
            if error.limited is not None and reach.lower(error.limited):
                continue
            stopped = str(error) if error.limited is None else reach.limit()
        except RuntimeError as error:
            if error is measurer.failure:
                raise
            stopped = str(error)  # the library gave up
        rates = [_rate(library, goal, measurer, reach, stopped) for goal in goals]
        return SearchOutcome(tuple(rates), measurer.ceiling_fps)


class _Measurer(AbstractMeasurer):  # type: ignore[misc]
    """Lets only valid trials through, and keeps the time."""

    def __init__(self, measure: Measure, search: Search, now_s: Callable[[], float]) -> None:
        self.search = search
        self.ceiling_fps: float | None = None  # the highest rate offered by a generator that fell short
        self.failure: Exception | None = None  # that ended a search, as opposed to one of the library's own
        self._measure, self._now_s = measure, now_s
        self._end_s = now_s() + search.max_duration_s
        self._trials = self._valid = 0
        self._tries: Counter[TrialValidity] = Counter()  # of one load
        self._offered: dict[float, list[float]] = {}  # of valid trials, by intended load

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        """A valid trial, as the library has it."""
        try:
            trial = self._valid_trial(intended_duration, intended_load)
        except Exception as error:
            self.failure = error
            raise
        # Of the intended count a shortfall, the engine's, would count as the DUT's loss.
        return MeasurementResult(intended_duration, intended_load, offered_count=trial.offered, loss_count=trial.lost)

    def _valid_trial(self, duration_s: float, load_fps: float) -> Trial:
        self._tries.clear()
        trial = until_valid(self._in_time, duration_s, load_fps, self.search.max_repeats)
        if trial.validity is TrialValidity.GENERATOR_LIMITED:
            self.ceiling_fps = max(self.ceiling_fps or 0.0, trial.offered_fps)
            raise _StoppedError(trial.reason, trial)
        if trial.validity is not TrialValidity.VALID:
            counts = ", ".join(f"{count} {validity.value}" for validity, count in self._tries.most_common())
            tries = f"no valid trial at {units.fps(load_fps)} in {self._tries.total()} tries ({counts})"
            raise _StoppedError(f"{tries}; last: {trial.reason}")
        self._valid += 1
        self._offered.setdefault(load_fps, []).append(trial.offered_fps)
        return trial

    def _in_time(self, duration_s: float, load_fps: float) -> Trial:
        if self._now_s() >= self._end_s:
            spent = f"search.max_duration_s = {self.search.max_duration_s:g} s reached"
            raise _StoppedError(f"{spent} after {self._trials} trials, {self._valid} of them valid")
        self._trials += 1
        trial = self._measure(duration_s, load_fps)
        self._tries[trial.validity] += 1
        return trial

    def offered_fps(self, load_fps: float) -> float:
        """The median rate that valid trials at an intended load really offered."""
        return median(self._offered[load_fps])


def _goal(search: Search, loss_ratio: float) -> SearchGoal:
    return SearchGoal(
        loss_ratio=loss_ratio,
        exceed_ratio=search.exceed_ratio,
        relative_width=search.relative_width,
        initial_trial_duration=search.initial_trial_duration_s,
        final_trial_duration=search.trial_duration_s,
        duration_sum=search.duration_sum_s,
        preceding_targets=search.preceding_targets,
        expansion_coefficient=search.expansion_coefficient,
        fail_fast=False,
    )


def _rate(library: MultipleLossRatioSearch, goal: SearchGoal, measurer: _Measurer, reach: Reach, stopped: str) -> Rate:
    """By the goal's relevant bounds, from the trials so far; None: no load is known to satisfy (to fail) it."""
    target = library.scaling.goal_to_final_target[goal]
    known = GoalResult.from_bounds(library.database.get_relevant_bounds(target))
    ends = (known.relevant_lower_bound, known.relevant_upper_bound)
    lower, upper = (None if end is None else float(end) for end in ends)
    status, reason = _status(measurer.search, goal.loss_ratio, lower, upper, reach, stopped)
    lower_fps, upper_fps = (None if end is None else measurer.offered_fps(end) for end in (lower, upper))
    if lower_fps is not None and upper_fps is not None:  # unequal shortfalls may turn neighbours round
        lower_fps, upper_fps = sorted((lower_fps, upper_fps))
    lengths_s = measurer.search.trial_duration_s, measurer.search.duration_sum_s
    limited_by = reach.limited_by if status is RateStatus.AT_LEAST else None
    exceed = measurer.search.exceed_ratio
    bounds_fps = lower_fps, upper_fps
    return Rate(
        goal.loss_ratio, status, *bounds_fps, *lengths_s, reason, limited_by=limited_by, exceed_ratio=exceed
    )  # fmt: skip


def _status(
    search: Search, loss_ratio: float, lower: float | None, upper: float | None, reach: Reach, stopped: str
) -> tuple[RateStatus, str]:
    """What bounds mean, as loads that were intended."""
    if upper is None and lower is not None and lower >= reach.top_fps:
        return RateStatus.AT_LEAST, reach.limit()
    if lower is None and upper is not None and upper <= search.min_load_fps:
        lost = "a frame" if loss_ratio == 0 else f"more than {units.loss(loss_ratio)}"
        minimum = units.fps(search.min_load_fps)
        return RateStatus.BELOW_MINIMUM, f"lost {lost} even at search.min_load_fps = {minimum}"
    if lower is not None and upper is not None and upper - lower <= search.relative_width * upper:
        return RateStatus.FOUND, ""
    return RateStatus.REFUSED, stopped or "MLRsearch ended between bounds wider than search.relative_width"
