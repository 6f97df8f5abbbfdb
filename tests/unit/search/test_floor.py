"""Whether there is a rate at a loss ratio at all: trials far below the first estimate."""

import pytest
from trials import stream_counts, trial

from pinchpoint.search.floor import MOST_DOUBTED, MOST_TRIALS, Floor

ESTIMATE_FPS = 1e6
LOW, HALF, HIGH = 0.1e6, 0.5e6, 0.9e6


def trials_of(load_fps, pattern):
    """One trial for each letter: `.` clean, `x` a frame in a thousand lost."""
    lost = {".": 0, "x": int(load_fps / 1000)}
    return [
        trial(load_fps, counts=stream_counts(offered=int(load_fps), received=int(load_fps) - lost[letter]))
        for letter in pattern
    ]


def wanted(*tried, is_doubted=False, loss_ratio=0.0):
    """What the test wants next after trials: (load, their pattern)."""
    floor = Floor(ESTIMATE_FPS, loss_ratio, 1000.0)
    return floor.next_load_fps([one for load, pattern in tried for one in trials_of(load, pattern)], is_doubted)


def test_one_clean_trial_at_half_the_estimate_is_all_that_a_quiet_device_costs():
    assert wanted() == HALF
    assert wanted((HALF, ".")) is None


def test_only_where_half_the_estimate_loses_frames_a_tenth_is_tried():
    assert wanted((HALF, "x")) == HALF
    assert wanted((HALF, "x.")) is None
    assert wanted((HALF, "xxxxxx")) == LOW
    assert wanted((HALF, "xxxxxx"), (LOW, "xxxxxx")) is None
    assert wanted((HALF, "xxxxxx"), (LOW, ".")) == HIGH, "does the loss grow with the load?"
    assert wanted((HALF, "xxxxxx"), (LOW, "."), (HIGH, "x")) is None


def test_a_load_at_which_as_many_trials_lose_as_do_not_does_not_take_the_whole_search():
    undecided = "xx." + "x." * MOST_TRIALS
    assert wanted((HALF, undecided[: MOST_TRIALS - 1])) == HALF
    assert wanted((HALF, undecided[:MOST_TRIALS])) != HALF


PATTERNS = [(".", False), (".....", False), ("......", True), ("x........", False), ("x.........", True)]


@pytest.mark.parametrize(("pattern", "is_enough"), PATTERNS)
def test_where_a_stricter_ratio_has_no_rate_it_must_be_certain_that_this_one_is_kept(pattern, is_enough):
    assert wanted((HALF, pattern), is_doubted=True) == (None if is_enough else HALF)
    assert wanted((HALF, pattern)) is None


def test_small_losses_are_within_a_larger_ratio():
    assert wanted((HALF, "xxxxxx"), loss_ratio=0.005) is None
    assert wanted((HALF, "xxxxxx"), loss_ratio=0.005, is_doubted=True) is None


def test_a_doubted_ratio_is_tested_longer_but_not_for_ever():
    undecided = "xx." + "x." * MOST_DOUBTED
    assert wanted((HALF, undecided[: MOST_DOUBTED - 1]), is_doubted=True) == HALF
    assert wanted((HALF, undecided[:MOST_DOUBTED]), is_doubted=True) != HALF


def test_a_doubted_ratio_that_as_many_trials_exceed_as_keep_has_no_rate():
    """As where a rule drops just that share of the frames: counted in a window, it is now above, now below."""
    floor = Floor(ESTIMATE_FPS, 0.0, 1000.0)
    undecided = trials_of(HALF, "x." * (MOST_DOUBTED // 2))
    assert floor.refusal(undecided, 1.0, is_doubted=True) == "12 of 24 1 s trials at 50% load lose frames"
    assert floor.refusal(undecided[:-1], 1.0, is_doubted=True) == "", "not yet"
    assert floor.refusal(undecided, 1.0) == "", "without doubt the search itself will tell"
    at_low = trials_of(LOW, "x." * (MOST_DOUBTED // 2))
    assert floor.refusal(at_low, 1.0, is_doubted=True) == "12 of 24 1 s trials at 10% load lose frames"


def test_trials_of_the_search_itself_do_not_refuse_a_doubted_ratio():
    """A threshold near half the estimate: of trials on both sides of it about half exceed the ratio."""
    floor = Floor(ESTIMATE_FPS, 0.0, 1000.0)
    assert floor.refusal(trials_of(0.47e6, "x." * MOST_DOUBTED), 1.0, is_doubted=True) == ""
