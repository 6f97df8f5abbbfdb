"""A rate held against the trials beside it, and losses at any load."""

import pytest
from trials import stream_counts, trial

from pinchpoint.model.trial import Trial
from pinchpoint.search.claims import claim, constant_loss, share_near


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


def test_a_claim_without_trials_beside_it_is_not_contradicted():
    held = claim(mixed(0.5e6, 9, 9), 0.0, 1e6)
    assert held.holds and (held.below.trials, held.above.trials) == (0, 0)


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
