"""Benches that span hosts: generator, switch and sink each on a machine of its own, joined by cables.

Each machine has interfaces, processes and a /run of its own; the cables are veth pairs that no bench makes.
"""

import json
import os
import signal

import pytest
from bench_tools import run, start, trials_in, wait_for
from spanning_tools import BRIDGE, spanning
from ssh_tools import cable

pytestmark = pytest.mark.tier2("benches that span hosts")
ONLY_HOSTS = pytest.mark.subject(target="test-hosts")

DROPPING = """table ip state {
    counter drop_two {}
    chain passing {
        type filter hook forward priority filter; policy accept;
        udp dport 2 counter name drop_two drop
    }
}"""
BACK = """[[stream]]
from = "right"
to = "left"
eth_dst = "02:00:00:00:00:07"
ipv4_dst = "198.20.0.1"
"""
A_QUARTER = """table ip state {
    counter drop_a_quarter {}
    chain passing {
        type filter hook forward priority filter; policy accept;
        iifname {right} numgen inc mod 4 == 0 counter name drop_a_quarter drop
    }
}"""
KINDS = {
    "bridge": BRIDGE,
    "nft": f'''kind = "nft"\ncpus = [1]\nrules = """\n{DROPPING}\n"""''',
    "nft from the right": f'''kind = "nft"\ncpus = [1]\nrules = """\n{A_QUARTER}\n"""''',
    **{
        f"ovs {datapath}": f'kind = "ovs"\ndatapath = "{datapath}"\npmd_cpus = [1]\n'
        'rules = "in_port={left},actions=output:{right}"'
        for datapath in ("af_packet", "af_xdp")
    },
}


def trials_of(out):
    (file,) = out.glob("*/trials.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def assert_closes(ledger):
    dropped = sum(drop["frames"] for hop in ledger["hops"] for drop in hop["drops"])
    assert ledger["offered"] == ledger["received"] + dropped, ledger


@pytest.fixture
def scenario(tmp_path):
    def write(trial_s=0.2, traffic_s=8, dut=BRIDGE):
        path = tmp_path / "span.toml"
        path.write_text(spanning(trial_s, traffic_s, dut))
        return path

    return write


@pytest.mark.usefixtures("nothing_left")
def test_a_rate_is_found_over_three_hosts_behind_slow_control_links(hosts, scenario, tmp_path):
    for machine in hosts.all:
        machine.delay(0.005)
    done = run("run", scenario(), "--json", "--out", tmp_path / "runs", env=hosts.environment)
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["scenarios"]
    assert result["rates"][0]["lower_fps"] >= 1000, result
    latency = result["latency"][0]["latency"]
    assert latency["clock_error_ns"] == 50_000, "the machines' one clock, as far as the lab knows"
    assert 0 < latency["p50_ns"] < 1e9
    trials = trials_of(tmp_path / "runs")
    judged = [trial for trial in trials if trial["validity"] == "valid"]
    assert judged
    for trial in judged:
        assert_closes(trial["ledger"])
        assert trial["streams"][0]["jitter"]["count"] > 0
        assert {worker["host"] for worker in trial["witness"]["workers"]} == {"gen", "sink"}
    (info,) = (tmp_path / "runs").glob("*/run.json")
    assert {"host gen", "host dut", "host sink"} <= json.loads(info.read_text())["versions"].keys()


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(
    "kind", ["nft", *(pytest.param(kind, marks=ONLY_HOSTS) for kind in ("ovs af_packet", "ovs af_xdp"))]
)
def test_what_forwards_between_kernel_interfaces_does_so_between_cables(hosts, scenario, tmp_path, kind):
    path = scenario(dut=KINDS[kind])
    if kind == "ovs af_packet":
        path.write_text(path.read_text().replace("clock_error_us = 50\n", ""))
    done = run("run", path, "--json", "--out", tmp_path / "runs", env=hosts.environment)
    assert done.returncode == 0, done.stderr
    valid = [trial for trial in trials_of(tmp_path / "runs") if trial["validity"] == "valid"]
    judged = [trial for trial in valid if trial["phase"] != "round trip"]  # which these rules drop on the way back
    assert judged
    for trial in judged:
        assert trial["ledger"]["received"] > 0, trial["ledger"]
        assert_closes(trial["ledger"])
    if kind == "ovs af_packet":
        (result,) = json.loads(done.stdout)["scenarios"]
        point = result["latency"][0]
        assert (point["latency"], point["round_trip"]) == (None, None)
        assert "nothing came back: the device must forward both ways" in point["note"], "its rules forward one way"


@pytest.mark.subject(target="test-hosts")
@pytest.mark.usefixtures("nothing_left")
def test_without_a_common_clock_the_sender_times_the_way_there_and_back(hosts, scenario, tmp_path):
    path = scenario(traffic_s=3)
    path.write_text(path.read_text().replace("clock_error_us = 50\n", ""))
    done = run("run", path, "--json", "--out", tmp_path / "runs", env=hosts.environment)
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["scenarios"]
    point = result["latency"][0]
    assert point["latency"] is None, "one way is unknown"
    assert 0 < point["round_trip"]["p50_ns"] < 1e9
    assert any(metric["name"].startswith("round trip p99 at") for metric in result["metrics"])
    (trial,) = (trial for trial in trials_of(tmp_path / "runs") if trial["id"] == point["trial_id"])
    (stream,) = trial["streams"]
    assert (stream["tx_port"], stream["rx_port"], stream["latency"], stream["jitter"]) == ("left", "right", None, None)
    assert stream["received"] == stream["sent"] > 0
    assert_closes(trial["ledger"])


@pytest.mark.subject(target="test-hosts")
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("kind", ["bridge", "nft from the right"])
def test_streams_between_two_engines_go_both_ways_and_each_has_its_own_losses(hosts, scenario, tmp_path, kind):
    path = scenario(traffic_s=8 if kind == "bridge" else 3, dut=KINDS[kind])
    path.write_text(path.read_text().replace("[search]", f"{BACK}[search]"))
    done = run("run", path, "--json", "--out", tmp_path / "runs", env=hosts.environment)
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["scenarios"]
    judged = [trial for trial in trials_of(tmp_path / "runs") if trial["validity"] == "valid"]
    assert judged
    for trial in judged:
        assert_closes(trial["ledger"])
    (forth, back), (lost_forth, lost_back) = (
        [sum(trial["streams"][way][key] for trial in judged) for way in (0, 1)] for key in ("sent", "lost")
    )
    if kind == "bridge":
        assert min(forth, back) > 0
        assert result["rates"][0]["lower_fps"] >= 1000, result
    else:
        assert lost_back >= back // 4 - 3 * len(judged)
        assert lost_forth < forth / 8, "what is dropped from right to left is of that stream alone"


@pytest.mark.subject(target="test-hosts")
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("which", ["gen", "sink"])
def test_a_run_goes_on_after_one_connection_was_killed_with_the_trials_that_had_ended(hosts, scenario, tmp_path, which):
    lab = start("run", scenario(1), "--out", tmp_path / "runs", env=hosts.environment)
    wait_for(lambda: trials_in(tmp_path / "runs"), "a trial")
    first = trials_of(tmp_path / "runs")[0]
    for pid in getattr(hosts, which).connections():
        os.kill(pid, signal.SIGKILL)
    said = lab.communicate(timeout=120)
    assert lab.returncode == 0, said
    assert trials_of(tmp_path / "runs")[0] == first


@pytest.mark.subject(target="test-hosts")
@pytest.mark.usefixtures("nothing_left")
def test_clean_gives_each_host_its_interfaces_back_after_lab_and_agents_were_killed(hosts, scenario, tmp_path):
    lab = start("run", scenario(5, 300), "--out", tmp_path / "runs", env=hosts.environment)
    wait_for(lambda: trials_in(tmp_path / "runs"), "a trial")
    other = run("run", scenario(5, 300), "--out", tmp_path / "runs", env=hosts.environment)
    assert other.returncode == 3, other.stderr
    assert f"process {lab.pid} on {os.uname().nodename}" in other.stderr, "who holds the hosts"
    for pid in (*(pid for machine in hosts.all for pid in machine.agents()), lab.pid):
        os.kill(pid, signal.SIGKILL)
    lab.wait()
    assert all(hosts.holds())
    for name in ("gen", "dut", "sink"):
        done = run("clean", "--host", name, env=hosts.environment)
        assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("nothing_left")
def test_an_interface_that_others_depend_on_is_refused_by_name_before_anything_is_built(hosts, scenario, tmp_path):
    path, plan = scenario(), ("--dry-run", "--out", tmp_path / "runs")
    done = run("run", path, *plan, env=hosts.environment)
    assert "on gen: engine towards left" in done.stdout, done.stdout + done.stderr
    assert "on dut: device" in done.stdout
    hosts.gen.run("ip", "route", "add", "default", "via", "192.0.2.2")
    done = run("run", path, *plan, env=hosts.environment)
    assert "eth9 on gen carries the default route" in done.stdout + done.stderr
    text = path.read_text().replace('engine_interface = "eth9"', 'engine_interface = "pp-far1"', 1)
    path.write_text(text)
    done = run("run", path, *plan, env=hosts.environment)
    assert "pp-far1 on gen carries an ssh connection with 10.97.1.1" in done.stdout + done.stderr
    hosts.gen.run("ip", "route", "del", "default")


RECOVERING = """
measure = "recovery"
runs_on = "dut"
host.dut = { lease_s = 15 }
host.gen = { lease_s = 15 }
dut = { kind = "bridge", cpus = [1] }
engine = { runs_on = "gen", cpus = [0] }
port = [
  { name = "left", interface = "to-gen", engine_interface = "eth9" },
  { name = "right", interface = "cable8", engine_interface = "eth8" },
]
stream = [{ from = "left", to = "right" }]
recovery = { throughput_fps = 2000, overload_s = 0.3, reduced_s = 0.3, repeats = 1 }
search = { min_load_fps = 1000, max_load_fps = 4000, drain_s = 0.3, max_repeats = 50 }
validity = { gap_shortfall_ratio = 0.9 }
"""


@pytest.mark.usefixtures("nothing_left")
def test_an_engine_elsewhere_that_has_both_ends_sees_within_a_trial_when_frames_are_lost(hosts, tmp_path):
    cable(hosts.gen, "eth8", hosts.dut, "cable8")
    path = tmp_path / "recovery.toml"
    path.write_text(RECOVERING)
    done = run("run", path, "--json", "--out", tmp_path / "runs", env=hosts.environment)
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["scenarios"]
    assert "recovery time" in {metric["name"] for metric in result["metrics"]}, result
    last = trials_of(tmp_path / "runs")[-1]
    assert last["samples"]
    assert all(sample["received"] is not None for sample in last["samples"])
    assert {worker["host"] for worker in last["witness"]["workers"]} == {"gen"}
