"""Explanations on real benches: a planted cause is confirmed by its counter-experiment, and what is stored is shown."""

import json
import signal
import time

import pytest
from bench_tools import SLOW, only_run, run, start_watched

from pinchpoint.model.causes import Experiment, Standing
from pinchpoint.model.errors import UNDECIDED
from pinchpoint.model.offload import Offload
from pinchpoint.model.result import Outcome

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.tier2("command:explain")]
SCENARIO = """
title = "one frame in four is dropped"
[dut]
kind = "reference"
cpus = [1]
rate_fps = 200000
drop = "every=4"
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
duration_sum_s = 1
max_traffic_s = 2
drain_s = 0.05
max_load_fps = 1e6
[latency]
at = []
[validity]
gap_shortfall_ratio = 0.9
"""


def test_a_rule_that_drops_is_suspected_confirmed_and_shown_again(tmp_path):
    path, out = tmp_path / "drop.toml", tmp_path / "runs"
    path.write_text(SCENARIO)
    done = run("explain", path, "--no-ceiling", "--out", out, "--json", timeout=280)
    assert done.returncode == 0, done.stderr
    folder = only_run(out)
    (explanation,) = folder.read_result().explanations
    branch = explanation.branches[0]  # beside it a busy host may be suspected, of what rings lost
    assert (branch.suspicion.cause, branch.standing) == ("rule-drop", Standing.CONFIRMED)
    assert branch.tried.experiment is Experiment.PLAIN
    assert branch.tried.ratio > 1.2, "all of four frames, and not three"
    left_out = [scenario for scenario in folder.read_result().scenarios if scenario.outcome is Outcome.SKIPPED]
    assert {scenario.reason for scenario in left_out} <= {"not needed"}
    assert json.loads(done.stdout)["explanations"][0]["branches"][0]["standing"] == "confirmed"
    shown = run("explain", folder.path)
    assert shown.returncode == 0, shown.stderr
    assert "confirmed: a rule that drops" in shown.stdout
    assert "What to do" in (folder.path / "report.html").read_text()


@pytest.mark.subject(target="test-causes")
@pytest.mark.needs("perf")
def test_the_time_of_a_saturated_thread_is_divided_by_function_and_a_stop_meanwhile_leaves_nothing(tmp_path):
    path, out = tmp_path / "slow.toml", tmp_path / "runs"
    switch = f'kind = "ovs"\ndatapath = "af_packet"\npmd_cpus = [1]\nrules = "{SLOW}"'
    planted = 'kind = "reference"\ncpus = [1]\nrate_fps = 200000\ndrop = "every=4"'
    path.write_text(SCENARIO.replace(planted, switch))
    watched = start_watched(tmp_path / "stderr", "explain", path, "--no-ceiling", "--out", out)
    watched.wait_until_it_says("  ·  profile  ·  trial", 250)
    time.sleep(2)  # into the trial, while perf runs
    watched.process.send_signal(signal.SIGINT)
    assert watched.end().returncode == 130
    folder = only_run(out)
    assert folder.read_result().profiles == ()
    trials = folder.read_trials()
    done = run("explain", "--resume", folder.path, "--no-ceiling")
    assert done.returncode in (0, UNDECIDED), done.stderr  # its causes are not the subject here
    (profile,) = folder.read_result().profiles
    assert not profile.reason
    lines = (folder.path / "attachments" / profile.file).read_text().splitlines()
    counts = [int(line.rpartition(" ")[2]) for line in lines]
    assert sum(counts) == profile.samples == sum(function.samples for function in profile.functions) > 0
    assert {line.partition(";")[0] for line in lines} == set(profile.threads) == {"main"}
    assert any("recvmmsg" in line or "[ovs-vswitchd]" in line for line in lines), "the switch receives, or tracks"
    assert folder.read_trials() == trials, "the sampled trial is in no record"
    assert "Time by function" in done.stdout
    assert "Time by function" in (folder.path / "report.html").read_text()


@pytest.mark.tier1("command:explain")
def test_a_stored_run_is_explained_as_it_was_measured(tmp_path):
    path, out = tmp_path / "drop.toml", tmp_path / "runs"
    path.write_text(SCENARIO)
    done = run("run", path, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "likely: a rule that drops" in done.stdout.replace("\n", " ")
    planned = run("explain", only_run(out).path, "--dry-run", "--out", out)
    assert planned.returncode == 0, planned.stderr
    assert "every=4" in planned.stdout


def test_confirm_puts_the_causes_of_every_scenario_of_a_run_to_the_test(tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text(SCENARIO)
    planned = run("run", "--confirm", tmp_path, "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert {f"{name}.{changed}:" for name in ("one", "two") for changed in ("plain", "large-ring")} <= set(
        planned.stdout.split()
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--repeats", "2"), "leave out --repeats"),
        (("--set", 'measure="soak"'), "no rate to explain"),
        (("--set", "sweep.repeats=2"), "explains scenarios"),
    ],
)
def test_what_cannot_be_confirmed_is_bad_input(arguments, words, tmp_path):
    (tmp_path / "drop.toml").write_text(
        SCENARIO.replace("[latency]\nat = []", "") if "soak" in str(arguments) else SCENARIO
    )
    done = run("run", "--confirm", tmp_path / "drop.toml", *arguments, "--out", tmp_path / "runs")
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_flag_that_lies_is_said_to_lie(tmp_path):
    path, out = tmp_path / "lie.toml", tmp_path / "runs"
    path.write_text(SCENARIO.replace('drop = "every=4"', "offloaded = true"))
    done = run("run", path, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "offload claimed, not real" in done.stdout.replace("\n", " ")
    (result,) = only_run(out).read_result().scenarios
    assert (result.offload.word, result.offload.claimed, result.offload.hardware) == (Offload.CLAIMED, 1.0, 0.0)
    assert "claimed, not real" in (only_run(out).path / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "expected a scenario file or a run folder"),
        (("--scenario", "x", "{file}"), "--scenario chooses one of a run's scenarios"),
        (("{folder}",), "has no run.json"),
        (("--set", 'measure="soak"', "{file}"), "no rate to explain"),
    ],
)
def test_what_cannot_be_explained_is_bad_input(arguments, words, tmp_path):
    (tmp_path / "drop.toml").write_text(
        SCENARIO.replace("[latency]\nat = []", "") if "soak" in str(arguments) else SCENARIO
    )
    places = {"file": tmp_path / "drop.toml", "folder": tmp_path}
    done = run("explain", *(argument.format(**places) for argument in arguments), "--out", tmp_path / "runs")
    assert done.returncode == 2
    assert words in done.stderr
    assert not (tmp_path / "runs").exists()
