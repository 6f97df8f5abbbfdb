"""The result of a measure whose findings are metrics."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pinchpoint.account.cache_line import distance
from pinchpoint.account.neighbour import of_trials
from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import Outcome, Rate, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import Trial, TrialValidity


@dataclass(frozen=True)
class Found:
    """What a measure has to say."""

    metrics: tuple[Metric, ...]
    warnings: tuple[str, ...]
    rates: tuple[Rate, ...] = ()  # that its loads are shares of
    failed: str = ""  # why there is no figure; empty if there is one


def result_of(
    scenario: Scenario, trials: Sequence[Trial], found: Found, wall_s: float, of: Sequence[Trial] | None = None
) -> ScenarioResult:
    """The scenario's result; `trials` are all that it took, valid or not; the figures are `of` these (None: all)."""
    judged = [trial for trial in (trials if of is None else of) if trial.validity is TrialValidity.VALID]
    cores = distance(judged)
    invalid = Counter(str(trial.validity) for trial in trials if trial.validity is not TrialValidity.VALID)
    highest = max(judged, key=lambda trial: trial.load_fps, default=None)
    return ScenarioResult(
        scenario=scenario.name,
        title=scenario.title,
        group=scenario.point.group,
        levels=scenario.point.levels,
        repeat=scenario.point.repeat,
        measure=scenario.measure.kind,
        outcome=Outcome.FAILED if found.failed else Outcome.MEASURED,
        reason=found.failed,
        metrics=found.metrics,
        rates=found.rates,
        latency=(),
        pmds=highest.pmds if highest else (),
        verdict=None,
        generator_ceiling_fps=None,
        trials=len(trials),
        invalid_trials=dict(invalid),
        traffic_s=math.fsum(trial.sent_duration_s for trial in trials),
        wall_s=wall_s,
        cache_line=cores,
        warnings=tuple(filter(None, (cores.note if cores else "", of_trials(trials).sentence, *found.warnings))),
    )


def most_offered(trials: Sequence[Trial]) -> float | None:
    """The highest rate that the generator was seen to offer, frames per second; None without trials."""
    return max((trial.offered_fps for trial in trials), default=None)
