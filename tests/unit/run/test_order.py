"""In which order the points and repeats of sweeps are measured."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sweeps import factor, sweep

from pinchpoint.model.errors import InputError
from pinchpoint.run.order import coarseness, units


def order_of(*sweeps, budgeted=False):
    return [(unit.point.group, *unit.point.levels.values(), unit.point.repeat) for unit in units(sweeps, budgeted)]


def test_interleaved_measures_all_points_then_all_again():
    assert order_of(sweep(factor([1, 2, 3]), repeats=2)) == [
        *(("g", level, 1) for level in (1, 2, 3)),
        *(("g", level, 2) for level in (1, 2, 3)),
    ]


def test_listed_measures_point_by_point():
    order = order_of(sweep(factor([1, 2]), repeats=2, order="listed"))
    assert order == [("g", 1, 1), ("g", 1, 2), ("g", 2, 1), ("g", 2, 2)]


def test_random_shuffles_each_repeat_anew_and_the_same_by_seed():
    swept = sweep(factor(range(20)), repeats=2, order="random", seed=7)
    order = order_of(swept)
    assert order == order_of(swept)
    passes = [[level for _, level, repeat in order if repeat == number] for number in (1, 2)]
    assert all(sorted(levels) == list(range(20)) for levels in passes)
    assert passes[0] != passes[1] != list(range(20))
    assert order != order_of(sweep(factor(range(20)), repeats=2, order="random", seed=8))


def test_groups_follow_each_other_and_repeats_interleave_inside_a_group():
    order = order_of(sweep(factor([1, 2]), group="a", repeats=2), sweep(factor([1]), group="b", repeats=2))
    assert order == [("a", 1, 1), ("a", 2, 1), ("a", 1, 2), ("a", 2, 2), ("b", 1, 1), ("b", 1, 2)]


def test_later_repeats_have_names_of_their_own():
    assert [unit.name for unit in units([sweep(factor([1]), repeats=3)])] == [
        "g-rules-1",
        "g-rules-1.r2",
        "g-rules-1.r3",
    ]


def test_two_units_of_one_name_are_refused():
    with pytest.raises(InputError, match="another scenario has this name"):
        units([sweep(factor([1])), sweep(factor([1]))])


def test_a_budget_takes_the_ends_of_every_group_first_then_halves_and_repeats_last():
    a, b = sweep(factor([1, 2, 3, 4, 5]), group="a", repeats=2), sweep(factor([1, 2, 3]), group="b")
    assert order_of(a, b, budgeted=True) == [
        *[("a", 1, 1), ("a", 5, 1), ("b", 1, 1), ("b", 3, 1)],
        *[("a", 3, 1), ("b", 2, 1)],
        *[("a", 2, 1), ("a", 4, 1)],
        *[("a", level, 2) for level in (1, 2, 3, 4, 5)],
    ]


def test_words_have_no_middle():
    words = factor(["file", "bundle", "process"], name="method")
    assert [coarseness([words], {"method": word}) for word in words.levels] == [0, 0, 0]


def test_with_two_factors_the_finer_one_says_when_a_point_comes():
    rules, ports = factor([0, 1, 2], "rules"), factor([0, 1, 2, 3, 4], "ports")
    assert coarseness([rules, ports], {"rules": 0, "ports": 4}) == 0
    assert coarseness([rules, ports], {"rules": 1, "ports": 0}) == 1
    assert coarseness([rules, ports], {"rules": 1, "ports": 3}) == 2


@given(st.integers(1, 60), st.integers(1, 3), st.sampled_from(["interleaved", "random", "listed"]), st.booleans())
def test_every_order_measures_every_point_as_often_as_it_repeats(count, repeats, order, budgeted):
    names = order_of(sweep(factor(range(count)), repeats=repeats, order=order), budgeted=budgeted)
    assert sorted(names) == [("g", level, repeat) for level in range(count) for repeat in range(1, repeats + 1)]


@given(st.integers(3, 200))
def test_every_point_that_is_no_end_comes_after_a_point_on_either_side(count):
    levels = factor(range(count))
    rounds = [coarseness([levels], {"rules": level}) for level in range(count)]
    for place in range(1, count - 1):
        assert min(rounds[:place]) < rounds[place] > min(rounds[place + 1 :])
