"""Few false alarms on whatever stands still, and no change of 5 % missed, by simulation."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from pinchpoint.stats.change_points import FEWEST_VALUES, Segment, segments

Values = NDArray[np.float64]
Shape = Callable[[np.random.Generator, int], Values]


def _normal(numbers: np.random.Generator, n: int) -> Values:
    return numbers.normal(100, 1, n)


def _skewed(numbers: np.random.Generator, n: int) -> Values:
    return 100 - numbers.lognormal(0, 1, n)


def _two_modes(numbers: np.random.Generator, n: int) -> Values:
    return np.where(numbers.random(n) < 0.5, 50, 100) * numbers.normal(1, 0.01, n)


def _rare_mode(numbers: np.random.Generator, n: int) -> Values:
    return np.where(numbers.random(n) < 0.15, 50, 100) * numbers.normal(1, 0.01, n)


@pytest.mark.parametrize(
    ("shape", "n"), [(_normal, 20), (_normal, 60), (_skewed, 40), (_two_modes, 20), (_two_modes, 60), (_rare_mode, 40)]
)
def test_at_most_5_of_100_stationary_series_raise_an_alarm(shape: Shape, n: int) -> None:
    numbers = np.random.default_rng(n)
    alarms = sum(len(segments(shape(numbers, n).tolist())) > 1 for _ in range(100))
    assert alarms / 100 <= 0.05


@pytest.mark.parametrize(("n", "after"), [(20, 5), (20, 10), (40, 3), (60, 20)])
def test_a_shift_of_5_percent_in_noise_of_1_is_found_where_it_is(n: int, after: int) -> None:
    numbers, alarms, placed = np.random.default_rng(n), 0, 0
    for _ in range(20):
        series = _normal(numbers, n)
        series[n - after :] *= 0.95
        starts = [segment.first for segment in segments(series.tolist())]
        alarms += len(starts) > 1
        placed += starts == [0, n - after]
    assert alarms / 20 >= 0.9
    assert placed / 20 >= 0.8


def test_a_dip_that_was_mended_is_a_segment_of_its_own() -> None:
    numbers = np.random.default_rng(4)
    series = _normal(numbers, 40)
    series[13:22] *= 0.95
    assert segments(series.tolist()) == (Segment(0, 13), Segment(13, 22), Segment(22, 40))


def test_a_shift_of_every_mode_is_found_by_ranks() -> None:
    numbers = np.random.default_rng(5)
    series = _rare_mode(numbers, 60)
    series[30:] *= 0.95
    assert len(segments(series.tolist())) == 2


def test_single_outliers_are_no_level() -> None:
    series = _normal(np.random.default_rng(6), 30)
    series[[7, 19]] *= 0.5
    assert len(segments(series.tolist())) == 1


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 50, [1.0] * 4 + [2.0] * (FEWEST_VALUES - 5)])
def test_what_cannot_be_told_from_chance_is_one_segment(values: list[float]) -> None:
    assert segments(values) == (Segment(0, len(values)),)


def test_ten_values_suffice_and_the_answer_is_the_same_each_time() -> None:
    values = [10.0, 10.1, 9.9, 10.05, 9.95, 9.0, 9.1, 8.9, 9.05, 8.95]
    assert segments(values) == segments(values) == (Segment(0, 5), Segment(5, 10))
