"""What is shown while a run goes on: one live line on a terminal, plain lines when piped."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from pinchpoint.engine.instrument import HIGHEST_FPS
from pinchpoint.model import units
from pinchpoint.model.measurement import Measurement, Metric
from pinchpoint.model.result import Outcome, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.sweep.listener import Listener


@contextmanager
def progress(quiet: bool) -> Iterator[Listener]:
    """The listener for this terminal; progress goes to stderr, so that stdout stays clean."""
    console = Console(stderr=True, highlight=False)
    if quiet:
        yield Listener()
    elif console.is_terminal:
        # Redrawn between trials only: a clock that moved during one would take time from a measuring core.
        with Live(console=console, auto_refresh=False, transient=True) as live:
            yield _LiveProgress(live)
    else:
        yield _PlainProgress()


class _State(Listener):
    """What both displays know."""

    def __init__(self) -> None:
        self.title = ""
        self.phase_name = ""
        self.expected = 0
        self.done = 0
        self.phase_began = time.monotonic()
        self.lossless_fps: float | None = None
        self.lossy_fps: float | None = None
        self.trial = ""
        self.last = ""
        self.run_left_s = 0.0
        self.unit_began = self.phase_began
        self.units = 0

    def run_left(self, left_s: float) -> None:
        self.run_left_s = left_s

    def scenario_begins(self, scenario: Scenario, number: int, total: int) -> None:
        self.title = f"{scenario.name} ({number}/{total})"
        self.lossless_fps = self.lossy_fps = None
        self.last = self.trial = ""
        self.unit_began, self.units = time.monotonic(), total

    def building(self, number: int, total: int, what: str) -> None:
        self.phase_name, self.trial = "building", f"{number}/{total} {what}"

    def phase(self, name: str, expected_trials: int) -> None:
        self.phase_name, self.expected, self.done = name, expected_trials, 0
        self.phase_began = time.monotonic()

    def trial_begins(self, trial_id: str, duration_s: float, load_fps: float) -> None:
        burst = f"{units.frames(int(duration_s * load_fps))} frames back to back"
        sent = burst if load_fps == HIGHEST_FPS else f"{duration_s:.6g} s at {units.fps(load_fps)}"
        self.trial = f"trial {self.done + 1}: {sent}"

    def trial_ends(self, trial: Trial) -> None:
        self.done += 1
        self.last = outcome(trial)
        if trial.phase != "search" or trial.validity is not TrialValidity.VALID:
            return
        if trial.lost == 0:
            self.lossless_fps = max(self.lossless_fps or 0.0, trial.load_fps)
        elif self.lossy_fps is None or trial.load_fps < self.lossy_fps:
            self.lossy_fps = trial.load_fps

    def measurement_begins(self, name: str, expected_s: float) -> None:
        self.phase_name, self.expected, self.done = "measuring", 0, 0
        self.trial = f"{name}, about {units.duration(max(1.0, expected_s))}"

    def measurement_ends(self, found: Measurement) -> None:
        self.last = measured(found)

    def bounds(self) -> str:
        """The highest load without loss and the lowest with, so far."""
        if self.lossless_fps is None and self.lossy_fps is None:
            return ""
        return f"lossless to {units.fps(self.lossless_fps)}, loss from {units.fps(self.lossy_fps)}"

    def time_left(self) -> str:
        """Of this phase, from its own pace; an estimate, since a search decides as it goes."""
        if not self.done or not self.expected or self.phase_name == "building":
            return ""
        pace_s = (time.monotonic() - self.phase_began) / self.done
        left_s = max(0, self.expected - self.done) * pace_s
        return f"about {_clock(left_s)} left" if left_s >= 1 else "nearly done"

    def whole_run(self) -> str:
        """What the whole run will take from now on, where it has more than one unit."""
        left_s = self.run_left_s - (time.monotonic() - self.unit_began)
        return f"run: about {_clock(left_s)} left" if self.units > 1 and left_s >= 1 else ""


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def outcome(trial: Trial) -> str:
    """One trial in a few words."""
    if trial.validity is not TrialValidity.VALID:
        return f"{trial.validity.value}: {trial.reason}"
    lost = f"lost {units.loss(trial.loss_ratio)} ({units.frames(trial.lost)} frames)" if trial.lost else "no loss"
    frames = "" if trial.burst_frames is None else f"{units.frames(trial.burst_frames)} frames at "
    return f"{frames}{units.fps(trial.load_fps)}: {lost}"


def measured(found: Measurement) -> str:
    """One measurement in a few words: its first figure, or why there is none."""
    if found.validity is not TrialValidity.VALID:
        return f"{found.validity.value}: {found.reason}"
    return _first(found.metrics)


class _LiveProgress(_State):
    """One line that is redrawn in place."""

    def __init__(self, live: Live) -> None:
        super().__init__()
        self._live = live

    def _redraw(self) -> None:
        parts = [self.title, self.phase_name, self.trial, self.last, self.bounds(), self.time_left(), self.whole_run()]
        line = "  ·  ".join(part for part in parts if part)
        self._live.update(Text(line, overflow="ellipsis", no_wrap=True), refresh=True)

    def building(self, number: int, total: int, what: str) -> None:
        super().building(number, total, what)
        self._redraw()

    def trial_begins(self, trial_id: str, duration_s: float, load_fps: float) -> None:
        super().trial_begins(trial_id, duration_s, load_fps)
        self._redraw()

    def measurement_begins(self, name: str, expected_s: float) -> None:
        super().measurement_begins(name, expected_s)
        self._redraw()

    def scenario_ends(self, result: ScenarioResult) -> None:
        self._live.console.print(_finished(result), markup=False)


class _PlainProgress(_State):
    """One line an event, for logs."""

    def __init__(self) -> None:
        super().__init__()
        self._began = time.monotonic()

    def _say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began:7.1f} s] {self.title}: {text}", file=sys.stderr, flush=True)

    def scenario_begins(self, scenario: Scenario, number: int, total: int) -> None:
        super().scenario_begins(scenario, number, total)
        if self.whole_run():
            self._say(self.whole_run())

    def building(self, number: int, total: int, what: str) -> None:
        if number in (1, total):
            self._say(f"building, action {number} of {total}")

    def phase(self, name: str, expected_trials: int) -> None:
        super().phase(name, expected_trials)
        self._say(f"{name}, about {expected_trials} trials")

    def trial_ends(self, trial: Trial) -> None:
        super().trial_ends(trial)
        extra = "; ".join(part for part in (self.bounds(), self.time_left()) if part)
        self._say(f"{trial.phase} trial {self.done}: {self.last}" + (f"  [{extra}]" if extra else ""))

    def measurement_begins(self, name: str, expected_s: float) -> None:
        super().measurement_begins(name, expected_s)
        self._say(f"measuring {self.trial}")

    def measurement_ends(self, found: Measurement) -> None:
        super().measurement_ends(found)
        self._say(f"{found.id}: {self.last}")

    def scenario_ends(self, result: ScenarioResult) -> None:
        self.title = "finished" if result.outcome is Outcome.MEASURED else "not measured"
        self._say(_finished(result))


def _finished(result: ScenarioResult) -> str:
    if result.outcome is not Outcome.MEASURED:
        return f"{result.scenario}: {result.outcome.value}: {result.reason}"
    if not result.rates:
        return f"{result.scenario}: {_first(result.metrics)}; {result.wall_s:.0f} s"
    rates = ", ".join(f"{rate.name} {units.fps(rate.quoted_fps)} ({rate.status.value})" for rate in result.rates)
    return f"{result.scenario}: {rates}; {result.trials} trials in {result.wall_s:.0f} s"


def _first(metrics: Sequence[Metric]) -> str:
    return next((f"{metric.name} {units.quantity(metric.value, metric.unit)}" for metric in metrics), "measured")
