"""Whether there is a rate at a loss ratio at all: trials far below the first estimate."""

import pytest
from trials import stream_counts, trial

from pinchpoint.search.floor import MOST_TRIALS, Doubts, Floor

ESTIMATE_FPS = 1e6
LOW, HALF, HIGH = 0.1e6, 0.5e6, 0.9e6
NONE = Doubts()
DOUBTED = Doubts(is_stricter_lost=True)
LAPSING = Doubts(is_lapsing=True)
LOST, KEPT = "x" * 6, "." * 5  # certain, with no trial to spare


def trials_of(load_fps, pattern):
    """One trial for each letter: `.` clean, `x` a frame in a thousand lost."""
    lost = {".": 0, "x": int(load_fps / 1000)}
    return [
        trial(load_fps, counts=stream_counts(offered=int(load_fps), received=int(load_fps) - lost[letter]))
        for letter in pattern
    ]


def all_of(tried):
    return [one for load, pattern in tried for one in trials_of(load, pattern)]


def wanted(*tried, doubts=NONE, loss_ratio=0.0):
    """What the test wants next after trials: (load, their pattern)."""
    return Floor(ESTIMATE_FPS, loss_ratio, 1000.0, 0.95).next_load_fps(all_of(tried), doubts)


def found(*tried, doubts=NONE, loss_ratio=0.0, is_over=False):
    return Floor(ESTIMATE_FPS, loss_ratio, 1000.0, 0.95).found(all_of(tried), doubts, is_over=is_over)


def test_one_clean_trial_at_half_the_estimate_is_all_that_a_quiet_device_costs():
    assert wanted() == HALF
    assert wanted((HALF, ".")) is None
    assert found((HALF, "."), is_over=True) is None


def test_only_where_half_the_estimate_loses_frames_a_tenth_is_tried():
    assert wanted((HALF, "x")) == HALF
    assert wanted((HALF, "x.")) == HALF
    assert wanted((HALF, LOST)) == LOW
    assert wanted((HALF, LOST), (LOW, LOST)) is None
    assert wanted((HALF, LOST), (LOW, KEPT)) == HIGH, "does the loss grow with the load?"
    assert wanted((HALF, LOST), (LOW, KEPT), (HIGH, "x")) is None


def test_a_loss_anywhere_well_below_the_estimate_asks_for_more_than_one_clean_trial():
    assert wanted((HALF, "."), (0.8e6, "x")) == HALF
    assert wanted((HALF, KEPT), (0.8e6, "x")) is None
    assert wanted((HALF, "."), (0.95e6, "x")) is None, "there the device may be overloaded"
    assert wanted((HALF, "."), doubts=LAPSING) == HALF


def test_frames_lost_in_most_trials_at_a_tenth_are_lost_at_any_load():
    lost = found((HALF, LOST), (LOW, LOST))
    assert lost is not None
    assert (lost.loss_ratio, lost.load_fps, lost.trials) == (pytest.approx(1e-3), pytest.approx(LOW), 6)
    assert found((HALF, LOST), (LOW, LOST[1:])) is None, "not yet"


def test_one_constant_share_lost_at_half_and_well_above_is_lost_at_any_load():
    """Short trials at a tenth have too few frames to show it."""
    lost = found((HALF, LOST), (LOW, "....."), (HIGH, "xx"))
    assert lost is None, "1e-3 of the frames at a tenth would have been seen"
    few = [trial(LOW, counts=stream_counts(offered=1000, received=1000)) for _ in KEPT]
    seen = [*all_of(((HALF, LOST), (HIGH, "xx"))), *few]
    lost = Floor(ESTIMATE_FPS, 0.0, 1000.0, 0.95).found(seen, NONE)
    assert lost is not None
    assert lost.load_fps == HALF


def test_a_device_that_becomes_slower_than_half_as_the_search_ends_does_not_lose_at_any_load():
    fallen = ((HALF, ".....xxxxxxx"), (0.8e6, "xxxx"))
    assert found(*fallen, is_over=True) is None, "a tenth, where the same share would show, was not tried"
    assert found(*fallen, (LOW, "."), is_over=True) is None
    assert found(*fallen, (LOW, "x"), is_over=True) is not None


def test_a_load_at_which_as_many_trials_lose_as_do_not_does_not_take_the_whole_search():
    undecided = ("x." * MOST_TRIALS)[: MOST_TRIALS - 1]
    assert wanted((HALF, undecided)) == HALF
    assert wanted((HALF, undecided + ".")) != HALF


def test_where_a_stricter_ratio_has_no_rate_it_must_be_certain_that_this_one_is_kept():
    assert wanted((HALF, KEPT), doubts=DOUBTED) == HALF
    assert wanted((HALF, "." * 9), doubts=DOUBTED) is None
    assert found((HALF, "." * 9), doubts=DOUBTED, is_over=True) is None


def test_a_doubted_ratio_that_as_many_trials_exceed_as_keep_has_no_rate():
    """As where a rule drops just that share of the frames: counted in a window, it is now above, now below."""
    undecided = "x." * (MOST_TRIALS // 2)
    lost = found((HALF, undecided), doubts=DOUBTED)
    assert lost is not None
    assert (lost.loss_ratio, lost.load_fps, lost.trials) == (pytest.approx(5e-4), HALF, MOST_TRIALS)
    assert found((HALF, undecided[:-1]), doubts=DOUBTED) is None, "not yet"
    assert found((HALF, undecided[:-1]), doubts=DOUBTED, is_over=True) is not None
    assert found((HALF, undecided)) is None, "without doubt the search itself will see"


def test_when_no_more_trials_will_be_made_the_likelier_answer_is_given():
    assert found((HALF, "xxx.x"), (LOW, "xx.")) is None
    assert found((HALF, "xxx.x"), (LOW, "xx."), is_over=True) is not None
    assert found((HALF, "xx..."), (LOW, "xx."), is_over=True) is None


def test_small_losses_are_within_a_larger_ratio():
    assert wanted((HALF, LOST), loss_ratio=0.005) is None
    assert wanted((HALF, "x" * 9), loss_ratio=0.005, doubts=DOUBTED) is None


def test_where_a_tenth_of_the_estimate_is_below_the_minimum_nothing_can_be_said():
    floor = Floor(ESTIMATE_FPS, 0.0, 0.2e6, 0.95)
    assert floor.next_load_fps([], NONE) is None
    assert floor.found(trials_of(HALF, LOST), NONE, is_over=True) is None
