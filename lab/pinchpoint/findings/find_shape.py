"""Findings about one curve's shape: fall, knee, flat, growth."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from pinchpoint.model import units
from pinchpoint.model.duet import FORWARDED, RELATIVE
from pinchpoint.model.scenario import Level
from pinchpoint.model.series import Series, along, published_for, series, within
from pinchpoint.model.study import Bound, Curve, CurvePoint, Estimate, Finding, FindingRequest, Study
from pinchpoint.model.terms import is_rate
from pinchpoint.stats.ratio import Ratio, ratio

_LEAST_WHOLE = 5.0
_NEGLIGIBLE = 0.02  # a change that nobody would act on
_ONCE = ", of one bench each: what differs from one bench to the next is not in the interval"
_TOO_WIDE = 0.10  # an interval that reaches farther hides effects worth publishing


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
    if estimate.bound is Bound.BETWEEN and estimate.low is not None and estimate.high is not None:
        return f"somewhere in {units.quantity_range(estimate.low, estimate.high, estimate.unit)}"
    lead = {Bound.AT_LEAST: "at least ", Bound.BELOW: "below "}.get(estimate.bound, "")
    spread = ""
    if estimate.low is not None and estimate.high is not None:
        spread = f" [{units.quantity_range(estimate.low, estimate.high, estimate.unit)}, n = {estimate.n}]"
    elif estimate.bound is Bound.FOUND:
        spread = f" [n = {estimate.n}, no interval]"
    return f"{lead}{units.quantity(estimate.value, estimate.unit)}{spread}"


def refused_rate(point: CurvePoint) -> str:
    """Why the point has no NDR; empty if it has one, or none was searched.

    Without an NDR no trial is known to be at the limit, so its cycles and caches say little.
    """
    estimate = point.estimates.get("NDR")
    refusal = None if estimate and estimate.bound is not Bound.BETWEEN else point.refusals.get("NDR")
    return (refusal.reason.rstrip(".") or "a number was refused") if refusal else ""


def _labelled(part: Series) -> str:
    label = part.label
    return f"{part.curve.group} ({label})" if label else part.curve.group


def fall(study: Study, curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[Finding]:
    """One sentence a series: from the first to the last level, the ratio, the published one."""
    for part in chosen(curves, request):
        metric = shape_metric(part, request.metric)
        points = part.having(metric)
        if len(points) < 2:
            continue
        (first, before), (last, after) = points[0], points[-1]
        span = f"{_labelled(part)}: from {along(part.factor, first)} to {along(part.factor, last)}"
        falls = after.value < before.value
        change = ratio(before, after) if falls else ratio(after, before)
        if change is None:
            yield _without_ratio(span, named(metric), before, after)
            continue
        verb = "falls" if falls else "rises"
        if change.low is not None and change.high is not None and not change.tells_apart:
            verb = (
                "does not change beyond its interval: it falls"
                if falls
                else "does not change beyond its interval: it rises"
            )
        beside = _published_change(study, part, request.metric, metric)
        ends = "" if metric == RELATIVE else f", {said(before)} to {said(after)}"
        text = f"{span} the {named(metric)} {verb} {change}{ends}{beside}."
        yield Finding(text, warning=False)


def _without_ratio(span: str, metric: str, before: Estimate, after: Estimate) -> Finding:
    """Two bounds leave the change unknown; from or to zero there is a change, but no ratio."""
    if before.bound is not Bound.FOUND and after.bound is not Bound.FOUND:
        both = f"{said(before)} and {said(after)}"
        refused = Bound.BETWEEN in (before.bound, after.bound)
        why = "a number was refused" if refused else "something else ended first at both ends"
        text = f"{span} the change of {metric} is unknown: {why}, {both}."
        return Finding(text, warning=True)
    if before.value == after.value:
        return Finding(f"{span} the {metric} stays at {said(before)}.", warning=False)
    verb = "falls" if after.value < before.value else "rises"
    return Finding(f"{span} the {metric} {verb} from {_or_zero(before)} to {_or_zero(after)}.", warning=False)


def _or_zero(estimate: Estimate) -> str:
    return "0" if estimate.value == 0 and not estimate.high else said(estimate)


def _published_change(study: Study, part: Series, metric: str, ours: str) -> str:
    """The published change of the metric over its own ends, and that of `ours` there where both have these ends."""
    measured = part.having(ours)
    for _, every in published_for(study.published, part, metric):
        points = within(every, measured)
        if len(points) < 2 or min(points[0][1], points[-1][1]) <= 0:
            continue
        (first, before), (last, after) = points[0], points[-1]
        verb, size = ("falls", before / after) if after <= before else ("rises", after / before)
        ends = f" from {units.level(first)} to {units.level(last)}"
        if (measured[0][0], measured[-1][0]) == (first, last):
            return f"; published: {verb} {units.times(size)}"
        ours = _ours_between(dict(measured), first, last)
        return f"; published: {verb} {units.times(size)}{ends}{ours}"
    return ""


def _ours_between(estimates: Mapping[Level, Estimate], first: Level, last: Level) -> str:
    before, after = estimates.get(first), estimates.get(last)
    if before is None or after is None:
        return ""
    falls = after.value <= before.value
    change = ratio(before, after) if falls else ratio(after, before)
    return f", ours there: {'falls' if falls else 'rises'} {change}" if change else ""


def knee(study: Study, curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[Finding]:
    """Where the curve loses most for each doubling of the level; nothing if no step is larger than its interval.

    Nothing either if a level that was tried has no number, since the largest step may be beside it.
    """
    for part in chosen(curves, request):
        metric = shape_metric(part, request.metric)
        between = any(estimate.bound is Bound.BETWEEN for _, estimate in part.having(metric))
        if between or part.without(metric):
            continue
        steps = list(_steps(part.having(metric)))
        clear = [step for step in steps if step[2].tells_apart]
        if not clear:
            continue
        first, last, lost, doublings = max(clear, key=lambda step: math.log2(step[2].value) / step[3])
        each = units.share(1 - lost.value ** (-1 / doublings))
        yield Finding(
            f"{_labelled(part)}: the {named(metric)} loses most between {units.level(first)} and "
            f"{along(part.factor, last)}: {lost} over {doublings:.1f} doublings, {each} for each.",
            warning=False,
        )


def _steps(points: Sequence[tuple[Level, Estimate]]) -> Iterator[tuple[Level, Level, Ratio, float]]:
    for (first, before), (last, after) in pairwise(points):
        if isinstance(first, str | bool) or isinstance(last, str | bool) or first <= 0 or last <= first:
            continue
        lost = ratio(before, after)
        if lost is not None and lost.value > 1 and lost.bound not in (Bound.BELOW, Bound.BETWEEN):
            yield first, last, lost, math.log2(last / first)


def flat(study: Study, curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[Finding]:
    """That a factor has no effect, and within which bound; or that it has one. Warns if it was not seen."""
    for part in chosen(curves, request):
        points = part.having(request.metric)
        if len(points) < 2:
            continue
        (first, before), (last, after) = points[0], points[-1]
        change = ratio(after, before)
        if change is None or change.bound is not Bound.FOUND:
            continue
        span = f"{_labelled(part)}: from {along(part.factor, first)} to {along(part.factor, last)}"
        change_words = f"{(change.value - 1) * 100:+.1f} %{_percent_interval(change)}"
        beside = _published_flat(study, part, request.metric)
        once = _ONCE if min(before.n, after.n) == 1 and change.low is not None else ""
        yield Finding(f"{span} {_effect(request.metric, change)}: {change_words}{once}{beside}.", warning=False)
        last_point = part.at(last)
        if last_point is not None and last_point.invisible:
            yield Finding(f"{_labelled(part)}: {last_point.invisible}.", warning=True)


def _effect(metric: str, change: Ratio) -> str:
    """What the interval of the change allows to say; one that excludes no change is an effect, however small."""
    if change.low is None or change.high is None:
        return f"an effect on the {metric} is not excluded, no interval is known"
    if change.tells_apart:
        return f"the {metric} changes"
    reach = max(1 - change.low, change.high - 1)
    if reach < _NEGLIGIBLE:
        return f"the {metric} changes by less than {_NEGLIGIBLE:.0%}".replace("%", " %")
    if reach <= _TOO_WIDE:
        return f"no effect on the {metric} within +-{reach * 100:.1f} %"
    return f"an effect on the {metric} is not excluded, the interval is too wide"


def _percent_interval(change: Ratio) -> str:
    if change.low is None or change.high is None:
        return ""
    return f" [{(change.low - 1) * 100:+.1f} .. {(change.high - 1) * 100:+.1f} %]"


def _published_flat(study: Study, part: Series, metric: str) -> str:
    for _, every in published_for(study.published, part, metric):
        points = within(every, part.having(metric))
        (first, before), (last, after) = points[0], points[-1]
        if len(points) > 1 and before > 0:
            return f"; published: {(after / before - 1) * 100:+.1f} % from {units.level(first)} to {units.level(last)}"
    return ""


def growth(study: Study, curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[Finding]:
    """The metric (e.g. time per item) at the largest level over the smallest."""
    for part in chosen(curves, request):
        points = [(level, estimate) for level, estimate in part.having(request.metric) if estimate.value > 0]
        if len(points) < 2:
            continue
        (first, before), (last, after) = points[0], points[-1]
        change = ratio(after, before)
        if change is None:
            continue
        verdict = "grows" if change.value > 1 else "shrinks"
        if not change.tells_apart and change.low is not None and change.high is not None:
            verdict = "stays the same within its interval"
        yield Finding(
            f"{_labelled(part)}: the {request.metric} {verdict} from {along(part.factor, first)} to "
            f"{along(part.factor, last)}: {said(before)} to {said(after)}, {change}"
            f"{_published_growth(study, part, request.metric)}.",
            warning=False,
        )


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
