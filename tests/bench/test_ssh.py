"""Benches on another machine, by ssh: measured over a slow link, undone there without the lab, resumed after a cut.

The other machine has interfaces, processes and a /run of its own, and shares this one's files and hugepages.
"""

import json
import os
import signal
import subprocess
import time

import pytest
from bench_tools import run, start, trials_in, wait_for
from ssh_tools import far_machine

pytestmark = pytest.mark.tier2("host:ssh")

LEASE_S = 15
SHORT_LEASE_S = 5
SCENARIO = """
runs_on = "far"
[host.far]
lease_s = {lease_s}
[dut]
kind = "bridge"
cpus = [1]
[[port]]
name = "left"
[[port]]
name = "right"
[engine]
cpus = [0]
[[stream]]
from = "left"
to = "right"
[search]
min_load_fps = 1000
max_load_fps = 5000
trial_duration_s = {trial_s}
initial_trial_duration_s = {trial_s}
duration_sum_s = {trial_s}
preceding_targets = 1
relative_width = 0.5
max_repeats = 50
loss_ratios = [0, 0.5]
drain_s = 0.1
[validity]
gap_shortfall_ratio = 0.9
[latency]
duration_s = 0.2
"""


@pytest.fixture
def far(tmp_path):
    """Another machine; it holds nothing at the end of a test."""
    folder = tmp_path / "far"
    folder.mkdir()
    with far_machine(folder) as machine:
        yield machine
        assert machine.holds() == []


@pytest.fixture
def scenario(tmp_path):
    def write(trial_s=0.1, lease_s=LEASE_S):
        path = tmp_path / "away.toml"
        path.write_text(SCENARIO.format(lease_s=lease_s, trial_s=trial_s))
        return path

    return write


@pytest.mark.usefixtures("nothing_left")
def test_a_rate_is_found_on_another_machine_behind_a_slow_link(far, scenario, tmp_path):
    far.delay(0.005)
    done = run("run", scenario(), "--json", "--out", tmp_path / "runs", env=far.environment)
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["scenarios"]
    assert result["rates"][0]["lower_fps"] >= 1000, result
    (info,) = (tmp_path / "runs").glob("*/run.json")
    assert "kernel" in json.loads(info.read_text())["versions"]["host far"]


@pytest.mark.usefixtures("nothing_left")
def test_a_bench_whose_lab_is_killed_is_undone_there(far, scenario, tmp_path):
    lab = start("run", scenario(5), "--out", tmp_path / "runs", env=far.environment)
    wait_for(lambda: trials_in(tmp_path / "runs"), "a trial")
    assert far.holds()
    other = run("run", scenario(5), "--out", tmp_path / "runs", env=far.environment)
    assert other.returncode == 3, other.stderr
    assert f"process {lab.pid} on {os.uname().nodename}" in other.stderr, "who holds the machine"
    lab.kill()
    lab.wait()
    wait_for(lambda: far.holds() == [], "the bench's end")


@pytest.mark.usefixtures("nothing_left")
def test_clean_undoes_there_what_neither_lab_nor_agent_could(far, scenario, tmp_path):
    lab = start("run", scenario(5), "--out", tmp_path / "runs", env=far.environment)
    wait_for(lambda: trials_in(tmp_path / "runs"), "a trial")
    agents = far.agents()
    assert agents
    for pid in (*agents, lab.pid):
        os.kill(pid, signal.SIGKILL)
    lab.wait()
    assert far.holds()
    done = run("clean", "--host", "far", env=far.environment)
    assert done.returncode == 0, done.stderr
    assert "undone: " in done.stdout
    assert far.holds() == []


@pytest.mark.subject(target="test-hosts")
@pytest.mark.usefixtures("nothing_left")
def test_a_run_goes_on_after_its_link_was_cut_for_longer_than_the_lease(far, scenario, tmp_path):
    trials = tmp_path / "runs"
    lab = start("run", scenario(1, SHORT_LEASE_S), "--out", trials, env=far.environment)
    wait_for(lambda: trials_in(trials), "a trial")
    far.link("down")
    wait_for(lambda: far.holds() == [], "the lease's end", timeout_s=SHORT_LEASE_S + 20)
    assert lab.poll() is None, lab.communicate()
    far.link("up")
    said = lab.communicate(timeout=120)
    assert lab.returncode == 0, said


@pytest.mark.parametrize(
    ("planted", "told"),
    [
        (lambda far: (far.folder / "known_hosts").write_text(""), "hint: ssh far; compare the key"),
        (lambda far: (far.folder / "key.pub").write_text(""), "hint: ssh-copy-id far"),
        pytest.param(
            lambda far: far.link("down"), "hint: ssh far true", marks=pytest.mark.subject(target="test-hosts")
        ),
    ],
    ids=["unknown host key", "no key accepted", "no route"],
)
def test_what_ssh_refuses_is_told_with_what_mends_it(far, planted, told):
    planted(far)
    began = time.monotonic()
    done = run("clean", "--host", "far", env=far.environment)
    assert done.returncode == 3, done.stderr
    assert told in done.stderr
    assert time.monotonic() - began < 60


SOCKETS = """
measure = "{measure}"
runs_on = "far"
engine = {{ cpus = [0] }}
host = [
  {{ name = "hl", address = "192.168.7.1/24", cpus = [0] }},
  {{ name = "hr", address = "192.168.7.2/24", cpus = [0] }},
]
[dut]
datapath = "{datapath}"
pmd_cpus = [1]
rules = "actions=NORMAL"
[sockets]
client = "hl"
server = "hr"
connections = 2
warm_up_s = 0.2
duration_s = 0.5
repeats = 1
timeout_s = 10
"""


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(
    ("measure", "datapath"),
    [
        ("bandwidth", "af_packet"),
        ("crr", "af_packet"),
        pytest.param("rr", "dpdk", marks=pytest.mark.subject(target="test-hosts")),
    ],
)
def test_a_socket_workload_runs_on_another_machine_with_its_switch(far, tmp_path, measure, datapath):
    path = tmp_path / "sockets.toml"
    path.write_text(SOCKETS.format(measure=measure, datapath=datapath))
    done = run("run", path, "--json", "--out", tmp_path / "runs", env=far.environment)
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["scenarios"]
    metrics = {metric["name"]: metric["value"] for metric in result["metrics"]}
    assert metrics["goodput" if measure == "bandwidth" else "transactions"] > 0, metrics
    assert metrics["packets seen by the datapath"] > 0, "they crossed that machine's switch"


BUILDING = """
measure = "{measure}"
runs_on = "far"
[host.far]
lease_s = 15
[dut]
kind = "ovs"
datapath = "af_packet"
pmd_cpus = [1]
rules = "in_port={{left}},actions=output:{{right}}"
[[port]]
name = "left"
[[port]]
name = "right"
[engine]
cpus = [0]
[[stream]]
from = "left"
to = "right"
{what}
"""
VETHS = '[build]\nwhat = "veths"\nmethod = "{method}"\ncount = {count}\nconcurrency = 1'
PORTS = '[blocked]\naction = "add-ports"\ncount = 3\nrepeats = 1\nload_fps = 1000'


@pytest.mark.subject(target="test-hosts")
@pytest.mark.usefixtures("nothing_left")
def test_what_is_made_in_bulk_on_another_machine_is_timed_there(far, tmp_path):
    far.delay(0.005)
    veths = VETHS.format(method="netlink", count=30)
    (tmp_path / "1.toml").write_text(BUILDING.format(measure="build", what=veths))
    (tmp_path / "2.toml").write_text(BUILDING.format(measure="blocked", what=PORTS))
    paths = sorted(tmp_path.glob("*.toml"))
    done = run("run", *paths, "--json", "--out", tmp_path / "runs", env=far.environment)
    assert done.returncode == 0, done.stderr
    built, blocked = ({m["name"]: m for m in scenario["metrics"]} for scenario in json.loads(done.stdout)["scenarios"])
    assert 0 < built["build time"]["value"] < built["visible time"]["value"]
    look_s = built["visible time"]["high"] - built["visible time"]["low"]
    assert look_s >= 0.01, "a look over the line takes as long as the line"
    assert "line to its host" in blocked["action time"]["note"]


@pytest.mark.usefixtures("nothing_left")
def test_what_makes_links_on_another_machine_ends_with_its_connection_and_the_build_begins_anew(far, tmp_path):
    path = tmp_path / "links.toml"
    path.write_text(BUILDING.format(measure="build", what=VETHS.format(method="process", count=300)))
    lab = start("run", path, "--json", "--out", tmp_path / "runs", env=far.environment)
    wait_for(lambda: any(name.endswith("-far") for name in far.holds()), "the links' namespaces")
    (near,) = (name for name in far.holds() if name.endswith("-near"))
    wait_for(lambda: "v9:" in links_of(far, near), "some links")
    for pid in far.connections():
        os.kill(pid, signal.SIGKILL)
    said, errors = lab.communicate(timeout=120)
    assert lab.returncode == 0, errors
    (result,) = json.loads(said)["scenarios"]
    assert {metric["name"] for metric in result["metrics"]} >= {"build time", "removal time"}


def links_of(far, netns):
    listed = ["nsenter", f"--target={far.pid}", "--net", "--mount", "ip", "-n", netns, "-o", "link"]
    return subprocess.run(listed, capture_output=True, text=True, check=False).stdout.replace("@", ":")
