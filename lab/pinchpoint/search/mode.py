"""The search in one mode of the machine's cores: all loss ratios at once, one load after another."""

import math
from collections.abc import Sequence
from statistics import median

import numpy as np

from pinchpoint.model.result import Ceiling
from pinchpoint.model.scenario import Search
from pinchpoint.model.trial import Trial
from pinchpoint.search.floor import Floor
from pinchpoint.search.goal import Goal
from pinchpoint.search.posterior import Array
from pinchpoint.search.reach import Reach, same_mode

NEAR = 0.1  # relative: trials this near to a threshold are kept balanced about it
BALANCE = 0.8  # weight of a side for each trial that it has had more than the other
DIGITS = 5  # of a load: equal loads are one, and people can read them
FEWEST_AT_TOP = 3  # clean trials at the highest load, whatever confidence is asked for


class ModeSearch:
    """What is known in one mode, and which load would tell most next."""

    def __init__(self, search: Search, ceilings: Sequence[Ceiling] = (), *, is_slowed: bool = False) -> None:
        """`ceilings` are the generator's own, of any mode. `is_slowed`: by a neighbour on the DUT's core."""
        self.is_slowed = is_slowed
        self.goals = [Goal(loss_ratio, search) for loss_ratio in sorted(search.loss_ratios)]
        self.trials: list[Trial] = []
        self.reach = Reach(search, ceilings)
        self._search = search
        self._ceilings = ceilings
        self._distances_ns: list[float] = []
        self._floors: tuple[Floor, ...] = ()  # one for each goal, once there is an estimate

    @property
    def distance_ns(self) -> float | None:
        """Of the cores, the median of the trials; None if not probed."""
        return median(self._distances_ns) if self._distances_ns else None

    @property
    def traffic_s(self) -> float:
        """Of valid trials."""
        return sum(trial.sent_duration_s for trial in self.trials)

    @property
    def most_offered_fps(self) -> float | None:
        """In a valid trial, so by a generator that kept up."""
        return max((trial.offered_fps for trial in self.trials), default=None)

    def fits(self, distance_ns: float | None) -> bool:
        """Whether a trial with the cores so far apart belongs to this mode."""
        return same_mode(self.distance_ns, distance_ns)

    @property
    def times_met(self) -> int:
        """Trials of this mode of which the distance was probed, valid or not."""
        return len(self._distances_ns)

    def meet(self, distance_ns: float | None) -> None:
        """A trial belongs to this mode, valid or not; the first that was probed tells which ceiling is this mode's."""
        if distance_ns is None:
            return
        if not self._distances_ns:
            self.reach = Reach(self._search, self._ceilings, distance_ns)
        self._distances_ns.append(distance_ns)

    def add(self, trial: Trial) -> None:
        """One more valid trial of this mode."""
        self.trials.append(trial)
        for goal in self.goals:
            goal.add(trial)
        for goal, floor in zip(self.goals, self._floors, strict=False):
            is_doubted = self.is_doubted(goal)
            goal.refused = goal.refused or floor.refusal(self.trials, self._search.trial_duration_s, is_doubted)

    def look_at(self, trial: Trial) -> None:
        """Take a trial that the generator limited as a hint."""
        for goal in self.goals:
            goal.look_at(trial)

    @property
    def is_done(self) -> bool:
        """Whether every loss ratio has its rate, or will have none."""
        if self._floor_load_fps() is not None or self._confirming_load_fps() is not None:
            return False
        return all(goal.is_done(self.reach.top_fps) for goal in self.goals)

    def next_load_fps(self) -> float:
        """The load to try, at most the reach's top."""
        load_fps = self._floor_load_fps() or self._confirming_load_fps() or self._most_telling()
        return _rounded(load_fps, self.reach.top_fps)

    def knows_floor(self, goal: Goal) -> bool:
        """Whether the floor test of a goal has come to its end."""
        return bool(self._floors) and self._wanted_fps(self.goals.index(goal)) is None

    def is_doubted(self, goal: Goal) -> bool:
        """Whether a stricter loss ratio has no rate, for trials that are spoilt whatever the load."""
        stricter = (other for other in self.goals if other.loss_ratio < goal.loss_ratio)
        return any(other.refused or other.is_arbitrary for other in stricter)

    def clean_at_top(self, goal: Goal) -> int:
        """How many trials within the goal's width of the reach's top lost no more than its ratio."""
        least_fps = (1 - self._search.relative_width) * self.reach.top_fps
        return sum(trial.load_fps >= least_fps and trial.loss_ratio <= goal.loss_ratio for trial in self.trials)

    @property
    def fewest_at_top(self) -> int:
        """Clean trials that "at least" rests on.

        So many in a row that most trials there are clean, for all but 1 - search.confidence of the posterior
        (Beta, uniform before: 2 ** -(n + 1)).
        """
        return max(FEWEST_AT_TOP, math.ceil(-math.log2(1 - self._search.confidence) - 1))

    def _confirming_load_fps(self) -> float | None:
        """What would confirm an interval that is narrow enough; None if nothing lacks confirmation.

        The model alone would believe in the top after a few clean trials at much lower loads.
        """
        top_fps = self.reach.top_fps
        for goal in self.goals:
            if goal.refused:
                continue
            reaches_top = goal.is_narrow(top_fps) and goal.interval(top_fps).reaches_top
            if reaches_top and self.clean_at_top(goal) < self.fewest_at_top:
                return top_fps
            if (load_fps := goal.to_confirm_fps(top_fps)) is not None:
                return load_fps
        return None

    def _floor_load_fps(self) -> float | None:
        """What the floor tests want to try next; None when they have ended. They begin once there is an estimate.

        All at the same loads: what lost nothing is within every loss ratio, so a quiet DUT's cost no more than one.
        """
        if not self._floors:
            hint_fps, top_fps = self.goals[0].hint_fps, self.reach.top_fps
            if hint_fps is None and all(trial.load_fps < top_fps for trial in self.trials):
                return top_fps
            estimate_fps = min(hint_fps or top_fps, top_fps)
            least_fps = self._search.min_load_fps
            self._floors = tuple(Floor(estimate_fps, goal.loss_ratio, least_fps) for goal in self.goals)
        wanted = (self._wanted_fps(number) for number in range(len(self.goals)))
        return next((load_fps for load_fps in wanted if load_fps is not None), None)

    def _wanted_fps(self, number: int) -> float | None:
        """The load that the floor test of one goal wants; None when it has ended."""
        if self.goals[number].refused:
            return None
        return self._floors[number].next_load_fps(self.trials, self.is_doubted(self.goals[number]))

    def _most_telling(self) -> float:
        """The load of which a trial tells most about all goals that are still open."""
        reach_fps = self.reach.top_fps
        goals = [goal for goal in self.goals if not goal.is_done(reach_fps)]
        loads = _candidates(goals, self._search.min_load_fps, reach_fps)
        loads = [load for load in loads if not all(goal.is_decided(load) for goal in goals)] or loads
        told = np.sum([self._balanced(goal, loads) for goal in goals], axis=0)
        return max(zip(told, loads, strict=True))[1]

    def _balanced(self, goal: Goal, loads: Sequence[float]) -> Array:
        """What a trial at each load tells about a goal, less on the side of its threshold that has had more trials.

        The information of the next trial alone would send many in a row to one side, and leave
        unknown whether what happens there is the threshold or a disturbance that happens everywhere.
        """
        middle = goal.posterior.quantile_fps(0.5)
        near = [trial.load_fps > middle for trial in self.trials if abs(trial.load_fps / middle - 1) < NEAR]
        above, below = near.count(True), near.count(False)
        weights = [BALANCE ** max(0, above - below if load > middle else below - above) for load in loads]
        return np.asarray(goal.posterior.information(loads) * np.array(weights))


def _candidates(goals: Sequence[Goal], least_fps: float, reach_fps: float) -> list[float]:
    loads = {reach_fps}
    for goal in goals:
        for load in goal.posterior.candidates_fps():
            loads.add(_rounded(min(max(load, least_fps), reach_fps), reach_fps))
    return sorted(loads)


def _rounded(load_fps: float, reach_fps: float) -> float:
    if load_fps >= reach_fps:
        return reach_fps
    return min(float(f"{load_fps:.{DIGITS - 1}e}"), reach_fps)
