"""One loss ratio of a search: when its interval is believed."""

import pytest
from support import search_with
from trials import stream_counts, trial

from pinchpoint.model.scenario import SearchMethod
from pinchpoint.search.goal import Goal

TOP_FPS = 20e6
CLEAN, SPOILT = 0, 10_000


def goal_after(*groups):
    """A goal after groups of trials: (how many, load, frames lost)."""
    goal = Goal(0.0, search_with(method=SearchMethod.THRESHOLD, max_load_fps=TOP_FPS, relative_width=0.05))
    for count, load_fps, lost in groups:
        for _ in range(count):
            offered = int(load_fps)
            goal.add(trial(load_fps, counts=stream_counts(offered=offered, received=offered - lost)))
    return goal


def test_clean_trials_below_and_losing_ones_above_confirm_an_interval():
    goal = goal_after((6, 0.9e6, CLEAN), (8, 0.995e6, CLEAN), (8, 1.005e6, SPOILT), (6, 1.1e6, SPOILT))
    assert 0.9e6 < goal.interval(TOP_FPS).lower_fps < goal.interval(TOP_FPS).upper_fps < 1.1e6
    assert goal.unconfirmed(TOP_FPS) is None
    assert goal.is_done(TOP_FPS)


@pytest.mark.parametrize(("clean", "spoilt"), [(3, 0), (5, 1), (8, 4)])
def test_too_few_clean_trials_below_an_interval_do_not_confirm_it(clean, spoilt):
    near = ((8, 0.995e6, CLEAN), (8, 1.005e6, SPOILT), (6, 1.1e6, SPOILT))
    goal = goal_after(*near, (clean, 0.9e6, CLEAN), (spoilt, 0.9e6, SPOILT))
    interval = goal.interval(TOP_FPS)
    assert 0.9e6 < interval.lower_fps
    side = goal.unconfirmed(TOP_FPS)
    assert side is not None and side.is_below
    assert 0.9 * interval.lower_fps < side.load_fps < interval.lower_fps
    assert (side.trials, side.contrary) == (clean + spoilt, spoilt)
    assert not goal.is_done(TOP_FPS)


@pytest.mark.parametrize(("losing", "clean"), [(3, 0), (5, 1), (8, 4)])
def test_too_few_losing_trials_above_an_interval_do_not_confirm_it(losing, clean):
    goal = goal_after((6, 0.9e6, CLEAN), (8, 0.995e6, CLEAN), (8, 1.005e6, SPOILT), (losing, 1.1e6, SPOILT),
                      (clean, 1.1e6, CLEAN))  # fmt: skip
    interval = goal.interval(TOP_FPS)
    side = goal.unconfirmed(TOP_FPS)
    assert side is not None
    assert not side.is_below
    assert interval.upper_fps < side.load_fps < 1.1 * interval.upper_fps
    assert side.contrary == clean


def test_what_cannot_be_tried_need_not_be_confirmed():
    top = 1e6
    goal = goal_after((8, 1e6, CLEAN))
    assert goal.interval(top).reaches_top
    assert goal.unconfirmed(top) is None
