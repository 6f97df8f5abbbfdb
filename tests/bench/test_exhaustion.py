"""A resource that is planted too small ends connections a second, and the verdict names it."""

import pytest
from serving_tools import FULL_NAT, served, serving

from pinchpoint.model.result import Limit, Outcome
from pinchpoint.scenario import parse

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.tier2("exhausted resources are named")]
KEYS = """[connections]
max_cps = {max_cps}
trial_duration_s = 0.5
max_traffic_s = 4
timeout_s = 0.5
sustain_within_s = 0
steady_s = 0
{more}
"""
STAYING = 'work = "request:60,abandon:40"'  # clients that say nothing keep their places
PLANTED = [
    ("haproxy", "backlog = 1", FULL_NAT, 20_000, "", Limit.ACCEPT_QUEUE),
    ("nginx", "", f"{FULL_NAT}max_connections = 30", 400, "hold_s = 0.4", Limit.TABLE),
    ("haproxy", "descriptors = 256", FULL_NAT, 2000, STAYING, Limit.DESCRIPTORS),
    ("reference", "cpus = [1]", f"{FULL_NAT}max_connections = 40\nclosed_s = 1", 400, "", Limit.TABLE),
    ("nginx", "descriptors = 256", FULL_NAT, 2000, STAYING, Limit.DESCRIPTORS),
]
ESSENTIAL = 3
ELSEWHERE = [pytest.mark.subject(target="test-causes")]


@pytest.mark.parametrize(
    ("kind", "dut", "service", "max_cps", "more", "limit"),
    [
        pytest.param(*plant, id=f"{plant[0]} {plant[-1]}", marks=ELSEWHERE if number >= ESSENTIAL else [])
        for number, plant in enumerate(PLANTED)
    ],
)
def test_what_is_too_small_is_named(kind, dut, service, max_cps, more, limit):
    tables = KEYS.format(max_cps=max_cps, more=more)
    with serving(parse(served(kind, service, measure="connections", dut=dut, tables=tables), "small.toml")) as (_, run):
        named = run()
    assert named.verdict.limit is limit, named.verdict


def test_a_backend_that_is_too_slow_is_named_by_the_answers_that_are_missing():
    dut = "cpus = [1]\nslow_backend = 1\nslow_ms = 1500"
    tables = "[verify]\nconnections = 30\ntimeout_s = 1.0\n"
    with serving(parse(served("reference", dut=dut, tables=tables), "slow.toml")) as (_, run):
        named = run()
    assert named.outcome is Outcome.WRONG
    assert "completed: 20 of 30, " in named.reason
    assert "busiest backend: 10 / 0 / 10, not in turn" in named.reason
