"""The measure `recovery`: overload, then less, and when the last frame was lost; on a bench that stands.

RFC 2544, section 26.5. Both loads are one transmission, whose rate steps down: between two of
them the DUT would have time to recover unseen.

A DUT that still loses frames at the end, or has come to forward none, did not recover while it was
watched: its time is censored, known to be longer than that. All repeats are watched as
long, so such times stand behind all others and the median needs no model of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from statistics import median
from typing import ClassVar, Final

from pinchpoint.account.overload import last_loss_s, never_overtaken, overload_fps, reduced_fps
from pinchpoint.account.validity import after_step
from pinchpoint.engine.streams import Step
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table, Unset
from pinchpoint.measure.frames import over_frames
from pinchpoint.measure.kind import TRIAL_S, MeasureKind, asked, one_queue
from pinchpoint.measure.rates.run import searched_ndr, searching_s
from pinchpoint.measure.session import OverTime, Session, first_round
from pinchpoint.model import units
from pinchpoint.model.measurement import Bound, Metric
from pinchpoint.model.result import Rate, RateStatus, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import Sample, Trial
from pinchpoint.model.warning import ResultWarning, Warn
from pinchpoint.stats.estimate import median_interval

PHASE = "recovery"
SAMPLE_S = 0.1
_NO_SAMPLE = Sample(0.0, 0, None)  # of a trial that ended before the change
STILL = 0.9  # of the time after the overload: a loss that late means that it did not recover


@dataclass(frozen=True)
class Recovery:
    """An overload that ends, and the loss after it."""

    kind: ClassVar[str] = "recovery"
    throughput_fps: float | None  # None: the NDR, which is searched first
    overload_share: float  # of the throughput
    overload_s: float
    reduced_share: float  # of the throughput, from then on
    reduced_s: float
    repeats: int

    @property
    def step(self) -> Step:
        """From the overload to the load after it."""
        return Step(self.overload_s, self.reduced_share / self.overload_share)


RECOVERY: Final = Table("recovery",
    "RFC 2544, section 26.5: an overload, then a lower load in the same transmission; the time from the change to the "
    "last frame lost.", (
    Key("throughput_fps", kinds.number(1, 1e9), "The rate that the shares refer to, frames per second.",
        Unset("the NDR, which is searched first")),
    Key("overload_share", kinds.number(1, 10), "The overload, as a share of the throughput.", 1.1),
    Key("overload_s", kinds.number(0.1, 3600), "Length of the overload, seconds.", 60.0),
    Key("reduced_share", kinds.number(0.01, 1), "The load after the overload, as a share of the throughput.", 0.5),
    Key("reduced_s", kinds.number(0.1, 3600), "How long to wait for recovery, seconds.", 10.0),
    Key("repeats", kinds.integer(1, 1000), "Number of overloads.", 5),
), measures=("recovery",))  # fmt: skip


@dataclass(frozen=True)
class Recovered:
    """One overload and what came after it."""

    trial_id: str
    time_s: float  # from the change of load to the last lost frame; 0: none was lost after it
    within_s: float  # how finely that is known
    overload_fps: float  # what was offered until the change, frames per second; 0: no sample says so
    lost_before: int  # by the first sample after the change
    lost_after: int  # from then on
    still: bool  # it still lost frames when the trial ended, and time_s is all that it was watched
    silent: bool = False  # and none came back after the change


def recovered(trial: Trial, recovery: Recovery) -> Recovered:
    """From a trial whose load fell after `recovery.overload_s`.

    A lost frame is timed by the next one of its stream that arrives: later by one interval
    between frames and by the time on the way.
    """
    change_s = recovery.overload_s
    watched_s = max(0.0, trial.sent_duration_s - change_s)
    time_s = max(0.0, last_loss_s(trial) - change_s)
    still = time_s > STILL * watched_s or never_overtaken(trial) > 0
    at_change = next((sample for sample in trial.samples if sample.elapsed_s >= change_s), _NO_SAMPLE)
    lost_before = trial.lost if at_change.lost is None else min(trial.lost, at_change.lost)
    shares = [max(stream.offered, 1) / max(trial.offered, 1) for stream in trial.streams] or [1.0]
    on_the_way_s = trial.latency.p99_ns / 1e9 if trial.latency else 0.0
    return Recovered(
        trial_id=trial.id,
        time_s=watched_s if still else time_s,
        within_s=1 / (reduced_fps(trial, recovery.step) * min(shares)) + on_the_way_s,
        overload_fps=overload_fps(trial, recovery.step),
        lost_before=lost_before,
        lost_after=trial.lost - lost_before,
        still=still,
        silent=still and at_change.received is not None and trial.received <= at_change.received,
    )


def _time(repeats: Sequence[Recovered]) -> Metric:
    """The median time; of a repeat that did not recover it is known only that it took longer than it was watched."""
    ranked = sorted(repeats, key=lambda repeat: (repeat.still, repeat.time_s))
    times = median_interval([inf if repeat.still else repeat.time_s for repeat in ranked])
    notes = [times.meaning, f"each known to {units.nanoseconds(max(repeat.within_s for repeat in repeats) * 1e9)}"]
    unknown_s = min((repeat.time_s for repeat in repeats if repeat.still), default=inf)
    if unknown_s < inf:
        notes.insert(0, _not_recovered(repeats))
    bound = Bound.FOUND
    if ranked[len(ranked) // 2].still:
        bound, notes[0] = Bound.AT_LEAST, f"at least: {notes[0]}"
    ends = min(times.low, unknown_s), times.high if times.high < inf else None
    centre = median(repeat.time_s for repeat in repeats)
    cautions = (f"{calm}: {calm.advice}",) if (calm := _calm(repeats)) else ()
    return Metric("recovery time", "s", centre, *ends, "; ".join(notes), bound, cautions, level=times.level)


def _calm(repeats: Sequence[Recovered]) -> ResultWarning | None:
    """That what was meant as an overload was none; None if all were."""
    calm = sum(not repeat.lost_before for repeat in repeats)
    return Warn.NO_OVERLOAD.of(calm=calm, repeats=len(repeats)) if calm else None


def _not_recovered(repeats: Sequence[Recovered]) -> str:
    still = [repeat for repeat in repeats if repeat.still]
    watched_s = min(repeat.time_s for repeat in still)
    return f"{len(still)} of {len(repeats)} repeats not recovered within {units.seconds(watched_s)}"


def metrics(repeats: Sequence[Recovered], throughput_fps: float) -> Iterator[Metric]:
    """The measure's figures; none without a repeat."""
    if not repeats:
        return
    yield _time(repeats)
    after = median_interval([float(repeat.lost_after) for repeat in repeats])
    yield Metric("lost after the overload", "count", *after.figures, after.meaning, level=after.level)
    before = median_interval([float(repeat.lost_before) for repeat in repeats])
    yield Metric("lost in the overload", "count", *before.figures, before.meaning, level=before.level)
    yield Metric("throughput", "fps", throughput_fps, note="that the shares are of")
    if known := [repeat.overload_fps for repeat in repeats if repeat.overload_fps]:
        offered = median_interval(known)
        yield Metric("overload", "fps", *offered.figures, offered.meaning, level=offered.level)


def warnings(repeats: Sequence[Recovered]) -> Iterator[ResultWarning]:
    """What to mind about the figures."""
    if any(repeat.still for repeat in repeats):
        yield Warn.NOT_RECOVERED.of(_not_recovered(repeats))
    if silent := sum(repeat.silent for repeat in repeats):
        yield Warn.SILENT_AFTER_OVERLOAD.of(silent=silent, repeats=len(repeats))
    if calm := _calm(repeats):
        yield calm


def expected_s(scenario: Scenario) -> float:
    """Seconds on a bench that stands."""
    recovery = asked(scenario, Recovery)
    searched_s = searching_s(scenario) if recovery.throughput_fps is None else 0.0
    each_s = recovery.overload_s + recovery.reduced_s + scenario.search.drain_s + TRIAL_S
    return first_round(scenario)[0] + searched_s + recovery.repeats * each_s


def measure_recovery(session: Session) -> ScenarioResult:
    """All overloads of one scenario on a bench that stands, and what follows from them."""
    recovery = asked(session.scenario, Recovery)
    session.warm_up()
    throughput_fps = recovery.throughput_fps
    rates: tuple[Rate, ...] = (searched_ndr(session),) if throughput_fps is None else ()
    if rates and (throughput_fps := rates[0].quoted_fps) is None:
        failed = f"no NDR to overload: {rates[0].reason}\n  hint: set recovery.throughput_fps"
        return session.result(rates=rates, failed=failed)
    assert throughput_fps is not None, "given or searched"
    trials, why_not = _overloads(session, recovery, throughput_fps)
    repeats = [recovered(trial, recovery) for trial in trials]
    told = [*([Warn.OVERLOADS_MISSING.of(why_not)] if why_not else []), *warnings(repeats)]
    if rates and rates[0].status is not RateStatus.FOUND:
        told.append(Warn.NDR_NOT_FOUND.of(rates[0].reason, status=rates[0].status.value))
    failed = "" if repeats else f"{why_not}\n  hint: {Warn.OVERLOADS_MISSING.advice}"
    return session.result(metrics(repeats, throughput_fps), told, rates=rates, failed=failed)


def _overloads(session: Session, recovery: Recovery, throughput_fps: float) -> tuple[list[Trial], str]:
    """Each repeat that is valid, and why there are no more of them."""
    step, ring = recovery.step, session.scenario.smallest_ring
    over_time = OverTime(SAMPLE_S, step=step, judged=lambda trial: after_step(trial, step, throughput_fps, ring))
    session.listener.phase(PHASE, recovery.repeats)

    def measure(duration_s: float, load_fps: float) -> Trial:
        return session.trial(PHASE, duration_s, load_fps, over_time)

    duration_s, load_fps = recovery.overload_s + recovery.reduced_s, recovery.overload_share * throughput_fps
    trials, invalid = session.repeated(recovery.repeats, measure, duration_s, load_fps)
    if invalid is None:
        return trials, ""
    return trials, f"{len(trials)} of {recovery.repeats} overloads valid; last: {invalid.reason}"


MEASURE: Final = MeasureKind(
    made=Recovery,
    finds="how long frames are lost after an overload",
    table=lambda _: RECOVERY,
    run=over_frames(measure_recovery),
    expected_s=expected_s,
    main=("recovery time", "lost after the overload", "lost in the overload", "overload", "throughput"),
    check=lambda source, _, arrays, __: one_queue(source, Recovery.kind, arrays),
    by_any_engine=True,
    has_limit=False,
    paces=True,
)
