"""The measure `load`: what given rates cost the DUT, on a bench that stands."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import ClassVar, Final

from pinchpoint.dut.registry import device_of
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table
from pinchpoint.measure.forwarding import of_threads, of_trial
from pinchpoint.measure.frames import over_frames
from pinchpoint.measure.kind import TRIAL_S, MeasureKind, asked
from pinchpoint.measure.session import Session, first_round
from pinchpoint.measure.summary import by_name
from pinchpoint.model import units
from pinchpoint.model.measurement import THREAD_BUSY, Metric
from pinchpoint.model.result import ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import ThreadFigure, Trial
from pinchpoint.model.warning import ResultWarning, Warn

PHASE = "load"


@dataclass(frozen=True)
class Load:
    """The rates at which the DUT's load is measured."""

    kind: ClassVar[str] = "load"
    at_fps: tuple[float, ...]
    duration_s: float
    repeats: int


LOAD: Final = Table("load", "The rates at which the DUT's load is measured.", (
    Key("at_fps", kinds.numbers(1, 1e9), "Frames per second, all streams together."),
    Key("duration_s", kinds.number(0.05, 3600), "Length of each trial, seconds.", 1.0),
    Key("repeats", kinds.integer(1, 100), "Trials at each rate.", 3),
), measures=("load",))  # fmt: skip


def expected_s(scenario: Scenario) -> float:
    """Seconds on a bench that stands."""
    load = asked(scenario, Load)
    return first_round(scenario)[0] + len(load.at_fps) * load.repeats * (load.duration_s + TRIAL_S)


def measure_loads(session: Session) -> ScenarioResult:
    """All trials of one scenario on a bench that stands, and what follows from them."""
    load, device = asked(session.scenario, Load), device_of(session.scenario)
    session.warm_up()
    session.listener.phase(PHASE, len(load.at_fps) * load.repeats)
    by_rate, why_not = dict[float, list[Trial]](), list[ResultWarning]()
    for at_fps in load.at_fps:
        trial = partial(session.trial, PHASE)
        by_rate[at_fps], invalid = session.repeated(load.repeats, trial, load.duration_s, at_fps)
        if invalid is not None:
            valid = len(by_rate[at_fps])
            told = Warn.RATE_NOT_JUDGED.of(invalid.reason, load_fps=at_fps, valid=valid, asked=load.repeats)
            why_not.append(told)
    metrics = [metric for at_fps, trials in by_rate.items() for metric in of_load(at_fps, trials, device.figures)]
    highest = by_rate[max((at_fps for at_fps in by_rate if by_rate[at_fps]), default=load.at_fps[0])]
    failed = f"{'; '.join(map(str, why_not))}\n  hint: {Warn.RATE_NOT_JUDGED.advice}"
    return session.result(
        (*metrics, *(of_trial(highest[0], device) if highest else ())),
        why_not,
        failed="" if highest else f"no load could be measured: {failed}",
        of=[trial for trials in by_rate.values() for trial in trials],
    )


def of_load(at_fps: float, trials: Sequence[Trial], figures: Mapping[str, ThreadFigure]) -> Iterator[Metric]:
    """Metrics at one rate: the medians over `trials`, all valid, with their extremes."""
    every = [(*of_threads(trial.threads, figures), *_forwarded(trial)) for trial in trials]
    for name, metrics in by_name(every).items():
        values = [metric.value for metric in metrics]
        note = f"median, lowest and highest of {len(values)} trials" if len(values) > 1 else "one trial"
        name_there = f"{name} at {units.fps(at_fps)}"
        level = 1 - 0.5 ** (len(values) - 1)  # of the range, whatever the distribution
        yield Metric(name_there, metrics[0].unit, median(values), min(values), max(values), note, level=level)


def _forwarded(trial: Trial) -> Iterator[Metric]:
    """The loss; and when as many frames as intended would have been forwarded, had the trial gone on at its rate."""
    yield Metric("loss", "share", trial.loss_ratio)
    if trial.received and trial.intended:
        yield Metric("finished in", "s", trial.duration_s * trial.intended / trial.received)


MEASURE: Final = MeasureKind(
    made=Load,
    finds="CPU load of the DUT at given rates",
    table=lambda _: LOAD,
    run=over_frames(measure_loads),
    expected_s=expected_s,
    main=("cycles per packet at ", f"{THREAD_BUSY} at ", "loss at ", "finished in at "),
    has_limit=False,
    over_engines=True,
    through_service=True,
)
