"""The measure `soak`: a long time at one load, in windows, on a bench that stands.

It is one transmission, so that no second lies between two windows and every frame is
accounted for. The engine's samples end the windows; each is kept as it ends. A resumed soak
is a further transmission for the time that is left. A DUT that no longer answers does not end it:
whether it still forwards is what a soak is about.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pinchpoint.dut.registry import device_of
from pinchpoint.host.priority import kept_off
from pinchpoint.measure.frames import measuring
from pinchpoint.measure.kind import MeasureKind, asked
from pinchpoint.measure.rates.run import expected_trials, searched_ndr, searching_s
from pinchpoint.measure.soak import SOAK, Soak, check_keys
from pinchpoint.measure.soak import metrics as diagnosis
from pinchpoint.measure.soak.metrics import Window
from pinchpoint.measure.standing import Begun, Listener, Standing
from pinchpoint.measure.summary import Findings, result_of
from pinchpoint.measure.trial import WARM_UP, Measurer, OverTime
from pinchpoint.measure.warm_up import first_round, warm_up
from pinchpoint.model import units
from pinchpoint.model.errors import DutError
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.result import Rate, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.terms import THREAD_BUSY
from pinchpoint.model.trial import Cause, Sample, Trial, TrialValidity
from pinchpoint.observe.bracket import Bracket
from pinchpoint.observe.host import ticks_to_seconds

PHASE = "soak"
SHORTEST = 0.5  # of a window: less is not worth a transmission of its own


class Windows:
    """Makes a measurement of each window as its sample comes, and keeps it."""

    def __init__(
        self, scenario: Scenario, bracket: Bracket, keep: Callable[[Measurement], object], made: Sequence[Measurement]
    ) -> None:
        """`made` are those of an interrupted run; `keep` gets every new one."""
        self._scenario = scenario
        self._bracket = bracket
        self._keep = keep
        self._before = diagnosis.BEGIN
        self._load_fps = 0.0
        self._most_under_way = 0
        self.made = list(made)
        self._begun = self._begin(len(self.made) + 1)
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
        self._before, self._begun, self._load_fps = diagnosis.BEGIN, self._begin(len(self.made) + 1), load_fps
        self._most_under_way = diagnosis.under_way([port.ring for port in self._scenario.ports], load_fps)
        self._bracket.open()

    def heard(self, sample: Sample) -> None:
        """A window has ended."""
        self._end(diagnosis.settled(sample, self._most_under_way))

    def finish(self, trial: Trial) -> None:
        """The transmission has ended: what came after the last sample is a short window of its own."""
        ends_s = max(trial.sent_duration_s, self._before.elapsed_s)
        if trial.offered > self._before.offered or trial.lost != (self._before.lost or 0):
            last = trial.samples[-1] if trial.samples else diagnosis.BEGIN
            last = replace(last, offered=trial.offered, lost=trial.lost, received=trial.received)
            self._end(replace(last, elapsed_s=ends_s))

    def _end(self, sample: Sample) -> None:
        seen = self._seen(sample.elapsed_s - self._before.elapsed_s)
        steal_s = math.fsum(
            ticks_to_seconds(ticks)
            for name, ticks in seen.items()
            if name.startswith("host/cpu/") and name.endswith("/steal_ticks")
        )
        ends, apart = (self._before, sample), len(self._scenario.engine.cpus) > 1
        window = diagnosis.window(
            self.span_s, self._load_fps, ends, seen, steal_s, device_of(self._scenario).loads, receives_apart=apart
        )
        self._before = sample
        self.span_s += window.span_s
        measurement = self._measurement(window, seen)
        self.made.append(measurement)
        self._keep(measurement)

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

    def _measurement(self, window: Window, seen: Mapping[str, float]) -> Measurement:
        begun, reason = self._begun, diagnosis.disturbed(window, self._scenario.smallest_ring)
        self._begun = self._begin(begun.repeat + 1)
        return begun.ended(
            diagnosis.window_metrics(window),
            diagnosis.account(window),
            {name: value for name, value in seen.items() if value},
            threads=device_of(self._scenario).loads(seen, window.span_s),
            validity=TrialValidity.NOISY_HOST if reason else TrialValidity.VALID,
            reason=reason,
        )

    def _begin(self, number: int) -> Begun:
        return Begun(self._scenario, f"{self._scenario.name}-w{number:05d}", number)


def expected_s(scenario: Scenario) -> float:
    """Seconds on a bench that stands."""
    soak = asked(scenario, Soak)
    searched_s = searching_s(scenario) if soak.load_fps is None else 0.0
    return first_round(scenario)[0] + searched_s + soak.duration_s


def measure_soak(bench: Standing) -> ScenarioResult:
    """Loss over time at the scenario's load. Raises what a trial raises, finished windows kept."""
    with measuring(bench) as measurer, kept_off(bench.scenario.dut.cpus, bench.host):
        recorded = [measurement for measurement in bench.recorded.measurements if measurement.kind == Soak.kind]
        bracket = bench.witness_bracket()
        windows = Windows(bench.scenario, bracket, bench.keep, recorded)
        earlier = bench.recorded.trials
        return soak_scenario(bench.scenario, measurer, windows, bench.listener, bench.began, earlier)


def soak_scenario(
    scenario: Scenario,
    measurer: Measurer,
    windows: Windows,
    listener: Listener,
    began: float,
    earlier: Sequence[Trial] = (),
) -> ScenarioResult:
    """All of one soak on a bench that stands, and what follows from it; `earlier` are an interrupted run's trials."""
    soak = asked(scenario, Soak)
    listener.phase(WARM_UP, 1)
    not_learnt = warm_up(scenario, measurer)
    rates: tuple[Rate, ...] = ()
    load_fps = soak.load_fps
    if load_fps is None:
        listener.phase("search", expected_trials(scenario))
        rates = (searched_ndr(scenario, measurer),)
        ndr_fps = rates[0].quoted_fps
        load_fps = windows.load_fps or (None if ndr_fps is None else soak.share * ndr_fps)
    if load_fps is None:
        failed = f"no NDR to take {units.share(soak.share)} of: {rates[0].reason}\n  hint: set soak.load_fps"
        return result_of(scenario, measurer.trials, Findings((), (), rates, failed), time.monotonic() - began)
    _send(soak, measurer, windows, load_fps, listener)
    ring = scenario.smallest_ring
    told = Findings(
        diagnosis.metrics(windows.all, ring),
        (not_learnt, *diagnosis.warnings(windows.all, ring, soak.duration_s), *_apart(measurer, windows, earlier)),
        rates,
        "" if windows.made else "no window ended",
    )
    return result_of(scenario, measurer.trials, told, time.monotonic() - began)


def _send(soak: Soak, measurer: Measurer, windows: Windows, load_fps: float, listener: Listener) -> None:
    """One transmission of what is left of the time; nothing, if nothing is left.

    Raises DutError if the DUT died and the transmission ended with it; one that is only silent is reported later.
    """
    left_s = soak.duration_s - windows.span_s
    if left_s < SHORTEST * soak.window_s:
        return
    listener.phase(PHASE, 1)
    windows.begin(load_fps)
    try:
        windows.finish(measurer.trial(PHASE, left_s, load_fps, OverTime(soak.window_s, windows.heard)))
    except DutError as error:
        sent = next((trial for trial in measurer.trials if trial.phase == PHASE), None)
        if sent is None:
            raise
        windows.finish(sent)
        if soak.duration_s - windows.span_s < SHORTEST * soak.window_s:
            return
        for told in diagnosis.ending(windows.all):
            error.add_note(told)
        raise


def _apart(measurer: Measurer, windows: Windows, earlier: Sequence[Trial]) -> Iterator[str]:
    """What the account of a whole transmission says against it, the host's part left to the windows."""
    for trial in earlier:
        if trial.phase == PHASE and trial.validity is TrialValidity.ABORTED and trial.cause is not Cause.STOPPED:
            yield f"{trial.id}, before the run was resumed: {trial.reason}"
    if windows.unanswered:
        yield f"{windows.unanswered}; windows from then on are without counters of switch and host"
    if windows.went_back:
        names = ", ".join(windows.went_back)
        yield f"counters went back: a port or the switch was restarted, and what they counted is not known ({names})"
    left_to_windows = (TrialValidity.VALID, TrialValidity.NOISY_HOST)
    for trial in measurer.trials:
        if trial.phase == PHASE and trial.validity not in left_to_windows:
            yield f"{trial.id}: {trial.reason}"


MEASURES: Final = (
    MeasureKind(
        made=Soak,
        finds="loss over a long time",
        table=lambda _: SOAK,
        run=measure_soak,
        expected_s=expected_s,
        main=(
            "windows with loss",
            "mean time between losses",
            "longest stop",
            "longest loss-free stretch",
            "loss",
            "lost frames beside the host",
            "disturbed windows",
            "window loss",
            "lost frames",
            "offered load",
            THREAD_BUSY,
        ),
        check=check_keys,
        by_any_engine=True,
        has_limit=False,
        through_service=True,
    ),
)
