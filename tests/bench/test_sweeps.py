"""Sweeps and studies with real daemons: killed anywhere they resume, and what cannot be is told."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from bench_tools import PINCHPOINT, kill_lab, only_run, run, start_watched, what_is_there
from scenario_text import one_way

from pinchpoint.model.result import Outcome, RateStatus
from pinchpoint.model.study import ConclusionOutcome, Need
from pinchpoint.run.budget import agreement

pytestmark = [pytest.mark.tier2("sweeps and studies"), pytest.mark.needs("dpdk")]

FACTOR = """
[[sweep.factor]]
name = "five-tuples"
keys = ["stream[1].flows"]
levels = [1, 64, 200]
falling = true
"""
SWEEP = f"at = []{FACTOR}"
RANGES = 'udp_src = "1024-1223"'
LOAD = "[load]\nat_fps = [1000]\nduration_s = 0.2\nrepeats = 1\n"
POINTS = """
[[sweep.point]]
name = "nowhere"
"dut.pmd_cpus" = [63]
[[sweep.point]]
name = "refused"
"dut.rules" = "in_port={left},actions=teleport:7"
[[sweep.point]]
name = "good"
"dut.rules" = "in_port={left},actions=output:{right}"
"""


def results_in(out):
    files = list(Path(out).glob("*/result.json"))
    return len(json.loads(files[0].read_text())["scenarios"]) if files else 0


@pytest.fixture
def three_points(scenario):
    """A sweep of three points, some seconds each."""
    return scenario("swept.toml", max_load_fps=20_000, more=SWEEP)


def test_killed_in_the_second_of_three_units_it_is_cleaned_and_resumes_with_that_unit(three_points, tmp_path):
    before, out = what_is_there(), tmp_path / "runs"
    watched = start_watched(tmp_path / "stderr", "run", three_points, "--out", out)
    watched.wait_until_it_says("five-tuples-64 (2/3)  ·  search")
    kill_lab(watched.process)
    assert results_in(out) == 1
    assert run("clean").returncode == 0
    assert what_is_there() == before
    folder = only_run(out)
    kept, first = folder.read_trials(), folder.read_result().scenarios[0]
    done = run("run", "--resume", folder.path)
    assert done.returncode == 0, done.stderr
    result = folder.read_result()
    assert result.finished
    assert [scenario.levels["five-tuples"] for scenario in result.scenarios] == [1, 64, 200]
    assert result.scenarios[0] == first, "what was finished is not measured again"
    assert folder.read_trials()[: len(kept)] == kept
    assert len({trial.id for trial in folder.read_trials()}) == len(folder.read_trials())
    assert [point.levels["five-tuples"] for point in result.curves[0].points] == [1, 64, 200]
    assert what_is_there() == before


def test_ctrl_c_while_the_second_unit_is_built_ends_it_there_and_leaves_nothing(nothing_left, three_points, tmp_path):
    out = tmp_path / "runs"
    watched = start_watched(tmp_path / "stderr", "run", three_points, "--out", out)
    watched.wait_until_it_says("five-tuples-64 (2/3)  ·  building")
    watched.process.send_signal(signal.SIGINT)
    done = watched.end()
    assert done.returncode == 130, done.stderr
    assert "--resume" in done.stderr
    assert "warm-up" not in done.stderr.partition("(2/3)")[2]
    assert results_in(out) == 1


@pytest.mark.tier1("sweeps and studies")
def test_what_cannot_run_here_is_impossible_what_the_switch_refuses_fails_and_the_rest_is_measured(
    nothing_left, tmp_path
):
    (tmp_path / "swept.toml").write_text(one_way("load", LOAD + POINTS, dut="memory_mb = 1024"))
    done = run("run", tmp_path / "swept.toml", "--out", tmp_path / "runs")
    assert done.returncode == 4, done.stderr  # a point failed
    nowhere, refused, good = only_run(tmp_path / "runs").read_result().scenarios
    assert nowhere.outcome is Outcome.IMPOSSIBLE
    assert "CPU 63 cannot be used here" in nowhere.reason
    assert refused.outcome is Outcome.FAILED
    assert "teleport" in refused.reason
    assert good.outcome is Outcome.MEASURED
    assert (only_run(tmp_path / "runs").path / "report.html").exists()


def test_a_sweep_of_which_nothing_can_run_ends_as_a_scenario_would(nothing_left, scenario, tmp_path):
    path = scenario("swept.toml", more=SWEEP)
    path.write_text(path.read_text().replace("pmd_cpus = [1]", "pmd_cpus = [63]"))
    done = run("run", path, "--out", tmp_path / "runs")
    assert done.returncode == 3
    assert "CPU 63 cannot be used here" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_budget_measures_the_ends_first_and_says_why_the_middle_is_left_out(nothing_left, three_points, tmp_path):
    done = run("run", three_points, "--budget", "5m", "--out", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    folder = only_run(tmp_path / "runs")
    ran = [trial.scenario for trial in folder.read_trials()]
    assert list(dict.fromkeys(ran))[:2] == ["swept.five-tuples-1", "swept.five-tuples-200"]
    by_level = {scenario.levels["five-tuples"]: scenario for scenario in folder.read_result().scenarios}
    assert [by_level[level].outcome for level in (1, 200)] == [Outcome.MEASURED, Outcome.MEASURED]
    # Whether the ends agree is the machine's affair; what follows from it is not.
    rates = [by_level[level].rates[0] for level in (1, 200)]
    both_found = all(rate.status is RateStatus.FOUND for rate in rates)
    agree = both_found and agreement(by_level[1].metrics[0], by_level[200].metrics[0])
    wanted = (Outcome.SKIPPED, f"between 1 and 200, which agree {agree}: monotone") if agree else (Outcome.MEASURED, "")
    assert (by_level[64].outcome, by_level[64].reason) == wanted
    assert ("swept.five-tuples-64" in ran) is (not agree)


@pytest.mark.tier1("command:study run", "command:report")
def test_a_study_of_ones_own_runs_from_its_folder_one_group_or_all(nothing_left, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "one.toml").write_text(one_way("load", LOAD, dut="memory_mb = 1024"))
    (folder / "two.toml").write_text(one_way("load", LOAD + FACTOR, dut="memory_mb = 1024", stream=RANGES))
    (folder / "study.toml").write_text(
        'title = "Mine"\nabout = "Mine."\nsource = "nowhere"\nscenarios = ["one", "two"]\n'
    )
    done = run("study", "run", folder, "--only", "one", "--out", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    run_folder = only_run(tmp_path / "runs")
    assert [scenario.scenario for scenario in run_folder.read_result().scenarios] == ["one"]
    assert run_folder.read_info().study.title == "Mine"
    assert run("show", run_folder.path).returncode == 0
    assert run("report", run_folder.path).returncode == 0


CONCLUSION = """
title = "Mine"
scenarios = ["two"]
[[conclusion]]
says = "More five-tuples keep the core busier."
source = "nowhere"
group = "two"
metric = "thread busy at 1.00 kpps"
over = { five-tuples = 200 }
under = { five-tuples = 1 }
least = 1
needs = { cpus = 100_000, kernel_datapath = true }
"""


def test_a_conclusion_is_judged_by_what_the_bench_had(nothing_left, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "two.toml").write_text(one_way("load", LOAD + FACTOR, dut="memory_mb = 1024", stream=RANGES))
    (folder / "study.toml").write_text(CONCLUSION)
    done = run("study", "run", folder, "--out", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    found = only_run(tmp_path / "runs")
    (judged,) = found.read_result().conclusions
    cpus = len(os.sched_getaffinity(0))
    assert judged.outcome is ConclusionOutcome.NOT_DECIDABLE
    assert judged.lacks == {Need.CPUS: cpus, Need.KERNEL_DATAPATH: 0}
    told = f"needs a bench with 100,000 CPUs ({cpus} here), the kernel's datapath (not here)"
    assert "not decidable here" in done.stdout
    assert told.replace("'", "&#39;") in (found.path / "report.html").read_text()


@pytest.mark.tier1("command:completion")
def test_names_of_studies_and_groups_complete_in_the_shell():
    def completed(words):
        environment = {**os.environ, "_PINCHPOINT_COMPLETE": "bash_complete", "COMP_WORDS": words}
        environment["COMP_CWORD"] = str(len(words.split(" ")) - 1)
        return subprocess.run([PINCHPOINT], env=environment, capture_output=True, text=True, check=True).stdout

    assert "quickstart" in completed("pinchpoint study run qu")
    assert "2-snat-255" in completed("pinchpoint study run quickstart --only 1-forward,2")
