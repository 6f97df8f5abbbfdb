"""Printing for people: tables that line up, plain when piped, NO_COLOR honoured (rich does both); files they name.

And what is shown during a run or a campaign: one live line on a terminal, a line every ten seconds when piped.
"""

import math
import os
import re
import shlex
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from pinchpoint.engine.instrument import HIGHEST_FPS
from pinchpoint.findings.comparing import is_answer, judged, percent, why_undecided
from pinchpoint.measure.standing import Listener
from pinchpoint.model import units
from pinchpoint.model.campaign import MachineProgress, Progress
from pinchpoint.model.comparison import Comparison, Judged, State
from pinchpoint.model.errors import UNDECIDED, WORSE, InputError
from pinchpoint.model.measurement import Bound, Measurement, Metric
from pinchpoint.model.result import Outcome, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.report import render_comparison_table, words
from pinchpoint.run.stored import StoredRun
from pinchpoint.store.folder import COMPARISON, storing

_PIPED_WIDTH = 200
_OBEYED: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Terminal(Console):
    """A console on which texts cannot steer the terminal: they come from files, devices and hosts."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What is printed, each character that a terminal would obey replaced by U+FFFD."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else _OBEYED.sub("\ufffd", text), style, control)


def console() -> Console:
    """Standard output. A pipe has no width: it is taken to be so wide that nothing is wrapped or cut."""
    return Terminal(highlight=False, width=None if sys.stdout.isatty() else _PIPED_WIDTH)


def tell(message: str, hint: str = "") -> None:
    """On standard error, beside the results."""
    click.echo(f"pinchpoint: {message}\n  hint: {hint}" if hint else f"pinchpoint: {message}", err=True)


def next_step(*words: str, as_json: bool = False) -> None:
    """Print the next command to run, on a terminal only; nothing without words."""
    if words and not as_json and sys.stdout.isatty():
        click.echo(f"next: {shlex.join(('pinchpoint', *words))}")


@contextmanager
def redrawn(on: Console) -> Iterator[Callable[[RenderableType], None]]:
    """What draws in place of what it drew before, on a terminal; gone at the end.

    Redrawn when it is called only: a clock that moved during a trial would take time from a measuring core.
    """
    with Live(console=on, auto_refresh=False, transient=True) as live:
        yield lambda shown: live.update(shown, refresh=True)


def show_comparison(comparison: Comparison, as_json: bool, folder: Path | None = None) -> None:
    """Print it; `folder` is where its page stands."""
    if as_json:
        click.echo(COMPARISON.encode(comparison, "comparison"))
    else:
        print_table(render_comparison_table(comparison), None if folder is None else folder / "comparison.html")


def print_table(table: RenderableType, page: Path | None) -> None:
    """A table, and where its page is."""
    out = console()
    out.print(table)
    if page is not None and page.exists():
        out.print(f"Report: {page}")


def gate(comparison: Comparison, limit: float | None) -> int:
    """The exit code, with its reason on stderr: 0, or UNDECIDED without a ratio.

    With a `limit` (a share): WORSE if a judged metric is worse by more, UNDECIDED if one cannot be judged against it.
    """
    by_metric = judged(comparison, limit or 0.0)
    against = [judgement.metric for judgement in by_metric if limit is not None and judgement.state is State.REGRESSION]
    open_ones = [judgement.metric for judgement in by_metric if _is_open(judgement, limit)]
    worse = f"B is worse by more than {percent(limit or 0.0)}"
    lines = [f"{metric.metric}: {worse}: {metric.sentence}" for metric in against]
    lines += [f"could not be decided: {why_undecided(metric)}" for metric in open_ones]
    lines += [] if by_metric else ["could not be decided: no metric could be judged"]
    for line in lines:
        tell(line)
    return WORSE if against else UNDECIDED if lines else 0


def _is_open(judgement: Judged, limit: float | None) -> bool:
    return not is_answer(judgement.metric) or (limit is not None and judgement.state is State.UNDECIDED)


def gate_of(stored: StoredRun) -> int:
    """The same of a run, which holds the limit it was asked for; 0 for a run without a comparison."""
    comparison, request = stored.comparison, stored.info.comparison
    return gate(comparison, request.fail_if_worse) if comparison is not None and request is not None else 0


def write_text(path: Path, text: str, option: str, mode: str = "w") -> None:
    """Write a file that `option` names. Raises StoreError."""
    with storing(path, f"choose another file for {option}"), path.open(mode, encoding="utf-8") as file:
        file.write(text)


EVERY_S: Final = 10.0
"""A log gets at most one line in this time, whatever happens, unless LOG_EVERY_S says otherwise."""
LOG_EVERY_S: Final = "PINCHPOINT_LOG_EVERY_S"
"""Environment variable: seconds between two lines of a log; 0: a line for every step."""
_RECENT: Final = 7  # trials that show what the device carries just now


@contextmanager
def progress(quiet: bool) -> Iterator[Listener]:
    """The listener for this terminal; progress goes to stderr, so that stdout stays clean."""
    console = Terminal(stderr=True, highlight=False)
    if quiet:
        yield Listener()
    elif console.is_terminal:
        with redrawn(console) as draw:
            yield _LiveProgress(draw, console)
    else:
        yield PlainProgress(every_s=log_every_s())


def log_every_s() -> float:
    """Raises InputError if the variable holds no number of seconds."""
    text = os.environ.get(LOG_EVERY_S, "")
    try:
        every_s = float(text or EVERY_S)
    except ValueError:
        every_s = -1.0
    if not 0 <= every_s < math.inf:
        raise InputError(f"{LOG_EVERY_S}={text}: expected a number of seconds, 0 or more")
    return every_s


class _Log:
    """On stderr, each line with the seconds since the first; none is due within `every_s` of the one before."""

    def __init__(self, every_s: float, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._every_s, self._clock_s = every_s, clock_s
        self._began_s = self._next_s = clock_s()

    @property
    def is_due(self) -> bool:
        return self._clock_s() >= self._next_s

    def write(self, text: str) -> None:
        self._next_s = self._clock_s() + self._every_s
        print(f"[{self._clock_s() - self._began_s:7.1f} s] {text}", file=sys.stderr, flush=True)


class _State(Listener):
    """What both displays know."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.clock_s = clock_s
        self.title = ""
        self.phase_name = ""
        self.expected = 0
        self.begun = self.done = 0  # trials of the phase
        self.phase_began_s = clock_s()
        self.carried_fps = deque[float](maxlen=_RECENT)
        self.trial = ""
        self.last = ""
        self.run_left_s = 0.0
        self.unit_began_s = self.phase_began_s
        self.units = 0

    def changed(self) -> None:
        """There is something new to show; never called during a trial."""

    def finished(self, text: str) -> None:
        """A scenario is at its end."""

    def run_left(self, left_s: float) -> None:
        self.run_left_s = left_s

    def scenario_begins(self, scenario: Scenario, number: int, total: int) -> None:
        self.title = f"{scenario.name} ({number}/{total})"
        self.carried_fps.clear()
        self.last = self.trial = ""
        self.unit_began_s, self.units = self.clock_s(), total

    def building(self, number: int, total: int, what: str) -> None:
        self.phase_name, self.trial = "building", f"{number}/{total} {what}"
        self.changed()

    def phase(self, name: str, expected_trials: int) -> None:
        self.phase_name, self.expected, self.begun, self.done = name, expected_trials, 0, 0
        self.phase_began_s = self.clock_s()

    def trial_begins(self, trial_id: str, duration_s: float, load_fps: float) -> None:
        burst = f"{units.frames(int(duration_s * load_fps))} frames back to back"
        sent = burst if load_fps == HIGHEST_FPS else f"{duration_s:.6g} s at {units.fps(load_fps)}"
        self.begun += 1
        self.trial = f"trial {self.begun}: {sent}"
        self.changed()

    def trial_ends(self, trial: Trial) -> None:
        self.done += 1
        self.last = outcome(trial)
        if trial.phase == "search" and trial.validity is TrialValidity.VALID and trial.sent_duration_s:
            self.carried_fps.append(trial.carried_fps)

    def measurement_begins(self, name: str, expected_s: float) -> None:
        self.phase_name, self.expected, self.done = "measuring", 0, 0
        self.trial = f"{name}, about {units.duration(max(1.0, expected_s))}"
        self.changed()

    def measurement_ends(self, measurement: Measurement) -> None:
        self.last = measured(measurement)

    def scenario_ends(self, result: ScenarioResult) -> None:
        self.finished(_finished(result))

    def line(self) -> str:
        """Everything worth knowing now, in one line; a narrow terminal cuts its end."""
        parts = (self.title, self.phase_name, self.trial, self.time_left(), self.whole_run(), self._now(), self.last)
        return "  ·  ".join(part for part in parts if part)

    def _now(self) -> str:
        """What came back lately: the rate moves, and this follows it."""
        return f"carries about {units.fps(median(self.carried_fps))}" if self.carried_fps else ""

    def time_left(self) -> str:
        """Of this phase, from its own pace; an estimate, since a search decides as it goes."""
        if not self.done or not self.expected or self.phase_name == "building":
            return ""
        pace_s = (self.clock_s() - self.phase_began_s) / self.done
        left_s = max(0, self.expected - self.done) * pace_s
        return f"about {_clock(left_s)} left" if left_s >= 1 else "nearly done"

    def whole_run(self) -> str:
        """What the whole run will take from now on, where it has more than one unit."""
        left_s = self.run_left_s - (self.clock_s() - self.unit_began_s)
        return f"run: about {_clock(left_s)} left" if self.units > 1 and left_s >= 1 else ""


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def outcome(trial: Trial) -> str:
    """One trial in a few words."""
    if trial.validity is not TrialValidity.VALID:
        return f"{trial.validity.words}: {trial.reason}"
    lost = f"lost {units.loss(trial.loss_ratio)} ({units.frames(trial.lost)} frames)" if trial.lost else "no loss"
    frames = "" if trial.burst_frames is None else f"{units.frames(trial.burst_frames)} frames at "
    return f"{frames}{units.fps(trial.load_fps)}: {lost}"


def measured(measurement: Measurement) -> str:
    """One measurement in a few words: its first figure, or why there is none."""
    if measurement.validity is not TrialValidity.VALID:
        return f"{measurement.validity.words}: {measurement.reason}"
    return _first(measurement.metrics)


def _one_line(text: str) -> Text:
    return Text(text, overflow="ellipsis", no_wrap=True)


class _LiveProgress(_State):
    """One line that is redrawn in place."""

    def __init__(self, draw: Callable[[RenderableType], None], console: Console) -> None:
        super().__init__()
        self._draw, self._console = draw, console

    def changed(self) -> None:
        self._draw(_one_line(self.line()))

    def finished(self, text: str) -> None:
        self._console.print(text, markup=False)


class PlainProgress(_State):
    """For logs: at most one line in `every_s`; what ends in between stands in the next one."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic, every_s: float = EVERY_S) -> None:
        super().__init__(clock_s)
        self._log = _Log(every_s, clock_s)
        self._ended: list[str] = []

    def changed(self) -> None:
        if self._log.is_due:
            self._log.write("; ".join(filter(None, (*self._ended, self.line()))))
            self._ended.clear()

    def finished(self, text: str) -> None:
        self._ended.append(text)

    def phase(self, name: str, expected_trials: int) -> None:
        super().phase(name, expected_trials)
        self.trial = self.last = ""
        self.changed()


def _finished(result: ScenarioResult) -> str:
    if result.outcome is not Outcome.MEASURED:
        return f"{result.scenario}: {result.outcome.value}: {result.reason}"
    if not result.rates:
        return f"{result.scenario}: {_first(result.metrics)}; {result.wall_s:.0f} s"
    rates = ", ".join(f"{rate.name} {words.quoted(rate)}" for rate in result.rates)
    return f"{result.scenario}: {rates}; {units.counted(result.trials, 'trial')} in {result.wall_s:.0f} s"


def _first(metrics: Sequence[Metric]) -> str:
    """The first figure; a refused one has a reason and no value."""
    if not metrics:
        return "measured"
    first = metrics[0]
    if first.bound is Bound.REFUSED:
        return f"{first.name} {words.NO_NUMBER}"
    return f"{first.name} {units.quantity(first.value, first.unit)}"


_MOST = 6  # machines that are named


@contextmanager
def campaign_progress(quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """What shows the progress of a campaign, on stderr."""
    console = Terminal(stderr=True, highlight=False)
    if quiet:
        yield lambda _: None
    elif console.is_terminal:
        with redrawn(console) as draw:
            yield lambda progress: draw(_one_line(campaign_line(progress)))
    else:
        log = _Log(log_every_s())

        def show(progress: Progress) -> None:
            if log.is_due:
                log.write(campaign_line(progress))

        yield show


def campaign_line(progress: Progress) -> str:
    """Everything worth knowing now, in one line."""
    parts = [f"{progress.measured} of {progress.units} measured"]
    parts += [f"{progress.left_out} left out"] if progress.left_out else []
    parts += [f"{progress.withdrawn} to be measured again"] if progress.withdrawn else []
    parts += [f"about {units.duration(progress.left_s)} left"] if progress.left_s and progress.left_s >= 1 else []
    parts += [f"cost {progress.cost:.4g}"] if progress.cost else []
    busy = [machine for machine in progress.machines if machine.state != "gone"]
    parts += [_machine(machine) for machine in busy[:_MOST]]
    parts += [units.counted(len(busy) - _MOST, "more machine")] if len(busy) > _MOST else []
    return "  ·  ".join(parts)


def _machine(machine: MachineProgress) -> str:
    return f"{machine.name}: {machine.unit or machine.state}"
