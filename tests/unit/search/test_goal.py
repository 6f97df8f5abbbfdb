"""One loss ratio of a search: when the interval of its model is believed."""

from types import SimpleNamespace

import pytest
from support import search_with
from trials import stream_counts, trial

from pinchpoint.model.scenario import SearchMethod
from pinchpoint.search.goal import Goal, Interval

TOP_FPS = 20e6
CLEAN, LOSING = 0, 50_000


class Given(Goal):
    """A goal whose model has come to an interval."""

    given = Interval(0.99e6, 1e6, 1.01e6, reaches_top=False, reaches_bottom=False)

    def interval(self, reach_fps):
        return self.given


class Wide(Given):
    given = Interval(0.98e6, 1e6, 1.02e6, reaches_top=False, reaches_bottom=False)


def goal_after(*groups, kind=Given, min_load_fps=10_000.0, relative_width=0.025):
    """A goal after groups of trials: (how many, load, frames lost)."""
    limits = {"min_load_fps": min_load_fps, "max_load_fps": TOP_FPS, "relative_width": relative_width}
    goal = kind(0.0, search_with(method=SearchMethod.THRESHOLD, **limits))
    for count, load_fps, lost in groups:
        for _ in range(count):
            offered = int(load_fps)
            goal.add(trial(load_fps, counts=stream_counts(offered=offered, received=offered - lost)))
    return goal


def enough(load_fps, lost):
    """So many that that side is confirmed."""
    return (8, load_fps, lost)


INSIDE = ((5, 0.995e6, CLEAN), (5, 1.005e6, LOSING))


@pytest.mark.parametrize(("as_expected", "contrary"), [(2, 0), (3, 1), (5, 2)])
def test_most_trials_clean_below_and_most_losing_above_confirm_an_interval(as_expected, contrary):
    below = ((as_expected, 0.9e6, CLEAN), (contrary, 0.9e6, LOSING))
    above = ((as_expected, 1.1e6, LOSING), (contrary, 1.1e6, CLEAN))
    goal = goal_after(*INSIDE, *below, *above)
    assert goal.unconfirmed(TOP_FPS) is None
    assert goal.to_confirm_fps(TOP_FPS) is None
    assert goal.is_done(TOP_FPS)


@pytest.mark.parametrize(("clean", "losing"), [(0, 0), (1, 0), (2, 1), (4, 2), (0, 3)])
def test_too_few_clean_trials_below_an_interval_do_not_confirm_it(clean, losing):
    goal = goal_after(*INSIDE, enough(1.1e6, LOSING), (clean, 0.9e6, CLEAN), (losing, 0.9e6, LOSING))
    side = goal.unconfirmed(TOP_FPS)
    assert side is not None
    assert (side.is_below, side.trials, side.contrary) == (True, clean + losing, losing)
    assert side.load_fps == goal.to_confirm_fps(TOP_FPS) == pytest.approx(0.9 * 0.99e6)
    assert not goal.is_done(TOP_FPS)


@pytest.mark.parametrize(("losing", "clean"), [(0, 0), (1, 0), (2, 1), (4, 2), (0, 3)])
def test_too_few_losing_trials_above_an_interval_do_not_confirm_it(losing, clean):
    goal = goal_after(*INSIDE, enough(0.9e6, CLEAN), (losing, 1.1e6, LOSING), (clean, 1.1e6, CLEAN))
    side = goal.unconfirmed(TOP_FPS)
    assert side is not None
    assert (side.is_below, side.trials, side.contrary) == (False, clean + losing, clean)
    assert side.load_fps == goal.to_confirm_fps(TOP_FPS) == pytest.approx(1.1 * 1.01e6)


def test_beyond_the_loads_that_may_be_tried_nothing_need_be_confirmed():
    below = enough(0.9e6, CLEAN)
    assert goal_after(below).unconfirmed(1.01e6) is None
    assert goal_after(below).unconfirmed(1.02e6).load_fps == 1.02e6, "no further than the top"
    above = enough(1.1e6, LOSING)
    assert goal_after(above, min_load_fps=0.99e6).unconfirmed(TOP_FPS) is None
    assert goal_after(above, min_load_fps=0.98e6).unconfirmed(TOP_FPS).load_fps == 0.98e6


def test_before_the_interval_is_narrow_only_trials_against_it_are_followed_up():
    one, two = ((1, 0.9e6, CLEAN),), ((1, 0.9e6, CLEAN), (1, 0.9e6, LOSING))

    def to_confirm(*below, **how):
        return goal_after(*below, enough(1.1e6, LOSING), **how).to_confirm_fps(TOP_FPS)

    assert to_confirm(*one, relative_width=0.01) is None
    assert to_confirm(*two, relative_width=0.01) == pytest.approx(0.9 * 0.99e6)
    assert to_confirm(*two, kind=Wide) is None, "an interval of 4 % need not be told"


def test_less_noise_is_forgiven_where_a_stricter_ratio_has_no_rate():
    goal = goal_after()
    goal.posterior = SimpleNamespace(doubtful=0.3)
    assert not goal.is_vague(is_doubted=False)
    assert goal.is_vague(is_doubted=True)
