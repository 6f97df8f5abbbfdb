"""A run from Python on a real bench, packed, unpacked and exported."""

import pytest
from bench_tools import run
from scenario_text import one_way

import pinchpoint
from pinchpoint.model.result import Outcome

pytestmark = pytest.mark.tier2("command:pack")

LOAD = "[load]\nat_fps = [20000]\nduration_s = 0.2\n"


@pytest.mark.tier1("command:pack", "command:export", "the Python API")
def test_a_text_is_measured_from_python_and_its_bundle_gives_the_same_trials(nothing_left, tmp_path):
    text = one_way("load", LOAD, datapath="af_packet", search="max_repeats = 5\ndrain_s = 0.5")
    result = pinchpoint.measure(text, ceiling=False, out=tmp_path / "runs")
    assert result.outcome is Outcome.MEASURED, result.reason
    assert result.trials is not None and sum(result.trials.column("received")) > 0
    bundle = tmp_path / "run.zip"
    done = run("pack", result.run.path, "-o", bundle, "--anonymous")
    assert done.returncode == 0, done.stderr
    again = pinchpoint.load(bundle)
    assert again.trials.column("received") == result.run.trials.column("received")
    done = run("export", bundle, "--format", "csv", "--table", "trials")
    assert done.stdout.count("\n") == len(again.trials) + 1
