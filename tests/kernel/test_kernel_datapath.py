"""The kernel's datapath, on a kernel that has it: run by packaging/in-user-mode-linux (one CPU)."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pinchpoint.engine.process import ProcessInstrument
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.measure.standing import Task
from pinchpoint.model.trial import TrialValidity
from pinchpoint.run.scenario import run_scenario
from pinchpoint.scenario import parse

PINCHPOINT = str(Path(sys.executable).parent / "pinchpoint")

# In a user-mode Linux nothing is skipped: a module that is missing there is a failure.
pytestmark = [
    pytest.mark.skipif(
        not Path("/sys/module/openvswitch").exists() and "User Mode Linux" not in Path("/proc/cpuinfo").read_text(),
        reason="needs openvswitch: packaging/in-user-mode-linux",
    ),
    pytest.mark.tier2("datapath:kernel"),
]

HOSTS = """
title = "two hosts on the kernel's datapath"
measure = "{measure}"
[dut]
datapath = "kernel"
pmd_cpus = [0]
cascade = {bridges}
rules = "actions=NORMAL"
[engine]
cpus = [0]
[[host]]
name = "a"
address = "10.9.0.1/24"
cpus = [0]
[[host]]
name = "b"
bridge = "last"
address = "10.9.0.2/24"
cpus = [0]
[sockets]
client = "a"
server = "b"
duration_s = 1
warm_up_s = 0.2
repeats = 1
connections = 2
"""


def run(folder, text, name="kernel.toml"):
    (folder / name).write_text(text)
    argv = [PINCHPOINT, "run", str(folder / name), "--out", str(folder / "runs"), "--json", "-q"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (scenario,) = json.loads(done.stdout)["scenarios"]
    return scenario, {metric["name"]: metric["value"] for metric in scenario["metrics"]}


def left_behind():
    namespaces = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return namespaces.strip(), [path.name for path in Path("/run/pinchpoint").glob("*") if path.name != "run.lock"]


@pytest.mark.parametrize("bridges", [1, 3])
def test_tcp_crosses_the_kernels_datapath(tmp_path, bridges):
    result, metrics = run(tmp_path, HOSTS.format(measure="bandwidth", bridges=bridges))
    assert result["outcome"] == "measured", result["reason"]
    assert metrics["goodput"] > 1e7
    assert metrics["datapath flows"] >= 2
    assert metrics["datapath masks"] >= 1
    assert result["verdict"]["evidence"]
    assert left_behind() == ("", [])


def test_connections_are_counted_one_by_one(tmp_path):
    result, metrics = run(tmp_path, HOSTS.format(measure="crr", bridges=1))
    assert result["outcome"] == "measured", result["reason"]
    assert metrics["transactions"] > 10
    assert left_behind() == ("", [])


FRAMES = """
title = "frames through the kernel's datapath"
[dut]
datapath = "kernel"
pmd_cpus = [0]
rules = "in_port={left},actions=output:{right}"
[[port]]
name = "left"
[[port]]
name = "right"
[engine]
cpus = [1]
[[stream]]
from = "left"
to = "right"
ipv4_dst = "48.0.0.1-48.0.0.10"
[search]
min_load_fps = 100
max_load_fps = 2000
trial_duration_s = 0.2
initial_trial_duration_s = 0.2
duration_sum_s = 0.2
max_duration_s = 20
[latency]
at = []
[validity]
gap_shortfall_ratio = 0.9
"""


def test_frames_are_searched_for_a_rate_and_each_is_accounted_for(monkeypatch):
    """Engine and datapath share the only CPU: whether there is a rate is this kernel's affair, the account is not."""
    run_probed = ProcessInstrument.run
    monkeypatch.setattr(  # the distance of two cores, of which there is one
        ProcessInstrument,
        "run",
        lambda self, request, heard=None: run_probed(self, replace(request, probe_cores=()), heard),
    )
    scenario = parse(FRAMES, "kernel.toml")
    scenario = replace(scenario, engine=replace(scenario.engine, cpus=(0,)))
    trials = []
    result = run_scenario(Machines(Local()), scenario, Task(keep=trials.append))
    assert [rate.loss_ratio for rate in result.rates] == [0, 0.005]
    ended = [trial for trial in trials if trial.validity is not TrialValidity.ABORTED]
    assert sum(trial.received for trial in ended) > 0
    for trial in ended:
        assert trial.ledger.unexplained == 0, trial.ledger
    assert left_behind() == ("", [])


BUILD = """
title = "rules for the kernel's datapath"
measure = "build"
[dut]
datapath = "kernel"
pmd_cpus = [0]
rules = "actions=NORMAL"
[engine]
cpus = [0]
[build]
what = "flows"
method = "file"
count = 1000
probe_rules = 0
load_fps = 0
"""


def test_rules_are_made_and_removed(tmp_path):
    result, metrics = run(tmp_path, BUILD)
    assert result["outcome"] == "measured", result["reason"]
    assert metrics["build time"] > 0
    assert left_behind() == ("", [])
