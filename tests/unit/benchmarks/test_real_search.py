"""How answers of the real search benchmark are compared."""

from dataclasses import replace

import pytest
from real_search import ALONE, ENGINE_BUSY, SWITCH_BUSY, Found, _range, rows, standing, wrong

from pinchpoint.model.result import Band, Rate, RateStatus

FOUND = RateStatus.FOUND
QUIET = Found(
    1, "threshold", ALONE, FOUND, (4.9e6, 5e6, 5.1e6), (5e6, 5.1e6, 5.2e6), False, "", 10.0, 12.0, 0.1
)  # fmt: skip
HOGGED = replace(QUIET, hog=ENGINE_BUSY, discarded=0.8)
LOWER = replace(HOGGED, ndr=(4.0e6, 4.1e6, 4.2e6))
REFUSED = replace(HOGGED, ndr=None, pdr=None, status=RateStatus.REFUSED)


@pytest.mark.parametrize(
    ("one", "word"),
    [
        (HOGGED, "within"),
        (replace(HOGGED, ndr=(4.0e6, 4.5e6, 4.9e6)), "within"),
        (LOWER, "lower"),
        (replace(LOWER, held_back=True), "lower, reported"),
        (replace(HOGGED, ndr=(5.2e6, 5.3e6, 5.4e6)), "higher"),
        (REFUSED, "refused"),
        (replace(REFUSED, status=RateStatus.AT_LEAST), "at least"),
        (replace(LOWER, method="mlrsearch"), "nothing to compare with"),
    ],
)
def test_an_answer_is_compared_with_the_same_search_on_the_host_left_alone(one, word):
    assert standing(one, [QUIET, replace(QUIET, ndr=None)]) == word


def test_a_lower_rate_is_wrong_beside_a_busy_engine_only_and_only_without_a_warning():
    reported, of_the_switch = replace(LOWER, held_back=True), replace(LOWER, hog=SWITCH_BUSY)
    assert wrong([QUIET, HOGGED, LOWER, reported, of_the_switch, REFUSED]) == [LOWER]


def test_a_range_is_the_band_or_the_interval_of_a_method_that_knows_no_time():
    rate = Rate(0.0, FOUND, 4.9e6, 5.1e6, 0.2, 0.2, "", estimate_fps=5e6)
    assert _range(rate) == (4.9e6, 5e6, 5.1e6)
    assert _range(replace(rate, band=Band(3e6, 6e6))) == (3e6, 5e6, 6e6)
    assert _range(replace(rate, status=RateStatus.AT_LEAST)) is None


def test_a_row_has_medians_numbers_and_costs():
    again = replace(QUIET, round=2, ndr=(5.0e6, 5.2e6, 5.3e6), discarded=0.3)
    refused = replace(REFUSED, round=3, hog=ALONE)
    (quiet, hogged) = rows([QUIET, again, refused, LOWER])
    assert (quiet["searches"], quiet["numbers"]) == (3, 2)
    assert quiet["ndr"] == {"median_fps": 5.1e6, "spread": pytest.approx(0.2 / 5.1)}
    assert quiet["stands"] == {"within": 2, "refused": 1}
    assert hogged["stands"] == {"lower": 1}
