"""Curves: every metric of a sweep against its factors, repeats put together into estimates.

Did the datapath see the factor? A rule that no frame needs proves nothing where the rate stays the same, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pinchpoint.model import units
from pinchpoint.model.duet import RELATIVE
from pinchpoint.model.groups import grouped
from pinchpoint.model.measurement import RATES, Bound, Estimate, Interval, Metric, answered_by, is_band, ratio
from pinchpoint.model.result import BOUNDS, Outcome, ScenarioResult
from pinchpoint.model.scenario import Factor, Level
from pinchpoint.model.study import Curve, CurvePoint, Need, Refusal, SweepInfo
from pinchpoint.stats.estimate import bound_of, estimate

DISTURBED = "disturbed by the host"
_OF_WINDOWS = ("bandwidth", "rr", "crr")  # measures that had no bounds in runs of earlier releases
_SENT = "five-tuples sent"
_WORST_FIRST = (Outcome.FAILED, Outcome.WRONG, Outcome.IMPOSSIBLE, Outcome.SKIPPED)
# What changes in a datapath that sees a factor, and by how much before it counts as a change.
_FLOWS, _MASKS = "datapath flows", "datapath masks"
_COUNTS = (_FLOWS, _MASKS, "conntrack entries")
MOST_LISTED = 20_000  # flows; of more, their masks are not counted
_COUNT_NOISE = 2.0  # a neighbour's ARP or ND flow comes and goes
_NOISE = 0.05  # of a count or a rate, and in shares
_CLEAR = 10  # a factor must have changed by this many times the noise to be missed
# Factors in these units say how big or fast something is; no datapath flow is expected of them.
_MAGNITUDES = frozenset({"B", "bytes", "s", "ms", "us", "fps", "pps", "kpps", "Mpps", "bit/s", "1/s", "%"})
# Tables that say how a workload or a measurement runs. What its connections or loads change between two
# hosts is seen on the bench's threads; no datapath flow is promised for each.
_NOT_THE_BENCH = frozenset({"sockets", "load", "search", "latency", "validity", "engine", "burst", "loss_curve"})


def curves(sweeps: Sequence[SweepInfo], results: Sequence[ScenarioResult]) -> tuple[Curve, ...]:
    """One curve a sweep, in the order of `sweeps`; points in the order of their levels, as far as there are results."""
    return tuple(_curve(sweep, [result for result in results if result.group == sweep.group]) for sweep in sweeps)


def _curve(sweep: SweepInfo, results: Sequence[ScenarioResult]) -> Curve:
    kept = _of_one_reference(results)
    levels = [tuple(result.levels.get(factor.name, "") for factor in sweep.factors) for result in kept]
    by_levels = grouped(zip(levels, kept, strict=True))
    ordered = sorted(by_levels, key=lambda levels: _place(sweep.factors, levels))
    points = [_point(sorted(by_levels[levels], key=lambda result: result.repeat)) for levels in ordered]
    return Curve(sweep.group, sweep.title, sweep.measure, sweep.factors, with_visibility(sweep.factors, points))


def _of_one_reference(results: Sequence[ScenarioResult]) -> list[ScenarioResult]:
    """The results, relative rates only of one reference: the last one, where an earlier one had to be replaced."""
    references = [result.reference for result in results if result.reference == result.scenario]
    last = references[-1] if references else ""
    return [result if result.reference in ("", last) else _without_ratio(result) for result in results]


def _without_ratio(result: ScenarioResult) -> ScenarioResult:
    why, metrics = f"relative to {result.reference}, which the engine could not overload", list(result.metrics)
    for place, metric in enumerate(metrics):
        if metric.name == RELATIVE and bound_of(metric) is not Bound.REFUSED:
            metrics[place] = replace(metric, value=0.0, low=None, high=None, note=why, bound=Bound.REFUSED)
    return replace(result, metrics=tuple(metrics))


def _place(factors: Sequence[Factor], levels: Sequence[Level]) -> tuple[int, ...]:
    known = [(factor.levels, level) for factor, level in zip(factors, levels, strict=True)]
    return tuple(every.index(level) if level in every else len(every) for every, level in known)


def _point(repeats: Sequence[ScenarioResult]) -> CurvePoint:
    measured = [result for result in repeats if result.outcome is Outcome.MEASURED]
    worst = (result for outcome in _WORST_FIRST for result in repeats if result.outcome is outcome)
    first = measured[0] if measured else next(worst)
    combined = of_repeats(measured)
    notes, cautions = dict(combined.notes), dict(combined.cautions)
    of_all = list(cautions.get(_SENT, ()))  # what was not sent was not measured either
    if of_all:
        cautions[""] = tuple(of_all)
    if measured and (lost := [result for result in repeats if result.outcome is not Outcome.MEASURED]):
        of_all.append(f"{len(lost)} of {len(repeats)} repeats {lost[0].outcome.value}: {lost[0].reason}")
    if of_all:
        notes[""] = "; ".join(of_all)
    verdict, limit = (first.verdict.headline, first.verdict.limit.value) if first.verdict else ("", "")
    limits = tuple(dict.fromkeys(result.verdict.limit.value for result in measured if result.verdict))
    names, outcome = tuple(result.scenario for result in repeats), first.outcome.value
    point = CurvePoint(first.levels, outcome, first.reason, combined.estimates, verdict, "", names, limit)
    refusals, bench = combined.refusals, _bench(measured)
    return replace(point, notes=notes, cautions=cautions, refusals=refusals, bench=bench, limits=limits)


def _bench(measured: Sequence[ScenarioResult]) -> Mapping[Need, int] | None:
    """The least that the benches of the repeats had; None if one of them did not record it."""
    recorded = [result.bench for result in measured if result.bench is not None]
    if not recorded or len(recorded) < len(measured):
        return None
    return {need: min(bench.get(need, 0) for bench in recorded) for need in recorded[0]}


def metrics_of(result: ScenarioResult) -> list[Metric]:
    """The result's metrics, and its rates without lower bound, of which no metric tells."""
    known = {metric.name for metric in result.metrics}
    below, refused = list[Metric](), list[Metric]()
    for rate in (rate for rate in result.rates if rate.name not in known):
        low, high, bound = rate.lower_fps, rate.upper_fps, BOUNDS[rate.status]
        if bound is Bound.BELOW and high is not None:
            below.append(Metric(rate.name, "fps", high, None, high, "below the lowest load tried", bound))
        elif bound is Bound.REFUSED:
            refused.append(Metric(rate.name, "fps", 0.0, low, high, rate.reason, bound))
    return [*below, *refused, *(_typed(metric, result) for metric in result.metrics)]


def _typed(metric: Metric, result: ScenarioResult) -> Metric:
    """The metric with what a run stored before metrics had bounds says of it elsewhere."""
    if metric.bound is not None:
        return metric
    if result.measure in _OF_WINDOWS and 0 < result.trials == sum(result.invalid_trials.values()):
        return replace(metric, disturbed=True, cautions=(DISTURBED,))
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
    by_name = grouped((metric.name, metric) for result in measured for metric in metrics_of(result))
    combined = Repeats({}, {}, {}, {})
    for name, metrics in by_name.items():
        refused = [metric for metric in metrics if bound_of(metric) is Bound.REFUSED]
        numbers = [metric for metric in metrics if bound_of(metric) is not Bound.REFUSED]
        usable = [metric for metric in numbers if not metric.disturbed] or numbers
        remarks, lost = list[str](), len(numbers) - len(usable)
        if refused:
            combined.refusals[name] = Refusal(refused[0].note, len(refused), len(metrics))
            remarks.append(str(combined.refusals[name]))
        contradiction = _contradiction(usable)
        together = None if contradiction else (estimate(usable) if usable else _between(metrics))
        if together is not None:
            combined.estimates[name] = together
        minded = [contradiction, f"{lost} of {len(numbers)} repeats left out: {DISTURBED}" if lost else ""]
        own = [] if contradiction else [caution for metric in usable for caution in metric.cautions]
        if cautions := tuple(dict.fromkeys(filter(None, (*minded, *own)))):
            combined.cautions[name] = cautions
        remarks += [*minded, *(_notes(usable, together) if usable and together else ()), *own]
        if note := "; ".join(dict.fromkeys(filter(None, remarks))):
            combined.notes[name] = note
    return combined


def _between(refused: Sequence[Metric]) -> Estimate | None:
    """Where numbers lie that all repeats were refused: from the lowest to the highest end; None if one is open."""
    known = [interval for metric in refused if (interval := Interval.of(metric)).is_closed]
    if not known or any((metric.low is None) != (metric.high is None) for metric in refused):
        return None
    low, high = min(interval.low for interval in known), max(interval.high for interval in known)
    words = f"refused a number: from the lowest to the highest end over {units.counted(len(known), 'repeat')}"
    middle = (low * high) ** 0.5
    return Estimate(refused[0].unit, middle, low, high, n=len(known), interval=words, bound=Bound.BETWEEN)


def _contradiction(usable: Sequence[Metric]) -> str:
    """A ceiling in one repeat and a floor in another leave no number between them; empty if there are not both."""
    least = [metric.value for metric in usable if bound_of(metric) is Bound.AT_LEAST]
    below = [metric.value for metric in usable if bound_of(metric) is Bound.BELOW]
    if not least or not below:
        return ""
    over, under = (units.quantity(value, usable[0].unit) for value in (min(least), max(below)))
    return f"unknown: at least {over} in {len(least)} of {len(usable)} repeats, below {under} in {len(below)}"


def _notes(usable: Sequence[Metric], estimate: Estimate) -> list[str]:
    """Every repeat's own notes, but for what the estimate's interval says already; of several bounds the first."""
    if estimate.bound is not Bound.FOUND:
        return [next(metric.note for metric in usable if bound_of(metric) is not Bound.FOUND)]
    parts = [part for metric in usable for part in metric.note.split("; ")]
    return [part for part in parts if part not in estimate.interval]


def with_visibility(factors: Sequence[Factor], points: Sequence[CurvePoint]) -> tuple[CurvePoint, ...]:
    """The points, each with the words that a factor was invisible to the datapath, where it was."""
    return tuple(
        replace(point, invisible="; ".join(_unseen(factors, points, point)), notes=_with_masks(point))
        for point in points
    )


def _with_masks(point: CurvePoint) -> Mapping[str, str]:
    """The point's notes, and why it has no masks where its flows are too many to be listed."""
    flows = point.estimates.get(_FLOWS)
    if flows is None or flows.value <= MOST_LISTED or _MASKS in point.estimates:
        return point.notes
    notes = [note for note in (point.notes.get(""), f"masks not counted: more than {MOST_LISTED:,} flows") if note]
    return {**point.notes, "": "; ".join(notes)}


def _unseen(factors: Sequence[Factor], points: Sequence[CurvePoint], point: CurvePoint) -> Iterator[str]:
    if _FLOWS not in point.estimates or _MASKS not in point.estimates:
        return
    flows, masks = point.estimates[_FLOWS].value, point.estimates[_MASKS].value
    carried = f"{units.counted(flows, 'datapath flow')} and {units.counted(masks, 'mask')} carried the traffic"
    for factor in filter(_of_the_datapath, factors):
        first = _first(factor, points, point)
        if first is not None and _grew(factor, first, point) and not any(_changed(first, point)):
            before, after = (units.level(at.levels[factor.name]) for at in (first, point))
            yield f"{after} {factor.name}, but {carried}, as with {before}: the datapath did not see the factor"


def _of_the_datapath(factor: Factor) -> bool:
    """Whether a flow in the datapath is to be expected of the factor; of unknown keys it is."""
    tables = {key.partition(".")[0].partition("[")[0] for key in factor.keys}
    return factor.unit not in _MAGNITUDES and not (tables and tables <= _NOT_THE_BENCH)


def _first(factor: Factor, points: Sequence[CurvePoint], point: CurvePoint) -> CurvePoint | None:
    """The point with the factor's first level and all else as in `point`."""
    other = {**point.levels, factor.name: ""}
    same = [
        candidate for candidate in points
        if {**candidate.levels, factor.name: ""} == other and _FLOWS in candidate.estimates
    ]  # fmt: skip
    return same[0] if same and same[0] is not point else None


def _grew(factor: Factor, first: CurvePoint, point: CurvePoint) -> bool:
    before, after = first.levels.get(factor.name), point.levels.get(factor.name)
    if isinstance(before, str | None) or isinstance(after, str | None):
        return False
    noise = max(_COUNT_NOISE, _NOISE * first.estimates[_FLOWS].value)
    return abs(after - before) > _CLEAR * noise


def _changed(first: CurvePoint, point: CurvePoint) -> Iterator[bool]:
    """Whether each count of the datapath, and each rate, moved by more than noise; a rate also beyond its interval."""
    for name, before in first.estimates.items():
        is_share, after = bool(answered_by(name)), point.estimates.get(name)
        if after and (is_share or name in _COUNTS):
            noise = _NOISE if is_share else max(_COUNT_NOISE, _NOISE * before.value)
            yield abs(after.value - before.value) > noise
        elif (before.unit in RATES or name == RELATIVE) and not is_band(name) and (change := ratio(after, before)):
            yield abs(change.value - 1) > _NOISE and (change.tells_apart or not change.is_closed)
