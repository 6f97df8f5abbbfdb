"""A comparison of pairs covers what it says and raises few false alarms, by simulation on a machine's bad habits."""

import random
from collections.abc import Callable
from statistics import fmean

import pytest

from pinchpoint.model.measurement import fewest_for_interval
from pinchpoint.stats.paired import PairedDifference, compare_over_builds, compare_pairs

Pairs = tuple[list[float], list[float]]
Numbers = random.Random


def _normal(numbers: Numbers, n: int) -> Pairs:
    return [numbers.gauss(100, 1) for _ in range(n)], [numbers.gauss(100, 1) for _ in range(n)]


def _skewed(numbers: Numbers, n: int) -> Pairs:
    """Most repeats near the best, some far below."""
    a, b = ([100 - numbers.lognormvariate(0, 1) for _ in range(n)] for _ in "AB")
    return a, b


def _drifting(numbers: Numbers, n: int) -> Pairs:
    """A B, B A, ...: 0.5 % less with every measurement, and a random walk beside it."""
    level, series = 100.0, []
    for _ in range(2 * n):
        level *= 0.995 * numbers.lognormvariate(0, 0.003)
        series.append(level * numbers.gauss(1, 0.01))
    firsts, seconds = series[::2], series[1::2]
    a = [(one, two)[i % 2] for i, (one, two) in enumerate(zip(firsts, seconds, strict=True))]
    b = [(two, one)[i % 2] for i, (one, two) in enumerate(zip(firsts, seconds, strict=True))]
    return a, b


def _mode_of_each_pair(numbers: Numbers, n: int) -> Pairs:
    levels = [numbers.choice((50.0, 100.0)) for _ in range(n)]
    a, b = ([level * numbers.gauss(1, 0.01) for level in levels] for _ in "AB")
    return a, b


def _mode_of_each_run(numbers: Numbers, n: int) -> Pairs:
    a, b = ([numbers.choice((50.0, 100.0)) * numbers.gauss(1, 0.01) for _ in range(n)] for _ in "AB")
    return a, b


def _contaminated(numbers: Numbers, n: int) -> Pairs:
    a, b = ([100 * numbers.gauss(1, 0.01) * (0.6 if numbers.random() < 0.1 else 1) for _ in range(n)] for _ in "AB")
    return a, b


SERIES = [_normal, _skewed, _drifting, _mode_of_each_pair, _mode_of_each_run, _contaminated]
RUNS = 1200
MARGIN = 0.013  # two standard errors of a share of 5 % over RUNS


@pytest.mark.parametrize("n", [6, 7, 20])
@pytest.mark.parametrize("series", SERIES)
def test_two_equal_series_rarely_differ(series: Callable[[Numbers, int], Pairs], n: int) -> None:
    numbers = random.Random(5)
    alarms = sum(compare_pairs(*series(numbers, n)).differs for _ in range(RUNS))
    assert alarms / RUNS <= 0.05 + MARGIN


@pytest.mark.parametrize("n", [10])
@pytest.mark.parametrize("series", SERIES)
def test_the_interval_covers_the_true_ratio(series: Callable[[Numbers, int], Pairs], n: int) -> None:
    numbers = random.Random(6)
    covered = 0
    for _ in range(RUNS):
        a, b = series(numbers, n)
        difference = compare_pairs(a, [1.07 * value for value in b])
        covered += difference.low <= 1.07 <= difference.high
    assert covered / RUNS >= 0.95 - MARGIN


@pytest.mark.parametrize(("confidence", "n"), [(0.8, 5), (0.9, 8), (0.99, 12)])
def test_other_confidences_are_kept_too(confidence: float, n: int) -> None:
    numbers = random.Random(7)
    alarms = sum(compare_pairs(*_normal(numbers, n), confidence=confidence).differs for _ in range(RUNS))
    assert alarms / RUNS <= 1 - confidence + 0.02


def test_one_percent_is_found_in_ten_pairs_with_noise_of_half_of_it() -> None:
    numbers = random.Random(8)
    alarms = 0
    for _ in range(300):
        a = [numbers.gauss(100, 0.5) for _ in range(10)]
        b = [numbers.gauss(99, 0.5) for _ in range(10)]
        alarms += compare_pairs(a, b).differs
    assert alarms / 300 >= 0.95


def test_the_test_and_its_interval_agree() -> None:
    numbers = random.Random(9)
    for _ in range(500):
        a, b = _normal(numbers, 8)
        difference = compare_pairs(a, [1.012 * value for value in b])
        assert difference.differs == (difference.p_value <= 0.05)
        assert difference.low <= difference.value <= difference.high


def test_the_p_value_is_that_of_the_tables() -> None:
    # Hollander and Wolfe, example 3.1: nine pairs, T+ = 5, two-sided P = 0.039.
    before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
    after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]
    differences = [two - one for one, two in zip(before, after, strict=True)]
    a = [1.0] * 9
    b = [2.718281828459045**difference for difference in differences]
    assert compare_pairs(a, b).p_value == pytest.approx(0.0390625)


def test_equal_series_hide_nothing_and_do_not_differ() -> None:
    difference = compare_pairs([5.0] * 8, [5.0] * 8)
    assert (difference.value, difference.low, difference.high, difference.largest_hidden) == (1, 1, 1, 0)
    assert not difference.differs
    assert difference.p_value == 1


def test_what_could_hide_is_the_far_end_of_the_interval() -> None:
    a, b = [100.0, 100, 100, 100, 100, 100], [103.0, 98, 101, 99, 102, 97]
    difference = compare_pairs(a, b)
    assert difference.low == pytest.approx(0.97)
    assert difference.largest_hidden == pytest.approx(0.03)


def test_too_few_pairs_claim_nothing() -> None:
    difference = compare_pairs([100.0] * 5, [50.0] * 5)
    meaning = "range of 5 pairs; an interval at 95 % needs 6"
    assert difference == PairedDifference(0.5, 0.5, 0.5, None, meaning, p_value=0.0625, n=5)
    assert (difference.differs, difference.largest_hidden) == (False, None)


def test_six_builds_are_compared_with_each_other_and_five_only_over_time() -> None:
    values = [(build, 0.01 * build) for build in range(6) for _ in range(3)]
    of_six, of_five = (compare_over_builds(some, fmean, list) for some in (values, values[:15]))
    assert of_six is not None and of_five is not None
    assert [(made.is_of_builds, made.n) for made in (of_six, of_five)] == [(True, 6), (False, 15)]
    assert compare_over_builds([], fmean, list) is None


def test_how_many_pairs_a_confidence_needs() -> None:
    assert [fewest_for_interval(confidence) for confidence in (0.5, 0.75, 0.9, 0.95, 0.99)] == [2, 3, 5, 6, 8]


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ([1.0], [1.0, 2.0], "1 values of A and 2 of B"),
        ([], [], "0 values of A"),
        ([1.0, 0.0], [1.0, 2.0], "pair 2: 0 of A is not positive"),
        ([1.0], [float("nan")], "pair 1: nan of B"),
    ],
)
def test_what_makes_no_pairs_is_refused(a: list[float], b: list[float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        compare_pairs(a, b)
