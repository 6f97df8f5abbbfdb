"""The measure `soak`: a long time at one load, in windows, on a bench that stands.

It is one transmission, so that no second lies between two windows and every frame is
accounted for. The engine's samples end the windows; each is kept as it ends. A resumed soak
is a further transmission for the time that is left. A DUT that no longer answers does not end it:
whether it still forwards is what a soak is about.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import ClassVar, Final

from pinchpoint.account.validity import by_host
from pinchpoint.dut.device import Keys
from pinchpoint.dut.registry import device_of
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table, Unset
from pinchpoint.keys.reader import Values
from pinchpoint.keys.source import Source
from pinchpoint.measure.frames import measuring
from pinchpoint.measure.kind import Arrays, MeasureKind, asked, one_queue
from pinchpoint.measure.loop import Loop, loop_of
from pinchpoint.measure.rates.run import frame_bits, searched_ndr, searching_s
from pinchpoint.measure.session import OverTime, Session, first_round
from pinchpoint.measure.soak import metrics as diagnosis
from pinchpoint.measure.soak.metrics import Window
from pinchpoint.measure.standing import Begun, Standing
from pinchpoint.model import units
from pinchpoint.model.errors import DutError
from pinchpoint.model.measurement import THREAD_BUSY, Measurement
from pinchpoint.model.result import Rate, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import Cause, Sample, Trial, TrialValidity, went_back_words
from pinchpoint.model.warning import ResultWarning, Warn
from pinchpoint.observe.snapshot import Bracket

PHASE = "soak"
SHORTEST = 0.5  # of a window: less is not worth a transmission of its own


@dataclass(frozen=True)
class Soak:
    """A long time at one load, seen in windows."""

    kind: ClassVar[str] = "soak"
    load_fps: float | None  # None: `share` of the NDR, which is searched first
    share: float
    duration_s: float
    window_s: float


SOAK: Final = Table("soak",
    "A long time at one load, divided into windows without gaps between them. Each window is stored as it ends; "
    "`--resume` continues for the rest of the time.", (
    Key("load_fps", kinds.number(1, 1e9), "Frames per second, all streams together.",
        Unset("`share` of the NDR, which is searched first")),
    Key("share", kinds.number(0.01, 1), "Share of the NDR, where `load_fps` is not set.", 0.9),
    Key("duration_s", kinds.number(1, 2_592_000), "Length of all windows together, seconds.", 3600.0),
    Key("window_s", kinds.number(0.1, 3600),
        "Length of one window, seconds. Counters of host and switch are read at each end, on a core of the lab.", 10.0),
), measures=("soak",))  # fmt: skip


def check_keys(source: Source, soak: Values, arrays: Arrays, _: Keys) -> None:
    """A window fits into the soak, and every port has one queue."""
    one_queue(source, Soak.kind, arrays)
    if {"window_s", "duration_s"} <= soak.keys() and soak["window_s"] > soak["duration_s"]:
        lengths = f"{soak['window_s']:g} and {soak['duration_s']:g}"
        source.problem(("soak", "window_s"), f"expected at most soak.duration_s, found {lengths}")


class Windows:
    """Makes a measurement of each window as its sample comes, and keeps it."""

    def __init__(self, scenario: Scenario, bracket: Bracket, loop: Loop[Measurement]) -> None:
        """`loop` has those of an interrupted run, and keeps every new one."""
        self._scenario, self._device = scenario, device_of(scenario)
        self._bracket, self._loop = bracket, loop
        self._before, self._load_fps, self._most_under_way = diagnosis.BEGIN, 0.0, 0
        self.made = loop.records
        self._begun = self._begin()
        self.span_s = math.fsum(window.span_s for window in self.all)
        """Of all windows."""
        self.went_back: dict[str, None] = {}
        """Counters that were reset within a window."""
        self.unanswered = ""
        """When the DUT no longer answered, and what was asked; empty while it does."""

    @property
    def all(self) -> list[Window]:
        """Every window so far."""
        return diagnosis.corrected([diagnosis.read(measurement) for measurement in self.made])

    @property
    def load_fps(self) -> float | None:
        """That windows were made at; None before the first."""
        return diagnosis.read(self.made[0]).load_fps if self.made else None

    def begin(self, load_fps: float) -> None:
        """A transmission is about to start."""
        self._before, self._begun, self._load_fps = diagnosis.BEGIN, self._begin(), load_fps
        self._most_under_way = diagnosis.under_way([port.ring for port in self._scenario.ports], load_fps)
        self._bracket.open()

    def heard(self, sample: Sample) -> None:
        """A window has ended."""
        self._end(diagnosis.settled(sample, self._most_under_way))

    def finish(self, trial: Trial) -> None:
        """The transmission has ended: what came after the last sample is a short window of its own."""
        if trial.offered > self._before.offered or trial.lost != (self._before.lost or 0):
            last = trial.samples[-1] if trial.samples else diagnosis.BEGIN
            last = replace(last, offered=trial.offered, lost=trial.lost, received=trial.received)
            self._end(replace(last, elapsed_s=max(trial.sent_duration_s, self._before.elapsed_s)))

    def _end(self, sample: Sample) -> None:
        ends, span_s = (self._before, sample), sample.elapsed_s - self._before.elapsed_s
        seen, apart = self._seen(span_s), len(self._scenario.engine.cpus) > 1
        threads = self._device.loads(seen, span_s)
        window = diagnosis.window(self.span_s, self._load_fps, ends, seen, threads, receives_apart=apart)
        judged = by_host(diagnosis.disturbed(window, self._scenario.smallest_ring))
        metrics, changed = diagnosis.window_metrics(window), {name: value for name, value in seen.items() if value}
        told = self._begun.ended(metrics, asdict(window), changed, threads=threads, judged=judged)
        self._before = sample
        self.span_s += window.span_s
        self._loop.kept(told)
        self._begun = self._begin()

    def _seen(self, span_s: float) -> Mapping[str, float]:
        """What changed in the window that ends; nothing once the DUT has not answered: each question takes seconds."""
        if self.unanswered:
            return {}
        try:
            seen = self._bracket.turn()
        except DutError as error:
            ended_s = self.span_s + span_s
            self.unanswered = f"{ended_s:,.1f} s after the beginning the switch did not answer: {error.message}"
            return {}
        self.went_back |= dict.fromkeys(seen.went_back)
        return seen.flat()

    def _begin(self) -> Begun:
        number = len(self.made) + 1
        return Begun(self._scenario, f"{self._scenario.name}-w{number:05d}", number)


def expected_s(scenario: Scenario) -> float:
    """Seconds on a bench that stands."""
    soak = asked(scenario, Soak)
    searched_s = searching_s(scenario) if soak.load_fps is None else 0.0
    return first_round(scenario)[0] + searched_s + soak.duration_s


def measure_soak(bench: Standing) -> ScenarioResult:
    """Loss over time at the scenario's load. Raises what a trial raises, finished windows kept."""
    with measuring(bench) as session:
        windows = Windows(bench.scenario, bench.witness_bracket(), loop_of(bench, lambda _: True))
        return soak_scenario(session, windows, bench.task.recorded(Trial))


def soak_scenario(session: Session, windows: Windows, earlier: Sequence[Trial] = ()) -> ScenarioResult:
    """All of one soak on a bench that stands, and what follows from it; `earlier` are an interrupted run's trials."""
    soak, ring = asked(session.scenario, Soak), session.scenario.smallest_ring
    session.warm_up()
    load_fps = soak.load_fps
    rates: tuple[Rate, ...] = (searched_ndr(session),) if load_fps is None else ()
    if rates:
        ndr_fps = rates[0].quoted_fps
        load_fps = windows.load_fps or (None if ndr_fps is None else soak.share * ndr_fps)
    if load_fps is None:
        failed = f"no NDR to take {units.share(soak.share)} of: {rates[0].reason}\n  hint: set soak.load_fps"
        return session.result(rates=rates, failed=failed)
    _send(session, soak, windows, load_fps)
    held = diagnosis.held(windows.all, frame_bits(session.scenario.streams))
    return session.result(
        (*diagnosis.metrics(windows.all, ring), *held),
        (*diagnosis.warnings(windows.all, ring, soak.duration_s), *_apart(session, windows, earlier)),
        rates=rates,
        failed="" if windows.made else "no window ended",
    )


def _send(session: Session, soak: Soak, windows: Windows, load_fps: float) -> None:
    """One transmission of what is left of the time; nothing, if nothing is left.

    Raises DutError if the DUT died and the transmission ended with it; one that is only silent is reported later.
    """
    shortest_s, left_s = SHORTEST * soak.window_s, soak.duration_s - windows.span_s
    if left_s < shortest_s:
        return
    session.listener.phase(PHASE, 1)
    windows.begin(load_fps)
    try:
        windows.finish(session.trial(PHASE, left_s, load_fps, OverTime(soak.window_s, windows.heard)))
    except DutError as error:
        sent = next((trial for trial in session.trials if trial.phase == PHASE), None)
        if sent is None:
            raise
        windows.finish(sent)
        if soak.duration_s - windows.span_s < shortest_s:
            return
        for told in diagnosis.ending(windows.all):
            error.add_note(told)
        raise


def _apart(session: Session, windows: Windows, earlier: Sequence[Trial]) -> Iterator[ResultWarning]:
    """What the account of a whole transmission says against it, the host's part left to the windows."""
    for trial in earlier:
        if trial.phase == PHASE and trial.validity is TrialValidity.ABORTED and trial.cause is not Cause.STOPPED:
            yield Warn.BEFORE_RESUMED.of(trial.reason, trial=trial.id)
    if windows.unanswered:
        yield Warn.NO_ANSWER.of(windows.unanswered)
    if windows.went_back:
        yield Warn.WENT_BACK.of(went_back_words(tuple(windows.went_back)))
    left_to_windows = (TrialValidity.VALID, TrialValidity.NOISY_HOST)
    for trial in session.trials:
        if trial.phase == PHASE and trial.validity not in left_to_windows:
            yield Warn.TRIAL_UNUSABLE.of(trial.reason, trial=trial.id)


MEASURE: Final = MeasureKind(
    made=Soak,
    finds="loss over a long time",
    table=lambda _: SOAK,
    run=measure_soak,
    expected_s=expected_s,
    main=("windows with loss", "mean time between losses", "longest stop", "longest loss-free stretch",
          "held throughput", "loss", "lost frames beside the host", "disturbed windows", "window loss", "lost frames",
          "offered load", THREAD_BUSY),
    check=check_keys,
    by_any_engine=True,
    has_limit=False,
    through_service=True,
)  # fmt: skip
