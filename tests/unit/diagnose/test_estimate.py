"""Intervals cover what they promise, checked by simulation and against published tables."""

import random
from collections.abc import Callable, Sequence

import pytest

from pinchpoint.diagnose.estimate import (
    Interval,
    student_t,
    student_t_cdf,
    t_interval,
    trimmed_t_interval,
    without_extremes,
)


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.7062047), (2, 4.3026527), (3, 3.1824463), (4, 2.7764451), (6, 2.4469119), (9, 2.2621572), (30, 2.0422725)],
)
def test_quantiles_are_those_of_the_tables(freedom: int, quantile: float) -> None:
    assert student_t(0.95, freedom) == pytest.approx(quantile, rel=1e-7)


def test_the_distribution_is_symmetric_and_rises() -> None:
    for freedom in range(1, 12):
        assert student_t_cdf(0.0, freedom) == pytest.approx(0.5)
        assert student_t_cdf(-1.5, freedom) == pytest.approx(1 - student_t_cdf(1.5, freedom))
        assert student_t_cdf(1.0, freedom) < student_t_cdf(1.1, freedom)


def _coverage(method: Callable[[Sequence[float]], Interval], n: int, runs: int = 4000) -> float:
    numbers = random.Random(20260102)
    covered = 0
    for _ in range(runs):
        found = method([numbers.gauss(100.0, 4.0) for _ in range(n)])
        covered += found.low <= 100.0 <= found.high
    return covered / runs


@pytest.mark.parametrize("n", [3, 4, 5, 6])
def test_students_interval_covers_the_truth_in_95_of_100_runs(n: int) -> None:
    assert _coverage(t_interval, n) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("n", [7, 9, 10, 15])
def test_the_trimmed_interval_covers_the_truth_in_95_of_100_runs(n: int) -> None:
    assert _coverage(trimmed_t_interval, n) == pytest.approx(0.95, abs=0.02)


def test_one_disturbed_repeat_moves_the_mean_but_not_the_trimmed_mean() -> None:
    values = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 40.0]
    assert t_interval(values).centre < 92
    assert 99 < trimmed_t_interval(values).centre < 101
    assert trimmed_t_interval(values).low > 98


def test_the_published_mean_drops_one_at_each_end_and_needs_five() -> None:
    assert without_extremes([1, 2, 3, 4, 100]) == 3
    assert without_extremes([1, 2, 3, 4]) is None
