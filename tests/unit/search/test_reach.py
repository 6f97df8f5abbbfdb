"""The highest load that a search may try."""

import pytest
from support import search_with
from trials import stream_counts, trial

from pinchpoint.model.result import Ceiling
from pinchpoint.search.reach import HEADROOM, MOST_LOWERINGS, Reach, same_mode

NEAR = Ceiling(10e6, "2026-01-02T03:00:00+00:00", "a key", 30.0)
FAR = Ceiling(5e6, "2026-01-02T03:00:00+00:00", "a key", 160.0)
SEARCH = search_with(min_load_fps=10_000.0, max_load_fps=20e6)


@pytest.mark.parametrize(
    ("ceilings", "distance_ns", "top_fps"),
    [
        ((), 30.0, 20e6),
        ((NEAR, FAR), 33.0, HEADROOM * 10e6),
        ((NEAR, FAR), 155.0, HEADROOM * 5e6),
        ((NEAR, FAR), None, HEADROOM * 10e6),
        ((FAR,), 30.0, 20e6),
        ((Ceiling(19e6, "", "", 30.0),), 30.0, 20e6),
    ],
    ids=["unknown", "near", "far", "not probed", "only of another mode", "above the search's maximum"],
)
def test_the_top_is_a_little_above_the_ceiling_of_the_same_mode(ceilings, distance_ns, top_fps):
    assert Reach(SEARCH, ceilings, distance_ns).top_fps == top_fps


def test_what_bounds_it_is_told_as_it_was_measured():
    told = Reach(SEARCH, (NEAR, FAR), 155.0).limit()
    assert told == (
        "generator-limited: without the device the engine offered 5.00 Mpps (cores 160 ns apart), "
        "and no load above 1.08 times that was tried"
    )
    assert Reach(SEARCH).limit() == "search.max_load_fps reached"
    reach = Reach(SEARCH, (NEAR, FAR), 155.0)
    reach.lower(limited(5.4e6, 4.9e6))
    assert reach.limit() == "generator-limited: the engine offers at most 4.90 Mpps on this bench"


def limited(load_fps, offered_fps):
    return trial(load_fps, counts=stream_counts(offered=int(offered_fps), shortfall=int(load_fps - offered_fps)))


def test_it_comes_down_gently_but_at_once_where_the_generator_fell_far_short():
    reach = Reach(SEARCH)
    assert reach.lower(limited(20e6, 11e6)) and reach.top_fps == 14e6
    assert reach.lower(limited(14e6, 11e6)) and reach.top_fps == pytest.approx(0.98 * 11e6)
    assert reach.lower(limited(0.98 * 11e6, 2e6)) and reach.top_fps == pytest.approx(0.98 * 2e6)


def test_it_gives_up_after_some_steps_or_below_the_search_s_minimum():
    reach = Reach(SEARCH)
    steps = [reach.lower(limited(reach.top_fps, 0.9 * reach.top_fps)) for _ in range(MOST_LOWERINGS + 1)]
    assert steps == [True] * MOST_LOWERINGS + [False]
    assert "fell short of ever lower loads, last " in reach.fell_short()
    reach = Reach(SEARCH)
    assert not reach.lower(limited(20e6, 9_000)) and reach.is_empty
    assert reach.fell_short().endswith(", below search.min_load_fps")


def test_distances_within_a_factor_of_two_are_one_mode_and_what_was_not_probed_is_of_any():
    assert same_mode(30.0, 59.0) and not same_mode(30.0, 60.0)
    assert same_mode(None, 160.0) and same_mode(30.0, None)
