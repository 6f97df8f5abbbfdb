"""The measure `loss_curve`: frame loss rate against offered load (RFC 2544, 26.3), on a bench that stands.

Losses come in bursts, so frames are no independent draws and no binomial interval holds for
their share; trials are. The number of a point is the median of its trials, and its interval
rests on their ranks: that covers the median whatever the distribution, modes and zeros
included (estimate.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from statistics import median
from typing import ClassVar, Final

from pinchpoint.causes.verdict import verdict
from pinchpoint.dut.registry import device_of
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table, Unset
from pinchpoint.measure.forwarding import of_trial
from pinchpoint.measure.frames import over_frames
from pinchpoint.measure.kind import TRIAL_S, MeasureKind, asked
from pinchpoint.measure.session import Session, first_round
from pinchpoint.measure.summary import valid
from pinchpoint.model import units
from pinchpoint.model.measurement import LossPoint, Metric
from pinchpoint.model.result import Limit, Rate, RateStatus, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.model.warning import ResultWarning, Warn
from pinchpoint.stats.estimate import median_interval

PHASE = "loss curve"
REACH = "reach"  # the phase that finds what the engine offers in full
MOST_LOWERINGS = 8  # of the load while the engine's reach is looked for
KEPT_UP = 0.98  # of the rate that the engine offered when it fell short: a load that it offers in full
GENTLE = 0.7  # of that load at least: an overloaded DUT slows the engine too, and less so at a lower load

USUAL_SHARE = 0.5  # of the loads that are tried before two in a row lose nothing
COLLAPSE = 0.95  # of the highest forwarded rate: a DUT that forwards less under more load loses by being overloaded


@dataclass(frozen=True)
class LossCurve:
    """At which loads the frame loss rate is measured."""

    kind: ClassVar[str] = "loss_curve"
    max_load_fps: float | None  # 100 % load; None: the highest that the generator offers in full
    step: float  # from one load to the next, as a share of the highest
    repeats: int  # trials at each load
    duration_s: float  # of each


LOSS_CURVE: Final = Table("loss_curve",
    "The loads at which frame loss rate is measured (RFC 2544, 26.3): from the highest downwards until two in a row "
    "lose nothing.", (
    Key("max_load_fps", kinds.number(1, 1e9), "100 % load, frames per second, all streams together.",
        Unset("the highest that the engine offers in full, up to search.max_load_fps")),
    Key("step", kinds.number(0.005, 0.1), "Difference from one load to the next, as a share of the highest.", 0.1),
    Key("repeats", kinds.integer(1, 100), "Trials at each load; 6 give an interval of 97 %.", 6),
    Key("duration_s", kinds.number(0.05, 3600), "Length of each trial, seconds.", 1.0),
), measures=("loss_curve",))  # fmt: skip


def point(share: float, load_fps: float, trials: Sequence[Trial], reason: str) -> LossPoint:
    """One load from its valid trials; `reason` says why there are no more of them."""
    if not trials:
        return unknown(share, load_fps, load_fps, reason)
    losses = [max(0.0, trial.loss_ratio) for trial in trials]
    forwarded = [trial.received / trial.sent_duration_s for trial in trials]
    loss, through, n = median_interval(losses), median_interval(forwarded), len(trials)
    covers, offered_fps = min(loss.level or 0.0, through.level or 0.0), median(trial.offered_fps for trial in trials)
    words = f"median of {n} trials, and its {units.share(covers)} interval" if n > 1 else "one trial"
    lossless = not any(trial.lost > 0 for trial in trials)
    return LossPoint(share, load_fps, offered_fps, *loss.figures, *through.figures, n, lossless, words, reason, False)


def unknown(
    share: float, load_fps: float, offered_fps: float, reason: str, *, generator_limited: bool = False
) -> LossPoint:
    """A load whose loss is unknown."""
    nothing = (None,) * 6
    return LossPoint(share, load_fps, offered_fps, *nothing, 0, False, "", reason, generator_limited)


def is_over(points: Sequence[LossPoint]) -> bool:
    """Whether the last two loads, the highest first, lost nothing."""
    return len(points) > 1 and all(point.lossless for point in points[-2:])


def loss_free(points: Sequence[LossPoint]) -> tuple[LossPoint | None, LossPoint | None]:
    """(the highest load below all that lost, the load above it that lost); None where there is none."""
    judged = [point for point in points if point.loss is not None]
    losing = [point for point in judged if not point.lossless]
    lowest_losing = losing[-1] if losing else None
    free = [point for point in judged if lowest_losing is None or point.load_fps < lowest_losing.load_fps]
    return (free[0] if free else None), lowest_losing


def as_rate(points: Sequence[LossPoint], duration_s: float) -> Rate:
    """The loss-free load in the words of a search, for its verdict."""
    free, losing = loss_free(points)
    lower = free.offered_fps if free else None
    if losing is not None:
        status = RateStatus.FOUND if free else RateStatus.BELOW_MINIMUM
        reason = "" if free else "lost frames even at the lowest load of the curve"
        return Rate(0.0, status, lower, losing.offered_fps, duration_s, duration_s, reason)
    limited = next((point.reason for point in points if point.generator_limited), "")
    status = RateStatus.AT_LEAST if free else RateStatus.REFUSED
    reason = limited or ("no load of the curve lost a frame" if free else "no load could be judged")
    by = Limit.GENERATOR if limited else Limit.SEARCH_MAXIMUM
    return Rate(0.0, status, lower, None, duration_s, duration_s, reason, limited_by=by if free else None)


def metrics(points: Sequence[LossPoint]) -> Iterator[Metric]:
    """The figures that curves of sweeps are drawn from; none without a load that could be judged."""
    judged = [point for point in points if point.loss is not None]
    if not judged:
        return
    free, losing = loss_free(points)
    if free is not None:
        above = "the interval ends at the next load, which lost" if losing else "at least: no load above it lost"
        note = f"{above}; {units.counted(free.trials, 'trial')} of it lost nothing"
        upper = losing.offered_fps if losing else None
        yield Metric("loss-free load", "fps", free.offered_fps, free.offered_fps, upper, note)
    elif losing is not None:
        note = "below the lowest load of the curve, which lost frames"
        yield Metric("loss-free load", "fps", losing.offered_fps, None, losing.offered_fps, note)
    top = judged[0]
    yield Metric("max load", "fps", top.offered_fps, note=f"{top.share:.3g} of 100 % load, as offered")
    best = max(judged, key=lambda point: point.forwarded_fps or 0.0)
    if best.forwarded_fps and top.forwarded_fps is not None:
        low, high, note = best.forwarded_low, best.forwarded_high, f"at {_load(best)}; {best.interval}"
        yield Metric("highest forwarded", "fps", best.forwarded_fps, low, high, note)
        note = "forwarded at the highest load / highest forwarded"
        yield Metric("overload forwarding", "share", top.forwarded_fps / best.forwarded_fps, note=note)
    for point in judged:
        assert point.loss is not None
        assert point.forwarded_fps is not None
        yield Metric(f"loss at {_load(point)}", "share", point.loss, point.loss_low, point.loss_high, point.interval)
        forwarded = (point.forwarded_fps, point.forwarded_low, point.forwarded_high)
        yield Metric(f"forwarded at {_load(point)}", "fps", *forwarded, point.interval)


def _load(point: LossPoint) -> str:
    return f"{point.share * 100:.3g} % load"


def warnings(points: Sequence[LossPoint]) -> Iterator[ResultWarning]:
    """What the figures do not say by themselves."""
    for point in points:
        if point.reason:
            yield Warn.LOAD_NOT_JUDGED.of(point.reason, load=100 * point.share, load_fps=point.load_fps)
    judged = [point for point in points if point.forwarded_fps is not None]
    for above, below in pairwise(judged):
        if above.forwarded_high and below.forwarded_low and above.forwarded_high < COLLAPSE * below.forwarded_low:
            yield Warn.LESS_AT_MORE_LOAD.of(
                above_fps=above.forwarded_fps or 0.0,
                above=100 * above.share,
                below_fps=below.forwarded_fps or 0.0,
                below=100 * below.share,
            )
            return


def expected_trials(curve: LossCurve) -> int:
    """About how many trials a curve takes, for the time estimate."""
    return round(USUAL_SHARE * curve.repeats / curve.step) + 2 * curve.repeats


def expected_s(scenario: Scenario) -> float:
    """Seconds on a bench that stands."""
    curve = asked(scenario, LossCurve)
    trial_s = curve.duration_s + scenario.search.drain_s + TRIAL_S
    return first_round(scenario)[0] + expected_trials(curve) * trial_s


def measure_curve(session: Session) -> ScenarioResult:
    """All trials of one scenario on a bench that stands, and what follows from them."""
    curve = asked(session.scenario, LossCurve)
    session.warm_up()
    first = len(session.trials)
    points = _points(session, curve)
    judged = [trial for trial in session.trials[first:] if trial.phase == PHASE]
    return _summary(session, judged, points)


def _points(session: Session, curve: LossCurve) -> tuple[LossPoint, ...]:
    """From 100 % down, until two loads in a row lost nothing."""
    max_load_fps = curve.max_load_fps or _reach_fps(session, curve)
    session.listener.phase(PHASE, expected_trials(curve))
    points: list[LossPoint] = []
    for number in range(round(1 / curve.step)):
        share = round(1 - number * curve.step, 9)
        points.append(_point(session, curve, share, share * max_load_fps))
        if is_over(points):
            break
    return tuple(points)


def _reach_fps(session: Session, curve: LossCurve) -> float:
    """The highest load that the engine offers in full, up to search.max_load_fps."""
    session.listener.phase(REACH, 3)
    load_fps = session.scenario.search.max_load_fps
    for _ in range(MOST_LOWERINGS):
        trial = session.valid(partial(session.trial, REACH), curve.duration_s, load_fps)
        fell_short = sum(stream.shortfall or 0 for stream in trial.streams) > 0
        if trial.validity is TrialValidity.VALID or not fell_short:
            break
        load_fps = max(KEPT_UP * min(trial.offered_fps, load_fps), GENTLE * load_fps)
    return load_fps


def _point(session: Session, curve: LossCurve, share: float, load_fps: float) -> LossPoint:
    trial = partial(session.trial, PHASE)
    trials, invalid = session.repeated(curve.repeats, trial, curve.duration_s, load_fps)
    if invalid is None:
        return point(share, load_fps, trials, "")
    if invalid.validity is TrialValidity.GENERATOR_LIMITED and not trials:
        limited = f"generator-limited: {invalid.reason}"
        return unknown(share, load_fps, invalid.offered_fps, limited, generator_limited=True)
    counted = f"{len(trials)} of {curve.repeats} trials valid; last: {invalid.reason}"
    return point(share, load_fps, trials, counted)


def _summary(session: Session, judged: Sequence[Trial], points: tuple[LossPoint, ...]) -> ScenarioResult:
    scenario, device, usable = session.scenario, device_of(session.scenario), valid(judged)
    free, _ = loss_free(points)
    limit = next((trial for trial in usable if free and trial.load_fps == free.load_fps), None)
    reasons = "; ".join(f"{units.fps(point.load_fps)}: {point.reason}" for point in points)
    result = session.result(
        (*metrics(points), *(of_trial(limit, device) if limit else ())),
        warnings(points),
        failed="" if usable else f"no load could be measured: {reasons}",
        of=judged,
    )
    if usable:
        rate, unexplained = as_rate(points, usable[0].duration_s), scenario.validity.unexplained_ratio
        pinched = verdict(rate, judged, scenario.smallest_ring, unexplained_ratio=unexplained, device=device)
        result = replace(result, verdict=pinched)
    threads = limit.threads if limit else ()
    return replace(result, threads=threads, generator_ceiling_fps=session.most_offered_fps, loss_curve=points)


MEASURE: Final = MeasureKind(
    made=LossCurve,
    finds="frame loss rate against offered load",
    table=lambda _: LOSS_CURVE,
    run=over_frames(measure_curve),
    expected_s=expected_s,
    main=("loss-free load", "max load", "highest forwarded", "overload forwarding", "loss at "),
    over_engines=True,
    through_service=True,
)
