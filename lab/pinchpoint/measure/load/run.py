"""The measure `load`: what given rates cost the DUT, on a bench that stands."""

import time
from dataclasses import dataclass
from typing import Final

from pinchpoint.dut.registry import device_of
from pinchpoint.host.priority import kept_off
from pinchpoint.measure.forwarding import of_trial
from pinchpoint.measure.frames import measuring
from pinchpoint.measure.kind import TRIAL_S, MeasureKind, asked
from pinchpoint.measure.load import LOAD, Load
from pinchpoint.measure.load.metrics import of_load
from pinchpoint.measure.standing import Listener, Standing
from pinchpoint.measure.summary import Findings, result_of
from pinchpoint.measure.trial import WARM_UP, Measurer
from pinchpoint.measure.warm_up import first_round, warm_up
from pinchpoint.model import units
from pinchpoint.model.result import ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.terms import THREAD_BUSY
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.search.repeat import until_valid

PHASE = "load"


@dataclass(frozen=True)
class _Rate:
    """The trials at one rate, and why there are fewer than asked for."""

    at_fps: float
    trials: tuple[Trial, ...]  # valid ones
    why_not: str  # empty if there are as many as the scenario asks for


def expected_s(scenario: Scenario) -> float:
    """Seconds on a bench that stands."""
    load = asked(scenario, Load)
    return first_round(scenario)[0] + len(load.at_fps) * load.repeats * (load.duration_s + TRIAL_S)


def measure_load(bench: Standing) -> ScenarioResult:
    """The DUT's load at each of the scenario's rates. Raises what a trial raises, finished trials kept."""
    with measuring(bench) as measurer, kept_off(bench.scenario.dut.cpus, bench.host):
        return measure_loads(bench.scenario, measurer, bench.listener, bench.began)


def measure_loads(scenario: Scenario, measurer: Measurer, listener: Listener, began: float) -> ScenarioResult:
    """All trials of one scenario on a bench that stands, and what follows from them."""
    load = asked(scenario, Load)
    listener.phase(WARM_UP, 1)
    not_learnt = warm_up(scenario, measurer)
    listener.phase(PHASE, len(load.at_fps) * load.repeats)
    rates = [_at(at_fps, scenario, measurer) for at_fps in load.at_fps]
    return _summary(scenario, measurer, rates, not_learnt, time.monotonic() - began)


def _at(at_fps: float, scenario: Scenario, measurer: Measurer) -> _Rate:
    """As many valid trials as asked for; fewer if one stays invalid however often it is repeated."""
    load, valid = asked(scenario, Load), list[Trial]()

    def measure(duration_s: float, load_fps: float) -> Trial:
        return measurer.trial(PHASE, duration_s, load_fps)

    for _ in range(load.repeats):
        trial = until_valid(measure, load.duration_s, at_fps, scenario.search.max_repeats)
        if trial.validity is not TrialValidity.VALID:
            counted = f"{len(valid)} of {load.repeats} trials valid"
            return _Rate(at_fps, tuple(valid), f"load at {units.fps(at_fps)}: {counted}; last: {trial.reason}")
        valid.append(trial)
    return _Rate(at_fps, tuple(valid), "")


def _summary(
    scenario: Scenario, measurer: Measurer, rates: list[_Rate], not_learnt: str, wall_s: float
) -> ScenarioResult:
    valid = [trial for rate in rates for trial in rate.trials]
    highest = max((rate for rate in rates if rate.trials), key=lambda rate: rate.at_fps, default=None)
    reasons = "; ".join(rate.why_not for rate in rates)
    hint, device = "a quieter machine, or lower load.at_fps", device_of(scenario)
    told = Findings(
        (
            *(metric for rate in rates for metric in of_load(rate.at_fps, rate.trials, device.figures)),
            *(of_trial(highest.trials[0], device) if highest else ()),
        ),
        (not_learnt, *(rate.why_not for rate in rates)),
        failed="" if highest else f"no load could be measured: {reasons}\n  hint: {hint}",
    )
    return result_of(scenario, measurer.trials, told, wall_s, of=valid)


MEASURES: Final = (
    MeasureKind(
        made=Load,
        finds="CPU load of the DUT at given rates",
        table=lambda _: LOAD,
        run=measure_load,
        expected_s=expected_s,
        main=("cycles per packet at ", f"{THREAD_BUSY} at ", "loss at "),
        has_limit=False,
        over_engines=True,
        through_service=True,
    ),
)
