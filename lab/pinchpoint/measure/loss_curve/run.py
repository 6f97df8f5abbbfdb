"""The measure `loss_curve`: frame loss rate against offered load (RFC 2544, 26.3), on a bench that stands."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from pinchpoint.causes.verdict import verdict
from pinchpoint.dut.registry import device_of
from pinchpoint.host.priority import kept_off
from pinchpoint.measure.forwarding import of_trial
from pinchpoint.measure.frames import measuring
from pinchpoint.measure.kind import TRIAL_S, MeasureKind, asked
from pinchpoint.measure.loss_curve import LOSS_CURVE, LossCurve
from pinchpoint.measure.loss_curve import metrics as loss_curve
from pinchpoint.measure.standing import Listener, Standing
from pinchpoint.measure.summary import Findings, most_offered, result_of
from pinchpoint.measure.trial import WARM_UP, Measurer
from pinchpoint.measure.warm_up import first_round, warm_up
from pinchpoint.model import units
from pinchpoint.model.result import Rate, ScenarioResult, Verdict
from pinchpoint.model.rfc2544 import LossPoint
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.search.repeat import until_valid

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


def measure_loss_curve(bench: Standing) -> ScenarioResult:
    """The loss curve of the bench's scenario. Raises what a trial raises, finished trials kept."""
    with measuring(bench) as measurer, kept_off(bench.scenario.dut.cpus, bench.host):
        return measure_curve(bench.scenario, measurer, bench.listener, bench.began)


def measure_curve(scenario: Scenario, measurer: Measurer, listener: Listener, began: float) -> ScenarioResult:
    """All trials of one scenario on a bench that stands, and what follows from them."""
    listener.phase(WARM_UP, 1)
    not_learnt = warm_up(scenario, measurer)
    first = len(measurer.trials)
    points = _Curve(scenario, asked(scenario, LossCurve), measurer, listener).points()
    return _summary(scenario, measurer, measurer.trials[first:], points, not_learnt, time.monotonic() - began)


class _Curve:
    """The loads of one curve, the highest first."""

    def __init__(self, scenario: Scenario, curve: LossCurve, measurer: Measurer, listener: Listener) -> None:
        self._scenario, self._curve = scenario, curve
        self._measurer, self._listener = measurer, listener

    def points(self) -> tuple[LossPoint, ...]:
        """From 100 % down, until two loads in a row lost nothing."""
        max_load_fps = self._curve.max_load_fps or self._reach_fps()
        self._listener.phase(PHASE, expected_trials(self._curve))
        points: list[LossPoint] = []
        for share in self._shares():
            points.append(self._point(share, share * max_load_fps))
            if loss_curve.is_over(points):
                break
        return tuple(points)

    def _shares(self) -> Iterator[float]:
        count = round(1 / self._curve.step)
        for number in range(count):
            if (share := round(1 - number * self._curve.step, 9)) > 0:
                yield share

    def _trial(self, phase: str, load_fps: float) -> Trial:
        def measure(duration_s: float, load_fps: float) -> Trial:
            return self._measurer.trial(phase, duration_s, load_fps)

        return until_valid(measure, self._curve.duration_s, load_fps, self._scenario.search.max_repeats)

    def _reach_fps(self) -> float:
        """The highest load that the engine offers in full, up to search.max_load_fps."""
        self._listener.phase(REACH, 3)
        load_fps = self._scenario.search.max_load_fps
        for _ in range(MOST_LOWERINGS):
            trial = self._trial(REACH, load_fps)
            fell_short = sum(stream.shortfall or 0 for stream in trial.streams) > 0
            if trial.validity is TrialValidity.VALID or not fell_short:
                break
            load_fps = max(KEPT_UP * min(trial.offered_fps, load_fps), GENTLE * load_fps)
        return load_fps

    def _point(self, share: float, load_fps: float) -> LossPoint:
        valid: list[Trial] = []
        wanted = self._curve.repeats
        for _ in range(wanted):
            trial = self._trial(PHASE, load_fps)
            if trial.validity is TrialValidity.VALID:
                valid.append(trial)
                continue
            counted = f"{len(valid)} of {wanted} trials valid; last: {trial.reason}"
            if trial.validity is TrialValidity.GENERATOR_LIMITED and not valid:
                limited = f"generator-limited: {trial.reason}"
                return loss_curve.unknown(share, load_fps, trial.offered_fps, limited, generator_limited=True)
            return loss_curve.point(share, load_fps, valid, counted)
        return loss_curve.point(share, load_fps, valid, "")


def _summary(
    scenario: Scenario,
    measurer: Measurer,
    judged: Sequence[Trial],
    points: tuple[LossPoint, ...],
    not_learnt: str,
    wall_s: float,
) -> ScenarioResult:
    curve = [trial for trial in judged if trial.phase == PHASE]
    valid = [trial for trial in curve if trial.validity is TrialValidity.VALID]
    free, _ = loss_curve.loss_free(points)
    limit = next((trial for trial in valid if free and trial.load_fps == free.load_fps), None)
    duration_s = valid[0].duration_s if valid else 0.0
    reasons = "; ".join(f"{units.fps(point.load_fps)}: {point.reason}" for point in points)
    told = Findings(
        (*loss_curve.metrics(points), *(of_trial(limit, device_of(scenario)) if limit else ())),
        (not_learnt, *loss_curve.warnings(points)),
        failed="" if valid else f"no load could be measured: {reasons}",
    )
    return replace(
        result_of(scenario, measurer.trials, told, wall_s, of=curve),
        threads=limit.threads if limit else (),
        verdict=_verdict(loss_curve.as_rate(points, duration_s), curve, scenario) if valid else None,
        generator_ceiling_fps=most_offered(measurer.trials),
        loss_curve=points,
    )


def _verdict(rate: Rate, curve: Sequence[Trial], scenario: Scenario) -> Verdict:
    limit = scenario.validity.unexplained_ratio
    return verdict(rate, curve, scenario.smallest_ring, unexplained_ratio=limit, device=device_of(scenario))


MEASURES: Final = (
    MeasureKind(
        made=LossCurve,
        finds="frame loss rate against offered load",
        table=lambda _: LOSS_CURVE,
        run=measure_loss_curve,
        expected_s=expected_s,
        main=("loss-free load", "max load", "highest forwarded", "overload forwarding", "loss at "),
        over_engines=True,
        through_service=True,
    ),
)
