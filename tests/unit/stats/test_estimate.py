"""Intervals cover what they promise, checked by simulation on the shapes that repeats have."""

import math
from collections.abc import Callable
from math import comb
from statistics import median

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import stdtrit

from pinchpoint.model.measurement import fewest_for_interval
from pinchpoint.stats.estimate import median_interval, without_extremes

Values = NDArray[np.float64]
Shape = Callable[[np.random.Generator, tuple[int, ...]], Values]
RUNS = 4000


def _normal(numbers: np.random.Generator, shape: tuple[int, ...]) -> Values:
    return numbers.normal(100, 1, shape)


def _skewed(numbers: np.random.Generator, shape: tuple[int, ...]) -> Values:
    return 100 - numbers.lognormal(0, 1, shape)


def _contaminated(numbers: np.random.Generator, shape: tuple[int, ...]) -> Values:
    """Every tenth repeat is disturbed and a tenth lower."""
    return numbers.normal(100, 1, shape) - 10 * (numbers.random(shape) < 0.1)


def _modes(share: float) -> Shape:
    """This share of the repeats meets the slow mode of the machine."""

    def draw(numbers: np.random.Generator, shape: tuple[int, ...]) -> Values:
        return numbers.normal(100, 1, shape) - 50 * (numbers.random(shape) < share)

    return draw


def _zeros(share: float) -> Shape:
    """Losses and times of rare events: this share of them is 0."""

    def draw(numbers: np.random.Generator, shape: tuple[int, ...]) -> Values:
        return numbers.exponential(1, shape) * (numbers.random(shape) >= share)

    return draw


def _counts(numbers: np.random.Generator, shape: tuple[int, ...]) -> Values:
    """Lost frames: few, and many alike."""
    return numbers.poisson(2.0, shape).astype(float)


SHAPES = {
    "normal": _normal,
    "exponential": _zeros(0),
    "skewed": _skewed,
    "contaminated": _contaminated,
    "modes 20:80": _modes(0.2),
    "modes 25:75": _modes(0.25),
    "modes 35:65": _modes(0.35),
    "modes 45:55": _modes(0.45),
}
IN_STEPS = {"half zeros": _zeros(0.52), "mostly zeros": _zeros(0.7), "counts": _counts}


def _coverage(draw: Shape, n: int) -> float:
    """How often the printed interval holds the distribution's median."""
    numbers = np.random.default_rng(n)
    truth = float(np.median(draw(numbers, (400_000,))))
    intervals = (median_interval(values) for values in draw(numbers, (RUNS, n)).tolist())
    return sum(interval.low <= truth <= interval.high for interval in intervals) / RUNS


@pytest.mark.parametrize("n", [6, 7, 8, 9, 10, 12, 15, 20])
@pytest.mark.parametrize("name", SHAPES)
def test_the_interval_covers_the_median_in_95_of_100_runs(name: str, n: int) -> None:
    # Between two modes nothing is known, and it covers more often than it says.
    assert 0.94 <= _coverage(SHAPES[name], n) <= (0.985 if name.startswith("modes") else 0.966)


@pytest.mark.parametrize("n", [6, 7, 9, 10, 15, 20])
@pytest.mark.parametrize("name", IN_STEPS)
def test_of_values_in_steps_it_covers_the_median_at_least_as_often(name: str, n: int) -> None:
    assert _coverage(IN_STEPS[name], n) >= 0.944


@pytest.mark.parametrize(("n", "ranks"), [(6, (1, 6)), (8, (1, 8)), (9, (2, 8)), (20, (6, 15))])
def test_where_two_are_alike_or_one_is_zero_the_ends_are_ranks_of_the_sign_test(n: int, ranks: tuple[int, int]) -> None:
    alike = [float(value) for value in range(1, n + 1)]
    alike[n // 2] = alike[n // 2 - 1]
    with_zero = [float(value) for value in range(n)]
    for values in (alike, with_zero):
        estimate = median_interval(values)
        assert (estimate.low, estimate.high) == (values[ranks[0] - 1], values[ranks[1] - 1])
        tail = sum(comb(n, k) for k in range(ranks[0])) / 2**n
        assert estimate.level == pytest.approx(1 - 2 * tail)


@pytest.mark.parametrize(
    ("n", "words"),
    [
        (1, "a single value"),
        (5, "lowest and highest of 5 runs"),
        (6, "95 %, of the median by ranks over 6 runs"),
    ],
)
def test_an_interval_says_what_it_is(n: int, words: str) -> None:
    assert median_interval([float(value) for value in range(n)], "runs").meaning == words


@pytest.mark.parametrize("n", range(2, fewest_for_interval()))
def test_below_six_nothing_covers_95_and_the_range_is_told(n: int) -> None:
    values = [7.0, 3.0, 5.0, 4.0, 9.0][:n]
    estimate = median_interval(values)
    assert (estimate.value, estimate.low, estimate.high) == (median(values), min(values), max(values))
    assert estimate.level == 1 - 2 ** (1 - n)
    assert _coverage(_normal, n) == pytest.approx(estimate.level, abs=0.015)


def _yuens_coverage(draw: Shape, n: int) -> float:
    """How often Yuen's 95 % interval holds the mean without a fifth at each end."""
    numbers = np.random.default_rng(n)
    truth = np.sort(draw(numbers, (1_000_000,)))[200_000:800_000].mean()
    ranked = np.sort(draw(numbers, (RUNS, n)), axis=1)
    g = n // 5
    h = n - 2 * g
    winsorised = np.clip(ranked, ranked[:, [g]], ranked[:, [n - g - 1]])
    half = stdtrit(h - 1, 0.975) * np.sqrt(winsorised.var(axis=1) * n / (h * (h - 1)))
    return float((abs(ranked[:, g : n - g].mean(axis=1) - truth) <= half).mean())


@pytest.mark.parametrize("n", [7, 10, 20])
def test_yuens_interval_covers_one_mode_but_not_two_and_is_hardly_narrower(n: int) -> None:
    assert _yuens_coverage(_normal, n) == pytest.approx(0.945, abs=0.015)
    assert _yuens_coverage(_modes(0.25), n) < 0.65


def test_one_value_is_its_own_interval() -> None:
    estimate = median_interval([4.0])
    assert (estimate.low, estimate.high, estimate.level) == (4.0, 4.0, 0.0)
    with pytest.raises(ValueError, match="no values"):
        median_interval([])


def test_large_samples_agree_with_the_binomial() -> None:
    estimate = median_interval([float(value) for value in range(1, 101)])
    assert sum(comb(100, k) for k in range(40)) / 2**100 < 0.025 < sum(comb(100, k) for k in range(41)) / 2**100
    assert 40 <= estimate.low <= 41
    assert 60 <= estimate.high <= 61
    assert estimate.low + estimate.high == pytest.approx(101)
    nightly_for_years = median_interval([float(value) for value in range(1, 1201)])
    assert nightly_for_years.low == pytest.approx(600.5 - 1.96 * 1200**0.5 / 2, abs=1)


def test_one_disturbed_repeat_of_nine_moves_neither_the_median_nor_its_interval() -> None:
    values = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8, 100.1, 40.0]
    estimate = median_interval(values)
    assert estimate.value == 100
    assert 99 <= estimate.low < estimate.high <= 101


def test_between_two_modes_the_interval_reaches_over_the_gap() -> None:
    estimate = median_interval([50.0, 51.0, 98.0, 99.0, 100.0, 101.0, 102.0])
    assert estimate.low < 51
    assert median_interval([50.0, 98.0, 99.0, 100.0, 101.0, 102.0, 103.0]).low == 50


@pytest.mark.parametrize("open_ended", [1, 2, 5])
def test_values_that_are_only_known_to_be_larger_leave_the_interval_open(open_ended: int) -> None:
    known = [float(value) for value in range(1, 9 - open_ended)]
    estimate = median_interval([*known, *[math.inf] * open_ended])
    assert estimate.high == math.inf
    assert 1 <= estimate.low < 2
    assert estimate.value == (4.5 if open_ended < 4 else math.inf)


def test_the_published_mean_drops_one_at_each_end_and_needs_five() -> None:
    assert without_extremes([1, 2, 3, 4, 100]) == 3
    assert without_extremes([1, 2, 3, 4]) is None
