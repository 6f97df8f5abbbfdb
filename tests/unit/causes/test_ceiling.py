"""Rates held against the generator's own ceiling."""

from dataclasses import replace

import pytest

from pinchpoint.causes.bounds import held_against, in_mode
from pinchpoint.model.result import Ceiling, Rate, RateStatus
from pinchpoint.model.scenario import SearchMethod

NEAR = Ceiling(10e6, "2026-01-02T03:00:00+00:00", "a key", 30.0, 9.9e6)
FAR = Ceiling(5e6, "2026-01-02T03:00:00+00:00", "a key", 160.0, 5e6)


def rate_of(fps):
    return Rate(0.0, RateStatus.FOUND, 0.99 * fps, 1.01 * fps, 1.0, 0.0, "", fps, 0.95, SearchMethod.THRESHOLD)


@pytest.mark.parametrize(("fps", "status"), [(9.69e6, RateStatus.FOUND), (9.71e6, RateStatus.AT_LEAST)])
def test_a_rate_within_reach_of_the_ceiling_is_at_least(fps, status):
    (rate,) = held_against([rate_of(fps)], NEAR, 9.9e6)
    assert rate.status is status
    if status is RateStatus.AT_LEAST:
        assert rate.quoted_fps == rate.lower_fps == 0.99 * fps
        assert (rate.upper_fps, rate.estimate_fps) == (None, None)
        assert rate.reason.startswith("generator-limited: within 3.00 % of the 10.0 Mpps")


@pytest.mark.parametrize("status", [RateStatus.REFUSED, RateStatus.BELOW_MINIMUM])
def test_what_is_no_rate_stays_as_it_is(status):
    rate = replace(rate_of(7e6), status=status)
    assert held_against([rate], NEAR, None) == (rate,)


def test_a_ceiling_that_the_engine_was_seen_to_surpass_says_nothing():
    assert NEAR.is_surpassed(10.4e6) and not NEAR.is_surpassed(10.2e6) and not NEAR.is_surpassed(None)
    assert held_against([rate_of(9.9e6)], NEAR, 10.4e6) == (rate_of(9.9e6),)
    assert held_against([rate_of(9.9e6)], None, None) == (rate_of(9.9e6),)


def test_each_mode_of_the_cores_has_its_own_ceiling_and_the_newest_counts():
    newer = replace(NEAR, fps=11e6, measured="2026-01-02T04:00:00+00:00")
    assert in_mode([NEAR, FAR, newer], 31.0) == newer
    assert in_mode([NEAR, FAR], 150.0) == FAR
    assert in_mode([NEAR], 150.0) is None
    assert in_mode([FAR], None) == FAR
    assert in_mode([replace(FAR, distance_ns=None)], 30.0) is not None
    assert in_mode([], 30.0) is None
