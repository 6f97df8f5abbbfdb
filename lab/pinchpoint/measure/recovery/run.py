"""The measure `recovery`: overload, then less, and when the last frame was lost; on a bench that stands.

RFC 2544, section 26.5. Both loads are one transmission, whose rate steps down: between two of
them the DUT would have time to recover unseen.

A DUT that still loses frames at the end, or has come to forward none, did not recover while it was
watched: its time is censored, known to be longer than that. All repeats are watched as
long, so such times stand behind all others and the median needs no model of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import median
from typing import ClassVar, Final

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
from pinchpoint.model.trial import Cause, Sample, Trial, TrialValidity
from pinchpoint.model.warning import ResultWarning, Warn
from pinchpoint.stats.estimate import median_interval

PHASE = "recovery"
SAMPLE_S = 0.1
_NO_SAMPLE = Sample(0.0, 0, None)  # of a trial that ended before the change
MISSING: Final = 0.02  # of the load after the change, which samples 0.1 s apart tell no more finely
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
    overload_fps: float  # what was offered until the change, frames per second
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
    time_s = max(0.0, _last_loss_s(trial) - change_s)
    still = time_s > STILL * watched_s or never_overtaken(trial) > 0
    at_change = next((sample for sample in trial.samples if sample.elapsed_s >= change_s), _NO_SAMPLE)
    lost_before = trial.lost if at_change.lost is None else min(trial.lost, at_change.lost)
    shares = [max(stream.offered, 1) / max(trial.offered, 1) for stream in trial.streams] or [1.0]
    on_the_way_s = trial.latency.p99_ns / 1e9 if trial.latency else 0.0
    return Recovered(
        trial_id=trial.id,
        time_s=watched_s if still else time_s,
        within_s=1 / (_reduced_fps(trial, recovery) * min(shares)) + on_the_way_s,
        overload_fps=overload_fps(trial, recovery),
        lost_before=lost_before,
        lost_after=trial.lost - lost_before,
        still=still,
        silent=still and at_change.received is not None and trial.received <= at_change.received,
    )


def overload_fps(trial: Trial, recovery: Recovery) -> float:
    """What was offered until the change, frames per second; 0 if no sample says so."""
    before = [sample for sample in trial.samples if sample.elapsed_s <= recovery.overload_s]
    return before[-1].offered / before[-1].elapsed_s if before and before[-1].elapsed_s else 0.0


def is_overload(trial: Trial, recovery: Recovery, throughput_fps: float) -> bool:
    """Whether a generator that fell short overloaded the device all the same: "or the maximum rate for the media".

    It offered more than the throughput until the change, frames were lost, and of the load after it nothing is missing.
    """
    after_s = max(0.0, trial.sent_duration_s - recovery.overload_s)
    offered_after = trial.offered - overload_fps(trial, recovery) * recovery.overload_s
    is_reduced_whole = offered_after >= (1 - MISSING) * _reduced_fps(trial, recovery) * after_s
    return overload_fps(trial, recovery) > throughput_fps and trial.lost > 0 and is_reduced_whole


def _reduced_fps(trial: Trial, recovery: Recovery) -> float:
    """The load after the overload."""
    return trial.load_fps * recovery.reduced_share / recovery.overload_share


def _last_loss_s(trial: Trial) -> float:
    """When the last frame was lost that a later one overtook; 0 if none was."""
    return max((stream.last_loss_s or 0.0 for stream in trial.streams), default=0.0)


def never_overtaken(trial: Trial) -> int:
    """Lost frames that none came after: the engine cannot time them, but the last sample did not have them yet."""
    if not trial.samples or _last_loss_s(trial) >= trial.samples[-1].elapsed_s:
        return 0
    return max(0, trial.lost - (trial.samples[-1].lost or 0))


def host_did_it(trial: Trial, recovery: Recovery, ring: int) -> str:
    """Whether a pause of the engine's core may have caused the last loss after the change; empty if not."""
    last_s, is_at_end = _last_loss_s(trial), never_overtaken(trial) > 0
    if is_at_end:
        pause_s = _longest_pause_s(trial, trial.samples[-1].elapsed_s)
    elif last_s > recovery.overload_s:
        pause_s = next((sample.gap_max_s for sample in trial.samples if sample.elapsed_s >= last_s), 0.0)
    else:
        return ""
    if pause_s * _reduced_fps(trial, recovery) <= ring:
        return ""
    which = "the last frames were lost" if is_at_end else f"the last loss, at {last_s:.3f} s, lies"
    return f"{which} by a {units.nanoseconds(pause_s * 1e9)} pause of the engine's core"


def _longest_pause_s(trial: Trial, from_s: float) -> float:
    """Of the engine's cores, seconds, from then on."""
    gaps = (gap for worker in trial.witness.workers for gap in worker.gaps_longest)
    return max((gap_ns / 1e9 for at_s, gap_ns in gaps if at_s + gap_ns / 1e9 >= from_s), default=0.0)


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
    offered = median_interval([repeat.overload_fps for repeat in repeats])
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
    over_time = OverTime(SAMPLE_S, step=Step(recovery.overload_s, recovery.reduced_share / recovery.overload_share))
    ring = session.scenario.smallest_ring
    session.listener.phase(PHASE, recovery.repeats)

    def measure(duration_s: float, load_fps: float) -> Trial:
        trial = session.trial(PHASE, duration_s, load_fps, over_time)
        if trial.validity is TrialValidity.GENERATOR_LIMITED and is_overload(trial, recovery, throughput_fps):
            trial = replace(trial, validity=TrialValidity.VALID, cause=None, reason="")
        noise = host_did_it(trial, recovery, ring)
        if not noise or trial.validity is not TrialValidity.VALID:
            return trial
        return replace(trial, validity=TrialValidity.NOISY_HOST, cause=Cause.RECEIVER_STOOD_STILL, reason=noise)

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
