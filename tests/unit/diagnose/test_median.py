"""The median's interval holds the true median as often as it says, whatever the distribution."""

from random import Random

import pytest

from pinchpoint.diagnose.median import median_interval


def test_few_repeats_have_their_extremes_and_say_how_sure_that_is():
    found = median_interval([5.0, 1.0, 9.0, 2.0, 3.0])
    assert (found.centre, found.low, found.high) == (3.0, 1.0, 9.0)
    assert found.coverage == pytest.approx(1 - 2 / 32)
    assert "94%" in found.words


def test_many_repeats_leave_their_extremes_out():
    found = median_interval([float(n) for n in range(20)])
    assert (found.low, found.high) == (5.0, 14.0)
    assert found.coverage >= 0.95


def test_one_value_is_its_own_interval_and_claims_nothing():
    found = median_interval([7.0])
    assert (found.low, found.high, found.coverage, found.words) == (7.0, 7.0, 0.0, "of one repeat")


@pytest.mark.parametrize("n", [5, 12])
def test_it_covers_the_median_of_a_skewed_distribution_as_often_as_it_says(n):
    random, true = Random(3), 0.6931471805599453
    found = [median_interval([random.expovariate(1.0) for _ in range(n)]) for _ in range(4000)]
    covered = sum(one.low <= true <= one.high for one in found) / len(found)
    assert covered == pytest.approx(found[0].coverage, abs=0.015)
