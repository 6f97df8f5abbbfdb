"""Our own search: NDR and PDRs as the loads at which half of the trials lose more than the ratio.

`track` holds what is known about the thresholds of trials; here loads are chosen, and what is known becomes rates
(docs/method.md, "The search"). Every trial with a usable account counts, with what was offered. A search ends when the
interval is narrower than search.relative_width and the trials beside the rate agree with it, or with its budget, the
last of which is spent beside rates that have too few trials there.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate, pairwise
from statistics import median

import numpy as np

from pinchpoint.model import result, units
from pinchpoint.model.measurement import Interval, fewest_for_interval
from pinchpoint.model.result import Band, Ceiling, LossFloor, Moment, Rate, RateStatus
from pinchpoint.model.scenario import Search, SearchMethod
from pinchpoint.model.trial import OVERLOADED, Cause, Trial
from pinchpoint.search import claims
from pinchpoint.search.claims import SUPPORT, claim, constant_loss, near, nearest_supported, share_near
from pinchpoint.search.memory import PAIR, PAIRS, REST, Memory, Role
from pinchpoint.search.rates import Measure, SearchOutcome, never_below
from pinchpoint.search.reach import Reach
from pinchpoint.search.slices import loss_of, most_waiting
from pinchpoint.search.track import OverTime, Seen, Track

QUANTILES = (0.5, 0.35, 0.65, 0.5, 0.3, 0.7)  # of the threshold that the next trial will meet: loads on both sides
# Of the rate: loads that show whether the claim holds, whatever the level is just then; in the middle of its trials.
BOTH_SIDES = (1 - claims.BESIDE / 2, 1 + claims.BESIDE / 2)
WANTED = 2  # trials on either side of a rate, for which the last of a budget is spent: one may have been lucky
BESIDE_EVERY, PDR_EVERY, HALF_EVERY = 3, 3, 8  # trials; a PDR needs fewer, since what it loses also says how much
KNOWN_EVERY = 3  # turns of a rate that is known exactly enough: whether it still is
HALF, FOUR_FIFTHS = 0.5, 0.8  # of a rate: loads that show what is lost far below it
FEWEST = fewest_for_interval()  # usable trials
ESTIMATED = 2 * FEWEST  # usable trials from which there is an estimate that loads are taken beside of
QUIET = PDR_EVERY * (FEWEST + 1) + 1  # usable trials before an early end: FEWEST of a PDR's own after the first one
RECENT = 2  # trials that an estimate, of which loads are shares, may be old: it moves by less than loads differ
ROOM = PAIRS * (len(PAIR) - 1 + REST)  # trials that the look for a memory takes at most
BACK = 0.85  # of a load at which several trials in a row were not usable: five steps come below half of it
NARROWEST = 0.5  # of the width that was asked for: loads were chosen to tell no narrower interval
ENOUGH = 1.1 * NARROWEST  # of it: a search that ends as soon as its width is reached ends rather by luck
STOOD_STILL = (Cause.RECEIVER_STOOD_STILL, Cause.RECEIVER_TAKEN)
LONGEST_PAUSE = 20.0  # trials in which the search stood still: in 4 s the fastest walk goes as far as a jump (track.py)
DIGITS = 5  # of a load, significant: finer than what a trial resolves


def find(
    measure: Measure,
    search: Search,
    now_s: Callable[[], float],
    ceilings: Sequence[Ceiling] = (),
    *,
    overload_measures: bool = True,
) -> SearchOutcome:
    """NDR and PDRs of whatever `measure` measures. Raises only what a trial raises."""
    run = _Run(measure, search, now_s, Reach(search, ceilings), overload_measures)
    stopped = run.until(now_s() + search.max_duration_s)
    rates = accumulate((_Teller(run, goal, stopped).rate() for goal in run.goals), never_below)
    return SearchOutcome(tuple(map(run.counted, rates)), run.reach.fell_short_fps, run.moments())


class _Goal:
    """One loss ratio: its threshold's track, and the loads that are tried for it."""

    def __init__(self, loss_ratio: float, search: Search, *, overload_measures: bool) -> None:
        self.loss_ratio = loss_ratio
        ends_fps = search.min_load_fps, search.max_load_fps
        self.track = Track(*ends_fps, search.confidence, overload_measures=overload_measures)
        self._width = search.relative_width
        self._asked = 0  # loads that were chosen for it
        self._known: tuple[int, OverTime] | None = None  # and of how many trials

    def add(self, at_s: float, trial: Trial, ring: int) -> None:
        """One more usable trial, around `at_s`."""
        seen = Seen(at_s, float(np.log(trial.offered_fps)))
        if trial.loss_ratio > self.loss_ratio:
            loss = loss_of(trial, self.loss_ratio, ring)
            borne, pause = (float(np.log(max(1.0, fps))) for fps in (loss.bearable_fps, loss.pause_fps))
            seen = replace(seen, borne=min(borne, seen.load), is_pause=loss.is_pause, pause=pause)
        self.track.add(seen)

    @property
    def known(self) -> OverTime:
        """The distribution over the time, as of at most RECENT trials ago."""
        return self.known_within(RECENT)

    def known_within(self, trials: int) -> OverTime:
        """The same, as of at most so many trials ago."""
        if self._known is None or len(self.track) > self._known[0] + trials:
            self._known = len(self.track), self.track.over_time()
        return self._known[1]

    def lacking(self, trials: Sequence[Trial]) -> tuple[int, int]:
        """How many trials beside the rate are missing below and above it."""
        below, above = near(trials, self.known_within(0).median.value)
        return max(0, WANTED - below), max(0, WANTED - above)

    def load_fps(self, at_s: float) -> float:
        """The next load to try for this goal."""
        self._asked += 1
        if len(self.track) >= ESTIMATED and self._asked % BESIDE_EVERY == 0:
            return self.known.median.value * BOTH_SIDES[self._asked // BESIDE_EVERY % len(BOTH_SIDES)]
        return self.track.met_fps(at_s, QUANTILES[self._asked % len(QUANTILES)])

    @property
    def is_narrow(self) -> bool:
        return self.known.median.width <= ENOUGH * self._width

    def is_beyond(self, top_fps: float) -> bool:
        return self.known.median.low >= (1 - self._width) * top_fps

    def is_done(self, trials: Sequence[Trial], top_fps: float) -> bool:
        """Whether more trials would tell nothing that was asked for."""
        if self.is_beyond(top_fps) or not self.is_narrow or self.known.band.width > ENOUGH * self._width:
            return self.is_beyond(top_fps)
        held = claim(trials, self.loss_ratio, self.known.median.value)
        return held.holds and held.supported is True


class _Run:
    """The trials of one search, and the next load."""

    def __init__(
        self, measure: Measure, search: Search, now_s: Callable[[], float], reach: Reach, overload_measures: bool
    ) -> None:
        self.search, self.reach = search, reach
        self.memory = Memory(is_known=not overload_measures)
        self.goals = [_Goal(ratio, search, overload_measures=overload_measures) for ratio in sorted(search.loss_ratios)]
        self.trials: list[Trial] = []  # usable ones
        self.discarded: list[Trial] = []
        self._in_a_row = 0  # unusable trials
        self._rested: list[tuple[float, Trial]] = []  # when they began, and trials after rests
        self._measure, self._now_s = measure, now_s
        self._traffic_s = 0.0  # of discarded trials too
        self._ring = 0  # the most frames that were seen to wait under overload
        self._clock = _Clock(search.trial_duration_s)

    def until(self, end_s: float) -> str:
        """Trials until all is known; why they ended before that, or nothing."""
        search = self.search
        while not self._is_done():
            if self._now_s() >= end_s:
                return self._used_up(f"search.max_duration_s = {search.max_duration_s:g} s")
            if self._traffic_s >= search.max_traffic_s:
                return self._used_up(f"search.max_traffic_s = {search.max_traffic_s:g} s")
            began_s, role = self._now_s(), self._role()
            duration_s = search.trial_duration_s * (REST if role is Role.REST else 1.0)
            trial = self._measure(duration_s, self._load_fps(role))
            self._traffic_s += trial.sent_duration_s
            if trial.is_usable:
                self._in_a_row = 0
                self._add(role, began_s, trial)
            else:
                self._in_a_row += 1
                self.discarded.append(trial)
                self.reach.leave(trial)
                if self._in_a_row > search.max_repeats:
                    return self._unusable()
        return ""

    def moments(self) -> tuple[Moment, ...]:
        """Where the first goal's level was at each trial."""
        levels = self.goals[0].track.moments_fps() if self.trials else []
        known = zip(self.trials, self._clock.times_s, levels, strict=True)
        return tuple(Moment(trial.id, at_s, *level) for trial, at_s, level in known)

    def counted(self, rate: Rate) -> Rate:
        """The rate with what the trials beside it and at half of it say."""
        if rate.estimate_fps is None or rate.memory is not None:
            return rate
        at_half = share_near(self.trials, rate.loss_ratio, HALF * rate.estimate_fps)
        return replace(rate, at_half=at_half, claim=claim(self.trials, rate.loss_ratio, rate.estimate_fps))

    def _role(self) -> Role:
        """Of the next trial. What a device remembers is looked for once there is an estimate, and room for it."""
        left_s = self.search.max_traffic_s - self._traffic_s
        is_asked = len(self.trials) == ESTIMATED and not (self.memory.about_fps or self.memory.is_known)
        if is_asked and left_s > ROOM * self.search.trial_duration_s:
            self.memory.plan(self.goals[0].known.median.value)
        return self.memory.role

    def _add(self, role: Role, began_s: float, trial: Trial) -> None:
        was_there = self.memory.is_there
        if role is not Role.SEARCH:
            self.memory.note(trial, self.goals[0].loss_ratio)
        if role is Role.AFTER_REST and not was_there:
            self._rested.append((began_s, trial))
        if self.memory.is_there and not was_there:
            self._begin_anew()
        elif role is not Role.REST and (role is Role.AFTER_REST or not self.memory.is_there):
            self._count(began_s, trial)

    def _count(self, began_s: float, trial: Trial) -> None:
        at_s = self._clock.at_s(trial, began_s)
        self.trials.append(trial)
        self.reach.note(trial)
        if trial.loss_ratio > OVERLOADED:
            self._ring = max(self._ring, most_waiting(trial))
        for goal in self.goals:
            goal.add(at_s, trial, self._ring)

    def _begin_anew(self) -> None:
        """Keep the trials after rests alone: overloads show what is sustained, and not what is carried after a rest."""
        self.goals = [_Goal(goal.loss_ratio, self.search, overload_measures=False) for goal in self.goals]
        self.trials, self._clock = [], _Clock(self.search.trial_duration_s)
        for began_s, trial in self._rested:
            self._count(began_s, trial)

    def _is_done(self) -> bool:
        count, top_fps = len(self.trials), self.reach.top_fps
        if count < ESTIMATED or self.memory.is_there:
            return False
        if all(goal.is_beyond(top_fps) for goal in self.goals):
            return True
        is_tried = self.memory.is_known or not self.memory.about_fps
        return is_tried and count >= QUIET and all(goal.is_done(self.trials, top_fps) for goal in self.goals)

    def _load_fps(self, role: Role) -> float:
        top_fps, least_fps = self.reach.top_fps, self.search.min_load_fps
        count = len(self.trials)
        if role is not Role.SEARCH and not (self.memory.is_there and role is Role.AFTER_REST):
            load_fps = self.memory.load_fps(self.reach.highest_fps, least_fps)
        elif not count:
            load_fps = top_fps
        elif (last_fps := self._last_fps()) is not None:
            load_fps = last_fps
        elif count >= ESTIMATED and count % HALF_EVERY == 0:
            load_fps = self._apart_fps(count // HALF_EVERY)
        else:
            load_fps = self._next_goal(count).load_fps(self._clock.next_s)
        load_fps *= BACK ** max(0, self._in_a_row - 1)
        return min(max(float(f"{load_fps:.{DIGITS - 1}e}"), least_fps), top_fps)

    def _last_fps(self) -> float | None:
        """Beside a rate that lacks trials there, once the budget pays for no more than what all rates lack."""
        usable = len(self.trials) / self.made
        by_traffic = usable * (self.search.max_traffic_s - self._traffic_s) / self.search.trial_duration_s
        left = min(by_traffic, self._clock.trials_within(self.search.max_duration_s))
        if left > 2 * WANTED * len(self.goals):
            return None
        lacking = [(goal, *goal.lacking(self.trials)) for goal in self.goals]
        if not max(left, 1) <= sum(below + above for _, below, above in lacking):
            return None
        goal, below, above = max(lacking, key=lambda lack: lack[1] + lack[2])
        return goal.known.median.value * BOTH_SIDES[above > below]

    def _next_goal(self, count: int) -> _Goal:
        """Whose turn it is. A rate that is known as exactly as asked for gives most of its turns to the others."""
        first, *others = self.goals
        turn, left = divmod(count, PDR_EVERY)
        goal = first if left or not others else others[turn % len(others)]
        if count < ESTIMATED or turn % KNOWN_EVERY == 0 or not goal.is_narrow:
            return goal
        return max(self.goals, key=lambda goal: goal.known.median.width)

    def _apart_fps(self, turn: int) -> float:
        """A load that shows what is lost far from a rate: half of the NDR, or below the PDR where that is far above."""
        strictest_fps, lenient_fps = (goal.known.median.value for goal in (self.goals[0], self.goals[-1]))
        if strictest_fps > HALF * lenient_fps:
            return HALF * strictest_fps
        return (HALF * strictest_fps, HALF * lenient_fps, FOUR_FIFTHS * lenient_fps)[turn % 3]

    def _used_up(self, budget: str) -> str:
        unusable = f"; {len(self.discarded)} were discarded ({self._validities()})" if self.discarded else ""
        return f"{budget} used up after {units.counted(len(self.trials), 'usable trial')}{unusable}"

    def _unusable(self) -> str:
        last = self.discarded[-1]
        which = f"the last {self._in_a_row}" if self.trials else "none"
        usable = "no usable account" if self.trials else "a usable account"
        which = f"{which} of {self.made} trials had {usable} ({self._validities()})"
        return f"{which}; the last one, at {units.fps(last.load_fps)}: {last.reason}"

    def _validities(self) -> str:
        counts = Counter(trial.validity.words for trial in self.discarded)
        return ", ".join(f"{count} {validity}" for validity, count in counts.most_common())

    @property
    def made(self) -> int:
        return len(self.trials) + len(self.discarded)

    @property
    def unusable_share(self) -> float | None:
        """Of all trials, those in which a receiving core of the engine stood still for longer than its ring bears."""
        stood_still = sum(trial.cause in STOOD_STILL for trial in self.discarded)
        return stood_still / self.made if self.made else None


class _Clock:
    """When trials took place, in seconds since the first one: by their own stamps, so that a resumed run agrees."""

    def __init__(self, duration_s: float) -> None:
        self.times_s: list[float] = []
        self._duration_s = duration_s
        self._first_s = self._before_s = 0.0  # by the trials' own clock

    @property
    def next_s(self) -> float:
        """When the next trial is expected."""
        if not self.times_s:
            return 0.0
        between = [after - before for before, after in pairwise(self.times_s)]
        return self.times_s[-1] + (median(between[-9:]) if between else self._duration_s)

    def trials_within(self, duration_s: float) -> float:
        """How many more begin within a time since the first one, if they take as long as those so far."""
        passed_s = self._before_s - self._first_s
        return (duration_s - passed_s) / passed_s * (len(self.times_s) - 1) - 1 if passed_s > 0 else math.inf

    def at_s(self, trial: Trial, began_s: float) -> float:
        """The time of one more trial; `began_s` by the search's clock, for trials without a stamp."""
        now_s = datetime.fromisoformat(trial.started).timestamp() if trial.started else began_s
        self._first_s = self._first_s if self.times_s else now_s
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
        """The rate, or why there is none."""
        run, ratio, least_fps = self.run, self.goal.loss_ratio, self.run.search.min_load_fps
        if len(run.trials) < FEWEST:
            few = f"no interval follows from {units.counted(len(run.trials), 'usable trial')}: {self.stopped}"
            return self._rate(RateStatus.REFUSED, few if run.trials else self.stopped)
        if run.memory.is_there:
            return self._remembering()
        known = self._no_finer_than_asked(self.goal.known_within(0))
        if known.median.value >= run.reach.nearly_top_fps:
            lower_fps = min(known.median.low, run.reach.offered_fps)
            return replace(self._rate(RateStatus.AT_LEAST, run.reach.limit()), lower_fps=lower_fps)
        floor = constant_loss(run.trials, ratio, max(known.median.value, least_fps), run.search.confidence)
        if known.median.value > least_fps:
            return self._found_rate(known, floor)
        if floor is not None:
            return replace(self._rate(RateStatus.LOSES_ALWAYS), floor=floor)
        lost = "frames" if ratio == 0 else f"more than {units.loss(ratio)} of their frames"
        too_much = f"most trials lost {lost} even at search.min_load_fps = {units.fps(least_fps)}"
        return replace(self._rate(RateStatus.BELOW_MINIMUM, too_much), upper_fps=max(known.median.high, least_fps))

    def _found_rate(self, known: OverTime, floor: LossFloor | None) -> Rate:
        run = self.run
        least_fps, most_fps = run.search.min_load_fps, run.reach.offered_fps
        rate_fps = nearest_supported(run.trials, known.median)
        if rate_fps is None:
            return self._rate(RateStatus.REFUSED, self._unsupported(known.median))
        reasons = []
        if known.median.width > run.search.relative_width and self.stopped:
            reasons.append(f"{self.stopped}: the interval is {units.share(known.median.width)} wide")
        if known.band.high >= most_fps:
            reasons.append(f"the band is cut off where the generator is: {run.reach.limit()}")
        if rate_fps != known.median.value:
            reasons.append(f"moved from {units.fps(known.median.value)} to the nearest load with trials on both sides")
        return replace(
            self._rate(RateStatus.FOUND, "; ".join(reasons)),
            lower_fps=max(known.median.low, least_fps),
            estimate_fps=max(rate_fps, least_fps),
            upper_fps=known.median.high if known.median.high < most_fps else None,
            band=Band(*(min(max(fps, least_fps), most_fps) for fps in (known.band.low, known.band.high))),
            floor=floor,
        )

    def _unsupported(self, known: Interval) -> str:
        interval = f"{units.percent(self.run.search.confidence)} interval"
        known_alone = f"only the {interval} is known, {units.quantity_range(known.low, known.high, 'fps')}"
        few = f"no load in it has trials on both sides within {units.percent(SUPPORT)}"
        return "; ".join(filter(None, (f"{known_alone}: {few}", self.stopped)))

    def _remembering(self) -> Rate:
        """Of a device with memory: what it sustains, and beside it what it carries after a rest."""
        memory, sustained = self.run.memory, self.run.memory.sustained
        held = claim(memory.after_overloads, self.goal.loss_ratio, sustained.value)
        few = f"what is forwarded late in overloads, beside which too few trials were made: {self.stopped}"
        return replace(
            self._rate(RateStatus.FOUND, "" if held.supported else few),
            lower_fps=sustained.low,
            estimate_fps=sustained.value,
            upper_fps=min(sustained.high, self.run.reach.offered_fps),
            band=Band(sustained.low, sustained.high),
            memory=result.Memory(self.goal.track.over_time().median.value, sustained.value),
            claim=held,
        )

    def _rate(self, status: RateStatus, reason: str = "") -> Rate:
        search = self.run.search
        limited_by = self.run.reach.limited_by if status is RateStatus.AT_LEAST else None
        rate = Rate(self.goal.loss_ratio, status, None, None, search.trial_duration_s, search.duration_sum_s, reason)
        rate = replace(rate, confidence=search.confidence, method=SearchMethod.THRESHOLD, limited_by=limited_by)
        return replace(rate, unusable_share=self.run.unusable_share)

    def _no_finer_than_asked(self, known: OverTime) -> OverTime:
        """Loads were chosen to tell an interval as wide as asked for: by chance it may come out narrower.

        Where a level that moves loses, it is known no better than loads told its places apart; nor is any band.
        """
        rate, band, half = known.median, known.band, NARROWEST * self.run.search.relative_width
        rate = rate.reaching(rate.value * (1 - half / 2), rate.value * (1 + half / 2))
        if band.width > self.run.search.relative_width:  # the level moves
            half *= min(1.0, 2 * known.by_level)  # of the half that lose
            return replace(known, median=rate.widened(half, half))
        return replace(known, median=rate, band=band.reaching(rate.low, rate.high))
