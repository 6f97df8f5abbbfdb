"""Pairs measured in turns: compared within one mode of the cores, and what is left out is told."""

import re
from dataclasses import replace

import numpy as np
import pytest
from comparisons import NAME, paired_run, result_of, side

from pinchpoint.findings.comparing import of_run, paired
from pinchpoint.model.comparison import ComparisonKind, Decision
from pinchpoint.model.measurement import THREAD_BUSY, Bound
from pinchpoint.model.result import ModeRates, Rate, RateStatus
from pinchpoint.run.order import in_turns

A = [500.0, 501.0, 499.0, 500.5, 499.5, 500.2, 500.8, 499.9]


def main(comparison):
    return comparison.scenarios[0].metrics[0]


def test_units_alternate_so_that_neighbours_are_pairs_and_a_drift_meets_both():
    units = in_turns(side("A"), side("B"), 4)
    assert [unit.name[0] for unit in units] == list("ABBAABBA")
    assert [unit.point.repeat for unit in units] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert units[2].name == "B-forward.r2"


def test_a_real_difference_is_told_with_its_interval_and_its_direction():
    metric = main(of_run(*paired_run(A, [value * 1.02 for value in A])))
    assert metric.metric == NAME
    assert metric.decision is Decision.HIGHER
    assert metric.better is False, "more cycles are worse"
    assert metric.sentence.startswith("B is 2.0 % [2.0 .. 2.0 %] higher")
    assert metric.n == 8
    assert [pair.first for pair in metric.pairs] == list("ABABABAB")


def test_without_a_difference_it_is_told_what_could_hide():
    metric = main(of_run(*paired_run(A, A[::-1])))
    assert metric.decision is Decision.NOT_FOUND
    assert metric.better is None
    assert re.match(r"no difference found: B / A is [\d.]+ \[[\d.]+ \.\. [\d.]+\]; one of up to 0\.", metric.sentence)
    assert metric.largest_hidden < 0.01


@pytest.mark.parametrize(
    ("margin", "factor", "words"),
    [
        (0.05, 1.0, "the same within the margin of 5.0 %"),
        (0.0001, 1.0, "is not excluded; about"),
        (0.05, 1.02, "within the margin of 5.0 %"),
    ],
)
def test_a_margin_says_which_differences_do_not_matter(margin, factor, words):
    metric = main(of_run(*paired_run(A, [value * factor for value in A[::-1]], margin=margin)))
    assert words in metric.sentence


def test_few_pairs_give_a_range_and_no_verdict():
    metric = main(of_run(*paired_run(A[:4], [value * 1.5 for value in A[:4]])))
    assert metric.decision is Decision.TOO_FEW
    assert metric.confidence is None
    assert "6" in metric.sentence


def test_pairs_of_two_modes_are_not_mixed_and_the_share_left_out_is_told():
    near, far = {"distance_ns": 25.0}, {"distance_ns": 150.0}
    a = [{"value": 500.0 + n % 2, **(far if n == 3 else near)} for n in range(8)]
    b = [{"value": 500.0 + n // 2 % 2, **(far if n in (3, 5) else near)} for n in range(8)]
    comparison = of_run(*paired_run(a, b))
    metric = main(comparison)
    assert metric.mode == "cores 25.0 ns apart"
    assert metric.n == 6
    assert metric.left_out == {
        "both measured in another mode of the cores": 1,
        "B measured in another mode of the cores": 1,
    }
    assert "2 of 8 pairs (25%) left out" in " ".join(comparison.scenarios[0].notes)


def test_each_mode_with_enough_pairs_has_a_comparison_of_its_own():
    a = [{"value": 500.0 + n % 3, "distance_ns": 25.0 if n < 6 else 150.0} for n in range(12)]
    b = [{**row, "value": row["value"] * (1.0 if row["distance_ns"] < 100 else 1.1)} for row in a]
    metrics = [metric for metric in of_run(*paired_run(a, b)).scenarios[0].metrics if metric.judged]
    assert [(metric.mode, metric.decision) for metric in metrics] == [
        ("cores 25.0 ns apart", Decision.NOT_FOUND),
        ("cores 150 ns apart", Decision.HIGHER),
    ]


def test_a_measurement_during_which_the_cores_moved_is_left_out():
    a = [{"value": value, "distance_ns": 25.0, "far": 0.5 if n == 0 else 0.0} for n, value in enumerate(A)]
    metric = main(of_run(*paired_run(a, [{"value": value, "distance_ns": 25.0} for value in A])))
    assert metric.n == 7
    assert metric.left_out == {"A while the cores moved between near and far": 1}


@pytest.mark.parametrize(
    ("lost", "reason"),
    [
        (None, "A failed"),
        ({"value": 5e6, "bound": Bound.REFUSED, "name": "NDR"}, "A was refused a number"),
        ({"value": 5e6, "bound": Bound.AT_LEAST, "name": "NDR"}, "A is a lower bound only"),
        ({"value": 0.0, "name": "NDR"}, "a number is 0: there is no ratio"),
    ],
)
def test_what_is_no_number_leaves_its_pair_out(lost, reason):
    ndr = [{"value": 1e6 + n, "name": "NDR"} for n in range(8)]
    metric = main(of_run(*paired_run([lost, *ndr[1:]], ndr)))
    assert metric.n == 7
    assert metric.left_out == {reason: 1}
    assert metric.pairs[0].left_out == reason


def test_if_no_pair_has_two_numbers_nothing_is_claimed():
    metric = main(of_run(*paired_run([None] * 6, [{"value": 1e6, "name": "NDR"}] * 6)))
    assert metric.decision is Decision.REFUSED
    assert "A failed in 6 of 6" in metric.sentence


def test_rates_of_a_search_that_met_two_modes_are_paired_within_each():
    def rate(fps):
        return Rate(0.0, RateStatus.FOUND, fps, fps, 1.0, 21.0, "", estimate_fps=fps)

    def both(unit, near, far):
        modes = (
            ModeRates("cores 25 ns apart", 25.0, 9, 9.0, (rate(near),)),
            ModeRates("cores 150 ns apart", 150.0, 9, 9.0, (rate(far),)),
        )
        return replace(result_of(unit, near, 25.0, "NDR"), rates=modes[0].rates, modes=modes)

    (unit,) = side("A").scenarios
    a = {n: both(unit, 8e6 + n, 4e6 + n) for n in range(1, 9)}
    b = {n: both(unit, 8e6 + 9 - n, 3e6 + n) for n in range(1, 9)}
    near, far = sorted(paired("NDR", a, b), key=lambda metric: metric.mode, reverse=True)
    assert (near.mode, near.decision) == ("cores 25.0 ns apart", Decision.NOT_FOUND)
    assert (far.mode, far.decision) == ("cores 150 ns apart", Decision.LOWER)
    assert far.better is False


def test_rates_beside_a_neighbour_are_not_compared():
    def of(alone, beside):
        rates = [(Rate(0.0, RateStatus.FOUND, fps, fps, 1.0, 21.0, "", estimate_fps=fps),) for fps in (beside, alone)]
        modes = (
            ModeRates("cores 25 ns apart, the switch's slowed by a neighbour", 25.0, 30, 30.0, rates[0], slowed=True),
            ModeRates("cores 25 ns apart", 25.0, 9, 9.0, rates[1]),
        )
        return replace(result_of(unit, beside, 25.0, "NDR"), rates=modes[0].rates, modes=modes[: 2 if alone else 1])

    (unit,) = side("A").scenarios
    a = {n: of(8e6 + n if n < 8 else 0.0, 4e6) for n in range(1, 9)}
    b = {n: of(7e6 + n, 5e6) for n in range(1, 9)}
    (metric,) = paired("NDR", a, b)
    assert metric.decision is Decision.LOWER, "of those measured alone"
    assert metric.left_out == {"A was slowed by a neighbour": 1}


def test_an_emulated_processor_is_not_compared_with_a_real_one():
    def on(processor, fps):
        return replace(result_of(unit, fps, 25.0, "NDR"), settings={"guest.processor": processor})

    (unit,) = side("A").scenarios
    a = {n: on("emulated", 8e6 + n) for n in range(1, 9)}
    (metric,) = paired("NDR", a, {n: on("real", 7e6 + n) for n in range(1, 9)})
    assert (metric.decision, metric.ratio) == (Decision.REFUSED, None)
    assert metric.sentence == "not compared: numbers of an emulated and of a real processor"
    (metric,) = paired("NDR", a, {n: on("emulated", 7e6 + n) for n in range(1, 9)})
    assert metric.decision is Decision.LOWER


def test_metrics_that_nobody_asked_for_are_told_but_not_judged():
    info, result = paired_run(A, A[::-1])
    more = tuple(
        replace(
            scenario,
            metrics=(
                *scenario.metrics,
                replace(scenario.metrics[0], name=THREAD_BUSY, unit="share", value=value / 1e3),
            ),
        )
        for scenario, value in zip(result.scenarios, [*A, *A], strict=True)
    )
    main_one, other = of_run(info, replace(result, scenarios=more)).scenarios[0].metrics
    assert (main_one.judged, other.judged, other.metric) == (True, False, THREAD_BUSY)
    asked = replace(info, comparison=replace(info.comparison, metrics=(THREAD_BUSY,)))
    assert of_run(asked, replace(result, scenarios=more)).scenarios[0].metrics[0].metric == THREAD_BUSY


def test_an_unfinished_run_says_how_many_pairs_it_has():
    info, result = paired_run(A, A)
    comparison = of_run(info, replace(result, finished=False, scenarios=result.scenarios[:5]))
    assert comparison.kind is ComparisonKind.PAIRED
    assert "2 of 8 pairs were measured" in comparison.scenarios[0].notes


def test_a_with_a_raises_few_alarms_where_cores_have_two_modes_and_the_host_drifts():
    """400 comparisons of A with itself: modes flip in runs, rates drift, some measurements are outliers."""
    random = np.random.default_rng(5)
    (unit,) = side("A").scenarios
    alarms = 0
    for _ in range(400):
        far = random.random(32) < 0.5 if random.random() < 0.5 else np.arange(32) > random.integers(32)
        drift = np.linspace(1, 1 + random.normal(0, 0.05), 32)
        noise = np.exp(random.normal(0, 0.01, 32)) * np.where(random.random(32) < 0.05, 1.3, 1.0)
        values = 500 * np.where(far, 2.0, 1.0) * drift * noise
        sides = ({}, {})
        for place in range(32):
            number, first = place // 2 + 1, place % 2 == 0
            a_turn = first == (number % 2 == 1)
            result = result_of(unit, float(values[place]), 150.0 if far[place] else 25.0)
            sides[0 if a_turn else 1][number] = result
        alarms += next(paired(NAME, *sides)).decision in (Decision.HIGHER, Decision.LOWER)
    assert alarms <= 400 * 0.05 + 2 * (400 * 0.05 * 0.95) ** 0.5
