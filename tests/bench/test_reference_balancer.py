"""The balancer of known truth: `verify` finds nothing wrong with an honest one and names what others do wrong."""

import time
from contextlib import closing, contextmanager

import pytest

from pinchpoint.dut.setup import prepare
from pinchpoint.engine.connections import Dpdk, Load, command, connect
from pinchpoint.engine.process import find_engine
from pinchpoint.host.local import LOCAL
from pinchpoint.measure.listener import Listener
from pinchpoint.measure.standing import Record, Standing
from pinchpoint.measure.verify.run import measure_verify
from pinchpoint.model.limits import Resource
from pinchpoint.model.result import Outcome
from pinchpoint.run.bench import standing_bench
from pinchpoint.scenario import parse

pytestmark = pytest.mark.usefixtures("nothing_left")
SCENARIO = """
measure = "verify"
[dut]
kind = "reference"
cpus = [1]
{dut}
[service]
address = "10.0.0.100"
port = 80
clients = "10.0.1.1-10.0.1.50"
local = "10.1.0.240-10.1.0.243"
local_ports = "1025-2024"
max_connections = 1000
closed_s = 1
[[backend]]
address = "10.1.0.1"
port = 8080
[[backend]]
address = "10.1.0.2"
port = 8080
[[backend]]
address = "10.1.0.3"
port = 8081
[[port]]
name = "clients"
[[port]]
name = "servers"
[engine]
cpus = [0]
[verify]
connections = 90
timeout_s = {timeout_s}
hold_s = 0.5
"""


@contextmanager
def standing(dut="", timeout_s=20.0):
    setup = prepare(parse(SCENARIO.format(dut=dut, timeout_s=timeout_s), "reference.toml"))
    record = Record(lambda _: None, lambda _: None, lambda *_: None, lambda _: None, lambda *_: None, None)
    with standing_bench(setup, Listener()), closing(setup.bench.open()) as live:
        yield Standing(setup, live, [find_engine()], record, Listener(), time.monotonic())


def verified(dut, timeout_s=20.0):
    with standing(dut, timeout_s) as bench:
        found = measure_verify(bench)
    return found.outcome, found.reason, {one.name: one.value for one in found.metrics}


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


def test_a_local_port_that_is_given_to_two_open_connections_is_named():
    outcome, reason, metrics = verified("reuses_after = 10", timeout_s=1.0)
    assert outcome is Outcome.WRONG
    assert "source used once: " in reason
    assert metrics["source used once"] < 1.0


def test_its_limits_are_read_back_and_a_flush_empties_its_table():
    with standing() as bench:
        setup, live, load = bench.setup, bench.live, Load(90, 200.0, 1, 20.0)
        ends = [setup.bench.attachment(number, port).word for number, port in enumerate(bench.scenario.ports)]
        dpdk = Dpdk(setup.engine.eal_args, 1024)
        argv = command(bench.engine, 0, ends, bench.scenario.service, load, dpdk)
        told = connect(LOCAL, argv, setup.places.environment, load).client
        balancer = live.balancer()
        limits = {one.resource: (one.size, one.held_s) for one in balancer.limits()}
        balancer.flush()
        left, seen = balancer.tracked(), live.collectors()[0].snapshot().counters
    places = {Resource.TABLE: (1000, 1.0), Resource.LOCAL_PORTS: (3 * 4 * 1000, 1.0)}
    assert limits == {**places, Resource.WORKER: (None, None)}
    assert (told.completed, left) == (90, 0)
    known = ("expired_opening", "expired_established", "expired_closed", "replaced", "flushed")
    assert seen["reference/connections/created"] == 90 == sum(seen[f"reference/connections/{name}"] for name in known)
