"""Findings: the sentences that a study asks for, each computed from its curves with its numbers.

* fall: how far the metric falls (or rises) from the first to the last level; the published change beside it. Of a
  rate, fall and knee report the relative rate's, where no fewer points have one.
* knee: between which neighbours the metric loses most for each doubling of the level.
* compare: the metric of `group` over that of the group `against` at their largest common level; published beside it.
* cost: the cycles per packet of `group` over those of the control group `against`, at the largest common level,
  and how much of the lower rate (`metric`) they explain: the discriminating experiment.
* caches: which cache answered the lookups at the first and at the last level.
* flat: whether the factor has an effect on the metric, as far as the interval tells; warns if the datapath did not
  see it.
* growth: the metric (e.g. time per item) at the largest level over the smallest; published beside it.
* method: the levels of the factor, or `group` and the groups in `against` (by commas), ordered by the metric, the
  best first; warns where bounds or overlapping intervals leave open which that is.
* impossible: which points could not run here, and why.
* limit: which verdicts hold at how many points, which numbers are only "at least", and which were refused.

Numbers that rest on disturbed measurements, or on fewer five-tuples than asked for, are
followed by a warning that says so. An empty group means all of them (impossible, limit).
With several other factors `against` of fall, knee, flat and growth may fix some, as
`connections=32, numa=any`. A sentence whose numbers are missing is not written.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from pinchpoint.findings.find_shape import chosen, fall, flat, growth, knee, named_series, refused_rate, said
from pinchpoint.model import units
from pinchpoint.model.duet import RELATIVE
from pinchpoint.model.groups import grouped
from pinchpoint.model.measurement import CYCLES, Bound, Estimate, Interval, answered_by, is_rate, ratio
from pinchpoint.model.result import Limit, Outcome
from pinchpoint.model.scenario import Factor, Level
from pinchpoint.model.series import Series, along, factor_of, levels_of, published_for, series, with_unit
from pinchpoint.model.study import Curve, CurvePoint, Finding, FindingRequest, Study

_MOST_NAMED = 4
_NO_NUMBER = (Outcome.IMPOSSIBLE, Outcome.FAILED)

Place = tuple[Curve, CurvePoint]


def caches(study: Study, curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[Finding]:
    """The shares of lookups that each cache answered, at the first and the last level."""
    for part in chosen(curves, request):
        name = named_series(part)
        counted = [point for point in part.points if _shares(point)]
        seen = [point for point in counted if not refused_rate(point)]
        if lost := [refused_rate(point) for point in counted if refused_rate(point)]:
            excluded = f"{name}: caches at {len(lost)} of {len(counted)} points are excluded"
            yield Finding(f"{excluded}, since they belong to no rate: {lost[0]}.", warning=True)
        if len(seen) > 1:
            first, last = (_answered_at(part, point) for point in (seen[0], seen[-1]))
            yield Finding(f"{name}: lookups were answered by {first}, by {last}.", warning=False)


def _shares(point: CurvePoint) -> dict[str, float]:
    return {cache: estimate.value for name, estimate in point.estimates.items() if (cache := answered_by(name))}


def minded(curves: Mapping[str, Curve], request: FindingRequest, names: Collection[str]) -> Iterator[Finding]:
    """One warning a caution about the numbers that a sentence rests on: those of `names`, and of whole points."""
    groups = {request.group, *(name.strip() for name in request.against.split(","))}
    places = [(curve, point) for group, curve in curves.items() if group in groups for point in curve.points]
    cautions = grouped((caution, (curve, point)) for curve, point in places for caution in _cautions(point, names))
    for caution, minded in cautions.items():
        yield Finding(f"{_listed(minded)}: {caution.rstrip('.')}.", warning=True)


def _cautions(point: CurvePoint, names: Collection[str]) -> Iterable[str]:
    noted = [name for name in point.notes if name in ("", *names)]
    return dict.fromkeys(caution for name in noted for caution in point.to_mind(name))


def _answered_at(part: Series, point: CurvePoint) -> str:
    """`flow cache 93.0 % and classifier 7.00 % at 512 five-tuples`; shares under 0.1 % are left out."""
    ranked = sorted(_shares(point).items(), key=lambda item: -item[1])
    shares = [f"{name} {units.share(value)}" for name, value in ranked if value >= 1e-3] or ["no cache"]
    listed = f"{', '.join(shares[:-1])} and {shares[-1]}" if len(shares) > 1 else shares[0]
    return f"{listed} at {along(part.factor, point.levels[part.factor.name])}"


def impossible(study: Study, curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[Finding]:
    """One warning a reason: which points could not run here."""
    ended = [(curve, point) for curve, point in _asked(curves, request) if point.outcome in _NO_NUMBER]
    reasons = grouped(((point.outcome, point.reason), (curve, point)) for curve, point in ended)
    for (outcome, reason), places in reasons.items():
        verb = "could not run here" if outcome == Outcome.IMPOSSIBLE else "failed"
        why = reason.removeprefix("impossible here: ").rstrip(".")
        yield Finding(f"{_listed(places)} {verb}: {why}.", warning=True)


def _asked(curves: Mapping[str, Curve], request: FindingRequest) -> list[Place]:
    """The points of the group that is asked for; of all, where it is empty."""
    return [(curve, point) for curve in curves.values() if request.group in ("", curve.group) for point in curve.points]


def _listed(places: Sequence[Place]) -> str:
    """`raw (five-tuples 1, 512, 1,024); numa (numa different)`; of many points only how many."""
    by_group = grouped((curve.group, (curve, point)) for curve, point in places)
    return "; ".join(map(_of_group, by_group.values()))


def _of_group(places: Sequence[Place]) -> str:
    curve, points = places[0][0], [point for _, point in places]
    if not curve.factors:
        return curve.group
    if len(points) > _MOST_NAMED:
        return f"{curve.group} ({len(points)} of {len(curve.points)} points)"
    if len(curve.factors) == 1:
        (factor,) = curve.factors
        levels = ", ".join(with_unit(point.levels.get(factor.name), factor.unit) for point in points)
        return f"{curve.group} ({factor.name} {levels})"
    return f"{curve.group} ({'; '.join(levels_of(curve, point) for point in points)})"


def _refused(curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[Finding]:
    """One warning for all points of which the bench could support no number."""
    refused: list[tuple[Place, str]] = []
    for curve, point in _asked(curves, request):
        names = [name for name in point.refusals if _is_refused(point, name, request.metric)]
        refused += [((curve, point), point.refusals[name].reason) for name in names[:1]]
    if refused:
        listed, reason = _listed([place for place, _ in refused]), refused[0][1].rstrip(".") or "no reason is known"
        yield Finding(f"{listed}: no number, the bench could not support one: {reason}.", warning=True)


def _is_refused(point: CurvePoint, name: str, asked: str) -> bool:
    estimate = point.estimates.get(name)
    return (estimate is None or estimate.bound is Bound.BETWEEN) and asked in ("", name)


def limit(study: Study, curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[Finding]:
    """How many points each verdict limits; warns where the numbers are only "at least", or refused."""
    yield from _refused(curves, request)
    points = [(curve, point) for curve, point in _asked(curves, request) if point.limit]
    if not points:
        return
    yield Finding(f"{request.group or 'All groups'}: {_limits(points, len(_asked(curves, request)))}.", False)
    open_above = [(curve, point) for curve, point in points if _is_open_above(point, request.metric)]
    if open_above:
        number = "its number is" if len(open_above) == 1 else "their numbers are"
        yield Finding(f'{_listed(open_above)}: {number} "at least": something else than the switch ended first.', True)


def _limits(points: Sequence[Place], asked: int) -> str:
    """What pinched the points with a verdict, of all that were `asked` for."""
    counts = Counter(Limit(point.limit).words for _, point in points)
    if len(counts) > 1:
        parts = ", ".join(f"{words} at {count}" for words, count in counts.most_common())
        return f"of {units.counted(len(points), 'point')} with a verdict, {parts}"
    (words,) = counts
    if len(points) < asked:
        verb = "has a verdict" if len(points) == 1 else "have a verdict"
        return f"{len(points)} of {units.counted(asked, 'point')} {verb}: pinched by {words}"
    return f"pinched by {words}" if asked == 1 else f"all {asked} points pinched by {words}"


def _is_open_above(point: CurvePoint, asked: str) -> bool:
    own = [estimate for name, estimate in point.estimates.items() if asked in ("", name)]
    return any(estimate.bound is Bound.AT_LEAST for estimate in own)


def compare(study: Study, curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[Finding]:
    """`group` over `against` at their largest common level, series by series."""
    for mine, other, level in _pairs(curves, request, request.metric):
        over, under = _estimate(mine, level, request.metric), _estimate(other, level, request.metric)
        if over is None or under is None:
            continue
        quotient, numbers = ratio(over, under), f"{said(over)} and {said(under)}"
        where = f"{request.against}{_at(mine, level)}{f' ({mine.label})' if mine.label else ''}"
        of = f"{request.metric} of {request.group}"
        if quotient is None:
            yield Finding(f"The ratio of the {of} to that of {where} is unknown: {numbers}.", warning=True)
            continue
        beside = _published_ratio(study, mine, other, level, request.metric)
        yield Finding(f"The {of} is {quotient.times} that of {where}: {numbers}{beside}.", warning=False)
        yield from _not_compared(request, mine, other, level)


def _at(part: Series, level: Level | None) -> str:
    return "" if level is None else f" at {along(part.factor, level)}"


def _not_compared(request: FindingRequest, mine: Series, other: Series, level: Level | None) -> Iterator[Finding]:
    """That both groups have only relative rates at a larger level: no ratio of their references is known."""
    related = _common(mine, other, RELATIVE) if is_rate(request.metric) else []
    if level is None or level not in related or related[-1] == level:
        return
    why = "their relative rates there are multiples of two references that were not measured beside each other"
    groups = f"{request.group} and {request.against}"
    yield Finding(f"{groups} are not compared{_at(mine, related[-1])}: {why}.", warning=True)


def _pairs(
    curves: Mapping[str, Curve], request: FindingRequest, metric: str
) -> Iterator[tuple[Series, Series, Level | None]]:
    """Series of both groups with the same other levels, and the largest level at which both have the metric."""
    curve, two = curves.get(request.group), curves.get(request.against)
    if curve is None or two is None:
        return
    if not request.factor and (factor_of(curve, "") is None or factor_of(two, "") is None):
        mine, other = _single(curve), _single(two)
        if mine and other:
            yield mine, other, None
        return
    controls = series(two, request.factor)
    for mine in series(curve, request.factor):
        for other in controls:
            if all(mine.others.get(name, level) == level for name, level in other.others.items()):
                common = _common(mine, other, metric)
                if common:
                    yield mine, other, common[-1]


def _single(curve: Curve) -> Series | None:
    factor = factor_of(curve, "")
    if factor is None and len(curve.points) == 1:
        return Series(curve, Factor("", "", (), falling=False), {}, curve.points)
    parts = series(curve) if factor else ()
    return parts[0] if len(parts) == 1 and len(parts[0].points) == 1 else None


def _common(mine: Series, other: Series, metric: str) -> list[Level]:
    theirs = {level for level, _ in other.having(metric)}
    return [level for level, _ in mine.having(metric) if level in theirs]


def _point(part: Series, level: Level | None) -> CurvePoint | None:
    return part.points[0] if level is None else part.at(level)


def _estimate(part: Series, level: Level | None, metric: str) -> Estimate | None:
    point = _point(part, level)
    return point.estimates.get(metric) if point else None


def _published_ratio(study: Study, mine: Series, other: Series, level: Level | None, metric: str) -> str:
    over = _published_at(study, mine, level, metric)
    under = _published_at(study, other, level, metric)
    if over is None or under is None or under[1] <= 0:
        return ""
    at = "" if level is None or over[0] == level else f" at {units.level(over[0])}"
    return f"; published: {units.times(over[1] / under[1])}{at}" if over[0] == under[0] else ""


def _published_at(study: Study, part: Series, level: Level | None, metric: str) -> tuple[Level, float] | None:
    """The published point at the level, else the last one; for a curve without factors the only one."""
    if level is None or not part.factor.name:
        own = (figures for figures in study.published if (figures.group, figures.metric) == (part.curve.group, metric))
        values = [point.value for figures in own for point in figures.points]
        return ("", values[0]) if len(values) == 1 else None
    for _, points in published_for(study.published, part, metric):
        return next(((x, y) for x, y in points if x == level), points[-1])
    return None


def cost(study: Study, curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[Finding]:
    """What the group's packets cost above the control group's, and how much of its lower rate that explains.

    A core that is saturated carries clock / cycles per packet, so the ratio of rates that
    the cycles predict is the inverse ratio of cycles; the prediction is compared with the
    measured ratio of rates.
    """
    for mine, other, level in _pairs(curves, request, CYCLES):
        where = f"{request.against}{_at(mine, level)}"
        points = [point for part in (mine, other) if (point := _point(part, level))]
        if refusal := next(filter(None, map(refused_rate, points)), ""):
            text = f"The extra cost of a packet of {request.group} over one of {where} is unknown"
            yield Finding(f"{text}, since the cycles belong to no rate: {refusal}.", warning=True)
            continue
        over, under = _estimate(mine, level, CYCLES), _estimate(other, level, CYCLES)
        predicted = ratio(over, under)
        if over is None or under is None or predicted is None:
            continue
        more = over.value - under.value
        price = f"{units.number(round(abs(more)))} cycles {'more' if more >= 0 else 'fewer'} than one of {where}"
        text = f"A packet of {request.group} costs {price} ({said(over)} against {said(under)})"
        yield Finding(text + _explained(mine, other, level, request.metric, predicted) + ".", warning=False)


def _explained(mine: Series, other: Series, level: Level | None, metric: str, predicted: Interval) -> str:
    """Whether the cycles account for the ratio of the rates."""
    slow, fast = _estimate(mine, level, metric), _estimate(other, level, metric)
    measured = ratio(fast, slow)
    if slow is None or fast is None or measured is None or predicted.value <= 0:
        return ""
    text = f"; the cycles predict a {metric} {predicted.times} lower, measured: {measured.times} lower"
    if measured.bound is Bound.BETWEEN:
        return f"{text} (a rate that was refused a number stays open, and with it how much they explain)"
    if measured.bound is not Bound.FOUND:
        return f"{text} (the generator ended first, so how much they explain stays open)"
    if measured.value <= 1 or predicted.value <= 1:
        return text
    part = (1 - 1 / predicted.value) / (1 - 1 / measured.value)
    return f"{text}: they explain {units.share(min(part, 9.99))} of the loss of rate"


def method(study: Study, curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[Finding]:
    """Methods ordered by the metric, the best first: levels of the factor, or groups named by `against`.

    Every one that was tried counts: one whose number is not known leaves open which is best.
    """
    groups = [request.group, *(name.strip() for name in request.against.split(",") if name.strip())]
    unknown: Sequence[str] = ()
    if request.against:
        best_first, where = _by_group([curves[name] for name in groups if name in curves], request)
    else:
        curve = curves.get(request.group)
        best_first, unknown, where = _by_level(curve, request) if curve else ([], (), "")
    if not best_first or len(best_first) + len(unknown) < 2:
        return
    rising = less_is_better(request.metric, best_first[0][1].unit)
    (best, first), *rest = sorted(best_first, key=lambda pair: pair[1].value, reverse=not rising)
    level = [f"{name} {said(estimate)}" for name, estimate in rest if not _beats(first, estimate, rising)]
    if level or unknown:
        behind = [f"{name} {said(estimate)}" for name, estimate in rest if _beats(first, estimate, rising)]
        tail = f"; behind: {'; '.join(behind)}" if behind else ""
        contenders = "; ".join([f"{best} {said(first)}", *level, *unknown])
        yield Finding(f"{request.metric}{where}: the best is unknown, among {contenders}{tail}.", warning=True)
        return
    parts = [f"{best} is best with {said(first)}"]
    compared = "as much" if rising else "less"
    for name, estimate in rest:
        change = ratio(estimate, first) if rising else ratio(first, estimate)
        parts.append(f"{name} {said(estimate)}" + (f" ({change.times} {compared})" if change else ""))
    yield Finding(f"{request.metric}{where}: {'; '.join(parts)}.", warning=False)


_RATES = ("fps", "bit/s", "1/s")
_BURSTS = ("longest burst", "average burst", "corrected buffer", "implied buffer")
_MORE_IS_BETTER = (*_BURSTS, "longest loss-free", "mean time between losses")
_COSTS = ("loss", "lost", "windows with loss", "disturbed windows", "failed share", "retransmits", "growth")


def less_is_better(metric: str, unit: str) -> bool:
    """Costs are better small; of shares and counts those that count work, loss or repetition."""
    return direction(metric, unit) < 0


def direction(metric: str, unit: str) -> int:
    """1 if higher numbers of a metric are better, -1 if lower ones are, 0 if neither."""
    name = metric.rpartition(": ")[2]
    if unit in _RATES or name.startswith(_MORE_IS_BETTER):
        return 1
    is_cost = name.startswith(_COSTS) or "busy" in name or unit in ("s", "ns", "cycles", "bytes")
    return -1 if is_cost else 0


def _beats(estimate: Estimate, other: Estimate, less: bool) -> bool:
    """Whether neither a bound nor the intervals leave open which of two is better."""
    mine, its = _interval(estimate), _interval(other)
    return mine.high < its.low if less else mine.low > its.high


def _interval(estimate: Estimate) -> Interval:
    closed = Interval.of(estimate).closed
    if estimate.bound is Bound.BELOW:
        return closed.reaching(-math.inf, closed.high)
    return closed.reaching(closed.low, math.inf) if estimate.bound is Bound.AT_LEAST else closed


def _by_group(group_curves: Sequence[Curve], request: FindingRequest) -> tuple[list[tuple[str, Estimate]], str]:
    """Each group at the largest level that all have; at its only point if it has no factor."""
    by_level: dict[str, dict[Level, Estimate]] = {}
    for curve in group_curves:
        having = [point for point in curve.points if request.metric in point.estimates]
        levels = [point.levels.get(request.factor, "") for point in having]
        by_level[curve.group] = dict(zip(levels, (point.estimates[request.metric] for point in having), strict=True))
    if len(by_level) < 2:
        return [], ""
    first = next(iter(by_level.values()))
    common = [level for level in first if all(level in estimates for estimates in by_level.values())]
    if not common:
        return [], ""
    at = f" at {units.level(common[-1])}" if common[-1] != "" else ""
    return [(group, estimates[common[-1]]) for group, estimates in by_level.items()], at


def _by_level(curve: Curve, request: FindingRequest) -> tuple[list[tuple[str, Estimate]], list[str], str]:
    """Each level with its number, those that were tried and have none with the reason, and where that is."""
    parts = series(curve, request.factor)
    if not parts:
        return [], [], ""
    # Where most methods have a number; of several such places the last, which has the largest levels.
    best = max(reversed(parts), key=lambda part: len(part.having(request.metric)))
    at = f" at {best.label}" if best.label else ""
    ranked = [(units.level(level), estimate) for level, estimate in best.having(request.metric)]
    return ranked, [_unknown(best, point, request.metric) for point in best.without(request.metric)], at


def _unknown(part: Series, point: CurvePoint, metric: str) -> str:
    """A level whose number is not known, with the reason if there is one."""
    why = point.notes.get(metric, "") or point.reason.partition("\n")[0]
    return f"{units.level(point.levels[part.factor.name])} unknown" + (f" ({why.rstrip('.')})" if why else "")


KINDS: Mapping[str, Callable[[Study, Mapping[str, Curve], FindingRequest], Iterator[Finding]]] = {
    kind.__name__: kind for kind in (fall, knee, compare, cost, caches, flat, growth, method, impossible, limit)
}
"""By the word of a study: each is called so."""


def findings(study: Study, curves: Sequence[Curve]) -> tuple[Finding, ...]:
    """What the study asks for, in its order; unknown kinds and missing curves give no sentence."""
    by_group = {curve.group: curve for curve in curves}
    sentences: list[Finding] = []
    for request in study.findings:
        made = list(KINDS[request.kind](study, by_group, request)) if request.kind in KINDS else []
        if made and request.kind not in ("impossible", "limit"):  # which quote no numbers
            made += minded(by_group, request, {request.metric, RELATIVE, *_rests_on(request.kind, curves)})
        sentences += (sentence for sentence in made if sentence not in sentences)
    return tuple(sentences)


def _rests_on(kind: str, curves: Sequence[Curve]) -> Collection[str]:
    """The metrics of these curves that a sentence rests on beside the one asked for."""
    if kind == "caches":  # shares of lookups that any point has a note about, whatever the devices call their caches
        return {name for curve in curves for point in curve.points for name in point.notes if answered_by(name)}
    return (CYCLES,) if kind == "cost" else ()
