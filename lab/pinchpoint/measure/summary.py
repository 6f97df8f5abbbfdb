"""Results of measures, all made here."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from pinchpoint.account.facts import core_distances, core_slowed
from pinchpoint.model.groups import grouped
from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import Outcome, Rate, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import Record, Trial, TrialValidity
from pinchpoint.model.warning import ResultWarning, Warn

Taken = TypeVar("Taken", bound=Record)


def valid(taken: Iterable[Taken]) -> list[Taken]:
    """The trials or measurements whose account can be used."""
    return [record for record in taken if record.validity is TrialValidity.VALID]


def by_name(several: Iterable[Iterable[Metric]]) -> dict[str, list[Metric]]:
    """Metrics of several trials or windows, in their order, by what they are."""
    return grouped((metric.name, metric) for metrics in several for metric in metrics)


def scenario_result(scenario: Scenario, wall_s: float, taken: Sequence[Record] = ()) -> ScenarioResult:
    """What every result has; a measure adds what it found. `taken` are all trials or measurements, valid or not."""
    invalid = Counter(str(record.validity) for record in taken if record.validity is not TrialValidity.VALID)
    return ScenarioResult(
        scenario=scenario.name,
        title=scenario.title,
        rates=(),
        latency=(),
        threads=(),
        verdict=None,
        generator_ceiling_fps=None,
        trials=len(taken),
        invalid_trials=dict(invalid),
        traffic_s=0.0,
        wall_s=wall_s,
        cache_line=None,
        warnings=(),
        group=scenario.point.group,
        levels=scenario.point.levels,
        repeat=scenario.point.repeat,
        measure=scenario.measure.kind,
    )


def result_of(
    scenario: Scenario,
    trials: Sequence[Trial],
    wall_s: float,
    metrics: Iterable[Metric],
    warnings: Iterable[ResultWarning | None] = (),
    *,
    rates: Sequence[Rate] = (),
    failed: str = "",
    of: Sequence[Trial] | None = None,
) -> ScenarioResult:
    """The scenario's result; `trials` are all that it took, valid or not; the figures are `of` these (None: all).

    `rates`: that its loads are shares of. `failed`: why there is no figure; empty if there is one.
    """
    judged = valid(trials if of is None else of)
    cores = core_distances(judged)
    highest = max(judged, key=lambda trial: trial.load_fps, default=None)
    mixed = Warn.CORES_MIXED.of(cores.note) if cores and cores.note else None
    return replace(
        scenario_result(scenario, wall_s, trials),
        outcome=Outcome.FAILED if failed else Outcome.MEASURED,
        reason=failed,
        metrics=tuple(metrics),
        rates=tuple(rates),
        threads=highest.threads if highest else (),
        traffic_s=math.fsum(trial.sent_duration_s for trial in trials),
        cache_line=cores,
        warnings=tuple(filter(None, (mixed, core_slowed(trials), *warnings))),
    )
