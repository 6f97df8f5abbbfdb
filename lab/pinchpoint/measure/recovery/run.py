"""The measure `recovery`: overload, then less, and when the last frame was lost; on a bench that stands.

RFC 2544, section 26.5. Both loads are one transmission, whose rate steps down: between two of
them the DUT would have time to recover unseen.
"""

import time
from dataclasses import replace
from typing import Final

from pinchpoint.engine.instrument import Step
from pinchpoint.host.priority import kept_off
from pinchpoint.measure.frames import measuring
from pinchpoint.measure.kind import TRIAL_S, MeasureKind, asked
from pinchpoint.measure.rates.run import expected_trials, searched_ndr, searching_s
from pinchpoint.measure.recovery import RECOVERY, Recovery, check_keys
from pinchpoint.measure.recovery import metrics as diagnosis
from pinchpoint.measure.recovery.metrics import Recovered
from pinchpoint.measure.standing import Listener, Standing
from pinchpoint.measure.summary import Findings, result_of
from pinchpoint.measure.trial import WARM_UP, Measurer, OverTime
from pinchpoint.measure.warm_up import first_round, warm_up
from pinchpoint.model.result import Rate, RateStatus, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import Cause, Trial, TrialValidity
from pinchpoint.search.repeat import until_valid

PHASE = "recovery"
SAMPLE_S = 0.1


def expected_s(scenario: Scenario) -> float:
    """Seconds on a bench that stands."""
    recovery = asked(scenario, Recovery)
    searched_s = searching_s(scenario) if recovery.throughput_fps is None else 0.0
    each_s = recovery.overload_s + recovery.reduced_s + scenario.search.drain_s + TRIAL_S
    return first_round(scenario)[0] + searched_s + recovery.repeats * each_s


def measure_recovery(bench: Standing) -> ScenarioResult:
    """The time that the DUT takes to lose no more. Raises what a trial raises, finished trials kept."""
    with measuring(bench) as measurer, kept_off(bench.scenario.dut.cpus, bench.host):
        return recover_scenario(bench.scenario, measurer, bench.listener, bench.began)


def recover_scenario(scenario: Scenario, measurer: Measurer, listener: Listener, began: float) -> ScenarioResult:
    """All overloads of one scenario on a bench that stands, and what follows from them."""
    recovery = asked(scenario, Recovery)
    listener.phase(WARM_UP, 1)
    not_learnt = warm_up(scenario, measurer)
    rates: tuple[Rate, ...] = ()
    throughput_fps = recovery.throughput_fps
    if throughput_fps is None:
        listener.phase("search", expected_trials(scenario))
        rates = (searched_ndr(scenario, measurer),)
        throughput_fps = rates[0].quoted_fps
    if throughput_fps is None:
        failed = f"no NDR to overload: {rates[0].reason}\n  hint: set recovery.throughput_fps"
        return result_of(scenario, measurer.trials, Findings((), (), rates, failed), time.monotonic() - began)
    listener.phase(PHASE, recovery.repeats)
    repeats, why_not = _overloads(scenario, recovery, measurer, throughput_fps)
    notes = [not_learnt, why_not, *diagnosis.warnings(repeats)]
    if rates and rates[0].status is not RateStatus.FOUND:
        notes.append(f"the NDR was not found but is {rates[0].status}: {rates[0].reason}")
    failed = "" if repeats else f"{why_not}\n  hint: a quieter machine, or a lower recovery.overload_share"
    findings = Findings(diagnosis.metrics(repeats, throughput_fps), tuple(notes), rates, failed)
    return result_of(scenario, measurer.trials, findings, time.monotonic() - began)


def _overloads(
    scenario: Scenario, recovery: Recovery, measurer: Measurer, throughput_fps: float
) -> tuple[list[Recovered], str]:
    """Each repeat that is valid, and why there are no more of them."""
    over_time = OverTime(SAMPLE_S, step=Step(recovery.overload_s, recovery.reduced_share / recovery.overload_share))
    ring, repeats = scenario.smallest_ring, list[Recovered]()

    def measure(duration_s: float, load_fps: float) -> Trial:
        trial = measurer.trial(PHASE, duration_s, load_fps, over_time)
        noise = diagnosis.host_did_it(trial, recovery, ring)
        valid = trial.validity is TrialValidity.VALID
        if not noise or not valid:
            return trial
        return replace(trial, validity=TrialValidity.NOISY_HOST, cause=Cause.RECEIVER_STOOD_STILL, reason=noise)

    duration_s, load_fps = recovery.overload_s + recovery.reduced_s, recovery.overload_share * throughput_fps
    for _ in range(recovery.repeats):
        trial = until_valid(measure, duration_s, load_fps, scenario.search.max_repeats)
        if trial.validity is not TrialValidity.VALID:
            return repeats, f"{len(repeats)} of {recovery.repeats} overloads valid; last: {trial.reason}"
        repeats.append(diagnosis.recovered(trial, recovery))
    return repeats, ""


MEASURES: Final = (
    MeasureKind(
        made=Recovery,
        finds="how long frames are lost after an overload",
        table=lambda _: RECOVERY,
        run=measure_recovery,
        expected_s=expected_s,
        main=("recovery time", "lost after the overload", "lost in the overload", "throughput"),
        check=check_keys,
        by_any_engine=True,
        has_limit=False,
    ),
)
