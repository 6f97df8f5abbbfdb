"""How runs end and go on at the command line, without a bench."""

from dataclasses import replace

import pytest
from sweeps import factor, measured, sweep

from pinchpoint.bench.journal import machine_lock
from pinchpoint.cli import run as command
from pinchpoint.cli.main import main
from pinchpoint.host.local import Local
from pinchpoint.measure.standing import Interrupted
from pinchpoint.model.errors import UNDECIDED
from pinchpoint.model.result import Outcome
from pinchpoint.run.order import info, units
from pinchpoint.run.run import describe_run, run_all, unmeasured
from pinchpoint.scenario.plain import to_plain
from pinchpoint.store.folder import RunFolder


@pytest.fixture
def folder(tmp_path):
    """A run over three points that nobody has begun."""
    swept = sweep(factor([1, 2, 3]))
    made = RunFolder.create(tmp_path, "run")
    plain = [to_plain(unit) for unit in units([swept])]
    made.write_info(describe_run(Local(), made.run_id, ["pinchpoint"], plain, {}, [info(swept)]))
    return made


def resume(folder, monkeypatch, outcomes):
    """The command's exit code if the points end like this."""

    def run_one(unit, *_):
        outcome = outcomes.get(unit.point.levels["rules"], Outcome.MEASURED)
        if isinstance(outcome, Interrupted):
            raise outcome
        return measured(unit, 1e6) if outcome is Outcome.MEASURED else unmeasured(unit, outcome, "because", 1.0)

    def run_here(context, wanted, *_):
        return run_all(context, wanted, run_one, lambda *_: None)

    monkeypatch.setattr(command, "run_all", run_here)
    monkeypatch.setattr(command, "held", lambda *_: machine_lock(Local(), folder.path))  # a real run may be going on
    return main(["run", "--quiet", "--resume", str(folder.path)])


def test_what_is_impossible_or_needless_is_no_failure(folder, monkeypatch):
    assert resume(folder, monkeypatch, {2: Outcome.IMPOSSIBLE, 3: Outcome.SKIPPED}) == 0


def test_an_interrupted_run_prints_what_has_ended_and_no_empty_table(folder, monkeypatch, capsys):
    assert resume(folder, monkeypatch, {1: Interrupted("interrupted")}) == 130
    told = capsys.readouterr()
    assert told.out == "" and "--resume" in told.err
    assert resume(folder, monkeypatch, {2: Interrupted("interrupted")}) == 130
    assert "report.html" in capsys.readouterr().out


def test_a_run_without_any_number_could_not_be_decided_and_says_why_first(folder, monkeypatch, capsys):
    left_out = dict.fromkeys((1, 2, 3), Outcome.SKIPPED)
    assert resume(folder, monkeypatch, left_out) == UNDECIDED
    told = capsys.readouterr().err
    assert told.startswith("pinchpoint: could not be decided: g-rules-1, g-rules-2, g-rules-3: skipped: because\n")


@pytest.mark.parametrize("command", [["run", "--resume"], ["trend"]])
def test_a_folder_that_is_no_run_has_advice(tmp_path, capsys, command):
    assert main([*command, str(tmp_path)]) == 2
    assert "no run.json)\n  hint: give " in capsys.readouterr().err


def test_failed_points_end_with_an_exit_code_and_their_names(folder, monkeypatch, capsys):
    assert resume(folder, monkeypatch, {2: Outcome.FAILED}) == 4
    assert "1 point failed: g-rules-2\n  hint: pinchpoint run --resume" in capsys.readouterr().err
    assert resume(folder, monkeypatch, {}) == 0


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"host": {"kernel": "5.4.0"}}, "kernel: 5.4.0 then, "),
        ({"versions": {"pinchpoint": "0.0.1"}}, "pinchpoint: 0.0.1 then, "),
    ],
)
def test_a_run_is_resumed_only_where_and_with_what_it_was_begun(folder, monkeypatch, capsys, changes, told):
    begun = folder.read_info()
    other = {name: {**getattr(begun, name), **values} for name, values in changes.items()}
    folder.write_info(replace(begun, **other))
    assert resume(folder, monkeypatch, {}) == 2
    assert told in capsys.readouterr().err
    folder.write_info(replace(begun, host={**begun.host, "memory": "1.0 GiB"}))
    assert resume(folder, monkeypatch, {}) == 0
