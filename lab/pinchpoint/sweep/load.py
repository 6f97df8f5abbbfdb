"""The measure `load`: what given rates cost the DUT, on a bench that stands."""

import time
from collections import Counter
from dataclasses import dataclass

from pinchpoint.bench import host
from pinchpoint.diagnose.cache_line import distance
from pinchpoint.diagnose.metrics import of_load, of_trial
from pinchpoint.model import units
from pinchpoint.model.result import Outcome, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.search.repeat import until_valid
from pinchpoint.sweep.frames import measuring
from pinchpoint.sweep.listener import Listener
from pinchpoint.sweep.measure import WARM_UP, Measurer
from pinchpoint.sweep.standing import Standing
from pinchpoint.sweep.warm_up import warm_up

PHASE = "load"


@dataclass(frozen=True)
class _Rate:
    """The trials at one rate, and why there are no more of them."""

    at_fps: float
    trials: tuple[Trial, ...]  # valid ones
    why_not: str  # empty if there are as many as the scenario asks for


def measure_load(bench: Standing) -> ScenarioResult:
    """The DUT's load at each of the scenario's rates. Raises what a trial raises, finished trials kept."""
    with measuring(bench) as measurer, host.kept_off(bench.scenario.dut.pmd_cpus):
        return measure_rates_given(bench.scenario, measurer, bench.listener, bench.began)


def measure_rates_given(scenario: Scenario, measurer: Measurer, listener: Listener, began: float) -> ScenarioResult:
    """All trials of one scenario on a bench that stands, and what follows from them."""
    load = scenario.load
    listener.phase(WARM_UP, 1)
    not_learnt = warm_up(scenario, measurer)
    listener.phase(PHASE, len(load.at_fps) * load.repeats)
    rates = [_at(at_fps, scenario, measurer) for at_fps in load.at_fps]
    return _summary(scenario, measurer, rates, not_learnt, time.monotonic() - began)


def _at(at_fps: float, scenario: Scenario, measurer: Measurer) -> _Rate:
    load, found = scenario.load, list[Trial]()

    def measure(duration_s: float, load_fps: float) -> Trial:
        return measurer.trial(PHASE, duration_s, load_fps)

    for _ in range(load.repeats):
        trial = until_valid(measure, load.duration_s, at_fps, scenario.search.max_repeats)
        if trial.validity is not TrialValidity.VALID:
            why_not = f"load at {units.fps(at_fps)}: {len(found)} of {load.repeats} trials valid; last: {trial.reason}"
            return _Rate(at_fps, tuple(found), why_not)
        found.append(trial)
    return _Rate(at_fps, tuple(found), "")


def _summary(
    scenario: Scenario, measurer: Measurer, rates: list[_Rate], not_learnt: str, wall_s: float
) -> ScenarioResult:
    valid = [trial for rate in rates for trial in rate.trials]
    reasons = "; ".join(rate.why_not for rate in rates)
    hint = "a quieter machine, or lower load.at_fps"
    highest = max(valid, key=lambda trial: trial.load_fps, default=None)
    cores = distance(valid)
    invalid = Counter(str(trial.validity) for trial in measurer.trials if trial.validity is not TrialValidity.VALID)
    warnings = (not_learnt, cores.note if cores else "", *(rate.why_not for rate in rates))
    return ScenarioResult(
        scenario=scenario.name,
        title=scenario.title,
        group=scenario.point.group,
        levels=scenario.point.levels,
        repeat=scenario.point.repeat,
        measure=str(scenario.measure),
        outcome=Outcome.MEASURED if highest else Outcome.FAILED,
        reason="" if highest else f"no load could be measured: {reasons}\n  hint: {hint}",
        metrics=(
            *(metric for rate in rates for metric in of_load(rate.at_fps, rate.trials)),
            *(of_trial(highest) if highest else ()),
        ),
        rates=(),
        latency=(),
        pmds=highest.pmds if highest else (),
        verdict=None,
        generator_ceiling_fps=None,
        trials=len(measurer.trials),
        invalid_trials=dict(invalid),
        traffic_s=sum(trial.sent_duration_s for trial in measurer.trials),
        wall_s=wall_s,
        cache_line=cores,
        warnings=tuple(warning for warning in warnings if warning),
    )
