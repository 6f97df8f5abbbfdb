"""The one interval: open ends, arithmetic, ratios, words."""

import math
from dataclasses import replace

import pytest

from pinchpoint.model.measurement import Bound, Estimate, Interval, Metric, ratio


def estimate(value: float, low: float | None, high: float | None, bound: Bound = Bound.FOUND) -> Estimate:
    return Estimate("fps", value, low, high, 3, "95 %", bound=bound)


@pytest.mark.parametrize("ends", [(None, None), (1.0, None), (None, 3.0), (1.0, 3.0)])
def test_what_a_record_stores_is_what_it_gets_back(ends: tuple[float | None, float | None]) -> None:
    interval = Interval.of(Metric("x", "fps", 2.0, *ends))
    assert interval.figures == (2.0, *ends)
    assert interval.is_closed == (None not in ends)
    assert (interval * 2 / 2).figures == interval.figures
    assert interval.closed.figures == (2.0, ends[0] or 2.0, ends[1] or 2.0)


def test_an_open_end_has_no_words_and_overlaps_with_whatever_lies_beyond() -> None:
    least = Interval(2e6, low=2e6)
    assert least.ends("fps") == "" and Interval(3.1e6, 3e6, 3.2e6).ends("fps") == "3.00 to 3.20 Mpps"
    assert least.overlaps(8e6, 1e7) and not least.overlaps(0.5e6, 1.5e6)
    assert not least.tells_apart


def test_a_bound_leaves_one_side_open() -> None:
    found = Interval(2.0, low=1.0)
    assert found.possible == found
    least, most = (replace(found, bound=bound).possible for bound in (Bound.AT_LEAST, Bound.BELOW))
    assert (least.low, least.high, most.low, most.high) == (1.0, math.inf, -math.inf, 2.0)


def test_ends_move_outwards() -> None:
    interval = Interval(10.0, 9.0, 12.0)
    assert interval.width == pytest.approx(0.25)
    assert interval.widened(0.1, 0.5).figures == pytest.approx((10.0, 8.1, 18.0))
    assert interval.reaching(8.0, 11.0).figures == (10.0, 8.0, 12.0)
    assert Interval(1.0, 0.9, 1.02).reach == pytest.approx(0.1)


def test_a_ratio_combines_the_worst_ends_of_both() -> None:
    quotient = ratio(estimate(4e6, 3.8e6, 4.4e6), estimate(2e6, 1.9e6, 2.0e6))
    assert quotient is not None
    assert quotient.figures == pytest.approx((2.0, 1.9, 4.4 / 1.9))
    assert (quotient.times, quotient.tells_apart) == ("2.00 x [1.90 .. 2.32]", True)


def test_of_a_bound_the_ratio_is_one_and_of_two_there_is_none() -> None:
    least, found = estimate(4e6, 4e6, None, Bound.AT_LEAST), estimate(2e6, 1.9e6, 2.1e6)
    over, under = ratio(least, found), ratio(found, least)
    assert over is not None and under is not None
    assert (over.times, under.times) == ("at least 2.00 x", "at most 0.5 x")
    assert (over.high, under.low) == (math.inf, -math.inf)
    assert ratio(least, least) is None and ratio(None, found) is None and ratio(found, estimate(0.0, 0.0, 0.0)) is None


def test_a_refused_number_leaves_the_ends_alone() -> None:
    between, found = estimate(3e6, 2e6, 4e6, Bound.BETWEEN), estimate(1e6, 1e6, 1e6)
    quotient = ratio(between, found)
    assert quotient is not None and quotient.times == "between 2.00 and 4.00 x"
