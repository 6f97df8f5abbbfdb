"""Progress for logs: one line every ten seconds at most, and nothing is lost between two of them."""

from dataclasses import replace

import pytest
from sample_shared import shared_run

from pinchpoint.cli.terminal import EVERY_S, PlainProgress, progress
from pinchpoint.model.measurement import Bound, Metric

INFO, RESULT, TRIALS = shared_run()
OWN = [trial for trial in TRIALS if trial.scenario == "2-snat-255"]


class _Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def _search(shown: PlainProgress, clock: _Clock, trials: int) -> None:
    """Trials of half a second each."""
    shown.phase("search", trials)
    for trial in OWN[:trials]:
        shown.trial_begins(trial.id, trial.duration_s, trial.load_fps)
        clock.now_s += 0.5
        shown.trial_ends(trial)


def test_a_log_gets_at_most_one_line_in_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    clock = _Clock()
    shown = PlainProgress(clock)
    for number in range(30):
        shown.building(number, 30, "add port")
    _search(shown, clock, 96)
    lines = capsys.readouterr().err.splitlines()
    assert 48 / EVERY_S - 1 <= len(lines) <= 1 + 48 / EVERY_S


def test_a_line_says_what_the_device_carries_and_what_time_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    clock = _Clock()
    shown = PlainProgress(clock)
    _search(shown, clock, 60)
    last = capsys.readouterr().err.splitlines()[-1]
    assert "search" in last and "carries about 1.96 Mpps" in last
    assert last.index("trial ") < last.index(" left") < 80  # a narrow terminal cuts the end


def test_scenarios_that_end_between_two_lines_stand_in_the_next_one(capsys: pytest.CaptureFixture[str]) -> None:
    clock = _Clock()
    shown = PlainProgress(clock)
    shown.building(1, 1, "start the switch")
    for scenario in RESULT.scenarios:
        shown.scenario_ends(scenario)
    shown.building(1, 1, "start the switch")
    assert len(capsys.readouterr().err.splitlines()) == 1
    clock.now_s += EVERY_S
    shown.building(1, 1, "start the switch")
    (line,) = capsys.readouterr().err.splitlines()
    assert "1-forward: NDR 4.53 Mpps" in line and "3-snat-65536: NDR 685 kpps" in line


def test_a_rate_that_was_refused_is_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    clock = _Clock()
    shown = PlainProgress(clock)
    scenario = RESULT.scenarios[0]
    lost = replace(scenario.rates[0], lower_fps=None, upper_fps=None, estimate_fps=None)
    shown.scenario_ends(replace(scenario, rates=(lost,)))
    shown.building(1, 1, "x")
    assert "NDR no number" in capsys.readouterr().err


def test_a_metric_that_was_refused_is_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    shown = PlainProgress(_Clock())
    refused = Metric("relative rate", "x", 0.0, note="one slice in three was overloaded", bound=Bound.REFUSED)
    shown.scenario_ends(replace(RESULT.scenarios[0], rates=(), metrics=(refused,)))
    shown.building(1, 1, "x")
    assert "relative rate no number" in capsys.readouterr().err


def test_progress_writes_nothing_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    for quiet in (True, False):
        with progress(quiet) as listener:
            listener.building(1, 2, "start the switch")
            for scenario in RESULT.scenarios:
                listener.scenario_ends(scenario)
            listener.building(2, 2, "add a port")
    assert capsys.readouterr().out == ""


def test_trials_that_are_not_judged_are_numbered_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the ceiling test only begin."""
    clock = _Clock()
    shown = PlainProgress(clock)
    shown.phase("ceiling", 0)
    for trial in OWN[:3]:
        shown.trial_begins(trial.id, trial.duration_s, trial.load_fps)
        clock.now_s += EVERY_S
    assert "trial 3: " in capsys.readouterr().err
