"""A rate held against the trials beside it, and losses at any load."""

import pytest
from trials import stream_counts, trial

from pinchpoint.model.measurement import Interval
from pinchpoint.model.trial import Trial
from pinchpoint.search.claims import claim, constant_loss, near, nearest_supported, share_near


def at(load_fps: float, lost: int = 0) -> Trial:
    """A trial of one second."""
    return trial(load_fps, counts=stream_counts(offered=int(load_fps), received=int(load_fps) - lost))


def mixed(load_fps: float, losing: int, count: int) -> list[Trial]:
    return [at(load_fps, lost=number < losing) for number in range(count)]


@pytest.mark.parametrize(
    ("below", "above", "holds"),
    [((2, 10), (8, 10), True), ((7, 10), (8, 10), True), ((9, 10), (10, 10), False), ((0, 10), (1, 10), False)],
)
def test_a_claim_holds_where_about_half_lose_on_either_side(below, above, holds):
    trials = [*mixed(0.99e6, *below), *mixed(1.01e6, *above), *mixed(0.9e6, 9, 9), *mixed(1.1e6, 0, 9)]
    held = claim(trials, 0.0, 1e6)
    assert held.holds is holds
    assert (held.below.losing, held.below.trials) == below
    assert (held.above.losing, held.above.trials) == above


def test_a_claim_without_trials_beside_it_is_neither_contradicted_nor_supported():
    held = claim(mixed(0.5e6, 9, 9), 0.0, 1e6)
    assert held.holds and (held.below.trials, held.above.trials) == (0, 0)
    assert held.supported is False


@pytest.mark.parametrize(
    ("loads", "supported"),
    [
        ((0.985e6, 1.015e6), True),
        ((0.985e6, 0.99e6, 1e6), False),
        ((0.975e6, 1.015e6, 1.019e6), False),
    ],
)
def test_a_trial_on_either_side_within_2_percent_supports_a_rate(loads, supported):
    assert claim([at(load) for load in loads], 0.0, 1e6).supported is supported


def test_where_a_frame_more_is_more_than_2_percent_the_next_load_is_near():
    assert near([at(9), at(9), at(10), at(12)], 9.5) == (2, 1)


def test_a_rate_without_trials_beside_it_moves_to_the_nearest_load_that_has_them():
    trials = [at(load) for load in (0.885e6, 0.885e6, 0.915e6, 0.915e6, 1.1e6, 1.1e6, 1.11e6, 1.11e6, 1.2e6)]
    assert nearest_supported(trials, Interval(0.99e6, 0.8e6, 1.3e6)) == 0.9e6, "between two that were tried"
    assert nearest_supported(trials, Interval(1.02e6, 0.95e6, 1.3e6)) == 1.1e6
    assert nearest_supported(trials, Interval(1.02e6, 0.95e6, 1.05e6)) is None
    assert nearest_supported([*trials, *(at(1e6 + off) for off in (-2, -1, 1, 2))], Interval(1e6, 0.8e6, 1.3e6)) == 1e6


def test_the_share_at_a_load_is_of_the_trials_near_it():
    share = share_near([*mixed(0.5e6, 1, 4), *mixed(1e6, 5, 5)], 0.0, 0.5e6)
    assert share is not None and (share.losing, share.trials, share.load_fps) == (1, 4, 0.5e6)
    assert share_near(mixed(1e6, 5, 5), 0.0, 0.5e6) is None


def test_a_ratio_that_is_lost_at_any_load_is_told():
    trials = [at(0.3e6, 3), at(0.3e6, 4), at(0.15e6, 0), at(2e6, 19), at(4e6, 42), at(5e6, 50), at(8e6, 3_000_000)]
    floor = constant_loss(trials, 0.0, 0.3e6, 0.95)
    assert floor is not None
    assert floor.loss_ratio == pytest.approx(1e-5, rel=0.1)
    assert floor.lower <= 1e-5 <= floor.upper
    assert (floor.load_fps, floor.trials) == (0.15e6, 5)


def test_losses_near_the_capacity_alone_are_no_constant_ratio():
    assert constant_loss([at(1e6), at(2e6), at(4.2e6, 40), at(4.4e6, 900), at(5e6, 50_000)], 0.0, 4e6, 0.95) is None
    assert constant_loss([at(1e6), at(1e6), at(2.1e6, 9000), at(4e6, 40_000), at(5e6)], 0.0, 1e6, 0.95) is None
