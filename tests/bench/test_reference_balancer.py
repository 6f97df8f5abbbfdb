"""The balancer of known truth: `verify` finds nothing wrong with an honest one and names what others do wrong."""

import json
from contextlib import closing

import pytest
from bench_tools import run

from pinchpoint.dut.setup import prepare
from pinchpoint.engine.connections import Dpdk, Load, command, connect
from pinchpoint.engine.process import find_engine
from pinchpoint.host.local import LOCAL
from pinchpoint.measure.listener import Listener
from pinchpoint.model.limits import Resource
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
hold_s = 1.0
"""


def verified(folder, dut, timeout_s=20.0):
    path = folder / "verify.toml"
    path.write_text(SCENARIO.format(dut=dut, timeout_s=timeout_s))
    done = run("run", path, "--out", folder / "runs", "--json")
    return done, {one["name"]: one["value"] for one in json.loads(done.stdout)["scenarios"][0]["metrics"]}


def test_an_honest_balancer_passes_every_check(tmp_path):
    done, metrics = verified(tmp_path, "toa = true\nrewrites_seq = true\nrate_fps = 100000\nnew_connection_us = 20")
    assert done.returncode == 0, done.stderr
    for name in ("completed", "payload intact", "one backend", "expected source", "source used once", "TOA option"):
        assert metrics[name] == 1.0, name
    assert metrics["forgotten"] == 1.0
    assert metrics["answer p50"] < 1e9  # the hold is no part of it


@pytest.mark.parametrize(
    ("dut", "said"),
    [
        ("unfair = [4, 1, 1]", "busiest backend: 60 / 15 / 15, not in turn"),
        ("leaks = true", "forgotten: 90 of 90 remembered 1.5 s after the last one closed"),
        ("breaks_payload = 10", "payload intact: 18 answers not to the request that was sent"),
    ],
    ids=["unfair", "leaking", "breaking"],
)
def test_what_a_balancer_does_wrong_is_named_and_nothing_else(tmp_path, dut, said):
    done, _ = verified(tmp_path, dut)
    assert done.returncode == 1
    assert f"the service is wrong: {said}\n" in done.stderr + "\n"


def test_a_local_port_that_is_given_to_two_open_connections_is_named(tmp_path):
    done, metrics = verified(tmp_path, "reuses_after = 10", timeout_s=2.0)
    assert done.returncode == 1
    assert "source used once" in done.stderr
    assert metrics["source used once"] < 1.0


def test_its_limits_are_read_back_and_a_flush_empties_its_table():
    wanted = parse(SCENARIO.format(dut="", timeout_s=20.0), "reference.toml")
    setup = prepare(wanted)
    service, load = wanted.service, Load(90, 200.0, 1, 20.0)
    with standing_bench(setup, Listener()), closing(setup.bench.open()) as live:
        ends = [setup.bench.attachment(number, port).word for number, port in enumerate(wanted.ports)]
        dpdk = Dpdk(setup.engine.eal_args, 1024)
        told = connect(
            LOCAL, command([find_engine()], 0, ends, service, load, dpdk), setup.places.environment, load
        ).client
        balancer = live.balancer()
        limits = {one.resource: (one.size, one.held_s) for one in balancer.limits()}
        balancer.flush()
        left, seen = balancer.tracked(), live.collectors()[0].snapshot().counters
    assert limits == {Resource.TABLE: (1000, 1.0), Resource.LOCAL_PORTS: (3 * 4 * 1000, 1.0)}
    assert (told.completed, left) == (90, 0)
    known = ("expired_opening", "expired_established", "expired_closed", "replaced", "flushed")
    assert seen["reference/connections/created"] == 90 == sum(seen[f"reference/connections/{name}"] for name in known)
