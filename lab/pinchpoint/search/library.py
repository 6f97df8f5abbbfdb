"""MLRsearch 1.2.1 (FD.io CSIT; draft-ietf-bmwg-mlrsearch) behind an interface of our own.

Through its documented interface: an AbstractMeasurer, a Config, and the public
fields of the search object. Its own time bound goes by the computer's clock, so
it is set out of reach; the caller's `measure` ends a search by raising.
"""

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pinchpoint.model.scenario import Search
from pinchpoint.search.repeat import Measure


@contextmanager
def _stack_of_frames() -> Iterator[None]:
    """`inspect.stack()` returns frames without files and source lines inside the block.

    At import, MLRsearch asks for the stack once a field and reads only the caller's frame; finding the files of all
    frames among 600 modules takes seconds.
    """
    stack = inspect.stack
    inspect.stack = lambda *_: [(sys._getframe(1),), (sys._getframe(2),)]
    try:
        yield
    finally:
        inspect.stack = stack


with _stack_of_frames():
    from MLRsearch import (
        AbstractMeasurer,
        Config,
        GoalResult,
        MeasurementResult,
        MultipleLossRatioSearch,
        SearchGoal,
    )

_NEVER_S = 1e12


class LibraryError(Exception):
    """MLRsearch ended without a result of its own accord."""


@dataclass(frozen=True)
class Bounds:
    """What is known about one goal; None: no load is known to satisfy (to fail) it."""

    loss_ratio: float
    lower_fps: float | None
    upper_fps: float | None


class LossRatioSearch:
    """One search for all loss ratios at once; `bounds` may be asked after `run` raised as well."""

    def __init__(self, search: Search, max_load_fps: float) -> None:
        """`max_load_fps` replaces the search's own maximum."""
        self._goals = [_goal(search, loss_ratio) for loss_ratio in sorted(search.loss_ratios)]
        config = Config(
            goals=self._goals,
            min_load=search.min_load_fps,
            max_load=max_load_fps,
            search_duration_max=_NEVER_S,
            warmup_duration=0.0,
        )
        self._search = MultipleLossRatioSearch(config)

    def run(self, measure: Measure) -> None:
        """Search to the end; the first trial is a full one at the maximum load.

        Raises whatever `measure` raises, and LibraryError if the library gives up.
        """
        measurer = _Measurer(measure)
        try:
            self._search.search(measurer, debug=lambda _: None)
        except RuntimeError as error:
            if error is measurer.failure:
                raise
            raise LibraryError(str(error)) from error

    def bounds(self) -> tuple[Bounds, ...]:
        """The relevant bounds of each goal from the trials so far, the lowest loss ratio first."""
        database = self._search.database
        targets = self._search.scaling.goal_to_final_target
        return tuple(
            _bounds(goal, GoalResult.from_bounds(database.get_relevant_bounds(targets[goal]))) for goal in self._goals
        )


class _Measurer(AbstractMeasurer):  # type: ignore[misc]
    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self.failure: Exception | None = None

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        try:
            trial = self._measure(intended_duration, intended_load)
        except Exception as error:
            self.failure = error
            raise
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            # Not the intended count: a shortfall small enough for a valid trial is the engine's, and
            # would count as the DUT's loss. A larger one never comes here (account/validity.py).
            offered_count=trial.offered,
            loss_count=trial.lost,
        )


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


def _bounds(goal: SearchGoal, result: GoalResult) -> Bounds:
    lower, upper = result.relevant_lower_bound, result.relevant_upper_bound
    return Bounds(
        loss_ratio=goal.loss_ratio,
        lower_fps=None if lower is None else float(lower),
        upper_fps=None if upper is None else float(upper),
    )
