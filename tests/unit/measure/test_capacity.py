"""The measure `capacity` over a balancer of known truth, and what flushes say."""

from dataclasses import replace

import pytest
from balancers import Balancer, Opener, bench
from support import TWO_PORTS as SCENARIO

from pinchpoint.measure.capacity.run import Aging, Capacity, _Measured, metrics
from pinchpoint.measure.served import Flush
from pinchpoint.model.measurement import Bound
from pinchpoint.model.result import Limit, Outcome
from pinchpoint.search.burst import Bounds

ASKS = Capacity(
    start=None,
    most=10_000,
    rate_cps=1000.0,
    failure_ratio=0.0,
    relative_width=0.01,
    settle_s=0.5,
    timeout_s=1.0,
    aging_within_s=60.0,
)


def measured(balancer, ceiling_cps=1e9, **changes):
    return _Measured(bench(SCENARIO, replace(ASKS, **changes)), Opener(balancer, ceiling_cps)).result()


def figures(result):
    return {metric.name: metric for metric in result.metrics}


@pytest.mark.parametrize("start", [None, 1, 5000])
def test_the_capacity_is_what_is_held_at_once_wherever_the_search_starts(start):
    result = measured(Balancer(places=300), start=start)
    capacity = figures(result)["capacity"]
    assert capacity.value <= 300 <= capacity.high
    assert capacity.high - capacity.value <= 0.01 * 300
    assert result.verdict.limit is Limit.LOCAL_PORTS


def test_a_capacity_beyond_the_most_that_is_tried_is_at_least_that():
    result = measured(Balancer(places=100_000), most=2000)
    assert figures(result)["capacity"].bound is Bound.AT_LEAST
    assert (figures(result)["capacity"].value, result.verdict.limit) == (2000, Limit.SEARCH_MAXIMUM)


def test_a_generator_that_cannot_open_them_is_the_limit():
    result = measured(Balancer(places=300), ceiling_cps=100.0)
    assert (result.outcome, result.verdict.limit) == (Outcome.FAILED, Limit.GENERATOR)
    assert "were not opened in time" in result.reason


def test_a_device_that_holds_none_fails():
    result = measured(Balancer(places=0))
    assert result.outcome is Outcome.FAILED
    assert result.reason.startswith("even 1 connections at once failed")


def test_aging_that_takes_too_long_is_left_out_with_the_reason():
    result = measured(Balancer(places=300, held_s=120.0))
    assert "aging time" not in figures(result)
    assert "remembered for 120 s" in result.warnings[0].text


def told(flushes):
    bounds, aging = Bounds(100, 101), Aging(None, None, "not asked")
    return {metric.name: metric for metric in metrics(bounds, (), flushes, aging)}


def test_the_tear_down_rate_leaves_out_what_an_empty_table_takes():
    by_name = told([Flush(0, 0, 0.1), Flush(20_000, 0, 0.5), Flush(100, 0, 0.1)])
    assert by_name["tear-down rate"].value == pytest.approx(50_000)


@pytest.mark.parametrize("flush", [Flush(20_000, 0, 0.15), Flush(500, 0, 0.5)])
def test_a_flush_that_shows_nothing_of_its_entries_is_at_least(flush):
    metric = told([Flush(0, 0, 0.1), flush])["tear-down rate"]
    assert metric.bound is Bound.AT_LEAST
    assert metric.value == pytest.approx(flush.before / flush.took_s)


def test_a_device_that_does_not_say_what_it_remembers_has_no_tear_down_rate():
    assert "tear-down rate" not in told([Flush(None, None, 0.1)])
