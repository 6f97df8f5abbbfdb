"""Two benches that stand at once on another machine: duets, points beside a reference, causes put to the test."""

import json
import os
import signal
from pathlib import Path

import pytest
from bench_tools import only_run, run, start, stretches_in, wait_for
from ssh_tools import far_machine

from pinchpoint.model.causes import Experiment, Standing
from pinchpoint.model.duet import MEASURED
from pinchpoint.model.result import Outcome

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.tier2("two benches at once on a host by ssh")]
SCENARIO = """
runs_on = "far"
[host.far]
lease_s = 15
[dut]
kind = "reference"
cpus = [1]
rate_fps = 100000
{dut}
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
loss_ratios = [0]
initial_trial_duration_s = 0.1
trial_duration_s = 0.1
duration_sum_s = 0.5
max_traffic_s = 1
drain_s = 0.05
max_load_fps = 4e5
[latency]
at = []
[validity]
gap_shortfall_ratio = 0.9
"""
RELATED = """
[sweep]
relative = "alone"
[[sweep.factor]]
name = "size"
keys = ["stream[1].frame_bytes"]
levels = [64, 400]
"""


@pytest.fixture
def far(tmp_path):
    """Another machine; it holds nothing at the end of a test."""
    folder = tmp_path / "far"
    folder.mkdir()
    with far_machine(folder) as machine:
        yield machine
        assert machine.holds() == []


def has_measured(out):
    return any(b'"phase":"measured"' in path.read_bytes() for path in Path(out).glob("*/slices.jsonl"))


@pytest.mark.subject(target="test-hosts")
def test_a_rule_that_drops_is_confirmed_on_another_machine_and_its_functions_are_asked_there(far, tmp_path):
    path, out = tmp_path / "drop.toml", tmp_path / "runs"
    path.write_text(SCENARIO.format(dut='drop = "every=4"'))
    done = run("explain", path, "--no-ceiling", "--out", out, "--json", env=far.environment)
    assert done.returncode == 0, done.stderr
    (explanation,) = only_run(out).read_result().explanations
    branch = explanation.branches[0]
    assert (branch.suspicion.cause, branch.standing) == ("rule-drop", Standing.CONFIRMED)
    assert branch.tried.experiment is Experiment.PLAIN
    (profile,) = only_run(out).read_result().profiles
    assert profile.samples or "perf" in profile.reason or "thread" in profile.reason, profile.reason
    assert json.loads(done.stdout)["explanations"][0]["branches"][0]["standing"] == "confirmed"


@pytest.mark.subject(target="test-hosts")
def test_a_duet_whose_connection_is_killed_builds_both_benches_anew_and_keeps_its_slices(far, tmp_path):
    path, out = tmp_path / "duet.toml", tmp_path / "runs"
    path.write_text(SCENARIO.format(dut=""))
    words = ("--set-b", "dut.rate_fps=80000", "--method", "duet", "--benches", 1, "--slices", "6s", "--out", out)
    lab = start("compare", path, *words, env=far.environment)
    wait_for(lambda: has_measured(out), "a stretch that is measured", timeout_s=60)
    kept = only_run(out).read_stretches()
    for pid in far.connections():
        os.kill(pid, signal.SIGKILL)
    said = lab.communicate(timeout=120)
    assert lab.returncode == 0, said
    stretches = only_run(out).read_stretches()
    assert stretches[: len(kept)] == kept
    assert {stretch.benches for stretch in stretches if stretch.phase == MEASURED} == {1, 2}
    assert {part.side for stretch in stretches for part in stretch.slices} == {"A", "B"}


@pytest.mark.subject(target="test-hosts")
def test_points_beside_a_reference_whose_connection_is_killed_are_measured_beside_a_new_one(far, tmp_path):
    path, out = tmp_path / "related.toml", tmp_path / "runs"
    path.write_text(SCENARIO.format(dut="") + RELATED)
    lab = start("run", path, "--out", out, env=far.environment)
    wait_for(lambda: stretches_in(out), "a stretch", timeout_s=60)
    for pid in far.connections():
        os.kill(pid, signal.SIGKILL)
    said = lab.communicate(timeout=120)
    assert lab.returncode == 0, said
    result = only_run(out).read_result()
    assert {scenario.outcome for scenario in result.scenarios} == {Outcome.MEASURED}
    assert {scenario.reference for scenario in result.scenarios} == {result.scenarios[0].scenario}
