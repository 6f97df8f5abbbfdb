"""Curves: every metric of a sweep against its factors, repeats put together into estimates."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pinchpoint.findings.visibility import with_visibility
from pinchpoint.model import units
from pinchpoint.model.duet import RELATIVE
from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import BOUNDS, Outcome, RateStatus, ScenarioResult
from pinchpoint.model.scenario import Factor, Level
from pinchpoint.model.study import Bound, Curve, CurvePoint, Estimate, Refusal, SweepInfo
from pinchpoint.stats.estimate import bound_of, estimate

DISTURBED = "disturbed by the host"
_OF_WINDOWS = ("bandwidth", "rr", "crr")  # measures that had no bounds in runs of earlier releases
_SENT = "five-tuples sent"
_WORST_FIRST = (Outcome.FAILED, Outcome.WRONG, Outcome.IMPOSSIBLE, Outcome.SKIPPED)


def curves(sweeps: Sequence[SweepInfo], results: Sequence[ScenarioResult]) -> tuple[Curve, ...]:
    """One curve a sweep, in the order of `sweeps`; points in the order of their levels, as far as there are results."""
    return tuple(_curve(sweep, [result for result in results if result.group == sweep.group]) for sweep in sweeps)


def _curve(sweep: SweepInfo, results: Sequence[ScenarioResult]) -> Curve:
    by_levels: dict[tuple[Level, ...], list[ScenarioResult]] = {}
    for result in _of_one_reference(results):
        by_levels.setdefault(tuple(result.levels.get(factor.name, "") for factor in sweep.factors), []).append(result)
    ordered = sorted(by_levels, key=lambda levels: _place(sweep.factors, levels))
    points = [_point(sorted(by_levels[levels], key=lambda result: result.repeat)) for levels in ordered]
    return Curve(sweep.group, sweep.title, sweep.measure, sweep.factors, with_visibility(sweep.factors, points))


def _of_one_reference(results: Sequence[ScenarioResult]) -> list[ScenarioResult]:
    """The results, relative rates only of one reference: the last one, where an earlier one had to be replaced."""
    references = [result.reference for result in results if result.reference == result.scenario]
    last = references[-1] if references else ""
    return [
        result if result.reference in ("", last) else replace(result, metrics=_without_ratio(result))
        for result in results
    ]


def _without_ratio(result: ScenarioResult) -> tuple[Metric, ...]:
    why = f"relative to {result.reference}, which the engine could not overload"
    return tuple(
        replace(metric, value=0.0, low=None, high=None, note=why, bound=Bound.REFUSED)
        if metric.name == RELATIVE and bound_of(metric) is not Bound.REFUSED
        else metric
        for metric in result.metrics
    )


def _place(factors: Sequence[Factor], levels: Sequence[Level]) -> tuple[int, ...]:
    return tuple(
        factor.levels.index(level) if level in factor.levels else len(factor.levels)
        for factor, level in zip(factors, levels, strict=True)
    )


def _point(repeats: Sequence[ScenarioResult]) -> CurvePoint:
    measured = [result for result in repeats if result.outcome is Outcome.MEASURED]
    first = measured[0] if measured else _worst(repeats)
    combined = of_repeats(measured)
    notes, cautions = dict(combined.notes), dict(combined.cautions)
    of_all = list(cautions.get(_SENT, ()))  # what was not sent was not measured either
    if of_all:
        cautions[""] = tuple(of_all)
    if measured and (lost := [result for result in repeats if result.outcome is not Outcome.MEASURED]):
        of_all.append(f"{len(lost)} of {len(repeats)} repeats {lost[0].outcome.value}: {lost[0].reason}")
    if of_all:
        notes[""] = "; ".join(of_all)
    return CurvePoint(
        levels=first.levels,
        outcome=first.outcome.value,
        reason=first.reason,
        estimates=combined.estimates,
        verdict=first.verdict.headline if first.verdict else "",
        invisible="",
        scenarios=tuple(result.scenario for result in repeats),
        limit=first.verdict.limit.value if first.verdict else "",
        notes=notes,
        cautions=cautions,
        refusals=combined.refusals,
    )


def _worst(repeats: Sequence[ScenarioResult]) -> ScenarioResult:
    return next(result for outcome in _WORST_FIRST for result in repeats if result.outcome is outcome)


def metrics_of(result: ScenarioResult) -> list[Metric]:
    """The result's metrics, and its rates without lower bound, of which no metric tells."""
    known = {metric.name for metric in result.metrics}
    silent = [rate for rate in result.rates if rate.name not in known]
    below = [
        Metric(rate.name, "fps", rate.upper_fps, None, rate.upper_fps, "below the lowest load tried", Bound.BELOW)
        for rate in silent
        if rate.status is RateStatus.BELOW_MINIMUM and rate.upper_fps is not None
    ]
    refused = [
        Metric(rate.name, "fps", 0.0, rate.lower_fps, rate.upper_fps, rate.reason, Bound.REFUSED)
        for rate in silent
        if rate.status in (RateStatus.REFUSED, RateStatus.LOSES_ALWAYS)
    ]
    return [*below, *refused, *(_typed(metric, result) for metric in result.metrics)]


def _typed(metric: Metric, result: ScenarioResult) -> Metric:
    """The metric with what a run stored before metrics had bounds says of it elsewhere."""
    if metric.bound is not None:
        return metric
    if result.measure in _OF_WINDOWS and 0 < result.trials == sum(result.invalid_trials.values()):
        return replace(metric, disturbed=True)
    rate = next((rate for rate in result.rates if rate.name == metric.name), None)
    if rate is None:
        return metric
    bound = BOUNDS[rate.status]
    return replace(metric, bound=bound, note=rate.reason if bound is Bound.REFUSED else metric.note)


@dataclass(frozen=True)
class Repeats:
    """What the repeats of one point found together, by metric."""

    estimates: dict[str, Estimate]
    notes: dict[str, str]  # all remarks
    cautions: dict[str, tuple[str, ...]]  # of these, what to mind
    refusals: dict[str, Refusal]


def of_repeats(measured: Sequence[ScenarioResult]) -> Repeats:
    """Every metric over the repeats of one point."""
    by_name: dict[str, list[Metric]] = {}
    for result in measured:
        for metric in metrics_of(result):
            by_name.setdefault(metric.name, []).append(metric)
    combined = Repeats({}, {}, {}, {})
    for name, metrics in by_name.items():
        numbers = [metric for metric in metrics if bound_of(metric) is not Bound.REFUSED]
        usable = [metric for metric in numbers if not metric.disturbed] or numbers
        contradiction, refusal = _contradiction(usable), _refusal(metrics)
        if usable and not contradiction:
            combined.estimates[name] = estimate(usable)
        elif not usable and (within := _between(metrics)):
            combined.estimates[name] = within
        if refusal is not None:
            combined.refusals[name] = refusal
        minded = [contradiction, _left_out(numbers, usable), *_cautions(usable if not contradiction else ())]
        if cautions := tuple(dict.fromkeys(filter(None, minded))):
            combined.cautions[name] = cautions
        remarks = [str(refusal or ""), *minded[:2]]
        remarks += _notes(usable, combined.estimates[name]) if usable and name in combined.estimates else []
        if note := "; ".join(dict.fromkeys(filter(None, (*remarks, *minded[2:])))):
            combined.notes[name] = note
    return combined


def _refusal(metrics: Sequence[Metric]) -> Refusal | None:
    refused = [metric for metric in metrics if bound_of(metric) is Bound.REFUSED]
    return Refusal(refused[0].note, len(refused), len(metrics)) if refused else None


def _cautions(usable: Sequence[Metric]) -> list[str]:
    return [caution for metric in usable for caution in metric.cautions]


def _between(refused: Sequence[Metric]) -> Estimate | None:
    """Where numbers lie that all repeats were refused: from the lowest to the highest end; None if one is open."""
    if any((metric.low is None) != (metric.high is None) for metric in refused):
        return None
    ends = [(metric.low, metric.high) for metric in refused if metric.low is not None and metric.high is not None]
    if not ends:
        return None
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    words = f"refused a number: from the lowest to the highest end over {units.counted(len(ends), 'repeat')}"
    middle = (low * high) ** 0.5
    return Estimate(refused[0].unit, middle, low, high, n=len(ends), interval=words, bound=Bound.BETWEEN)


def _contradiction(usable: Sequence[Metric]) -> str:
    """A ceiling in one repeat and a floor in another leave no number between them; empty if there are not both."""
    kinds = {bound: [metric for metric in usable if bound_of(metric) is bound] for bound in Bound}
    least, below = kinds[Bound.AT_LEAST], kinds[Bound.BELOW]
    if not least or not below:
        return ""
    over, under = min(metric.value for metric in least), max(metric.value for metric in below)
    return (
        f"unknown: at least {units.quantity(over, least[0].unit)} in {len(least)} of {len(usable)} repeats, "
        f"below {units.quantity(under, below[0].unit)} in {len(below)}"
    )


def _notes(usable: Sequence[Metric], estimate: Estimate) -> list[str]:
    """Every repeat's own notes, but for what the estimate's interval says already; of several bounds the first."""
    if estimate.bound is not Bound.FOUND:
        return [next(metric.note for metric in usable if bound_of(metric) is not Bound.FOUND)]
    parts = [part for metric in usable for part in metric.note.split("; ")]
    return [part for part in parts if part not in estimate.interval]


def _left_out(numbers: Sequence[Metric], usable: Sequence[Metric]) -> str:
    lost = len(numbers) - len(usable)
    if not lost:
        return ""
    return f"{lost} of {len(numbers)} repeats left out: {DISTURBED}"
