"""How a comparison divides its time, on a clock that is made up."""

import pytest

from pinchpoint.run.comparison import BuildTime


def divided(limit_s, build_s, builds=8, is_limit=True, least_s=4.0, before=0):
    """What was measured on each two benches, and the time that all took; `before`: built by an earlier run."""
    now = [0.0]
    made, shares = BuildTime(limit_s, builds, is_limit, lambda: now[0], before), []
    while not made.is_over:
        with made.building():
            now[0] += build_s
            made.stands()
            shares.append(made.share_s(least_s))
            now[0] += shares[-1]
    return shares, now[0]


def test_each_build_gets_an_equal_share_of_the_limit():
    shares, took_s = divided(120, 8.0)
    assert shares == pytest.approx([7.0] * 8)
    assert took_s == pytest.approx(120)


def test_where_building_is_slow_fewer_are_built_but_no_less_than_six():
    shares, took_s = divided(120, 14.0)
    assert len(shares) == 6
    assert took_s == pytest.approx(120)


@pytest.mark.parametrize("build_s", [20.0, 50.0])
def test_where_six_do_not_fit_all_time_is_spent_on_these_benches(build_s):
    shares, took_s = divided(120, build_s)
    assert shares == pytest.approx([120 - build_s])
    assert took_s == pytest.approx(120)


def test_a_limit_that_building_has_used_up_still_measures_a_little():
    assert divided(30, 40.0) == ([4.0], 44.0)


def test_without_a_limit_all_are_built_however_long_it_takes():
    shares, _ = divided(120, 30.0, is_limit=False)
    assert len(shares) == 8
    assert shares[0] == 4.0


@pytest.mark.parametrize("is_limit", [True, False])
def test_a_resumed_comparison_makes_the_builds_that_are_left(is_limit):
    shares, took_s = divided(45, 8.0, is_limit=is_limit, before=5)
    assert shares == pytest.approx([7.0] * 3)
    assert took_s == pytest.approx(45)


def test_a_comparison_that_was_interrupted_on_its_last_benches_is_continued_on_new_ones():
    assert divided(15, 8.0, builds=1, before=1) == ([7.0], 15.0)
