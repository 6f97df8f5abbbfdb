"""Findings about one curve's shape: fall, knee, flat, growth."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from pinchpoint.model import units
from pinchpoint.model.duet import FORWARDED, RELATIVE
from pinchpoint.model.measurement import RATES, Bound, Estimate, Interval, is_rate, ratio
from pinchpoint.model.result import Limit
from pinchpoint.model.scenario import Level
from pinchpoint.model.series import Series, along, published_for, series, within
from pinchpoint.model.study import Curve, CurvePoint, Finding, FindingRequest, Study

_LEAST_WHOLE = 5.0
_NEGLIGIBLE = 0.02  # a change that nobody would act on
_ONCE = ", one bench each: the interval excludes variation between benches"
_TOO_WIDE = 0.10  # an interval that reaches farther hides effects worth publishing

# A client's or a server's core is not among them: with the kernel's datapath it forwards, too.
_NOT_THE_DEVICES: Final = (Limit.GENERATOR, Limit.SEARCH_MAXIMUM, Limit.HOST, Limit.RELAY_CORE)


def chosen(curves: Mapping[str, Curve], request: FindingRequest) -> list[Series]:
    """The series that a request speaks about: all, or those that `against` fixes (`name=level, ...`)."""
    curve = curves.get(request.group)
    if curve is None:
        return []
    fixed = dict(part.split("=", 1) for part in request.against.replace(" ", "").split(",") if "=" in part)

    def fits(part: Series) -> bool:
        return all(str(part.others.get(name)).replace(" ", "") == level for name, level in fixed.items())

    return [part for part in series(curve, request.factor) if fits(part)]


def shape_metric(part: Series, metric: str) -> str:
    """What a sentence about the curve's shape rests on: of a rate the relative one, where no fewer points have it."""
    relative = len(part.having(RELATIVE))
    return RELATIVE if is_rate(metric) and relative >= max(2, len(part.having(metric))) else metric


def named(metric: str) -> str:
    """The metric in a sentence about its change."""
    return FORWARDED if metric == RELATIVE else metric


def said(estimate: Estimate) -> str:
    """An estimate with its bounds, e.g. `at least 3.10 Mpps`, `3.10 Mpps [3.05 to 3.20 Mpps, n = 3]`.

    One that was refused a number: `somewhere in 3.05 to 3.20 Mpps`.
    """
    if estimate.bound is Bound.BETWEEN:
        return f"somewhere in {estimate.quoted}"
    if ends := Interval.of(estimate).ends(estimate.unit):
        return f"{estimate.quoted} [{ends}, n = {estimate.n}]"
    return estimate.quoted + (f" [n = {estimate.n}, no interval]" if estimate.bound is Bound.FOUND else "")


def foreign(point: CurvePoint, estimate: Estimate) -> str:
    """What ended a rate or a latency in the device's place, in words; empty if the number is the device's own."""
    carries = estimate.unit in RATES
    if not carries and estimate.unit != "ns":
        return ""
    # A latency at a planned rate is the device's own.
    others = (*_NOT_THE_DEVICES, Limit.PLANNED_RATE) if carries else _NOT_THE_DEVICES
    return next((Limit(limit).words for limit in point.limits or (point.limit,) if limit in others), "")


def refused_rate(point: CurvePoint) -> str:
    """Why the point has no NDR; empty if it has one, or none was searched.

    Without an NDR no trial is known to be at the limit, so its cycles and caches say little.
    """
    estimate = point.estimates.get("NDR")
    refusal = None if estimate and estimate.bound is not Bound.BETWEEN else point.refusals.get("NDR")
    return (refusal.reason.rstrip(".") or "a number was refused") if refusal else ""


End = tuple[Level, Estimate]  # of a series


def _spans(
    curves: Mapping[str, Curve], request: FindingRequest, relative: bool = False, above_zero: bool = False
) -> Iterator[tuple[Series, str, End, End]]:
    """Each series with the metric that its sentence rests on, at the first and at the last level; none of one level."""
    for part in chosen(curves, request):
        metric = shape_metric(part, request.metric) if relative else request.metric
        points = [(level, estimate) for level, estimate in part.having(metric) if estimate.value > 0 or not above_zero]
        if len(points) > 1:
            yield part, metric, points[0], points[-1]


def named_series(part: Series) -> str:
    """Its group, with the levels of the other factors."""
    return f"{part.curve.group} ({part.label})" if part.label else part.curve.group


def _from_to(part: Series, first: Level, last: Level) -> str:
    return f"from {along(part.factor, first)} to {along(part.factor, last)}"


def _holds_one(change: Interval) -> bool:
    """Whether there is an interval, and no change lies within it."""
    return change.is_closed and not change.tells_apart


def fall(study: Study, curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[Finding]:
    """One sentence a series: from the first to the last level, the ratio, the published one."""
    for part, metric, (first, before), (last, after) in _spans(curves, request, relative=True):
        span = f"{named_series(part)}: {_from_to(part, first, last)}"
        verb = "falls" if after.value < before.value else "rises"
        change = ratio(before, after) if verb == "falls" else ratio(after, before)
        if change is None:
            yield _without_ratio(span, named(metric), before, after)
            continue
        moves = f"does not change beyond its interval: it {verb}" if _holds_one(change) else verb
        beside = _published_change(study, part, request.metric, metric)
        ends = "" if metric == RELATIVE else f", {said(before)} to {said(after)}"
        yield Finding(f"{span} the {named(metric)} {moves} {change.times}{ends}{beside}.", warning=False)


def _without_ratio(span: str, metric: str, before: Estimate, after: Estimate) -> Finding:
    """Two bounds leave the change unknown; from or to zero there is a change, but no ratio."""
    if before.bound is not Bound.FOUND and after.bound is not Bound.FOUND:
        refused = Bound.BETWEEN in (before.bound, after.bound)
        why = "a number was refused" if refused else "something else was the limit at both ends"
        text = f"{span} the change of {metric} is unknown: {why}, {said(before)} and {said(after)}."
        return Finding(text, warning=True)
    if before.value == after.value:
        return Finding(f"{span} the {metric} stays at {said(before)}.", warning=False)
    verb = "falls" if after.value < before.value else "rises"
    return Finding(f"{span} the {metric} {verb} from {_or_zero(before)} to {_or_zero(after)}.", warning=False)


def _or_zero(estimate: Estimate) -> str:
    return "0" if estimate.value == 0 and not estimate.high else said(estimate)


def _published_ends(study: Study, part: Series, metric: str, ours: str) -> Iterator[tuple[Level, float, Level, float]]:
    """Of each published curve of the metric the first and the last point, as far as ours reaches."""
    for _, every in published_for(study.published, part, metric):
        points = within(every, part.having(ours))
        if len(points) > 1:
            yield *points[0], *points[-1]


def _published_change(study: Study, part: Series, metric: str, ours: str) -> str:
    """The published change of the metric over its own ends, and that of `ours` there where both have these ends."""
    measured = part.having(ours)
    for first, before, last, after in _published_ends(study, part, metric, ours):
        if min(before, after) > 0:
            verb, size = ("falls", before / after) if after <= before else ("rises", after / before)
            text = f"; published: {verb} {units.times(size)}"
            if (measured[0][0], measured[-1][0]) == (first, last):
                return text
            there = _ours_between(dict(measured), first, last)
            return f"{text} from {units.level(first)} to {units.level(last)}{there}"
    return ""


def _ours_between(estimates: Mapping[Level, Estimate], first: Level, last: Level) -> str:
    before, after = estimates.get(first), estimates.get(last)
    if before is None or after is None:
        return ""
    verb = "falls" if after.value <= before.value else "rises"
    change = ratio(before, after) if verb == "falls" else ratio(after, before)
    return f", ours there: {verb} {change.times}" if change else ""


def knee(study: Study, curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[Finding]:
    """Where the curve loses most for each doubling of the level; nothing if no step is larger than its interval.

    Nothing either if a level that was tried has no number, since the largest step may be beside it.
    """
    for part in chosen(curves, request):
        metric = shape_metric(part, request.metric)
        points = part.having(metric)
        clear = [step for step in _steps(points) if step[2].tells_apart]
        if not clear or part.without(metric) or any(estimate.bound is Bound.BETWEEN for _, estimate in points):
            continue
        first, last, lost, doublings = max(clear, key=lambda step: math.log2(step[2].value) / step[3])
        each = units.share(1 - lost.value ** (-1 / doublings))
        where = f"the {named(metric)} drops most between {units.level(first)} and {along(part.factor, last)}"
        text = f"{named_series(part)}: {where}: {lost.times} over {doublings:.1f} doublings, {each} for each."
        yield Finding(text, warning=False)


def _steps(points: Sequence[End]) -> Iterator[tuple[Level, Level, Interval, float]]:
    for (first, before), (last, after) in pairwise(points):
        if isinstance(first, str | bool) or isinstance(last, str | bool) or first <= 0 or last <= first:
            continue
        lost = ratio(before, after)
        if lost is not None and lost.value > 1 and lost.bound not in (Bound.BELOW, Bound.BETWEEN):
            yield first, last, lost, math.log2(last / first)


def flat(study: Study, curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[Finding]:
    """That a factor has no effect, and within which bound; or that it has one. Warns if it was not seen."""
    for part, metric, (first, before), (last, after) in _spans(curves, request):
        change = ratio(after, before)
        if change is None or change.bound is not Bound.FOUND:
            continue
        words = f"{(change.value - 1) * 100:+.1f} %{_percent_interval(change)}"
        once = _ONCE if min(before.n, after.n) == 1 and change.low > -math.inf else ""
        effect = f"{_from_to(part, first, last)} {_effect(metric, change)}"
        beside = _published_flat(study, part, metric)
        yield Finding(f"{named_series(part)}: {effect}: {words}{once}{beside}.", warning=False)
        last_point = part.at(last)
        if last_point is not None and last_point.invisible:
            yield Finding(f"{named_series(part)}: {last_point.invisible}.", warning=True)


def _effect(metric: str, change: Interval) -> str:
    """What the interval of the change allows to say; one that excludes no change is an effect, however small."""
    if not change.is_closed:
        return f"an effect on the {metric} is not excluded, no interval is known"
    if change.tells_apart:
        return f"the {metric} changes"
    if change.reach < _NEGLIGIBLE:
        return f"the {metric} changes by less than {_NEGLIGIBLE:.0%}".replace("%", " %")
    if change.reach <= _TOO_WIDE:
        return f"no effect on the {metric} within +-{change.reach * 100:.1f} %"
    return f"an effect on the {metric} is not excluded, the interval is too wide"


def _percent_interval(change: Interval) -> str:
    if not change.is_closed:
        return ""
    return f" [{(change.low - 1) * 100:+.1f} .. {(change.high - 1) * 100:+.1f} %]"


def _published_flat(study: Study, part: Series, metric: str) -> str:
    for first, before, last, after in _published_ends(study, part, metric, metric):
        if before > 0:
            return f"; published: {(after / before - 1) * 100:+.1f} % from {units.level(first)} to {units.level(last)}"
    return ""


def growth(study: Study, curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[Finding]:
    """The metric (e.g. time per item) at the largest level over the smallest; where one level alone has it, there."""
    yield from _alone(study, curves, request)
    for part, metric, (first, before), (last, after) in _spans(curves, request, above_zero=True):
        change = ratio(after, before)
        if change is None:
            continue
        moves = "grows" if change.value > 1 else "shrinks"
        verdict = "stays the same within its interval" if _holds_one(change) else moves
        beside = _published_growth(study, part, metric)
        text = f"{named_series(part)}: the {metric} {verdict} {_from_to(part, first, last)}"
        yield Finding(f"{text}: {said(before)} to {said(after)}, {change.times}{beside}.", warning=False)


def _alone(study: Study, curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[Finding]:
    """The number of each series of which one level alone has one, and the published one there."""
    for part in chosen(curves, request):
        having = part.having(request.metric)
        if len(having) != 1:
            continue
        level, estimate = having[0]
        curves_there = (dict(points).get(level) for _, points in published_for(study.published, part, request.metric))
        theirs = next((value for value in curves_there if value is not None), None)
        beside = "" if theirs is None else f"; published: {units.quantity(theirs, estimate.unit)}"
        place = f"at {along(part.factor, level)}, the only level with a number"
        yield Finding(f"{named_series(part)}: the {request.metric} is {said(estimate)} {place}{beside}.", warning=False)


def _published_growth(study: Study, part: Series, metric: str) -> str:
    """Published growth of the same metric; of a published total time, of the time per item."""
    measured = part.having(metric)
    for published, every in published_for(study.published, part):
        total = published.metric != metric and published.unit == "s" and metric.startswith("time per")
        if published.metric != metric and not total:
            continue
        usable = [
            (level, value / level if total else value)
            for level, value in within([pair for pair in every if pair[1] >= _least(every)], measured)
            if not isinstance(level, str | bool) and level > 0 and value > 0
        ]
        if len(usable) > 1 and usable[0][1] > 0:
            (first, before), (last, after) = usable[0], usable[-1]
            return f"; published: {units.times(after / before)} from {units.level(first)} to {units.level(last)}"
    return ""


def _least(points: Sequence[tuple[Level, float]]) -> float:
    """Figures that were published in whole units are used from 5 on, where rounding is under 10 %."""
    return _LEAST_WHOLE if all(value == int(value) for _, value in points) else 0.0
