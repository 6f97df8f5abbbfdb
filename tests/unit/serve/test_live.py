import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sample import sample_run
from served import keep, keep_campaign, workshop

from pinchpoint.model.campaign import MachineProgress
from pinchpoint.run.budget import expected_s
from pinchpoint.scenario import load
from pinchpoint.scenario.plain import to_plain
from pinchpoint.serve.pages import live
from pinchpoint.store.folder import owned, owner

MEASURES = """
import sys, time
from pathlib import Path
from pinchpoint.store.folder import owned
try:
    with owned(Path(sys.argv[1])):
        print("measuring", flush=True)
        time.sleep(60)
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


@pytest.fixture
def going(tmp_path):
    info, result, trials = sample_run()
    return keep(tmp_path / "runs", "going", (info, result, trials), done=1)


@pytest.fixture
def measuring(going):
    """A process that measures into the folder."""
    lab = str(Path(__file__).parents[3] / "lab")
    command = [sys.executable, "-c", MEASURES, str(going.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": lab}) as process:
        assert process.stdout.readline() == "measuring\n"
        yield process
        process.kill()


def test_the_kernel_says_who_measures(going, measuring):
    assert owner(going.path) == measuring.pid


def test_a_killed_process_measures_nothing(going, measuring):
    measuring.kill()
    measuring.wait(20)
    assert (going.path / "running.lock").exists()
    assert owner(going.path) is None


def test_a_lock_file_that_nobody_holds_names_nobody(going):
    (going.path / "running.lock").write_text("1")
    assert owner(going.path) is None


def test_nothing_is_left_of_a_run_that_ended(going):
    with owned(going.path):
        assert (going.path / "running.lock").exists()
    assert not (going.path / "running.lock").exists()


def test_stop_interrupts_the_process_that_measures(going, measuring):
    workshop(going.path.parent).acts.stop("going")
    assert measuring.wait(20) == 0
    assert measuring.stdout.read() == "stopped\n"


def test_a_run_that_is_measured_cannot_be_resumed(going, measuring):
    with pytest.raises(Exception, match="is being measured"):
        workshop(going.path.parent).acts.resume("going")


def test_the_newest_trials_are_first_and_those_of_the_current_scenario_are_drawn(going):
    now = live(going, going.read_info(), going.read_result())
    assert (now.done, now.units, now.made, now.pid) == (1, 3, len(going.read_trials()), None)
    assert now.trials[0].id == going.read_trials()[-1].id
    assert now.current == now.trials[0].scenario
    assert now.figure is not None


def test_time_left_is_what_the_run_itself_expects(going):
    scenario = load(next((Path(__file__).parents[3] / "studies" / "quickstart").glob("1-*.toml")))
    info = replace(going.read_info(), scenarios=(to_plain(scenario),))
    (going.path / "trials.jsonl").unlink()
    assert live(going, info, None).left_s == pytest.approx(expected_s(scenario))
    assert live(going, replace(info, scenarios=({"name": "x"},)), None).left_s is None


def test_of_a_campaign_the_machines_are_told_and_the_time_that_it_expects_itself(tmp_path):
    machines = (
        MachineProgress("dut1", "measures", "rules.r1", 12, 1),
        MachineProgress("dut2", "excluded", reason="0.85 times the median machine"),
    )
    folder = keep_campaign(tmp_path, "campaign", *machines, left_s=5400.0).run
    now = live(folder, folder.read_info(), folder.read_result())
    assert now.campaign.machines == machines
    assert (now.left_s, now.current, now.figure) == (5400.0, "", None)


def test_of_a_campaign_that_has_said_nothing_yet_nothing_is_told(tmp_path):
    folder = keep_campaign(tmp_path, "campaign").run
    (folder.path / "machines.json").unlink()
    now = live(folder, folder.read_info(), folder.read_result())
    assert (now.campaign, now.left_s) == (None, None)
