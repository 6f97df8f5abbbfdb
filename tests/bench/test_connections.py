"""Connections a second and at once through real balancers, with a pool of ports that is planted too small."""

import json

import pytest
from bench_tools import run
from serving_tools import served, serving, standing

from pinchpoint.dut.nft.tracking import TABLE
from pinchpoint.engine.connections import Load
from pinchpoint.measure.served import Opener, ends_of
from pinchpoint.model.trial import TrialValidity
from pinchpoint.scenario import parse

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.tier2("measure:connections")]
PLACES = 80


def ran(folder, measure, closed_s, keys):
    path = folder / "served.toml"
    service = f'local = "10.1.0.240"\nlocal_ports = "2000-2039"\nclosed_s = {closed_s}'
    path.write_text(served("nft", service, measure=measure, tables=f"[{measure}]\n{keys}", backends=2))
    done = run("run", path, "--out", folder / "runs", "--json")
    return done, json.loads(done.stdout)["scenarios"][0] if done.stdout else None


def metrics(scenario):
    return {metric["name"]: metric for metric in scenario["metrics"]}


def loads(folder):
    (path,) = folder.glob("runs/*/measurements.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_pool_of_ports_ends_a_burst_and_what_is_sustained_and_is_confirmed_by_doubling_it(tmp_path):
    keys = "max_cps = 300\ntrial_duration_s = 0.5\nmax_traffic_s = 4\ntimeout_s = 0.5\nconfirm = true\n"
    done, scenario = ran(tmp_path, "connections", 1, keys)
    assert done.returncode == 0, done.stderr
    figures, verdict = metrics(scenario), scenario["verdict"]
    assert figures["predicted sustained rate"]["value"] == PLACES
    assert figures["sustained rate"]["value"] == pytest.approx(PLACES, rel=0.1)
    assert figures["sustained rate, doubled"]["value"] == pytest.approx(2 * PLACES, rel=0.1)
    assert figures["burst rate"]["value"] > 1.5 * figures["sustained rate"]["value"]
    assert verdict["limit"] == "local_ports"
    assert any(line.startswith("confirmed by doubling: local ports") for line in verdict["evidence"])
    assert all(load["account"]["flushed"]["after"] == 0 for load in loads(tmp_path)), "each began with an empty table"
    assert scenario["settings"]["ports of each local address"] == "2000-2039"
    assert scenario["settings"]["net.netfilter.nf_conntrack_tcp_timeout_time_wait"] == "1"


@pytest.mark.tier1("measure:connections")
def test_a_rate_that_is_not_ended_is_at_least_the_highest_that_was_tried(tmp_path):
    keys = "max_cps = 30\ntrial_duration_s = 0.5\nmax_traffic_s = 4\nsustain_within_s = 1\n"
    done, scenario = ran(tmp_path, "connections", 120, keys)
    assert done.returncode == 0, done.stderr
    figures = metrics(scenario)
    assert (figures["burst rate"]["bound"], scenario["verdict"]["limit"]) == ("at_least", "search_maximum")
    assert figures["sustained rate"]["note"].startswith("predicted, not confirmed")


@pytest.mark.tier1("measure:capacity")
def test_capacity_is_every_port_to_every_backend_and_closed_connections_are_forgotten(tmp_path):
    done, scenario = ran(tmp_path, "capacity", 1, "rate_cps = 400\nrelative_width = 0.3\ntimeout_s = 2")
    assert done.returncode == 0, done.stderr
    figures = metrics(scenario)
    assert figures["capacity"]["low"] <= PLACES <= figures["capacity"]["high"]
    assert scenario["verdict"]["limit"] == "local_ports"
    assert 0 < figures["aging time"]["value"] < 20


def test_a_pool_that_is_too_small_for_the_stated_rate_is_reported_before_anything_is_built(tmp_path):
    done, _ = ran(tmp_path, "verify", 120, "rate_cps = 200\nconnections = 300")
    assert done.returncode == 2
    assert "80 places, each held for closed_s = 120; 300 connections at 200 per second need 300" in done.stderr


def test_every_second_syn_is_a_share_that_fails_at_any_rate_and_nothing_is_sustained():
    tables = "[connections]\nmax_cps = 2000\ntrial_duration_s = 0.5\nmax_traffic_s = 4\ntimeout_s = 0.5\n"
    text = served("reference", measure="connections", dut="cpus = [1]\ndrops_syn = 2", tables=tables)
    with serving(parse(text, "synloss.toml")) as (_, run):
        result = run()
    found = {metric.name: metric for metric in result.metrics}
    assert found["fails at any rate"].value == pytest.approx(0.5, abs=0.05)
    assert ", at the SYN: " in result.verdict.headline
    assert not {"burst rate", "sustained rate"} & found.keys()


def a_rule_goes(bench):
    bench.live.run("nft", "flush", "chain", "ip", TABLE, "postrouting")


def a_limit_is_lowered(bench):
    pid = bench.live.processes()[0].rpartition("/")[2]
    bench.host.run(["prlimit", "--pid", pid, "--nofile=8192:8192"])


@pytest.mark.parametrize(
    ("kind", "interferes", "words"),
    [
        ("nft", a_rule_goes, "ruleset: 1 line gone, 0 lines new: meta l4proto tcp"),
        ("haproxy", a_limit_is_lowered, "descriptors: 4,064 places"),
    ],
)
def test_a_load_of_a_device_that_was_interfered_with_is_unusable_and_says_why(kind, interferes, words):
    with standing(parse(served(kind, measure="connections"), "served.toml")) as bench, ends_of(bench) as ends:
        opener, load = Opener(ends, lambda opened: ()), Load(50, 200.0, 1, 2.0)
        before = opener.open("search", load).judged
        interferes(bench)
        after = opener.open("search", load).judged
    assert (before.validity, after.validity) == (TrialValidity.VALID, TrialValidity.CHANGED)
    assert words in after.reason
