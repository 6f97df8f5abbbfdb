"""Socket workloads with the real daemons: measured, judged, resumable, and nothing left."""

import json
import signal
import time
from pathlib import Path

import pytest
from bench_tools import run, start, wait_for
from serving_tools import FULL_NAT, served

from pinchpoint.model.trial import TrialValidity
from pinchpoint.store.folder import RunFolder

pytestmark = pytest.mark.tier2("socket workloads")

SCENARIO = """
title = "two hosts"
measure = "{measure}"
numa = "{numa}"
dut = {{ datapath = "af_packet", pmd_cpus = [1], rules = "{rules}" }}
engine = {{ cpus = [0] }}
host = [
  {{ name = "hl", address = "192.168.7.1/24", cpus = {client_cpus} }},
  {{ name = "hr", address = "192.168.7.2/24", cpus = {server_cpus} }},
]
[sockets]
client = "hl"
server = "hr"
connections = {connections}
warm_up_s = 0.2
duration_s = {duration_s}
repeats = {repeats}
timeout_s = 2
{more}
"""


@pytest.fixture
def workload(tmp_path):
    """Writes a scenario of two hosts; returns its path."""

    def write(measure, **changes):
        values = {"numa": "any", "rules": "actions=NORMAL", "client_cpus": [0], "server_cpus": [1], "more": ""}
        values |= {"connections": 1, "duration_s": 0.5, "repeats": 1} | changes
        path = tmp_path / f"{measure}.toml"
        path.write_text(SCENARIO.format(measure=measure, **values))
        return path

    return write


def ran(path, out, environment=None):
    """The only scenario's result, and the run's measurements."""
    done = run("run", path, "--out", out, env=environment)
    assert done.returncode == 0, done.stderr
    (folder,) = Path(out).iterdir()
    (result,) = json.loads((folder / "result.json").read_text())["scenarios"]
    return result, RunFolder.open(folder).read_measurements()


def values(result):
    return {metric["name"]: metric["value"] for metric in result["metrics"]}


@pytest.mark.tier1("measure:bandwidth")
def test_goodput_with_the_switchs_load_and_a_verdict(nothing_left, workload, tmp_path):
    connections = 4
    result, measurements = ran(workload("bandwidth", connections=connections), tmp_path / "runs")
    metrics = values(result)
    assert metrics["goodput"] > 1e6
    assert result["metrics"][0]["name"] == "goodput"
    assert metrics["thread busy"] > 0
    # Every byte crossed the switch, in segments of at most 1,448 bytes.
    window = measurements[-1].account["pairs"][0]["runs"][0]
    own = {metric.name: metric.value for metric in measurements[-1].metrics}
    assert own["packets seen by the datapath"] > window["received_bytes"] / 1448
    assert metrics["datapath flows"] >= 2
    assert metrics["datapath masks"] >= 1
    assert result["verdict"]["evidence"]
    assert len(window["connections"]) == connections


@pytest.mark.parametrize(
    ("measure", "connections"),
    [
        pytest.param("rr", 4, marks=pytest.mark.tier1("measure:rr")),
        pytest.param("crr", 1, marks=pytest.mark.tier1("measure:crr")),
    ],
)
def test_transactions_with_percentiles_and_no_failure(nothing_left, workload, tmp_path, measure, connections):
    result, _ = ran(workload(measure, connections=connections), tmp_path / "runs")
    metrics = values(result)
    assert metrics["transactions"] > 10
    assert metrics["failed share"] == 0
    steps = [metrics[f"latency {name}"] for name in ("p50", "p90", "p99", "p99.9", "p99.99")]
    assert steps == sorted(steps)
    assert steps[0] > 1000, "no round trip through a switch takes less than a microsecond"
    assert {"client busy", "server busy", "CPU 0: busy", "CPU 1: softirq"} <= set(metrics)


def test_several_threads_a_side_run_together(nothing_left, workload, tmp_path):
    path = workload("rr", connections=5, client_cpus=[0, 1], server_cpus=[1, 0], duration_s=1)
    _, measurements = ran(path, tmp_path / "runs")
    last = measurements[-1]
    assert [len(pair["runs"][0]["connections"]) for pair in last.account["pairs"]] == [3, 2]
    assert last.account["together_share"] > 0.5
    total = sum(pair["runs"][0]["transactions_per_s"] for pair in last.account["pairs"])
    assert last.metrics[0].value == pytest.approx(total)


def test_a_planned_rate_that_is_kept_is_the_limit(nothing_left, workload, tmp_path):
    result, _ = ran(workload("rr", more="rate_tps = 200", connections=2, duration_s=3), tmp_path / "runs")
    assert values(result)["transactions"] == pytest.approx(200, rel=0.2)  # a pause of half a second keeps it
    assert result["verdict"]["limit"] == "planned_rate"


def test_rules_that_no_frame_meets_are_called_invisible(nothing_left, workload, tmp_path):
    path = workload("rr")
    series = 'rule_series = [{ rule = "priority=5,ip,nw_dst={ipv4:48.0.0.0},actions=drop", count = 1000 }]'
    path.write_text(path.read_text().replace('rules = "actions=NORMAL"', f'rules = "actions=NORMAL", {series}'))
    result, _ = ran(path, tmp_path / "runs")
    told = " ".join(warning["text"] for warning in result["warnings"])
    assert "1,001 OpenFlow rules, but 2 datapath flows and 1 mask carried" in told


def test_hosts_that_cannot_reach_each_other_are_the_benchs_fault(nothing_left, workload, tmp_path):
    done = run("run", workload("rr", rules="actions=drop"), "--out", tmp_path / "runs")
    assert done.returncode == 4, done.stderr
    assert "hl cannot reach hr" in done.stderr
    assert "ARP" in done.stderr


@pytest.mark.needs("one NUMA node")
def test_one_node_cannot_hold_two_ends_apart_but_holds_them_together(nothing_left, workload, tmp_path):
    done = run("run", workload("rr", numa="different"), "--out", tmp_path / "apart")
    assert done.returncode == 3, done.stderr
    assert "impossible here: this machine has only one NUMA node" in done.stderr
    ran(workload("rr", numa="same"), tmp_path / "runs")
    (info,) = (tmp_path / "runs").glob("*/run.json")
    assert "client on CPU 0, node 0" in json.loads(info.read_text())["versions"]["NUMA placement of rr"]


@pytest.mark.subject(target="test-interrupts")
def test_ctrl_c_ends_a_window_before_its_time_and_resume_makes_only_what_is_missing(nothing_left, workload, tmp_path):
    out = tmp_path / "runs"
    process = start("run", workload("rr", repeats=2, duration_s=3), "--out", out)

    def kept():
        files = list(out.glob("*/measurements.jsonl"))
        return files[0].read_bytes().count(b"\n") if files else 0

    wait_for(lambda: kept() >= 1, "the first window")
    time.sleep(0.8)  # into the second
    before = kept()
    process.send_signal(signal.SIGINT)
    wait_for(lambda: kept() > before or process.poll() is not None, "the stopped window")
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    (folder,) = out.iterdir()
    first = RunFolder.open(folder).read_measurements()
    assert (first[-1].validity, first[-1].reason[:7]) == (TrialValidity.ABORTED, "stopped")
    again = run("run", "--resume", folder)
    assert again.returncode == 0, again.stderr
    measurements = RunFolder.open(folder).read_measurements()
    assert measurements[: len(first)] == first
    assert len({measurement.id for measurement in measurements}) == len(measurements)


OF_SERVICE = "[sockets]\nconnections = 4\nwarm_up_s = 0.2\nduration_s = 0.5\nrepeats = 1\ntimeout_s = 5\n"


@pytest.mark.parametrize("kind", ["nft", "haproxy", "nginx"])
@pytest.mark.parametrize(
    ("measure", "figure", "least"),
    [("bandwidth", "goodput", 1e6), ("rr", "transactions", 10), ("crr", "transactions", 10)],
)
def test_kernel_sockets_are_the_ends_of_a_service(nothing_left, tmp_path, kind, measure, figure, least):
    text = served(kind, f'{FULL_NAT}closes = "backend"', measure=measure, tables=OF_SERVICE, backends=2)
    (path := tmp_path / f"{measure}.toml").write_text(text)
    result, measurements = ran(path, tmp_path / "runs")
    assert values(result)[figure] > least
    assert result["verdict"]["evidence"]
    (pair,) = measurements[-1].account["pairs"]
    assert pair["target"] == "10.0.0.100:80"
    assert pair["runs"][0]["failed"] in (None, 0)


def test_a_service_that_drops_every_connection_is_the_benchs_fault(nothing_left, tmp_path):
    rules = """rules = '''
table ip hole {
  chain prerouting { type filter hook prerouting priority raw; policy accept; tcp dport 80 drop; }
}
'''"""
    text = served(
        "nft", measure="rr", dut=rules, tables=OF_SERVICE.replace("timeout_s = 5", "timeout_s = 1"), backends=2
    )
    (path := tmp_path / "hole.toml").write_text(text)
    done = run("run", path, "--out", tmp_path / "runs")
    assert done.returncode == 4, done.stderr
    assert 'measure = "verify" shows what the service does' in done.stderr
