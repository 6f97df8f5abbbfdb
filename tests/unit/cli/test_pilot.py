"""`pinchpoint pilot`: its table, its advice and its refusals, with a pilot that was made up."""

import json
from contextlib import nullcontext

import numpy as np
import pytest
from sweeps import ROOT, measured

from pinchpoint.cli import pilot as command
from pinchpoint.cli.main import main
from pinchpoint.diagnose.variance import Costs
from pinchpoint.sweep.pilot import unit

FILE = str(ROOT / "studies" / "quickstart" / "1-forward.toml")


@pytest.fixture
def pilot(monkeypatch, tmp_path):
    """Runs the command on benches that differ by 5 %, measurements by 1 %."""
    numbers = np.random.default_rng(5)

    def made_up(scenario, size, folder, listener, remember):
        benches = dict(enumerate(numbers.normal(1, 0.05, size.benches), start=1))
        found = {
            place: measured(unit(scenario, *place), 3e6 * float(benches[place[0]] * numbers.normal(1, 0.01)))
            for place in size.every
        }
        return found, Costs(3.0, 1.0, 10.0)

    monkeypatch.setattr(command.piloted, "run_pilot", made_up)
    monkeypatch.setattr(command.requirements, "require", lambda _: None)
    monkeypatch.setattr(command, "machine_lock", nullcontext)

    def run(*words):
        return main(["pilot", *(words or (FILE,)), "--out", str(tmp_path), "--quiet"])

    return run


def test_the_level_that_varies_most_is_told_with_what_to_do(pilot, capsys):
    assert pilot() == 0
    printed = capsys.readouterr().out
    assert "varies most from one rebuild of the bench to the next" in printed
    assert "3 independent differences" in printed
    assert "a bench takes 3.00 s to build and remove, a start of the DUT 1.00 s, a measurement 10.0 s" in printed
    assert f"pinchpoint run {FILE} --repeats " in printed


def test_what_was_advised_is_measured_and_has_an_interval(pilot, capsys):
    assert pilot(FILE, "--benches", "8", "--starts", "1", "--measurements", "2") == 0
    printed = capsys.readouterr().out
    assert "95 %, of the median by ranks over 8 benches" in printed
    assert "varies" not in printed


def test_advice_for_a_given_time_and_for_too_little(pilot, capsys):
    assert pilot(FILE, "--time", "30m", "--json") == 0
    (judged,) = json.loads(capsys.readouterr().out)["metrics"]
    assert 1700 < judged["advice"]["time_s"] <= 1800
    assert pilot(FILE, "--time", "1m") == 0
    assert "no sensible number of repeats gives an interval in 60 s" in capsys.readouterr().out


def test_a_metric_that_is_not_there_is_told(pilot, capsys):
    assert pilot(FILE, "--metric", "absent") == 0
    assert "absent: no number in 24 of 24 measurements; the first: not measured" in capsys.readouterr().out


def test_a_file_that_sweeps_is_no_point(pilot, capsys):
    file = next((ROOT / "studies" / "flow-rules").glob("base.toml"), None) or next(
        path for path in (ROOT / "studies").glob("*/*.toml") if "[sweep]" in path.read_text()
    )
    assert pilot(str(file)) == 2
    assert "a pilot is of one point, and this file sweeps over" in capsys.readouterr().err
