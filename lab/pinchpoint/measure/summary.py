"""Results of measures, all made here; in short form those whose findings are metrics."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pinchpoint.account.facts import core_distances, slowed_words
from pinchpoint.model.measurement import Measurement, Metric
from pinchpoint.model.result import CacheLine, LatencyPoint, Outcome, Rate, ScenarioResult, Verdict
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import ThreadLoad, Trial, TrialValidity


@dataclass(frozen=True)
class Findings:
    """What a measure has to say."""

    metrics: tuple[Metric, ...]
    warnings: tuple[str, ...]
    rates: tuple[Rate, ...] = ()  # that its loads are shares of
    failed: str = ""  # why there is no figure; empty if there is one


def scenario_result(
    scenario: Scenario,
    wall_s: float,
    *,
    taken: Sequence[Trial] | Sequence[Measurement] = (),
    outcome: Outcome = Outcome.MEASURED,
    reason: str = "",
    metrics: Sequence[Metric] = (),
    rates: Sequence[Rate] = (),
    latency: Sequence[LatencyPoint] = (),
    threads: Sequence[ThreadLoad] = (),
    verdict: Verdict | None = None,
    generator_ceiling_fps: float | None = None,
    traffic_s: float = 0.0,
    cache_line: CacheLine | None = None,
    warnings: Sequence[str] = (),
) -> ScenarioResult:
    """A result, as every measure makes it; `taken` are all trials or measurements, valid or not."""
    invalid = Counter(str(each.validity) for each in taken if each.validity is not TrialValidity.VALID)
    return ScenarioResult(
        scenario=scenario.name,
        title=scenario.title,
        rates=tuple(rates),
        latency=tuple(latency),
        threads=tuple(threads),
        verdict=verdict,
        generator_ceiling_fps=generator_ceiling_fps,
        trials=len(taken),
        invalid_trials=dict(invalid),
        traffic_s=traffic_s,
        wall_s=wall_s,
        cache_line=cache_line,
        warnings=tuple(warnings),
        group=scenario.point.group,
        levels=scenario.point.levels,
        repeat=scenario.point.repeat,
        measure=scenario.measure.kind,
        outcome=outcome,
        reason=reason,
        metrics=tuple(metrics),
    )


def result_of(
    scenario: Scenario, trials: Sequence[Trial], findings: Findings, wall_s: float, of: Sequence[Trial] | None = None
) -> ScenarioResult:
    """The scenario's result; `trials` are all that it took, valid or not; the figures are `of` these (None: all)."""
    judged = [trial for trial in (trials if of is None else of) if trial.validity is TrialValidity.VALID]
    cores = core_distances(judged)
    highest = max(judged, key=lambda trial: trial.load_fps, default=None)
    return scenario_result(
        scenario,
        wall_s,
        taken=trials,
        outcome=Outcome.FAILED if findings.failed else Outcome.MEASURED,
        reason=findings.failed,
        metrics=findings.metrics,
        rates=findings.rates,
        threads=highest.threads if highest else (),
        traffic_s=math.fsum(trial.sent_duration_s for trial in trials),
        cache_line=cores,
        warnings=tuple(filter(None, (cores.note if cores else "", slowed_words(trials), *findings.warnings))),
    )


def most_offered(trials: Sequence[Trial]) -> float | None:
    """The highest rate that the generator was seen to offer, frames per second; None without trials."""
    return max((trial.offered_fps for trial in trials), default=None)
