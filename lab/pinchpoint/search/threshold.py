"""Our own search: NDR and PDRs as thresholds that move, each a distribution over time.

The rate for loss ratio r is the load that trials of search.trial_duration_s exceed r at for half of the time. `track`
holds what is known about one such threshold; `floor` says whether there is one at all; here loads are chosen, and what
was found becomes rates. Every trial whose account is usable counts; one that the generator limited, with what it
offered.

* found: the median over time with its interval and the band. On a quiet DUT the search ends when both are narrower
  than search.relative_width; else when search.max_traffic_s or search.max_duration_s is used up;
* at least: the median may lie beyond what the generator offers, or beyond search.max_load_fps;
* below minimum: it lies below search.min_load_fps;
* loses always: frames are lost at any load, and the loss ratio is the number;
* refused: there is no usable trial.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from statistics import median

import numpy as np

from pinchpoint.model import units
from pinchpoint.model.result import Band, Ceiling, LossFloor, Moment, Rate, RateStatus
from pinchpoint.model.scenario import Search, SearchMethod
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.search.floor import Doubts, Floor
from pinchpoint.search.reach import Reach
from pinchpoint.search.repeat import Measure
from pinchpoint.search.slices import bearable_fps, is_brief
from pinchpoint.search.track import OverTime, Track

LEVELS = (0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95)  # quantiles of a threshold: loads worth comparing
FLOOR_AFTER = 6  # usable trials: then there is an estimate whose half can be tried
ENOUGH = 0.55  # of the width that was asked for: a search that ends as soon as it is reached ends rather by luck
OVERLOADED = 0.02  # loss ratio from which a trial shows what an overloaded DUT forwards
ANEW = 2.0  # factor by which an estimate of the capacity may move before it is another one
LONGEST_PAUSE = 20.0  # trials
MAYBE = 0.1  # chance that most trials exceed a ratio whatever the load, from which more are made at low loads
DIGITS = 5  # of a load, significant
USABLE = (TrialValidity.VALID, TrialValidity.GENERATOR_LIMITED)


@dataclass(frozen=True)
class Found:
    """The rates, the lowest loss ratio first, and the track of the first of them."""

    rates: tuple[Rate, ...]
    moments: tuple[Moment, ...]
    generator_ceiling_fps: float | None  # the most that was offered by a generator that fell short; None: it never did


def find(
    measure: Measure,
    search: Search,
    now_s: Callable[[], float],
    ceilings: Sequence[Ceiling] = (),
    *,
    overload_measures: bool = True,
) -> Found:
    """NDR and PDRs of whatever `measure` measures. Raises only what a trial raises."""
    run = _Run(measure, search, now_s, Reach(search, ceilings), overload_measures)
    stopped = run.until(now_s() + search.max_duration_s)
    rates: list[Rate] = []
    for goal in run.goals:
        rates.append(_never_below(_Teller(run, goal, stopped).rate(), rates[-1] if rates else None))
    return Found(tuple(rates), run.moments(), run.reach.fell_short_fps)


class _Goal:
    """One loss ratio: its threshold's track, and whether there is a threshold at all."""

    def __init__(self, loss_ratio: float, search: Search, overload_measures: bool) -> None:
        self.loss_ratio = loss_ratio
        self.track = Track(
            search.min_load_fps, search.max_load_fps, search.confidence, overload_measures=overload_measures
        )
        self.floor: Floor | None = None
        self.lost: LossFloor | None = None  # set once it is certain that frames are lost at any load
        self._search = search

    def add(self, at_s: float, trial: Trial) -> None:
        """One more usable trial, around `at_s`."""
        exceeded = trial.loss_ratio > self.loss_ratio
        if exceeded:
            self.track.add(at_s, trial.offered_fps, bearable_fps(trial, self.loss_ratio), is_brief(trial))
        else:
            self.track.add(at_s, trial.offered_fps)

    def is_done(self, at_s: float, top_fps: float) -> bool:
        """Whether more trials would tell nothing that was asked for."""
        if self.lost is not None:
            return True
        low_fps, high_fps = self.track.quantiles_fps(at_s, (self.track.tail, 1 - self.track.tail))
        width = self._search.relative_width
        if low_fps >= (1 - width) * top_fps:
            return True
        if high_fps - low_fps > 2 * width * high_fps or self.track.moved > 2 * width:
            return False  # what is seen of the level at once is no wider than the median's interval and the band
        known = self.track.over_time()
        return max(known.width, known.spread) <= ENOUGH * width


class _Run:
    """The trials of one search, and the next load."""

    def __init__(
        self,
        measure: Measure,
        search: Search,
        now_s: Callable[[], float],
        reach: Reach,
        overload_measures: bool,
    ) -> None:
        self.search, self.reach = search, reach
        self._overload_measures = overload_measures
        self.goals = [_Goal(ratio, search, overload_measures) for ratio in sorted(search.loss_ratios)]
        self.trials: list[Trial] = []  # usable ones
        self._measure, self._now_s = measure, now_s
        self._traffic_s = 0.0  # of discarded trials too
        self._offered_fps = 0.0  # in the last discarded trial; 0: there is none
        self._clock = _Clock(search.trial_duration_s)

    def until(self, end_s: float) -> str:
        """Trials until all is known; why they ended before that, or nothing."""
        stopped = self._until(end_s)
        self._judge_floors(is_over=True)
        return stopped

    def _until(self, end_s: float) -> str:
        discarded: Counter[str] = Counter()
        search = self.search
        while not self._is_done():
            if self._now_s() >= end_s:
                return self._used_up(f"search.max_duration_s = {search.max_duration_s:g} s", discarded)
            if self._traffic_s >= search.max_traffic_s:
                return self._used_up(f"search.max_traffic_s = {search.max_traffic_s:g} s", discarded)
            began_s = self._now_s()
            trial = self._measure(search.trial_duration_s, self._load_fps())
            self._traffic_s += trial.sent_duration_s
            if trial.validity in USABLE and trial.offered:
                self._add(self._clock.at_s(trial, began_s), trial)
                continue
            discarded[trial.validity.value] += 1
            self._offered_fps = trial.offered_fps
            if discarded.total() > search.max_repeats and not self.trials:
                return self._unusable(discarded, trial)
        return ""

    def moments(self) -> tuple[Moment, ...]:
        """Where the first goal's threshold was at each trial."""
        if not self.trials:
            return ()
        levels = self.goals[0].track.moments_fps()
        return tuple(
            Moment(trial.id, at_s, *map(float, level))
            for trial, at_s, level in zip(self.trials, self._clock.times_s, levels, strict=True)
        )

    def _add(self, at_s: float, trial: Trial) -> None:
        self.trials.append(trial)
        self.reach.note(trial)
        for goal in self.goals:
            goal.add(at_s, trial)
        self._judge_floors()

    def _judge_floors(self, *, is_over: bool = False) -> None:
        for goal in self.goals:
            if goal.floor is not None and goal.lost is None:
                goal.lost = goal.floor.found(self.trials, self._doubts(goal), is_over=is_over)

    def _is_done(self) -> bool:
        if len(self.trials) < FLOOR_AFTER or any(self._floor_load_fps(goal) is not None for goal in self.goals):
            return False
        return all(goal.is_done(self._clock.next_s, self.reach.top_fps) for goal in self.goals)

    def _load_fps(self) -> float:
        """The load of which a trial now tells most about all goals; that of a floor test first."""
        top_fps, least_fps = self.reach.top_fps, self.search.min_load_fps
        if not self.trials:  # a load that was not offered once will hardly be the next time
            return max(least_fps, min(top_fps, self._offered_fps or top_fps))
        floors = (self._floor_load_fps(goal) for goal in self.goals)
        floor_fps = next((load_fps for load_fps in floors if load_fps is not None), None)
        if floor_fps is not None:
            return floor_fps
        goals = [goal for goal in self.goals if goal.lost is None]
        loads = sorted(
            {
                min(max(_rounded(load_fps), least_fps), top_fps)
                for goal in goals
                for load_fps in goal.track.quantiles_fps(self._clock.next_s, LEVELS)
            }
        )
        told = np.sum([goal.track.information(self._clock.next_s, loads) for goal in goals], axis=0)
        return loads[int(np.argmax(told))]

    def _floor_load_fps(self, goal: _Goal) -> float | None:
        """The load that the floor test of a goal wants next; None when it has ended, or it is too early for it."""
        if len(self.trials) < FLOOR_AFTER or goal.lost is not None:
            return None
        # A trial within a pause of the DUT may have forwarded nothing at all.
        estimate_fps = max(min(self._capacity_fps(goal), self.reach.top_fps), self.search.min_load_fps)
        if goal.floor is None or not 1 / ANEW < estimate_fps / goal.floor.estimate_fps < ANEW:
            goal.floor = Floor(estimate_fps, goal.loss_ratio, self.search.min_load_fps, self.search.confidence)
        return goal.floor.next_load_fps(self.trials, self._doubts(goal))

    def _doubts(self, goal: _Goal) -> Doubts:
        capacity_fps = self._capacity_fps(goal)
        within = [trial for trial in self.trials if trial.load_fps <= capacity_fps]
        exceeding = sum(trial.loss_ratio > goal.loss_ratio for trial in within)
        return Doubts(
            is_stricter_lost=any(other.lost is not None for other in self.goals if other.loss_ratio < goal.loss_ratio),
            is_lapsing=exceeding > max(1.0, len(within) / 2) or goal.track.mostly_lapses > MAYBE,
        )

    def _capacity_fps(self, goal: _Goal) -> float:
        """What the DUT forwards when it is overloaded; else where the threshold is.

        A DUT that loses frames one by one has a threshold far below its capacity: where trials happen to lose none.
        """
        overloaded = [trial for trial in self.trials if trial.loss_ratio > max(OVERLOADED, 2 * goal.loss_ratio)]
        if overloaded and self._overload_measures:
            forwarded = [trial.offered_fps * (1 - trial.loss_ratio) for trial in overloaded]
            return median(fps for fps in forwarded if fps >= max(forwarded) / ANEW)  # the others: pauses at low loads
        return goal.track.quantiles_fps(self._clock.next_s, (0.5,))[0]

    def _used_up(self, budget: str, discarded: Counter[str]) -> str:
        unusable = f"; {discarded.total()} were discarded ({_counted(discarded)})" if discarded else ""
        return f"{budget} used up after {units.counted(len(self.trials), 'usable trial')}{unusable}"

    def _unusable(self, discarded: Counter[str], last: Trial) -> str:
        return (
            f"none of {discarded.total()} trials had a usable account ({_counted(discarded)}); the last one, at "
            f"{units.fps(last.load_fps)}: {last.reason}"
        )


class _Clock:
    """When trials took place, in seconds since the first one: by their own stamps, so that a resumed run agrees.

    A pause of the search (it was interrupted, or trials were discarded) counts as LONGEST_PAUSE trials at most.
    """

    def __init__(self, duration_s: float) -> None:
        self.times_s: list[float] = []
        self._duration_s = duration_s
        self._before_s = 0.0  # by the trials' own clock

    @property
    def next_s(self) -> float:
        """When the next trial is expected to take place."""
        if not self.times_s:
            return 0.0
        between = [after - before for before, after in pairwise(self.times_s)]
        return self.times_s[-1] + (median(between[-9:]) if between else self._duration_s)

    def at_s(self, trial: Trial, began_s: float) -> float:
        """The time of one more trial; `began_s` by the search's clock, for trials without a stamp."""
        now_s = datetime.fromisoformat(trial.started).timestamp() if trial.started else began_s
        longest_s = LONGEST_PAUSE * self._duration_s
        passed_s = min(max(now_s - self._before_s, self._duration_s), longest_s) if self.times_s else 0.0
        self._before_s = now_s
        self.times_s.append((self.times_s[-1] if self.times_s else 0.0) + passed_s)
        return self.times_s[-1]


@dataclass(frozen=True)
class _Teller:
    """Makes a rate of what is known about one goal. Loads are as offered (RFC 2285, 3.5.2)."""

    run: _Run
    goal: _Goal
    stopped: str  # why the search ended early; empty if it did not

    def rate(self) -> Rate:
        if not self.run.trials:
            return self._rate(RateStatus.REFUSED, self.stopped)
        if self.goal.lost is not None:
            return replace(self._rate(RateStatus.LOSES_ALWAYS, ""), floor=self.goal.lost)
        known, reach = self._no_finer_than_asked(self.goal.track.over_time()), self.run.reach
        least_fps, most_fps = self.run.search.min_load_fps, reach.offered_fps
        if known.median_fps <= least_fps:
            return replace(
                self._rate(RateStatus.BELOW_MINIMUM, self._too_much()), upper_fps=max(known.upper_fps, least_fps)
            )
        if known.median_fps >= reach.nearly_top_fps:
            return replace(self._rate(RateStatus.AT_LEAST, reach.limit()), lower_fps=min(known.lower_fps, most_fps))
        upper_fps = known.upper_fps if known.upper_fps < most_fps else None
        cut = "" if known.high_fps < most_fps else f"the band is cut off where the generator is: {reach.limit()}"
        return replace(
            self._rate(RateStatus.FOUND, "; ".join(filter(None, (self._wide(known), cut)))),
            lower_fps=max(known.lower_fps, least_fps),
            estimate_fps=known.median_fps,
            upper_fps=upper_fps,
            band=Band(*(min(max(fps, least_fps), most_fps) for fps in (known.low_fps, known.high_fps))),
        )

    def _rate(self, status: RateStatus, reason: str) -> Rate:
        search = self.run.search
        return Rate(
            loss_ratio=self.goal.loss_ratio,
            status=status,
            lower_fps=None,
            upper_fps=None,
            trial_duration_s=search.trial_duration_s,
            duration_sum_s=search.duration_sum_s,
            reason=reason,
            confidence=search.confidence,
            limited_by=self.run.reach.limited_by if status is RateStatus.AT_LEAST else None,
            method=SearchMethod.THRESHOLD,
        )

    def _no_finer_than_asked(self, known: OverTime) -> OverTime:
        """Of a threshold that moves, single levels are known no better than loads were chosen to tell them apart."""
        half = self.run.search.relative_width / 2
        if known.spread <= 2 * half:  # the band is known no better than the median
            low_fps, high_fps = min(known.low_fps, known.lower_fps), max(known.high_fps, known.upper_fps)
            return replace(known, low_fps=low_fps, high_fps=high_fps)
        return replace(known, lower_fps=known.lower_fps * (1 - half), upper_fps=known.upper_fps * (1 + half))

    def _wide(self, known: OverTime) -> str:
        """Why the interval is wider than was asked for; empty if it is not."""
        if known.width <= self.run.search.relative_width or not self.stopped:
            return ""
        return f"{self.stopped}: the interval is {units.share(known.width)} wide"

    def _too_much(self) -> str:
        ratio = self.goal.loss_ratio
        lost = "frames" if ratio == 0 else f"more than {units.loss(ratio)} of their frames"
        least = units.fps(self.run.search.min_load_fps)
        return f"most trials lost {lost} even at search.min_load_fps = {least}"


def _never_below(rate: Rate, stricter: Rate | None) -> Rate:
    """The same rate, at least that of the stricter loss ratio: what keeps one keeps the other."""
    if stricter is None or stricter.status is not RateStatus.FOUND or rate.status is not RateStatus.FOUND:
        return rate
    ends = {
        name: max(own, least)
        for name in ("lower_fps", "estimate_fps", "upper_fps")
        if (own := getattr(rate, name)) is not None and (least := getattr(stricter, name)) is not None
    }
    return replace(rate, **ends)


def _counted(discarded: Counter[str]) -> str:
    return ", ".join(f"{count} {validity.replace('_', ' ')}" for validity, count in discarded.most_common())


def _rounded(load_fps: float) -> float:
    return float(f"{load_fps:.{DIGITS - 1}e}")
