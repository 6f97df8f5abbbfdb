"""Nested components of variance, by simulation: unbiased, and their advice keeps what it promises."""

import numpy as np
import pytest
from numpy.typing import NDArray

from pinchpoint.run.pilot import (
    LEVELS,
    Component,
    Costs,
    components,
    for_half_width,
    for_time,
    varies_most,
)
from pinchpoint.stats.estimate import median_interval

COSTS = Costs(rebuild_s=3.0, restart_s=1.0, measurement_s=10.0)
PILOT = (6, 2, 2)  # of the default size
Deviations = tuple[float, float, float]


def _measured(numbers: np.random.Generator, deviations: Deviations, a: int, b: int, c: int) -> NDArray[np.float64]:
    """Rates about 100 whose benches, starts and measurements vary by these many percent."""
    bench, start, measurement = deviations
    return (
        100
        + bench * numbers.normal(size=(a, 1, 1))
        + start * numbers.normal(size=(a, b, 1))
        + measurement * numbers.normal(size=(a, b, c))
    )


def _known(deviations: Deviations) -> tuple[Component, ...]:
    total = sum(deviation**2 for deviation in deviations)
    return tuple(
        Component(level, deviation / 100, deviation**2 / total, 9)
        for level, deviation in zip(LEVELS, deviations, strict=True)
    )


@pytest.mark.parametrize("deviations", [(3.0, 2.0, 1.0), (1.0, 2.0, 3.0), (2.0, 2.0, 2.0)])
def test_the_components_are_right_on_average(deviations: Deviations) -> None:
    numbers = np.random.default_rng(1)
    repeated = [components(_measured(numbers, deviations, 25, 3, 3).tolist()) for _ in range(300)]
    for place, truth in enumerate(deviations):
        mean = np.mean([levels[place].deviation ** 2 for levels in repeated]) * 1e4
        assert mean == pytest.approx(truth**2, rel=0.1)


def test_a_small_example_by_hand() -> None:
    # Means of starts: 1, 3, 5, 7; of benches: 2, 6. Mean squares: 32 of benches, 4 of starts, 0.5 of measurements.
    values = [[[0.5, 1.5], [2.5, 3.5]], [[4.5, 5.5], [6.5, 7.5]]]
    levels = components(values)
    centre = 4.0
    assert [component.deviation**2 * centre**2 for component in levels] == pytest.approx(
        [(32 - 4) / 4, (4 - 0.5) / 2, 0.5]
    )
    assert [component.freedom for component in levels] == [1, 2, 4]
    assert sum(component.share for component in levels) == pytest.approx(1)


def test_what_comes_out_negative_is_nothing_and_equal_values_do_not_vary() -> None:
    levels = components([[[1.0, 9.0], [9.0, 1.0]], [[1.0, 9.0], [9.0, 1.0]]])
    assert [component.share for component in levels] == [0, 0, 1]
    still = components([[[5.0, 5.0]] * 2] * 2)
    assert [(component.deviation, component.share) for component in still] == [(0, 0)] * 3


@pytest.mark.parametrize(
    "values", [[], [[[1.0, 2.0], [1.0, 2.0]]], [[[1.0], [2.0]]] * 2, [[[1.0, 2.0]] * 2, [[1.0, 2.0]]]]
)
def test_too_little_or_unequal_data_is_refused(values: list[list[list[float]]]) -> None:
    with pytest.raises(ValueError, match="two or more of every level"):
        components(values)


@pytest.mark.parametrize(("deviations", "level"), [((5.0, 1.0, 1.0), 0), ((0.0, 5.0, 1.0), 1), ((0.0, 0.0, 2.0), 2)])
def test_a_pilot_of_the_default_size_finds_the_level_that_varies_most(deviations: Deviations, level: int) -> None:
    numbers = np.random.default_rng(2)
    named = [varies_most(components(_measured(numbers, deviations, *PILOT).tolist())) for _ in range(300)]
    assert np.mean([component.level == LEVELS[level] for component in named]) >= 0.8


@pytest.mark.parametrize("deviations", [(2.0, 1.0, 1.0), (0.5, 0.5, 3.0), (0.0, 2.0, 4.0), (0.0, 0.0, 2.0)])
def test_what_is_advised_reaches_the_wished_interval_and_it_covers(deviations: Deviations) -> None:
    advice = for_half_width(_known(deviations), COSTS, 0.01)
    assert advice is not None
    assert advice.rebuilds >= 6
    numbers, widths, covered, runs = np.random.default_rng(3), list[float](), 0, 1000
    for values in (_measured(numbers, deviations, *advice.counts) for _ in range(runs)):
        estimate = median_interval(values.mean(axis=(1, 2)).tolist())
        widths.append((estimate.high - estimate.low) / 2)
        covered += estimate.low <= 100 <= estimate.high
    assert np.mean(widths) <= 1.02
    assert np.mean(widths) / 100 == pytest.approx(advice.half_width, rel=0.03)
    assert covered / runs == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("benches", [6, 7, 8, 9, 10, 13, 20, 40])
def test_the_half_width_that_is_expected_is_that_of_intervals_by_ranks(benches: int) -> None:
    """The asymptotic one, for means of normal values, is up to 9 % too small."""
    numbers, only_benches = np.random.default_rng(5), Costs(1.0, 0.0, 0.0)
    advice = for_time(_known((1.0, 0.0, 0.0)), only_benches, float(benches))
    assert advice is not None
    assert advice.rebuilds == benches
    intervals = [median_interval(values.tolist()) for values in numbers.normal(100, 1, size=(4000, benches))]
    assert np.mean([(interval.high - interval.low) / 2 for interval in intervals]) / 100 == pytest.approx(
        advice.half_width, rel=0.02
    )


@pytest.mark.thorough
@pytest.mark.parametrize("deviations", [(1.2, 0.3, 1.0), (2.0, 1.0, 1.0), (1.0, 0.5, 2.0)])
def test_a_pilot_says_how_many_benches_suffice_although_it_saw_few(deviations: Deviations) -> None:
    """What is advised suffices in about half of all pilots, the second figure in about 90 %."""
    numbers, suffices = np.random.default_rng(6), list[bool]()
    bench, start, measurement = deviations
    for _ in range(150):
        advice = for_half_width(components(_measured(numbers, deviations, *PILOT).tolist()), COSTS, 0.01)
        assert advice is not None
        assert advice.most_rebuilds >= advice.rebuilds
        of_starts = start**2 / advice.restarts + measurement**2 / (advice.restarts * advice.measurements)
        needed = for_half_width(_known(((bench**2 + of_starts) ** 0.5, 0.0, 0.0)), COSTS, 0.01)
        assert needed is not None
        suffices.append(advice.most_rebuilds >= needed.rebuilds)
    assert 0.8 <= np.mean(suffices) <= 0.98


@pytest.mark.thorough
def test_what_a_pilot_advises_covers_also_where_the_pilot_was_wrong() -> None:
    """Small differences between benches are mostly missed by a pilot; the interval must not suffer from it."""
    numbers, covered, runs = np.random.default_rng(4), 0, 300
    for _ in range(runs):
        pilot = components(_measured(numbers, (0.5, 0.5, 3.0), *PILOT).tolist())
        advice = for_half_width(pilot, COSTS, 0.01)
        assert advice is not None
        repeats = _measured(numbers, (0.5, 0.5, 3.0), *advice.counts).mean(axis=(1, 2))
        estimate = median_interval(repeats.tolist())
        covered += estimate.low <= 100 <= estimate.high
    assert covered / runs == pytest.approx(0.95, abs=0.025)


def test_where_measurements_vary_most_and_benches_are_dear_several_are_made_on_each() -> None:
    dear = Costs(rebuild_s=60.0, restart_s=5.0, measurement_s=2.0)
    advice = for_half_width(_known((1.0, 0.0, 5.0)), dear, 0.01)
    assert advice is not None
    # Cochran: sqrt((60 + 5) / 2 * 25 / 1) = 28, more than are considered.
    assert advice.measurements >= 20
    cheap = for_half_width(_known((5.0, 0.0, 1.0)), COSTS, 0.01)
    assert cheap is not None
    assert (cheap.restarts, cheap.measurements) == (1, 1)


def test_no_cheaper_allocation_reaches_the_wish() -> None:
    known = _known((1.0, 2.0, 3.0))
    advice = for_half_width(known, COSTS, 0.01)
    assert advice is not None
    assert advice.half_width <= 0.01
    longer = for_time(known, COSTS, advice.time_s)
    assert longer is not None
    assert longer.half_width <= advice.half_width
    shorter = for_time(known, COSTS, advice.time_s * 0.9)
    assert shorter is None or shorter.half_width > 0.01


def test_six_repeats_are_the_fewest_and_the_impossible_is_told() -> None:
    quiet = for_half_width(_known((0.01, 0.01, 0.01)), COSTS, 0.01)
    assert quiet is not None
    assert quiet.counts == (6, 1, 1)
    assert for_half_width(_known((90.0, 1.0, 1.0)), COSTS, 0.0001) is None
    assert for_time(_known((1.0, 1.0, 1.0)), COSTS, 5 * 14.0) is None
