"""How answers of the real search benchmark are compared."""

from dataclasses import replace

import pytest
from real_search import Found, rows, standing

QUIET = Found(1, "threshold", "nothing", 30.0, (4.9e6, 5e6, 5.1e6), (5e6, 5.1e6, 5.2e6), False, "", 10.0, 12.0, 0.1, ())
HOGGED = replace(QUIET, hog="engine's core", set_aside=0.8)
LOWER = replace(HOGGED, ndr=(4.0e6, 4.1e6, 4.2e6))


@pytest.mark.parametrize(
    ("one", "word"),
    [
        (HOGGED, "within"),
        (replace(HOGGED, ndr=(4.0e6, 4.5e6, 4.9e6)), "within"),
        (LOWER, "lower"),
        (replace(LOWER, warnings=("the rates may be too low by as much",)), "lower, told"),
        (replace(HOGGED, ndr=(5.2e6, 5.3e6, 5.4e6)), "higher"),
        (replace(HOGGED, ndr=None), "refused"),
        (replace(LOWER, distance_ns=160.0), "nothing to compare with"),
        (replace(LOWER, method="mlrsearch"), "nothing to compare with"),
    ],
)
def test_an_answer_is_compared_with_the_same_search_at_the_same_distance(one, word):
    assert standing(one, [QUIET, replace(QUIET, ndr=None)]) == word


def test_a_row_tells_medians_by_distance_refusals_and_costs():
    again = replace(QUIET, round=2, ndr=(5.0e6, 5.2e6, 5.3e6), set_aside=0.3)
    far = replace(QUIET, round=3, distance_ns=160.0, ndr=(2e6, 2.1e6, 2.2e6))
    refused = replace(QUIET, round=4, ndr=None, pdr=None)
    (quiet, hogged) = rows([QUIET, again, far, refused, LOWER])
    assert (quiet["searches"], quiet["refused"]) == (4, 1)
    near, other = quiet["ndr"]
    assert (near["n"], near["median_fps"], near["spread"]) == (2, 5.1e6, pytest.approx(0.2 / 5.1))
    assert (other["n"], other["distance_ns"]) == (1, 160.0)
    assert quiet["stands"] == {"within": 2, "nothing to compare with": 1, "refused": 1}
    assert hogged["stands"] == {"lower": 1}
