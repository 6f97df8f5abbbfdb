"""The command that comes next: the last line on a terminal, and nowhere else."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from sample import sample_run
from served import LATER, keep

from pinchpoint.cli.main import main
from pinchpoint.cli.run import next_of
from pinchpoint.model.comparison import ComparisonRequest
from pinchpoint.model.result import Limit, Outcome, Verdict

QUICKSTART = Path(__file__).parents[3] / "studies" / "quickstart" / "1-forward.toml"
INFO, RESULT, _ = sample_run()
ALONE = replace(RESULT, scenarios=RESULT.scenarios[:1])
BY_ITS_CORE = Verdict(Limit.FORWARDING_CORE, "PMD core 1 is saturated", (), (), ())
DEVICES = replace(ALONE, scenarios=tuple(replace(scenario, verdict=BY_ITS_CORE) for scenario in ALONE.scenarios))
OF_ONE = replace(INFO, scenarios=({"name": "1-forward", "path": "first.toml"},))


@pytest.fixture
def last_line(monkeypatch, tmp_path, capsys):
    """Runs a command where runs/ has two, of which the newer one is unfinished; returns what it ends with."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    keep(tmp_path / "runs", "one", sample_run())
    keep(tmp_path / "runs", "two", sample_run(), done=1, started=LATER)

    def run(*words, on_terminal=True):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: on_terminal)
        assert main(words) == 0
        return capsys.readouterr().out.splitlines()[-1]

    return run


@pytest.mark.parametrize(
    ("words", "following"),
    [
        (("show", "@last-1"), "serve runs"),
        (("show", "@last"), "run --resume runs/two"),
        (("runs",), "show runs/two"),
        (("check", str(QUICKSTART), "--quick"), f"run {QUICKSTART} --quick"),
        (("check", str(QUICKSTART), "--set", "engine.cpus=[0]"), f"run {QUICKSTART} --set 'engine.cpus=[0]'"),
    ],
)
def test_a_command_ends_with_the_one_that_comes_next(last_line, words, following):
    assert last_line(*words) == f"next: pinchpoint {following}"


@pytest.mark.parametrize("words", [("show", "@last"), ("runs",)])
def test_what_is_piped_or_for_machines_ends_with_what_was_found(last_line, words):
    assert not last_line(*words, on_terminal=False).startswith("next:")
    assert not last_line(*words, "--json").startswith("next:")


@pytest.mark.parametrize(
    ("info", "result", "outcome", "following"),
    [
        (OF_ONE, DEVICES, None, ("explain", "runs/x")),
        (OF_ONE, ALONE, None, ("ceiling", "first.toml")),  # the generator was its limit
        (INFO, RESULT, None, ("serve", "runs")),
        (OF_ONE, replace(ALONE, finished=False), None, ("run", "--resume", "runs/x")),
        (OF_ONE, ALONE, Outcome.FAILED, ("run", "--resume", "runs/x")),
        (replace(OF_ONE, explains=True), ALONE, None, ("compare", "first.toml", "--set-b", "KEY=VALUE")),
        (replace(INFO, comparison=ComparisonRequest("A", "B", 6, ())), RESULT, None, ("pack", "runs/x")),
    ],
)
def test_what_comes_next_is_told_by_what_a_run_is_and_has_found(info, result, outcome, following):
    stored = SimpleNamespace(info=info, result=result, folder=SimpleNamespace(path=Path("runs/x")))
    stored.ended_as = lambda asked: [asked] if asked is outcome else []
    assert next_of(stored) == following
