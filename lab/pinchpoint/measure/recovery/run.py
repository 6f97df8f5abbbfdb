"""The measure `recovery`: overload, then less, and when the last frame was lost; on a bench that stands.

RFC 2544, section 26.5. Both loads are one transmission, whose rate steps down: between two of
them the DUT would have time to recover unseen.
"""

from dataclasses import replace
from typing import Final

from pinchpoint.engine.streams import Step
from pinchpoint.measure.frames import FrameSession, over_frames
from pinchpoint.measure.kind import TRIAL_S, MeasureKind, asked, one_queue
from pinchpoint.measure.rates.run import searched_ndr, searching_s
from pinchpoint.measure.recovery import RECOVERY, Recovery
from pinchpoint.measure.recovery import metrics as diagnosis
from pinchpoint.measure.trial import OverTime
from pinchpoint.measure.warm_up import first_round
from pinchpoint.model.result import Rate, RateStatus, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import Cause, Trial, TrialValidity

PHASE = "recovery"
SAMPLE_S = 0.1


def expected_s(scenario: Scenario) -> float:
    """Seconds on a bench that stands."""
    recovery = asked(scenario, Recovery)
    searched_s = searching_s(scenario) if recovery.throughput_fps is None else 0.0
    each_s = recovery.overload_s + recovery.reduced_s + scenario.search.drain_s + TRIAL_S
    return first_round(scenario)[0] + searched_s + recovery.repeats * each_s


def measure_recovery(session: FrameSession) -> ScenarioResult:
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
    repeats = [diagnosis.recovered(trial, recovery) for trial in trials]
    notes = [why_not, *diagnosis.warnings(repeats)]
    if rates and rates[0].status is not RateStatus.FOUND:
        notes.append(f"the NDR was not found but is {rates[0].status}: {rates[0].reason}")
    failed = "" if repeats else f"{why_not}\n  hint: a quieter machine, or a lower recovery.overload_share"
    return session.result(diagnosis.metrics(repeats, throughput_fps), notes, rates=rates, failed=failed)


def _overloads(session: FrameSession, recovery: Recovery, throughput_fps: float) -> tuple[list[Trial], str]:
    """Each repeat that is valid, and why there are no more of them."""
    over_time = OverTime(SAMPLE_S, step=Step(recovery.overload_s, recovery.reduced_share / recovery.overload_share))
    ring = session.scenario.smallest_ring
    session.listener.phase(PHASE, recovery.repeats)

    def measure(duration_s: float, load_fps: float) -> Trial:
        trial = session.measurer.trial(PHASE, duration_s, load_fps, over_time)
        noise = diagnosis.host_did_it(trial, recovery, ring)
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
    main=("recovery time", "lost after the overload", "lost in the overload", "throughput"),
    check=lambda source, _, arrays, __: one_queue(source, Recovery.kind, arrays),
    by_any_engine=True,
    has_limit=False,
)
