"""What a budget leaves out, in virtual time: every unit takes as long as the test says."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sweeps import base, factor, measured, sweep

from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import Outcome, Rate, RateStatus
from pinchpoint.run.budget import Budget, Forecast, agreement, expected_s
from pinchpoint.run.order import info, units
from pinchpoint.run.run import unmeasured

FOREVER = 1e9
UNIT_S = expected_s(base())  # so that the forecast is right from the start


def carry_out(sweeps, limit_s, rate, wall_s=UNIT_S, outcomes=None):
    """A run in virtual time: `rate(levels)` is what a point measures. Returns (all results by name, seconds spent)."""
    wanted = units(sweeps, budgeted=True)
    budget, forecast = Budget(wanted, [info(sweep) for sweep in sweeps], limit_s), Forecast()
    done, spent_s = {}, 0.0
    for unit in wanted:
        reason = budget.left_out(unit, done, spent_s, forecast)
        if reason:
            done[unit.name] = unmeasured(unit, Outcome.SKIPPED, reason, 0.0)
            continue
        outcome = (outcomes or {}).get(unit.name)
        spent_s += wall_s
        if outcome:
            done[unit.name] = unmeasured(unit, outcome, "because", wall_s)
            continue
        done[unit.name] = measured(unit, rate(unit.point.levels), wall_s)
        forecast.finished(unit, wall_s)
    return done, spent_s


def measured_levels(done, repeat=1):
    of_repeat = (result for result in done.values() if result.outcome is Outcome.MEASURED and result.repeat == repeat)
    return sorted(next(iter(result.levels.values())) for result in of_repeat)


def reasons(done):
    return {result.reason for result in done.values() if result.outcome is Outcome.SKIPPED}


def step(levels):
    """A rate that falls once, behind level 100."""
    return 4e6 if levels["rules"] <= 100 else 1e6


POWERS = [2**n for n in range(17)]


def test_where_nothing_changes_only_the_ends_are_measured_and_the_rest_says_why():
    done, _ = carry_out([sweep(factor(POWERS, falling=True))], FOREVER, lambda _: 4e6)
    assert measured_levels(done) == [1, 65536]
    assert reasons(done) == {"between 1 and 65,536, which agree within 0.00 %: monotone"}


def test_a_step_is_found_by_halving_to_its_two_neighbours():
    done, _ = carry_out([sweep(factor(POWERS, falling=True))], FOREVER, step)
    assert {64, 128} <= set(measured_levels(done))
    assert len(measured_levels(done)) <= 7
    assert all("monotone" in reason for reason in reasons(done))


def test_a_factor_not_marked_as_falling_is_measured_whole():
    done, _ = carry_out([sweep(factor(POWERS))], FOREVER, lambda _: 4e6)
    assert measured_levels(done) == POWERS


def test_without_a_measured_neighbour_on_either_side_a_point_is_measured():
    ends = {"g-rules-65536": Outcome.IMPOSSIBLE}
    done, _ = carry_out([sweep(factor(POWERS, falling=True))], FOREVER, lambda _: 4e6, outcomes=ends)
    assert measured_levels(done)[-1] == 32768


def left_out_between(early, other):
    """Why the middle of three points is left out if the ends found this."""
    first, middle, last = units([sweep(factor([1, 2, 3], falling=True))])
    budget = Budget([first, middle, last], [info(sweep(factor([1, 2, 3], falling=True)))], FOREVER)
    done = {unit.name: replace(measured(unit, 1e6), **changes) for unit, changes in ((first, early), (last, other))}
    return budget.left_out(middle, done, 0.0, Forecast())


@pytest.mark.parametrize("status", [status for status in RateStatus if status is not RateStatus.FOUND])
def test_a_rate_that_was_not_found_agrees_with_nothing(status):
    bound = {"rates": (Rate(0.0, status, 1e6, 1e6, 1.0, 1.0, "a reason"),)}
    assert left_out_between({}, bound) == ""
    assert left_out_between(bound, bound) == "", "two bounds that are equal say nothing of what they bound"
    assert left_out_between({}, {})


def test_without_the_searched_rate_no_other_metric_speaks_for_it():
    below = Rate(0.0, RateStatus.BELOW_MINIMUM, None, 1e3, 1.0, 1.0, "")
    pdr = Rate(0.005, RateStatus.FOUND, 1e6, 1e6, 1.0, 1.0, "")
    changes = {"rates": (below, pdr), "metrics": (Metric("PDR 0.5 %", "fps", 1e6),)}
    assert left_out_between(changes, changes) == ""


@pytest.mark.parametrize(
    ("measure", "name"),
    [
        ("load", "cycles per packet at 1.00 Mpps"),
        ("bandwidth", "goodput"),
        ("rr", "transactions"),
        ("crr", "transactions"),
        ("build", "time per item"),
        ("soak", "windows with loss"),
        ("recovery", "recovery time"),
        ("blocked", "blocked time"),
    ],
)
def test_other_measures_are_judged_by_what_they_are_about(measure, name):
    main, beside = Metric(name, "", 5.0), Metric("beside", "", 7.0)
    changes = {"measure": measure, "rates": (), "metrics": (beside, main)}
    assert left_out_between(changes, changes)
    assert left_out_between(changes, changes | {"metrics": (beside, replace(main, value=9.0))}) == ""
    assert left_out_between(changes, changes | {"metrics": (beside,)}) == ""


def test_the_budget_bounds_the_time_and_what_is_left_out_says_so():
    done, spent_s = carry_out([sweep(factor(POWERS))], 10.5 * UNIT_S, lambda levels: 1e6 / levels["rules"])
    assert spent_s == pytest.approx(10 * UNIT_S)
    assert len(measured_levels(done)) == 10
    assert {1, 65536} <= set(measured_levels(done)), "the ends come first"
    assert all(reason.startswith("budget of ") for reason in reasons(done))
    assert len(done) == len(POWERS), "nothing is left out silently"


def test_time_that_is_used_up_is_told_in_plain_words():
    done, _ = carry_out([sweep(factor([1, 2, 3]))], 0.5 * UNIT_S, lambda _: 1e6)
    assert len(measured_levels(done)) == 1, "a run measures something, however small its budget"
    assert len(reasons(done)) == 1
    short, _ = carry_out([sweep(factor([1, 2, 3]))], 600.0, lambda _: 1e6, wall_s=700.0)
    assert reasons(short) == {"budget of 10 min used"}


def test_units_that_turn_out_longer_than_estimated_are_learnt_from():
    done, spent_s = carry_out([sweep(factor(POWERS))], 10 * UNIT_S, lambda _: 1e6, wall_s=3 * UNIT_S)
    assert spent_s <= 10 * UNIT_S
    assert len(measured_levels(done)) == 3


def test_every_group_gets_its_ends_before_one_gets_its_details():
    a, b = sweep(factor(POWERS), group="a"), sweep(factor(POWERS), group="b")
    done, _ = carry_out([a, b], 8 * UNIT_S, lambda _: 1e6)
    for group in "ab":
        levels = [result.levels["rules"] for result in done.values() if result.group == group and result.metrics]
        assert {1, 65536} <= set(levels)


def test_repeats_are_made_for_all_points_or_for_none():
    three = sweep(factor([1, 2, 3, 4]), repeats=3)
    done, spent_s = carry_out([three], 10 * UNIT_S, lambda levels: 1e6 / levels["rules"])
    assert measured_levels(done, 1) == measured_levels(done, 2) == [1, 2, 3, 4]
    assert measured_levels(done, 3) == []
    assert spent_s == pytest.approx(8 * UNIT_S)
    (reason,) = reasons(done)
    assert "repeat 3 of its group needs" in reason


def test_no_more_repeats_than_the_sweep_asks_for():
    done, spent_s = carry_out([sweep(factor([1, 2]), repeats=2)], FOREVER, lambda _: 1e6)
    assert spent_s == pytest.approx(4 * UNIT_S)
    assert not reasons(done)


def test_what_was_needless_is_not_repeated_either():
    done, _ = carry_out([sweep(factor([1, 2, 3], falling=True), repeats=2)], FOREVER, lambda _: 1e6)
    assert measured_levels(done, 2) == [1, 3]
    assert done["g-rules-2.r2"].reason == done["g-rules-2"].reason


def test_along_one_factor_only_points_that_share_the_others_are_neighbours():
    rules, size = factor([1, 2, 3], "rules", falling=True), factor([64, 1518], "size")
    rates = {64: {1: 9e6, 2: 5e6, 3: 1e6}, 1518: {1: 1e6, 2: 1e6, 3: 1e6}}
    done, _ = carry_out([sweep(rules, size)], FOREVER, lambda levels: rates[levels["size"]][levels["rules"]])
    skipped = [result.levels for result in done.values() if result.outcome is Outcome.SKIPPED]
    assert skipped == [{"rules": 2, "size": 1518}]


@settings(max_examples=60)
@given(st.lists(st.floats(1e5, 1e7), min_size=2, max_size=30), st.floats(1, 40), st.integers(1, 3))
def test_a_left_out_point_lies_within_2_percent_of_its_neighbours_if_the_rate_really_falls(rates, share, repeats):
    falling = sorted(rates, reverse=True)
    levels = factor(range(len(falling)), falling=True)
    done, spent_s = carry_out([sweep(levels, repeats=repeats)], share * UNIT_S, lambda at: falling[at["rules"]])
    assert spent_s <= max(share, 1) * UNIT_S * 1.000001
    assert len(done) == len(falling) * repeats
    for result in done.values():
        if result.outcome is Outcome.SKIPPED and "monotone" in result.reason:
            known = [o for o in done.values() if o.metrics and o.repeat == 1]
            nearest = min(known, key=lambda o: abs(o.levels["rules"] - result.levels["rules"]))
            truth = falling[result.levels["rules"]]
            assert nearest.metrics[0].value == pytest.approx(truth, rel=0.0205)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ((100, None, None), (99, None, None), "within 1.00 %"),
        ((100, None, None), (97, None, None), ""),
        ((100, 97, 101), (97, 96, 100), "within their intervals (3.00 % apart)"),
        ((100, 99, 101), (97, 96, 98), ""),
        ((100, 80, 120), (90, 70, 110), ""),
        ((0, None, None), (0, None, None), "within 0.00 %"),
    ],
)
def test_figures_agree_within_2_percent_or_where_narrow_intervals_overlap(first, second, words):
    assert agreement(Metric("NDR", "fps", *first), Metric("NDR", "fps", *second)) == words


def test_figures_of_different_metrics_never_agree():
    assert agreement(Metric("NDR", "fps", 1.0), Metric("PDR 0.5 %", "fps", 1.0)) == ""
