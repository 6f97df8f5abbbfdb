"""`pinchpoint runs`, and runs named by how long ago they were."""

import json

import pytest
from sample import sample_run
from sample_study import study_run
from served import LATER, keep

from pinchpoint.cli.main import main


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two runs in runs/ of the working folder, `two` the newer one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "runs"
    keep(root, "one", sample_run())
    keep(root, "two", sample_run(), done=1, started=LATER)
    return root


@pytest.mark.tier1("command:runs")
def test_runs_are_listed_the_newest_first_with_their_first_number(runs, capsys):
    assert main(["runs"]) == 0
    heading, newest, before = (line.strip() for line in capsys.readouterr().out.splitlines() if line.strip(" ─"))
    assert heading.split() == ["run", "started", "what", "result", "pinched", "by"]
    assert newest.startswith("@last  two") and "(unfinished)" in newest
    assert before.startswith("@last-1  one") and "NDR at least 7.10 Mpps" in before


def test_runs_for_machines_are_a_list(runs, capsys):
    assert main(["runs", str(runs), "--json"]) == 0
    assert [row["id"] for row in json.loads(capsys.readouterr().out)] == ["two", "one"]


def test_commands_that_read_a_run_take_it_by_how_long_ago_it_was(runs, capsys):
    assert main(["show", "@last-1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run_id"] == "one"
    assert main(["show", "@last", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run_id"] == "two"


def test_runs_of_a_trend_and_of_a_gate_are_named_so_too(runs, capsys):
    assert main(["trend", "@last-1", "@last"]) == 9  # too few
    assert main(["ci", "@last-1", "@latest"]) == 2
    assert "@latest: expected @last" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "words"), [("@last-2", "runs/ has 2 runs"), ("@latest", "expected @last")])
def test_a_run_that_there_is_not_is_bad_input(runs, capsys, name, words):
    assert main(["show", name]) == 2
    assert words in capsys.readouterr().err


def test_without_runs_the_list_says_so_and_the_last_one_is_bad_input(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert main(["report", "@last"]) == 2
    assert "runs/ has 0 runs" in capsys.readouterr().err
    (tmp_path / "runs").mkdir()
    assert main(["runs"]) == 0
    assert "no runs yet" in capsys.readouterr().out


def test_a_metric_that_neither_run_has_is_told_with_the_likely_one(runs, capsys):
    assert main(["compare", "@last-1", "@last", "--metric", "NRD"]) == 2
    told = capsys.readouterr().err
    assert "neither runs/one nor runs/two has NRD\n  hint: did you mean NDR? their metrics: NDR" in told


def test_scenarios_that_two_runs_do_not_share_are_compared_by_chosen_pairs(runs, capsys):
    keep(runs, "study", study_run())
    other = study_run()[1].scenarios[0].scenario
    assert main(["compare", "runs/one", "runs/study"]) == 2
    assert "no scenario in common" in (told := capsys.readouterr().err) and f"--match forward={other}" in told
    assert main(["compare", "runs/one", "runs/study", "--match", f"snat-255={other}", "--json"]) in (0, 9)
    (part,) = json.loads(capsys.readouterr().out)["scenarios"]
    assert (part["a"], part["b"]) == ("snat-255", other)


def test_a_folder_to_serve_that_is_not_there_is_bad_input_and_is_not_made(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["serve", "rusn"]) == 2
    assert "rusn: no such folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
