"""The measure `loss_curve`: frame loss rate against offered load (RFC 2544, 26.3), on a bench that stands."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from pinchpoint.causes.verdict import verdict
from pinchpoint.dut.registry import device_of
from pinchpoint.measure.forwarding import of_trial
from pinchpoint.measure.frames import FrameSession, over_frames
from pinchpoint.measure.kind import TRIAL_S, MeasureKind, asked
from pinchpoint.measure.loss_curve import LOSS_CURVE, LossCurve
from pinchpoint.measure.loss_curve import metrics as loss_curve
from pinchpoint.measure.summary import valid
from pinchpoint.measure.warm_up import first_round
from pinchpoint.model import units
from pinchpoint.model.measurement import LossPoint
from pinchpoint.model.result import ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import Trial, TrialValidity

PHASE = "loss curve"
REACH = "reach"  # the phase that finds what the engine offers in full
MOST_LOWERINGS = 8  # of the load while the engine's reach is looked for
KEPT_UP = 0.98  # of the rate that the engine offered when it fell short: a load that it offers in full
GENTLE = 0.7  # of that load at least: an overloaded DUT slows the engine too, and less so at a lower load

USUAL_SHARE = 0.5  # of the loads that are tried before two in a row lose nothing


def expected_trials(curve: LossCurve) -> int:
    """About how many trials a curve takes, for the time estimate."""
    return round(USUAL_SHARE * curve.repeats / curve.step) + 2 * curve.repeats


def expected_s(scenario: Scenario) -> float:
    """Seconds on a bench that stands."""
    curve = asked(scenario, LossCurve)
    trial_s = curve.duration_s + scenario.search.drain_s + TRIAL_S
    return first_round(scenario)[0] + expected_trials(curve) * trial_s


def measure_curve(session: FrameSession) -> ScenarioResult:
    """All trials of one scenario on a bench that stands, and what follows from them."""
    curve = asked(session.scenario, LossCurve)
    session.warm_up()
    first = len(session.measurer.trials)
    points = _points(session, curve)
    judged = [trial for trial in session.measurer.trials[first:] if trial.phase == PHASE]
    return _summary(session, judged, points)


def _points(session: FrameSession, curve: LossCurve) -> tuple[LossPoint, ...]:
    """From 100 % down, until two loads in a row lost nothing."""
    max_load_fps = curve.max_load_fps or _reach_fps(session, curve)
    session.listener.phase(PHASE, expected_trials(curve))
    points: list[LossPoint] = []
    for number in range(round(1 / curve.step)):
        share = round(1 - number * curve.step, 9)
        points.append(_point(session, curve, share, share * max_load_fps))
        if loss_curve.is_over(points):
            break
    return tuple(points)


def _reach_fps(session: FrameSession, curve: LossCurve) -> float:
    """The highest load that the engine offers in full, up to search.max_load_fps."""
    session.listener.phase(REACH, 3)
    load_fps = session.scenario.search.max_load_fps
    for _ in range(MOST_LOWERINGS):
        trial = session.valid(partial(session.measurer.trial, REACH), curve.duration_s, load_fps)
        fell_short = sum(stream.shortfall or 0 for stream in trial.streams) > 0
        if trial.validity is TrialValidity.VALID or not fell_short:
            break
        load_fps = max(KEPT_UP * min(trial.offered_fps, load_fps), GENTLE * load_fps)
    return load_fps


def _point(session: FrameSession, curve: LossCurve, share: float, load_fps: float) -> LossPoint:
    trial = partial(session.measurer.trial, PHASE)
    trials, invalid = session.repeated(curve.repeats, trial, curve.duration_s, load_fps)
    if invalid is None:
        return loss_curve.point(share, load_fps, trials, "")
    if invalid.validity is TrialValidity.GENERATOR_LIMITED and not trials:
        limited = f"generator-limited: {invalid.reason}"
        return loss_curve.unknown(share, load_fps, invalid.offered_fps, limited, generator_limited=True)
    counted = f"{len(trials)} of {curve.repeats} trials valid; last: {invalid.reason}"
    return loss_curve.point(share, load_fps, trials, counted)


def _summary(session: FrameSession, judged: Sequence[Trial], points: tuple[LossPoint, ...]) -> ScenarioResult:
    scenario, device, usable = session.scenario, device_of(session.scenario), valid(judged)
    free, _ = loss_curve.loss_free(points)
    limit = next((trial for trial in usable if free and trial.load_fps == free.load_fps), None)
    reasons = "; ".join(f"{units.fps(point.load_fps)}: {point.reason}" for point in points)
    result = session.result(
        (*loss_curve.metrics(points), *(of_trial(limit, device) if limit else ())),
        loss_curve.warnings(points),
        failed="" if usable else f"no load could be measured: {reasons}",
        of=judged,
    )
    if usable:
        rate, unexplained = loss_curve.as_rate(points, usable[0].duration_s), scenario.validity.unexplained_ratio
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
