"""The highest load that a search may try."""

import pytest
from support import search_with
from trials import stream_counts, trial

from pinchpoint.model.result import Ceiling, Limit
from pinchpoint.model.trial import TrialValidity
from pinchpoint.search.reach import ABOVE, AWAY, BELOW, HEADROOM, Reach

NEAR = Ceiling(10e6, "2026-01-02T03:00:00+00:00", "a key", 30.0)
FAR = Ceiling(5e6, "2026-01-02T03:00:00+00:00", "a key", 160.0)
SEARCH = search_with(min_load_fps=10_000.0, max_load_fps=20e6)


def limited(load_fps, offered_fps, lost=0):
    counts = stream_counts(
        offered=int(offered_fps), received=int(offered_fps) - lost, shortfall=int(load_fps - offered_fps)
    )
    return trial(load_fps, counts=counts, validity=TrialValidity.GENERATOR_LIMITED)


@pytest.mark.parametrize(
    ("ceilings", "top_fps"),
    [((), 20e6), ((NEAR, FAR), HEADROOM * 10e6), ((FAR,), HEADROOM * 5e6), ((Ceiling(19e6, "", "", 30.0),), 20e6)],
    ids=["unknown", "of two distances of the cores", "of one", "above the search's maximum"],
)
def test_the_top_is_a_little_above_the_highest_known_ceiling(ceilings, top_fps):
    assert Reach(SEARCH, ceilings).top_fps == top_fps


def test_what_bounds_it_is_reported_as_it_was_measured():
    assert Reach(SEARCH, (NEAR, FAR)).limit() == (
        "generator-limited: without the device the engine offered 10.0 Mpps (cores 30.0 ns apart), "
        "and no load above 1.08 times that was tried"
    )
    assert Reach(SEARCH).limit() == "search.max_load_fps = 20.0 Mpps reached"
    assert Reach(SEARCH).limited_by is Limit.SEARCH_MAXIMUM
    reach = Reach(SEARCH, (NEAR, FAR))
    reach.note(limited(5.4e6, 4.9e6))
    assert reach.limit() == "generator-limited: the engine offers at most 4.90 Mpps on this bench"
    assert reach.limited_by is Limit.GENERATOR


def test_a_generator_that_fell_short_is_tried_a_little_above_what_it_offered_since_it_may_recover():
    reach = Reach(SEARCH)
    reach.note(limited(20e6, 11e6))
    assert (reach.top_fps, reach.offered_fps) == (pytest.approx(ABOVE * 11e6), 11e6)
    reach.note(limited(ABOVE * 11e6, 11.1e6))
    assert reach.offered_fps == 11.1e6


def test_a_generator_that_fell_short_of_overloading_a_device_more_is_no_ceiling():
    reach = Reach(SEARCH)
    reach.note(limited(20e6, 11e6, lost=6_000_000))
    assert reach.fell_short_fps is None
    assert reach.top_fps == 20e6


def test_for_mlrsearch_it_comes_down_below_what_was_offered_and_gives_up_below_the_minimum():
    reach = Reach(SEARCH)
    assert reach.lower(limited(20e6, 11e6)) and reach.top_fps == pytest.approx(BELOW * 11e6)
    assert reach.lower(limited(reach.top_fps, 2e6)) and reach.top_fps == pytest.approx(BELOW * 2e6)
    assert not reach.lower(limited(reach.top_fps, 9_000))


def test_loads_at_which_trials_are_not_usable_are_left_once_three_were_not():
    reach = Reach(SEARCH)
    reach.note(trial(3e6))
    for load_fps in (2e6, 9e6, 8e6):
        reach.leave(trial(load_fps))
        assert reach.top_fps == 20e6
    reach.leave(trial(7e6))
    assert reach.top_fps == pytest.approx(AWAY * 7e6)
    assert reach.limit() == "generator-limited: no trial above 3.00 Mpps had a usable account"
    reach.note(trial(10e6))
    assert reach.top_fps == 20e6
