"""`pinchpoint pilot`: its table, its advice and its refusals, with a pilot that was made up."""

import json
import shlex
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from sweeps import ROOT, measured

from pinchpoint.cli import pilot as command
from pinchpoint.cli.main import main
from pinchpoint.cli.options import How
from pinchpoint.cli.pilot import Asked
from pinchpoint.cli.run import run
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.model.result import Ceiling, Outcome
from pinchpoint.model.warning import Warn
from pinchpoint.run.pilot import Allocation, Costs, unit
from pinchpoint.run.run import unmeasured

FILE = str(ROOT / "studies" / "quickstart" / "1-forward.toml")


@pytest.fixture
def pilot(monkeypatch, tmp_path):
    """Runs the command on benches that differ by 5 %, measurements by 1 %."""
    numbers = np.random.default_rng(5)

    def made_up(context, scenario, size):
        benches = dict(enumerate(numbers.normal(1, 0.05, size.benches), start=1))
        results = {
            place: measured(unit(scenario, *place), 3e6 * float(benches[place[0]] * numbers.normal(1, 0.01)))
            for place in size.every
        }
        return results, Costs(3.0, 1.0, 10.0)

    monkeypatch.setattr(command.piloted, "run_pilot", made_up)
    monkeypatch.setattr(command, "require", lambda *_: None)
    monkeypatch.setattr(command, "machine_lock", nullcontext)

    def piloted(*words):
        return main(["pilot", *(words or (FILE,)), "--out", str(tmp_path), "--quiet"])

    return piloted


def test_the_level_that_varies_most_is_told_with_what_to_do(pilot, capsys):
    assert pilot() == 0
    printed = capsys.readouterr().out
    assert "varies most from one rebuild of the bench to the next" in printed
    assert "5 independent differences" in printed
    assert "the pilot saw 5 differences between benches: up to " in printed
    assert "a bench takes 3.00 s to build and remove, a start of the DUT 1.00 s, a measurement 10.0 s" in printed
    assert f"pinchpoint run {FILE} --repeats " in printed


SETTINGS = (
    "dut.memory_mb=2048",
    "title=two words",
    'dut.other_config={"pmd-auto-lb" = "true"}',
    "engine.cpus=[0]",
)


def test_the_advised_run_is_of_what_the_pilot_measured(pilot, capsys, tmp_path):
    assert pilot(FILE, "--quick", *(word for setting in SETTINGS for word in ("--set", setting))) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  pinchpoint ")]
    program, name, *words = shlex.split(line)
    assert (program, name) == ("pinchpoint", "run")
    advised = run.make_context(name, words).params
    assert advised["paths"] == (Path(FILE),)
    assert (advised["quick"], advised["out"]) == (True, tmp_path)
    assert advised["repeats"] >= 6
    assert dict(advised["settings"]) == {
        "dut.memory_mb": 2048,
        "title": "two words",
        "dut.other_config": {"pmd-auto-lb": "true"},
        "engine.cpus": [0],
    }


def test_an_advised_pilot_is_of_the_same_scenario_and_metrics(tmp_path):
    settings = (("dut.datapath", "af_xdp"), ("search.loss_ratios", [0, 0.005]), ("dut.smc", True), ("title", "3"))
    asked = Asked(Path(FILE), How(Machines(Local()), quick=True, settings=settings), ("NDR", "PDR 0.5 %"), 1.0, None)
    program, name, *words = shlex.split(asked.command(Allocation(8, 2, 5, 0.01, 100.0, 20)))
    assert (program, name) == ("pinchpoint", "pilot")
    advised = command.pilot.make_context(name, words).params
    assert (advised["benches"], advised["starts"], advised["measurements"]) == (8, 2, 5)
    assert (advised["path"], advised["quick"], advised["out"]) == (Path(FILE), True, Path("runs"))
    assert advised["metrics"] == ("NDR", "PDR 0.5 %")
    assert advised["settings"] == settings


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


CABLED = """
dut = { kind = "bridge", cpus = [1] }
engine = { cpus = [0] }
port = [
  { name = "left", interface = "eth1", engine_interface = "eth3" },
  { name = "right", interface = "eth2", engine_interface = "eth4" },
]
stream = [{ from = "left", to = "right" }]
"""


def test_no_ceiling_is_measured_at_cables_as_in_a_run(tmp_path, capsys):
    path = tmp_path / "cabled.toml"
    path.write_text(CABLED)
    assert main(["ceiling", str(path)]) == 2
    assert f"port: {Warn.CEILING_AT_LINKS.template}" in capsys.readouterr().err


def test_a_ceiling_says_to_the_minute_when_it_was_measured():
    known = Ceiling(10e6, "2026-01-02T03:04:05.678901+00:00", "a key", 30.0)
    assert command._line(known) == "10.0 Mpps offered; cores 30.0 ns apart, measured 2026-01-02T03:04\n  a key"


def test_failed_measurements_end_with_an_exit_code(pilot, capsys, monkeypatch):
    def failing(context, scenario, size):
        results = {at: unmeasured(unit(scenario, *at), Outcome.FAILED, "busy\n  hint: wait", 1.0) for at in size.every}
        return results, Costs(3.0, 1.0, 10.0)

    monkeypatch.setattr(command.piloted, "run_pilot", failing)
    assert pilot() == 4
    assert "24 of 24 measurements failed; the first: busy\n" in capsys.readouterr().err


def test_impossible_measurements_end_with_the_exit_code_of_what_the_machine_lacks(pilot, capsys, monkeypatch):
    def impossible(context, scenario, size):
        outcomes = [Outcome.MEASURED] + [Outcome.IMPOSSIBLE] * 23
        results = {
            at: unmeasured(unit(scenario, *at), outcome, "no burst is one to the DUT", 1.0)
            for at, outcome in zip(size.every, outcomes, strict=True)
        }
        return results, Costs(3.0, 1.0, 10.0)

    monkeypatch.setattr(command.piloted, "run_pilot", impossible)
    assert pilot() == 3
    told = "23 of 24 measurements are impossible here; the first: no burst is one to the DUT\n"
    assert told in capsys.readouterr().err


def test_a_file_that_sweeps_is_no_point(pilot, capsys):
    file = next((ROOT / "studies" / "flow-rules").glob("base.toml"), None) or next(
        path for path in (ROOT / "studies").glob("*/*.toml") if "[sweep]" in path.read_text()
    )
    assert pilot(str(file)) == 2
    assert "a pilot measures one point, but this file has" in capsys.readouterr().err
