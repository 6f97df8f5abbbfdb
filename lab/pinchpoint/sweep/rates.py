"""The measure `rates`: warm up, search, latency, verdict, on a bench that stands."""

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from pinchpoint.bench import host
from pinchpoint.diagnose.cache_line import distance
from pinchpoint.diagnose.metrics import of_rates
from pinchpoint.diagnose.verdict import verdict
from pinchpoint.model import units
from pinchpoint.model.result import LatencyPoint, Outcome, Rate, RateStatus, ScenarioResult
from pinchpoint.model.scenario import Scenario, SearchMethod
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.search import SearchOutcome, find_rates
from pinchpoint.search.repeat import until_valid
from pinchpoint.sweep.frames import measuring
from pinchpoint.sweep.listener import Listener
from pinchpoint.sweep.measure import WARM_UP, Measurer
from pinchpoint.sweep.standing import Standing
from pinchpoint.sweep.warm_up import warm_up

MOST_MOVES = 3  # of the cores between near and far, that a search follows
MOST_LATENCY_REPEATS = 3  # a disturbed latency is still told, with a note


def measure_rates(bench: Standing) -> ScenarioResult:
    """NDR, PDRs and latency of the bench's scenario. Raises what a trial raises, finished trials kept."""
    with measuring(bench) as measurer, host.kept_off(bench.scenario.dut.pmd_cpus):
        return measure_scenario(bench.scenario, measurer, bench.listener, bench.began)


def measure_scenario(scenario: Scenario, measurer: Measurer, listener: Listener, began: float) -> ScenarioResult:
    """All trials of one scenario on a bench that stands, and what follows from them."""
    listener.phase(WARM_UP, 1)
    not_learnt = warm_up(scenario, measurer)
    listener.phase("search", expected_trials(scenario))
    outcome, searched = _search(scenario, measurer)
    listener.phase("latency", len(scenario.latency.at))
    latency = tuple(_latency(share, outcome, scenario, measurer) for share in scenario.latency.at)
    result = _summary(scenario, measurer.trials, searched, outcome, latency, time.monotonic() - began)
    return replace(result, warnings=(*result.warnings, not_learnt)) if not_learnt else result


def _search(scenario: Scenario, measurer: Measurer) -> tuple[SearchOutcome, Sequence[Trial]]:
    """The search's outcome and its trials; begun anew when the cores have moved for good."""

    def measure(duration_s: float, load_fps: float) -> Trial:
        return measurer.trial("search", duration_s, load_fps)

    search, began = scenario.search, time.monotonic()
    for _ in range(MOST_MOVES + 1):
        measurer.mode.forget()
        first = len(measurer.trials)
        outcome = find_rates(measure, search, time.monotonic, began_s=began)
        if not measurer.mode.has_left(search.max_repeats):
            break
    return outcome, measurer.trials[first:]


def expected_trials(scenario: Scenario) -> int:
    """About how many trials a search takes, for the time estimate, as seen on quiet DUTs.

    MLRsearch takes 1.7 x its goal's own; ours some 9, and 4 for each halving of the width below 5 %.
    """
    search = scenario.search
    if search.method is SearchMethod.THRESHOLD:
        most = math.ceil(search.max_traffic_s / search.trial_duration_s)
        return min(most, round(9 + 4 * max(0.0, math.log2(0.05 / search.relative_width))))
    return round(1.7 * search.duration_sum_s / search.trial_duration_s) + 4


def _latency(share: float, outcome: SearchOutcome, scenario: Scenario, measurer: Measurer) -> LatencyPoint:
    ndr = outcome.rates[0]
    if ndr.lower_fps is None:
        return LatencyPoint(share, 0.0, "", None, f"no NDR to take {share:.0%} of")
    load_fps = share * ndr.lower_fps

    def measure(duration_s: float, load: float) -> Trial:
        return measurer.trial("latency", duration_s, load)

    repeats = min(MOST_LATENCY_REPEATS, scenario.search.max_repeats)
    trial = until_valid(measure, scenario.latency.duration_s, load_fps, repeats)
    note = "" if trial.validity is TrialValidity.VALID else f"{trial.validity.value}: {trial.reason}"
    if not note and trial.lost:
        note = f"lost {units.loss(trial.loss_ratio)} of its frames"
    return LatencyPoint(share, load_fps, trial.id, trial.latency, note, trial.witness.loopback)


def _summary(
    scenario: Scenario,
    trials: Sequence[Trial],
    searched: Sequence[Trial],
    outcome: SearchOutcome,
    latency: tuple[LatencyPoint, ...],
    wall_s: float,
) -> ScenarioResult:
    invalid = Counter(str(trial.validity) for trial in trials if trial.validity is not TrialValidity.VALID)
    cores = distance([trial for trial in searched if trial.validity is TrialValidity.VALID])
    limit = _at_the_limit(outcome.rates[0], searched)
    return ScenarioResult(
        scenario=scenario.name,
        title=scenario.title,
        group=scenario.point.group,
        levels=scenario.point.levels,
        repeat=scenario.point.repeat,
        measure=str(scenario.measure),
        outcome=Outcome.MEASURED,
        reason="",
        metrics=of_rates(outcome.rates, latency, limit, scenario.streams),
        rates=outcome.rates,
        latency=latency,
        pmds=limit.pmds if limit else (),
        verdict=verdict(outcome.rates[0], searched, ring=min(port.ring for port in scenario.ports)),
        generator_ceiling_fps=outcome.generator_ceiling_fps or max((t.offered_fps for t in searched), default=None),
        trials=len(trials),
        invalid_trials=dict(invalid),
        traffic_s=sum(trial.sent_duration_s for trial in trials),
        wall_s=wall_s,
        cache_line=cores,
        warnings=(cores.note,) if cores and cores.note else (),
    )


def _at_the_limit(ndr: Rate, searched: Sequence[Trial]) -> Trial | None:
    """The trial of the highest load that satisfied the NDR's goal; None without an NDR.

    What a DUT does at any other load (it may lose nine frames in ten) is not to be told as what it does at its NDR.
    """
    if ndr.status not in (RateStatus.FOUND, RateStatus.AT_LEAST):
        return None
    below = ndr.upper_fps or float("inf")
    reached = [
        trial
        for trial in searched
        if trial.validity is TrialValidity.VALID and trial.loss_ratio <= ndr.loss_ratio and trial.offered_fps < below
    ]
    return max(reached, key=lambda trial: trial.load_fps, default=None)
