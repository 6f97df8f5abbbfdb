"""Our own search: NDR and PDRs as thresholds of a statistical model, each with an interval.

The rate for loss ratio r is the load at which half of the valid trials of search.trial_duration_s exceed r.
`posterior` holds what is known about one such load, `goal` when that is enough, `mode` chooses the next load,
`floor` says whether an NDR means anything; here they become rates. Every end of a search is told:

* found: the interval of search.confidence is at most search.relative_width wide;
* found, with a reason: a budget ended first, but the interval is narrow enough to be of use;
* at least: the threshold may lie beyond the generator's ceiling or the search's maximum, and enough trials there
  were clean;
* refused: anything else, with the interval as far as there is one. Where the trials may well contradict one threshold
  (two modes, slow periods) that is the one in which those of single trials lie.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pinchpoint.model import units
from pinchpoint.model.result import Ceiling, ModeRates, Rate, RateStatus
from pinchpoint.model.scenario import Search, SearchMethod
from pinchpoint.model.trial import Trial
from pinchpoint.search.goal import NARROW, Goal, Interval
from pinchpoint.search.mode import ModeSearch
from pinchpoint.search.reach import same_mode
from pinchpoint.search.watch import GeneratorLimitedError, StoppedError, Watch

OF_USE = 0.2  # and of one that is told, with its width, if the trials agree on one threshold
SCARCE = 4  # times as many trials beside a neighbour as alone: then a search goes on with those
OVERLOADED = 0.7  # a DUT that forwards less than this share of what it is offered is beyond its capacity


@dataclass(frozen=True)
class Cores:
    """What tells the modes of the machine's cores apart, trial by trial."""

    distance_ns: Callable[[Trial], float | None]
    is_slowed: Callable[[Trial], bool]  # whether a neighbour slowed the DUT's core


def find(
    watch: Watch, cores: Cores, ceilings: Sequence[Ceiling] = ()
) -> tuple[tuple[Rate, ...], tuple[ModeRates, ...]]:
    """The rates, and those of each mode if the cores were probed. Raises only what a trial raises."""
    modes = _Modes(watch.search, cores, ceilings)
    teller = _Teller(watch, _run(watch, modes))
    met = modes.best_first()
    if met[0].distance_ns is None or not met[0].trials:
        return teller.rates(met[0]), ()
    told = tuple(teller.mode(mode) for mode in met)
    return told[0].rates, told


def _run(watch: Watch, modes: "_Modes") -> str:
    """Trials until the mode that is searched is done; why they ended early, or nothing."""
    search = watch.search
    while not modes.searched.is_done:
        current = modes.searched
        if current.reach.is_empty:
            return current.reach.fell_short()
        if watch.traffic_s >= search.max_traffic_s:
            return f"search.max_traffic_s = {search.max_traffic_s:g} s reached after {watch.valid} valid trials"
        try:
            trial = watch.measure(search.trial_duration_s, current.next_load_fps(), _is_overloaded)
        except GeneratorLimitedError as error:
            if _moved(error.trial):
                continue  # it was of neither mode
            if not modes.limited(error.trial):
                return modes.searched.reach.fell_short()
            continue
        except StoppedError as error:
            return str(error)
        modes.add(trial)
    return ""


class _Modes:
    """The modes of the machine's cores that were met, and the one that is searched."""

    def __init__(self, search: Search, cores: Cores, ceilings: Sequence[Ceiling]) -> None:
        self._search, self._cores, self._ceilings = search, cores, ceilings
        self._seen: list[tuple[Trial, bool, bool]] = []  # whether the generator limited it, and a neighbour slowed it
        self._modes = [ModeSearch(search, ceilings)]
        self.searched = self._modes[0]
        """That of the trial before, since modes last; of one beside a neighbour rather that of the cores alone."""

    def add(self, trial: Trial) -> None:
        """One more valid trial."""
        self._see(trial, is_limited=False)

    def limited(self, trial: Trial) -> bool:
        """One that the generator could not keep up with; False if there is nothing left to try."""
        return self._see(trial, is_limited=True)

    def best_first(self) -> list[ModeSearch]:
        """Those that have trials, or the only one. A slowed one comes after its cores alone, if those were met."""
        met = [mode for mode in self._modes if mode.trials] or self._modes[:1]
        return sorted(met, key=lambda mode: (self._served(mode) is not mode, not mode.is_done, -len(mode.trials)))

    def _see(self, trial: Trial, *, is_limited: bool) -> bool:
        slowed = self._cores.is_slowed(trial)
        if any(self._cores.is_slowed(one) is not was for one, _, was in self._seen):
            # The core was seen to execute more than ever: what passed for all of it was beside a neighbour.
            before = [(one, limited) for one, limited, _ in self._seen]
            self._seen, self._modes = [], [ModeSearch(self._search, self._ceilings)]
            for one, limited in before:
                self._take(one, limited, self._cores.is_slowed(one))
        return self._take(trial, is_limited, slowed)

    def _take(self, trial: Trial, is_limited: bool, is_slowed: bool) -> bool:
        self._seen.append((trial, is_limited, is_slowed))
        distance_ns = self._cores.distance_ns(trial)
        met = self._fitting(distance_ns, is_slowed)
        met.meet(distance_ns)
        if not is_limited:
            met.add(trial)
        self.searched = self._served(met)
        if not is_limited:
            return True
        met.look_at(trial)
        # What the engine offers a slowed DUT, whose rings are full, says nothing of what it offers the other.
        return met.reach.lower(trial) if met is self.searched else True

    def _fitting(self, distance_ns: float | None, is_slowed: bool) -> ModeSearch:
        mode = next((mode for mode in self._modes if mode.is_slowed is is_slowed and mode.fits(distance_ns)), None)
        if mode is None:
            mode = ModeSearch(self._search, self._ceilings, is_slowed=is_slowed)
            self._modes.append(mode)
        return mode

    def _served(self, met: ModeSearch) -> ModeSearch:
        """The mode that loads are chosen for, after a trial in this one.

        Neighbours come and go, each with a load of its own, and a rate beside them says little: a slowed mode is
        searched only where the same cores are hardly ever met alone.
        """
        if not met.is_slowed:
            return met
        alone = self._fitting(met.distance_ns, False)
        if alone.distance_ns is None:
            alone.meet(met.distance_ns)
        return met if met.times_met >= SCARCE * (alone.times_met + 1) else alone


def _moved(trial: Trial) -> bool:
    """Whether the cores moved meanwhile: a valid trial's did not (diagnose/validity.py)."""
    return not same_mode(trial.witness.cache_line_before_ns, trial.witness.cache_line_after_ns)


def _is_overloaded(trial: Trial) -> bool:
    """Whether a trial that the generator limited shows a capacity far below what was offered all the same."""
    return trial.loss_ratio > 1 - OVERLOADED


class _Teller:
    """Puts what is known into words and numbers: rates as offered, not as intended (RFC 2285, 3.5.2)."""

    def __init__(self, watch: Watch, stopped: str) -> None:
        self._watch = watch
        self._search = watch.search
        self._stopped = stopped  # why the search ended early; empty if it did not

    def mode(self, mode: ModeSearch) -> ModeRates:
        """What was found in one mode of the cores."""
        rates = self.rates(mode)
        distance_ns = mode.distance_ns
        label = f"cores {units.nanoseconds(distance_ns)} apart"
        if mode.is_slowed:
            label += ", the switch's slowed by a neighbour"
        return ModeRates(label, distance_ns, len(mode.trials), mode.traffic_s, rates, mode.most_offered_fps,
                         mode.is_slowed)  # fmt: skip

    def rates(self, mode: ModeSearch) -> tuple[Rate, ...]:
        """One for each loss ratio, the lowest first, none lower than a stricter one's."""
        found: list[Rate] = []
        least: tuple[float, ...] = (0.0, 0.0, 0.0)
        for goal in mode.goals:
            rate = self._rate(mode, goal)
            ends = (rate.lower_fps, rate.estimate_fps, rate.upper_fps)
            lower, middle, upper = (
                None if end is None else max(end, bound) for end, bound in zip(ends, least, strict=True)
            )
            found.append(replace(rate, lower_fps=lower, estimate_fps=middle, upper_fps=upper))
            if rate.status is RateStatus.FOUND:
                least = tuple(max(end or 0.0, bound) for end, bound in zip(ends, least, strict=True))
        return tuple(found)

    def _rate(self, mode: ModeSearch, goal: Goal) -> Rate:
        interval = self._interval(mode, goal)
        status, reason = self._status(mode, goal, interval)
        ends: dict[str, float | None] = {"lower_fps": None, "estimate_fps": None, "upper_fps": None}
        is_known = not goal.refused and not goal.is_arbitrary and mode.knows_floor(goal)
        if mode.trials and (is_known or status is not RateStatus.REFUSED):
            share = self._watch.offered_share(interval.median_fps)
            # An end where trying stopped is none of the rate's.
            is_refused = status is RateStatus.REFUSED
            open_below = is_refused and interval.lower_fps <= self._search.min_load_fps
            if status is not RateStatus.BELOW_MINIMUM and not open_below:
                ends["lower_fps"] = share * interval.lower_fps
            if status is not RateStatus.AT_LEAST and not (is_refused and interval.reaches_top):
                # As intended: between the engine's pauses, where a DUT loses, the load is that.
                ends["upper_fps"] = interval.upper_fps
            if status is RateStatus.FOUND:
                ends["estimate_fps"] = share * interval.median_fps
        return Rate(
            loss_ratio=goal.loss_ratio,
            status=status,
            trial_duration_s=self._search.trial_duration_s,
            duration_sum_s=self._search.duration_sum_s,
            reason=reason,
            confidence=self._search.confidence,
            method=SearchMethod.THRESHOLD,
            lower_fps=ends["lower_fps"],
            estimate_fps=ends["estimate_fps"],
            upper_fps=ends["upper_fps"],
            limited_by=mode.reach.limited_by if status is RateStatus.AT_LEAST else None,
        )

    def _interval(self, mode: ModeSearch, goal: Goal) -> Interval:
        """Of one threshold, if the trials agree on one; else of those of single trials."""
        top_fps = mode.reach.top_fps
        interval = goal.interval(top_fps)
        is_one = goal.unconfirmed(top_fps) is None and not self._is_contradicted(mode, goal, interval)
        return interval if is_one else goal.scatter(top_fps)

    def _is_contradicted(self, mode: ModeSearch, goal: Goal, interval: Interval) -> bool:
        is_wide = interval.width > max(NARROW, self._search.relative_width)
        return is_wide and goal.is_vague(mode.is_doubted(goal))

    def _status(self, mode: ModeSearch, goal: Goal, interval: Interval) -> tuple[RateStatus, str]:
        refusal = self._refusal(mode, goal, interval)
        if refusal:
            return RateStatus.REFUSED, refusal
        is_narrow = interval.width <= self._search.relative_width
        why = self._stopped or "this mode of the cores was not met longer"
        wide = "" if is_narrow else f"{why}: the interval is {interval.width * 100:.2g} % wide"
        if interval.reaches_top:
            return RateStatus.AT_LEAST, "; ".join(filter(None, (mode.reach.limit(), wide)))
        if interval.reaches_bottom:
            minimum = units.fps(self._search.min_load_fps)
            return RateStatus.BELOW_MINIMUM, f"most trials lost {_lost(goal)} even at search.min_load_fps = {minimum}"
        return RateStatus.FOUND, wide

    def _refusal(self, mode: ModeSearch, goal: Goal, interval: Interval) -> str:
        """Why no rate is given; empty if one is."""
        if goal.refused:
            name = "NDR" if goal.loss_ratio == 0 else f"PDR {goal.loss_ratio * 100:g} %"
            return f"{name} undefined on this host: {goal.refused}"
        if not mode.trials:
            return self._stopped
        why = self._stopped or "this mode of the cores was not met long enough"
        ends = units.fps_range(interval.lower_fps, interval.upper_fps)
        doubt = self._of_width(mode, goal, ends) or _unproven(mode, goal, interval, ends)
        return f"{why}; {doubt}" if doubt else ""

    def _of_width(self, mode: ModeSearch, goal: Goal, ends: str) -> str:
        """Why the model's own interval is of no use; empty if it is."""
        interval = goal.interval(mode.reach.top_fps)
        if goal.is_arbitrary:
            return f"nearly half of the trials lose {_lost(goal)} also well below any threshold"
        if interval.width > max(OF_USE, self._search.relative_width):
            return f"the interval reached is {ends}"
        if self._is_contradicted(mode, goal, interval):
            return f"the trials contradict each other between {ends}, as with two modes or slow periods"
        return ""


def _unproven(mode: ModeSearch, goal: Goal, interval: Interval, ends: str) -> str:
    """Which trials are lacking that would show by themselves, without the model, where the rate lies; empty if none."""
    if not mode.knows_floor(goal):
        return f"whether most trials lose {_lost(goal)} also well below {ends} is not known"
    if side := goal.unconfirmed(mode.reach.top_fps):
        where, what = (
            ("below", f"lost {_lost(goal)} too") if side.is_below else ("above", f"did not lose {_lost(goal)}")
        )
        return f"{side.contrary} of {side.trials} trials {where} {ends} {what}"
    if interval.reaches_top and mode.clean_at_top(goal) < mode.fewest_at_top:
        clean, top = units.counted(mode.clean_at_top(goal), "clean trial"), units.fps(mode.reach.top_fps)
        return f"at {top}, the highest load that may be tried, there were only {clean}"
    return ""


def _lost(goal: Goal) -> str:
    return "a frame" if goal.loss_ratio == 0 else f"more than {units.loss(goal.loss_ratio)}"
