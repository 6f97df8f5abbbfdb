"""The balancer of known truth: `verify` finds nothing wrong with an honest one and names what others do wrong."""

import pytest
from serving_tools import FULL_NAT, served, standing

from pinchpoint.engine.connections import Load
from pinchpoint.measure.served import ends_of
from pinchpoint.measure.verify.run import measure_verify
from pinchpoint.model.limits import Resource
from pinchpoint.model.result import Outcome
from pinchpoint.scenario import parse

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.tier2("measure:verify")]
JOINING = 1  # the connection that joins the rings
SERVICE = FULL_NAT + 'local_ports = "1025-2024"\nmax_connections = 1000\nclosed_s = 1'


def reference(dut="", timeout_s=20.0):
    verify = f"[verify]\nconnections = 90\ntimeout_s = {timeout_s}\nhold_s = 0.5\n"
    return standing(parse(served("reference", SERVICE, dut=f"cpus = [1]\n{dut}", tables=verify), "reference.toml"))


def verified(dut, timeout_s=20.0):
    with reference(dut, timeout_s) as bench:
        result = measure_verify(bench)
    return result.outcome, result.reason, {metric.name: metric.value for metric in result.metrics}


@pytest.mark.tier1("measure:verify")
def test_an_honest_balancer_passes_every_check():
    outcome, reason, metrics = verified("toa = true\nrewrites_seq = true\nrate_fps = 100000\nnew_connection_us = 20")
    assert (outcome, reason) == (Outcome.MEASURED, "")
    shares = ("completed", "payload intact", "one backend", "expected source", "source used once", "TOA option")
    assert {metrics[name] for name in (*shares, "forgotten")} == {1.0}


@pytest.mark.parametrize(
    ("dut", "said"),
    [
        ("unfair = [4, 1, 1]", "busiest backend: 60 / 15 / 15, not in turn"),
        ("leaks = true", "forgotten: 90 of 90 remembered 1.5 s after the last one closed"),
        ("breaks_payload = 10", "payload intact: 18 answers not to the request that was sent"),
    ],
    ids=["unfair", "leaking", "breaking"],
)
def test_what_a_balancer_does_wrong_is_named_and_nothing_else(dut, said):
    assert verified(dut)[:2] == (Outcome.WRONG, said)


def test_dropped_syns_are_named_by_where_connections_waited_and_nothing_else_is_wrong():
    said = "completed: 45 of 90, 45 timed out connecting"
    assert verified("drops_syn = 2", timeout_s=2.0)[:2] == (Outcome.WRONG, said)


def test_a_local_port_that_is_given_to_two_open_connections_is_named():
    outcome, reason, metrics = verified("reuses_after = 10", timeout_s=1.0)
    assert outcome is Outcome.WRONG
    assert "source used once: " in reason
    assert metrics["source used once"] < 1.0


def test_its_limits_are_read_back_and_a_flush_empties_its_table():
    with reference() as bench:
        live = bench.live
        with ends_of(bench) as ends:
            loads = [ends.connect(Load(90, 200.0, 1, 20.0)).client for _ in range(2)]
        balancer = live.balancer()
        limits = {limit.resource: (limit.size, limit.held_s) for limit in balancer.limits()}
        balancer.flush()
        left, seen = balancer.tracked(), live.collectors()[0].snapshot().counters
    places = {Resource.TABLE: (1000, 1.0), Resource.LOCAL_PORTS: (3 * 4 * 1000, 1.0)}
    assert limits == {**places, Resource.WORKER: (None, None)}
    assert ([load.completed for load in loads], left) == ([90, 90], 0)
    known = ("expired_opening", "expired_established", "expired_closed", "replaced", "flushed")
    assert (
        seen["reference/connections/created"]
        == JOINING + 180
        == sum(seen[f"reference/connections/{name}"] for name in known)
    )
