"""Findings: the sentences that a study asks for, each computed from its curves with its numbers.

* fall: how far the metric falls (or rises) from the first to the last level; the published change beside it. Of a
  rate, fall and knee report the relative rate's, where no fewer points have one.
* knee: between which neighbours the metric loses most for each doubling of the level.
* compare: the metric of `group` over that of the group `against` at their largest common level, or at the levels
  `over` and `under` of one or two groups; published beside it. Conclusions are such comparisons (conclusions.py).
* cost: the cycles per packet of `group` over those of the control group `against`, at the largest common level,
  and how much of the lower rate (`metric`) they explain: the discriminating experiment.
* caches: which cache answered the lookups at the first and at the last level.
* flat: whether the factor has an effect on the metric, as far as the interval tells; warns if the datapath did not
  see it.
* growth: the metric (e.g. time per item) at the largest level over the smallest; published beside it. Where one level
  alone has it, the metric there.
* method: the levels of the factor, or `group` and the groups in `against` (by commas), ordered by the metric, the
  best first, published ratios beside; warns where bounds or overlapping intervals leave open which that is. A number
  that is the generator's, the relay's or the host's is not ranked.
* total: the metric of `group` and of `against` added up at their common levels, and the share of `group`; published
  beside it.
* verified: which of `group` and the groups in `against` (by commas) did what their services say; warns of the others.
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
from dataclasses import dataclass, field, replace

from pinchpoint.findings.find_shape import chosen, fall, flat, foreign, growth, knee, named_series, refused_rate, said
from pinchpoint.findings.point_pairs import point_pairs, published_number, published_ratio
from pinchpoint.model import units
from pinchpoint.model.duet import RELATIVE
from pinchpoint.model.groups import grouped
from pinchpoint.model.measurement import CYCLES, RATES, Bound, Estimate, Interval, answered_by, is_rate, ratio
from pinchpoint.model.result import Limit, Outcome
from pinchpoint.model.scenario import Factor, Level
from pinchpoint.model.series import Series, along, factor_of, levels_of, listed_levels, published_for, series, with_unit
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


def verified(study: Study, curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[Finding]:
    """Which groups did what their services say; one warning for each point that did not."""
    names = (request.group, *(name.strip() for name in request.against.split(",")))
    tried = [(curves[name], point) for name in names if name in curves for point in curves[name].points]
    right = [(curve, point) for curve, point in tried if point.outcome == Outcome.MEASURED]
    wrong = [(curve, point) for curve, point in tried if point.outcome == Outcome.WRONG]
    if whole := len(right) + len(wrong):
        listed = f": {_listed(right)}" if right else ""
        yield Finding(f"{len(right)} of {whole} did all that their services say{listed}.", warning=False)
    for place in wrong:
        yield Finding(
            f"{_listed([place])} did not do what its service says: {place[1].reason.rstrip('.')}.", warning=True
        )


def impossible(study: Study, curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[Finding]:
    """Which points could not run here: one warning for those of a group, whose first has its reason."""
    ended = [(curve, point) for curve, point in _asked(curves, request) if point.outcome in _NO_NUMBER]
    by_group = grouped(((point.outcome, curve.group), (curve, point)) for curve, point in ended)
    reasons = grouped(((outcome, places[0][1].reason), places) for (outcome, _), places in by_group.items())
    for (outcome, reason), groups in reasons.items():
        places = [place for group in groups for place in group]
        verb = "could not run here" if outcome == Outcome.IMPOSSIBLE else "failed"
        verb += "; the first" if len({point.reason for _, point in places}) > 1 else ""
        why = reason.removeprefix("impossible here: ").replace("\n  hint: ", "; ").rstrip(".")
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
        why = "something other than the switch was the limit"
        yield Finding(f'{_listed(open_above)}: {number} "at least": {why}.', True)


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
    """`group` over `against` at their largest common level, series by series, or at the levels that are named."""
    if request.over or request.under:
        yield from _at_levels(study, curves, request)
        return
    for mine, other, level in _pairs(curves, request, request.metric):
        over, under = _estimate(mine, level, request.metric), _estimate(other, level, request.metric)
        points = [point for part in (mine, other) if (point := _point(part, level))]
        if over is None or under is None or len(points) < 2:
            continue
        quotient, numbers = ratio(over, under), f"{said(over)} and {said(under)}"
        where = f"{request.against}{_at(mine, level)}{f' ({mine.label})' if mine.label else ''}"
        of = f"{request.metric} of {request.group}"
        if quotient is None:
            yield Finding(f"The ratio of the {of} to that of {where} is unknown: {numbers}.", warning=True)
            continue
        beside = _beside(published_ratio(study, request, *(point.levels for point in points)))
        yield Finding(f"The {of} is {quotient.times} that of {where}: {numbers}{beside}.", warning=False)
        yield from _not_compared(request, mine, other, level)


def _at_levels(study: Study, curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[Finding]:
    over = f"{request.group} at {listed_levels(request.over)}"
    under = f"{request.against or request.group} at {listed_levels(request.under)}"
    for pair in point_pairs(curves, request):
        quotient, estimates = pair.ratio, [point.estimates.get(pair.metric) for point in (pair.over, pair.under)]
        numbers = " and ".join(said(estimate) for estimate in estimates if estimate)
        if quotient is not None:
            beside = _beside(published_ratio(study, request, pair.over.levels, pair.under.levels))
            label = f" ({pair.label})" if pair.label else ""
            text = f"The {pair.metric} of {over} is {quotient.times} that of {under}{label}: {numbers}{beside}."
            yield Finding(text, warning=False)


def _at(part: Series, level: Level | None) -> str:
    return "" if level is None else f" at {along(part.factor, level)}"


def _not_compared(request: FindingRequest, mine: Series, other: Series, level: Level | None) -> Iterator[Finding]:
    """That both groups have only relative rates at a larger level: no ratio of their references is known."""
    related = _common(mine, other, RELATIVE) if is_rate(request.metric) else []
    if level is None or level not in related or related[-1] == level:
        return
    why = "their relative rates refer to two references that were not measured side by side"
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


def total(study: Study, curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[Finding]:
    """The metric of `group` and of `against` together at each level that both have; one sentence a series."""
    for mine, other, largest in _pairs(curves, request, request.metric):
        levels = [] if largest is None else _common(mine, other, request.metric)
        sums = "; ".join(_sum(study, request, mine, other, level) for level in levels)
        where = f" ({mine.label})" if mine.label else ""
        if sums:
            text = f"The {request.metric} of {request.group} and {request.against} together{where}: {sums}."
            yield Finding(text, warning=False)


def _sum(study: Study, request: FindingRequest, mine: Series, other: Series, level: Level) -> str:
    """`48.0 s, 97.9 % of it build-veths, at count 1,000 (published: ...)`."""
    points = [(part.curve.group, point) for part in (mine, other) if (point := part.at(level))]
    ours = [point.estimates[request.metric] for _, point in points]
    theirs = [published_number(study, group, request.metric, point.levels) for group, point in points]
    known = [value for value in theirs if value is not None]
    at = f"of it {request.group}, at {mine.factor.name} {with_unit(level, mine.factor.unit)}"
    text = f"{_added([estimate.value for estimate in ours], ours[0].unit)} {at}"
    return text if len(known) < len(points) else f"{text} (published: {_added(known, ours[0].unit)})"


def _added(values: Sequence[float], unit: str) -> str:
    whole = math.fsum(values)
    return f"{units.quantity(whole, unit)}, {units.share(values[0] / whole if whole else None)}"


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


def _beside(theirs: float | None) -> str:
    """The original's ratio at the end of a sentence about ours."""
    return "" if theirs is None else f"; published: {units.times(theirs)}"


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
        return f"{text} (a rate was refused a number, so how much they explain is unknown)"
    if measured.bound is not Bound.FOUND:
        return f"{text} (the generator was the limit, so how much they explain is unknown)"
    if measured.value <= 1 or predicted.value <= 1:
        return text
    part = (1 - 1 / predicted.value) / (1 - 1 / measured.value)
    return f"{text}: they explain {units.share(min(part, 9.99))} of the loss of rate"


def method(study: Study, curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[Finding]:
    """Methods ordered by the metric, the best first: levels of the factor, or groups named by `against`.

    Every one that was tried counts: one whose number is not known, or not the device's own, leaves open which is best.
    """
    ranking = _by_group(curves, request) if request.against else _by_level(study, curves.get(request.group), request)
    if not ranking.tried or len(ranking.tried) + len(ranking.unknown) < 2:
        return
    rising = direction(request.metric, ranking.tried[0][1].estimates[request.metric].unit) < 0
    own, others = _by_owner(ranking.tried, request.metric)
    own.sort(key=lambda pair: pair[1].value, reverse=not rising)
    behind = [(name, estimate) for name, estimate in own if _beats(own[0][1], estimate, rising)]
    level = [f"{name} {said(estimate)}" for name, estimate in own if (name, estimate) not in behind]
    contenders = [*level, *others, *ranking.unknown]
    about = f"{'' if request.against else f'{request.group}, '}{request.metric}{ranking.where}"
    if len(contenders) > 1 or not own:
        tail = "; ".join(f"{name} {said(estimate)}" for name, estimate in behind)
        told = f"{'; '.join(contenders)}{f'; behind: {tail}' if tail else ''}"
        yield Finding(f"{about}: the best is unknown, among {told}.", warning=True)
        return
    (best, first), parts = own[0], [f"{own[0][0]} is best with {said(own[0][1])}"]
    for name, estimate in behind:
        change = ratio(estimate, first) if rising else ratio(first, estimate)
        above, below = map(ranking.published.get, (name, best) if rising else (best, name))
        beside = _beside(above / below if above is not None and below else None)
        told = f" ({change.times} {'as much' if rising else 'less'}{beside})" if change else ""
        parts.append(f"{name} {said(estimate)}{told}")
    yield Finding(f"{about}: {'; '.join(parts)}.", warning=False)


def _by_owner(tried: Sequence[tuple[str, CurvePoint]], metric: str) -> tuple[list[tuple[str, Estimate]], list[str]]:
    """The numbers that are the device's own, and in words those of something else, which are not ranked."""
    own, others = list[tuple[str, Estimate]](), list[str]()
    for name, point in tried:
        estimate = point.estimates[metric]
        if limit := foreign(point, estimate):
            others.append(f"{name} {said(estimate)} (limited by the {limit})")
        else:
            own.append((name, estimate))
    return own, others


_BURSTS = ("longest burst", "average burst", "corrected buffer", "implied buffer")
_MORE_IS_BETTER = (*_BURSTS, "longest loss-free", "mean time between losses")
_COSTS = ("loss", "lost", "windows with loss", "disturbed windows", "failed share", "retransmits", "growth")


def direction(metric: str, unit: str) -> int:
    """1 if higher numbers of a metric are better, -1 if lower ones are, 0 if neither."""
    name = metric.rpartition(": ")[2]
    if unit in RATES or name.startswith(_MORE_IS_BETTER):
        return 1
    is_cost = name.startswith(_COSTS) or "busy" in name or unit in ("s", "ns", "cycles", "bytes")
    return -1 if is_cost else 0


def _beats(estimate: Estimate, other: Estimate, less: bool) -> bool:
    """Whether neither a bound nor the intervals leave open which of two is better."""
    mine, its = (replace(Interval.of(each).closed, bound=each.bound).possible for each in (estimate, other))
    return mine.high < its.low if less else mine.low > its.high


@dataclass(frozen=True)
class _Ranking:
    """What `method` ranks: points that have the metric, by their names."""

    tried: Sequence[tuple[str, CurvePoint]] = ()
    unknown: Sequence[str] = ()  # those that were tried and have no number, with the reason
    where: str = ""  # at which other levels
    published: Mapping[str, float] = field(default_factory=dict)  # the original's numbers, by name


def _by_group(curves: Mapping[str, Curve], request: FindingRequest) -> _Ranking:
    """Each group at the largest level that all have; at its only point if it has no factor."""
    groups = [request.group, *(name.strip() for name in request.against.split(",") if name.strip())]
    by_level: dict[str, dict[Level, CurvePoint]] = {}
    for name in groups:
        if name in curves:
            having = (point for point in curves[name].points if request.metric in point.estimates)
            by_level[name] = {point.levels.get(request.factor, ""): point for point in having}
    if len(by_level) < 2:
        return _Ranking()
    first = next(iter(by_level.values()))
    common = [level for level in first if all(level in points for points in by_level.values())]
    if not common:
        return _Ranking()
    at = f" at {units.level(common[-1])}" if common[-1] != "" else ""
    return _Ranking([(group, points[common[-1]]) for group, points in by_level.items()], where=at)


def _by_level(study: Study, curve: Curve | None, request: FindingRequest) -> _Ranking:
    """Each level with its number."""
    parts = series(curve, request.factor) if curve else ()
    if not parts:
        return _Ranking()
    # Where most methods have a number; of several such places the last, which has the largest levels.
    best = max(reversed(parts), key=lambda part: len(part.having(request.metric)))
    at = f" at {best.label}" if best.label else ""
    having = [point for point in best.points if request.metric in point.estimates]
    tried = [(units.level(point.levels[best.factor.name]), point) for point in having]
    unknown = [_unknown(best, point, request.metric) for point in best.without(request.metric)]
    theirs = (pair for _, points in published_for(study.published, best, request.metric) for pair in points)
    return _Ranking(tried, unknown, at, {units.level(level): value for level, value in theirs})


def _unknown(part: Series, point: CurvePoint, metric: str) -> str:
    """A level whose number is not known, with the reason if there is one."""
    why = point.notes.get(metric, "") or point.reason.partition("\n")[0]
    return f"{units.level(point.levels[part.factor.name])} unknown" + (f" ({why.rstrip('.')})" if why else "")


KINDS: Mapping[str, Callable[[Study, Mapping[str, Curve], FindingRequest], Iterator[Finding]]] = {
    kind.__name__: kind
    for kind in (fall, knee, compare, total, cost, caches, flat, growth, method, verified, impossible, limit)
}
"""By the word of a study: each is called so."""


def findings(study: Study, curves: Sequence[Curve]) -> tuple[Finding, ...]:
    """What the study asks for, in its order; unknown kinds and missing curves give no sentence."""
    by_group = {curve.group: curve for curve in curves}
    sentences: list[Finding] = []
    for request in study.findings:
        made = list(KINDS[request.kind](study, by_group, request)) if request.kind in KINDS else []
        if made and request.kind not in ("verified", "impossible", "limit"):  # which quote no numbers
            made += minded(by_group, request, {request.metric, RELATIVE, *_rests_on(request.kind, curves)})
        sentences += (sentence for sentence in made if sentence not in sentences)
    return tuple(sentences)


def _rests_on(kind: str, curves: Sequence[Curve]) -> Collection[str]:
    """The metrics of these curves that a sentence rests on beside the one asked for."""
    if kind == "caches":  # shares of lookups that any point has a note about, whatever the devices call their caches
        return {name for curve in curves for point in curve.points for name in point.notes if answered_by(name)}
    return (CYCLES,) if kind == "cost" else ()
