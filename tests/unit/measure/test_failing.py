"""What fails at any rate, at which stage, and where an interval ends."""

from types import SimpleNamespace

import pytest

from pinchpoint.measure.connections.failing import judged, stage
from pinchpoint.model.result import Rate, RateStatus

FOUND = Rate(0.0, RateStatus.FOUND, 14_000.0, 148_000.0, 0.5, 0.5, "", estimate_fps=17_200.0)
BELOW = Rate(0.0, RateStatus.BELOW_MINIMUM, None, 12.0, 1.0, 1.0, "most trials lost frames")


def trial(cps, share=0.0):
    """One of a second that fails this share."""
    lost = round(cps * share)
    return SimpleNamespace(offered_fps=cps, offered=round(cps), lost=lost, loss_ratio=lost / cps)


def overloaded(cps, capacity_cps):
    return trial(cps, 1 - capacity_cps / cps)


def test_an_interval_ends_at_the_lowest_load_that_surely_failed():
    trials = [trial(16_000.0), trial(17_000.0), trial(22_100.0, 0.23), trial(39_400.0, 0.57)]
    assert judged(FOUND, trials).upper_fps == 22_100.0
    assert judged(FOUND, trials).lower_fps == FOUND.lower_fps


@pytest.mark.parametrize(
    "trials",
    [
        [trial(16_000.0), trial(22_100.0, 0.01)],
        [trial(16_000.0), trial(22_100.0, 0.23), trial(23_000.0), trial(200_000.0, 0.9)],
        [trial(16_000.0), trial(17_000.0, 0.23), trial(160_000.0, 0.9)],
    ],
    ids=["a pause of the host", "a higher load was kept", "below the rate"],
)
def test_what_did_not_surely_fail_ends_no_interval(trials):
    assert judged(FOUND, trials) == FOUND


def test_the_same_share_at_loads_far_apart_is_the_number():
    rate = judged(BELOW, [trial(cps, 0.5) for cps in (10, 12, 40, 300, 5000)])
    assert rate.status is RateStatus.LOSES_ALWAYS
    assert rate.quoted_fps is None
    assert (rate.floor.loss_ratio, rate.floor.load_fps, rate.floor.trials) == (0.5, 10, 5)
    assert rate.floor.lower < 0.5 < rate.floor.upper


def test_the_interval_of_the_share_covers_trials_that_differ():
    floor = judged(BELOW, [trial(100, 0.4), trial(100, 0.5), trial(10_000, 0.4), trial(10_000, 0.6)]).floor
    assert floor.loss_ratio == pytest.approx(0.4995, abs=1e-3)
    assert floor.lower < 0.4 and floor.upper > 0.6, "20,200 connections are four trials"


def test_a_device_that_completes_nothing_fails_all_of_it():
    assert judged(BELOW, [trial(cps, 1.0) for cps in (10, 20, 5000)]).floor.loss_ratio == 1.0


@pytest.mark.parametrize(
    "trials",
    [
        [overloaded(cps, 9) for cps in (10, 12, 20, 40, 300)],
        [trial(10, 0.5), trial(12, 0.4), trial(100, 0.01), trial(1000, 0.005)],
        [trial(10, 0.5), trial(11, 0.5)],
        [],
    ],
    ids=["an overload", "a few at the beginning", "loads that are alike", "none"],
)
def test_other_failures_are_no_share_of_any_rate(trials):
    assert judged(BELOW, trials) == BELOW


def test_an_overload_above_a_constant_share_is_not_part_of_it():
    trials = [trial(cps, 0.5) for cps in (10, 12, 40, 300)]
    rate = judged(BELOW, [*trials, trial(5000, 0.97)])
    assert (rate.floor.loss_ratio, rate.floor.trials) == (0.5, 4)


def test_the_stage_is_that_of_most_failures():
    clients = [
        SimpleNamespace(failures={"timed out connecting": 90, "reset": 3}),
        SimpleNamespace(failures={"timed out connecting": 6, "timed out closing": 1}),
    ]
    found = stage(clients)
    assert (found.name, found.words) == ("SYN", "at the SYN: 96 of 100 timed out connecting")
    assert stage([SimpleNamespace(failures={"timed out answering": 2})]).name == "data"
    assert stage([SimpleNamespace(failures={})]) is None
