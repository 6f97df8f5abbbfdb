"""How published rates are compared with a referee's trials."""

from dataclasses import replace

import pytest
from referee_rows import Outcome, half, interval, judged, missed

from pinchpoint.model.result import Rate, RateStatus

FOUND = RateStatus.FOUND
RATE = Rate(0.0, FOUND, 0.98e6, 1.03e6, 0.2, 0.2, "", estimate_fps=1e6)
EDGE = [(load * 1e4, load >= 100) for load in range(75, 125)] * 5
AGREEING = Outcome("a", 1, FOUND, (0.98e6, 1e6, 1.02e6), (0.99e6, 1.0e6, 1.01e6), 200, (5, 20), (15, 20))


def test_half_of_the_trials_lose_where_isotonic_regression_crosses_one_half():
    assert half(EDGE) == pytest.approx(0.995e6, rel=0.001)
    assert half([(1.0, False), (2.0, True), (3.0, False), (4.0, True)]) == pytest.approx(2**0.5)
    assert half([(1.0, False), (2.0, False)]) == 2.0, "none lost"
    low, high = interval(EDGE)
    assert low <= half(EDGE) <= high


def test_a_published_rate_is_held_against_the_trials_beside_it():
    outcome = judged("a", 1, RATE, EDGE)
    assert outcome.below == (5, 15)
    assert outcome.above == (15, 15)
    assert outcome.near == 200
    assert outcome.is_confirmed and outcome.agrees
    assert not judged("a", 1, replace(RATE, estimate_fps=1.1e6), EDGE).agrees
    refused = judged("a", 1, replace(RATE, status=RateStatus.REFUSED), EDGE)
    assert not refused.is_confirmed


@pytest.mark.parametrize(
    ("changes", "misses"),
    [
        ({}, 0),
        ({"ndr": (1.1e6, 1.1e6, 1.1e6)}, 1),
        ({"ndr": (1.1e6, 1.1e6, 1.1e6), "near": 100}, 0),
        ({"ndr": (1.1e6, 1.1e6, 1.1e6), "referee": (0.8e6, 1.0e6, 1.09e6)}, 0),
        ({"below": (18, 20)}, 1),
        ({"above": (2, 20)}, 1),
    ],
    ids=["all agree", "one is off", "with too few trials", "with a blunt referee", "too many below", "too few above"],
)
def test_only_what_the_referee_can_judge_counts(changes, misses):
    assert len(missed([replace(AGREEING, **changes)])) == misses
