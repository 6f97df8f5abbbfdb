"""Items over time: thinned without losing the ends, and judged for growth."""

import pytest

from pinchpoint.bulk.making import Step, growth, seconds_at, thinned


def curve(count, seconds_of, steps=40):
    return [Step(n * count // steps, seconds_of(n * count // steps)) for n in range(steps + 1)]


def test_equal_time_per_item_is_no_growth():
    assert growth(curve(4000, lambda n: n / 1000)) == pytest.approx(1.0)


def test_time_that_grows_with_the_square_is_seven_times_as_long_in_the_last_quarter():
    assert growth(curve(4000, lambda n: (n / 1000) ** 2)) == pytest.approx(7.0)


def test_time_before_the_first_item_belongs_to_no_item():
    late = [Step(0, 0.0), Step(0, 9.0), *[Step(n, 9.0 + n / 100) for n in range(100, 2001, 100)]]
    assert growth(late) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "steps", [[Step(0, 0.0)], [Step(0, 0.0), Step(10, 1.0)], [Step(0, 0.0), Step(1, 1.0), Step(9, 2.0)]]
)
def test_few_steps_tell_no_growth(steps):
    assert growth(steps) is None


def test_a_curve_is_thinned_to_about_twenty_steps_with_both_ends():
    steps = curve(10_000, lambda n: n / 500, steps=1000)
    kept = thinned(steps, 10_000)
    assert (kept[0], kept[-1]) == (steps[0], steps[-1])
    assert 18 <= len(kept) <= 23
    assert thinned(kept, 10_000) == kept


def test_a_count_that_stands_still_keeps_the_time_when_it_came():
    steps = [Step(0, 0.0), Step(5, 1.0), Step(5, 2.0), Step(10, 3.0)]
    assert thinned(steps, 10) == (Step(0, 0.0), Step(5, 1.0), Step(10, 3.0))


def test_times_between_steps_lie_on_a_line():
    steps = [Step(0, 0.0), Step(10, 1.0), Step(30, 5.0)]
    assert seconds_at(steps, 20) == pytest.approx(3.0)
    assert seconds_at(steps, 99) == 5.0
