"""Findings about what happened at the points: caches, impossible, limit."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from pinchpoint.findings.find_shape import chosen, refused_rate
from pinchpoint.model import units
from pinchpoint.model.result import Limit, Outcome
from pinchpoint.model.series import Series, along, with_unit
from pinchpoint.model.study import Bound, Curve, CurvePoint, Finding, FindingRequest, Study
from pinchpoint.model.terms import answered_by

_MOST_NAMED = 4


def caches(study: Study, curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[Finding]:
    """The shares of lookups that each cache answered, at the first and the last level."""
    for part in chosen(curves, request):
        name = f"{part.curve.group} ({part.label})" if part.label else part.curve.group
        counted = [point for point in part.points if _shares(point)]
        seen = [point for point in counted if not refused_rate(point)]
        if len(seen) < len(counted):
            lost = next(point for point in counted if refused_rate(point))
            yield Finding(
                f"{name}: caches at {len(counted) - len(seen)} of {len(counted)} points are excluded, "
                f"since they belong to no rate: {refused_rate(lost)}.",
                warning=True,
            )
        if len(seen) < 2:
            continue
        first, last = seen[0], seen[-1]
        yield Finding(
            f"{name}: lookups were answered by {_answered_at(part, first)}, by {_answered_at(part, last)}.",
            warning=False,
        )


def _shares(point: CurvePoint) -> dict[str, float]:
    return {cache: estimate.value for name, estimate in point.estimates.items() if (cache := answered_by(name))}


def minded(curves: Mapping[str, Curve], request: FindingRequest, names: Collection[str]) -> Iterator[Finding]:
    """One warning a caution about the numbers that a sentence rests on: those of `names`, and of whole points."""
    groups = {request.group, *(name.strip() for name in request.against.split(","))}
    by_caution: dict[str, list[tuple[Curve, CurvePoint]]] = {}
    for curve in (curve for group, curve in curves.items() if group in groups):
        for point in curve.points:
            minded = [name for name in point.notes if name in ("", *names)]
            for caution in dict.fromkeys(caution for name in minded for caution in point.to_mind(name)):
                by_caution.setdefault(caution, []).append((curve, point))
    for caution, places in by_caution.items():
        yield Finding(f"{_listed(places)}: {caution.rstrip('.')}.", warning=True)


def _answered_at(part: Series, point: CurvePoint) -> str:
    """`flow cache 93.0 % and classifier 7.00 % at 512 five-tuples`; shares under 0.1 % are left out."""
    ranked = sorted(_shares(point).items(), key=lambda item: -item[1])
    shares = [f"{name} {units.share(value)}" for name, value in ranked if value >= 1e-3] or ["no cache"]
    listed = f"{', '.join(shares[:-1])} and {shares[-1]}" if len(shares) > 1 else shares[0]
    return f"{listed} at {along(part.factor, point.levels[part.factor.name])}"


def impossible(study: Study, curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[Finding]:
    """One warning a reason: which points could not run here."""
    reasons: dict[tuple[str, str], list[tuple[Curve, CurvePoint]]] = {}
    for curve in _asked(curves, request):
        for point in curve.points:
            if point.outcome in (Outcome.IMPOSSIBLE, Outcome.FAILED):
                reasons.setdefault((point.outcome, point.reason), []).append((curve, point))
    for (outcome, reason), places in reasons.items():
        verb = "could not run here" if outcome == Outcome.IMPOSSIBLE else "failed"
        why = reason.removeprefix("impossible here: ").rstrip(".")
        yield Finding(f"{_listed(places)} {verb}: {why}.", warning=True)


def _asked(curves: Mapping[str, Curve], request: FindingRequest) -> list[Curve]:
    return [curve for group, curve in curves.items() if request.group in ("", group)]


def _listed(places: Sequence[tuple[Curve, CurvePoint]]) -> str:
    """`raw (five-tuples 1, 512, 1,024); numa (numa different)`; of many points only how many."""
    by_group: dict[str, list[tuple[Curve, CurvePoint]]] = {}
    for curve, point in places:
        by_group.setdefault(curve.group, []).append((curve, point))
    return "; ".join(_of_group(group, listed) for group, listed in by_group.items())


def _of_group(group: str, places: Sequence[tuple[Curve, CurvePoint]]) -> str:
    curve = places[0][0]
    if not curve.factors:
        return group
    if len(places) > _MOST_NAMED:
        return f"{group} ({len(places)} of {len(curve.points)} points)"
    if len(curve.factors) == 1:
        (factor,) = curve.factors
        levels = ", ".join(with_unit(point.levels.get(factor.name), factor.unit) for _, point in places)
        return f"{group} ({factor.name} {levels})"
    return f"{group} ({'; '.join(_levels(curve, point) for _, point in places)})"


def _levels(curve: Curve, point: CurvePoint) -> str:
    return ", ".join(
        f"{factor.name} {with_unit(point.levels.get(factor.name), factor.unit)}" for factor in curve.factors
    )


def _refused(curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[Finding]:
    """One warning for all points of which the bench could support no number."""
    refused_points = [
        (curve, point, refused[0])
        for curve in _asked(curves, request)
        for point in curve.points
        if (refused := [point.refusals[name] for name in point.refusals if _is_refused(point, name, request.metric)])
    ]
    if refused_points:
        reason = refused_points[0][2].reason.rstrip(".") or "no reason is known"
        listed = _listed([(curve, point) for curve, point, _ in refused_points])
        yield Finding(f"{listed}: no number, the bench could not support one: {reason}.", warning=True)


def _is_refused(point: CurvePoint, name: str, asked: str) -> bool:
    estimate = point.estimates.get(name)
    return (estimate is None or estimate.bound is Bound.BETWEEN) and asked in ("", name)


def limit(study: Study, curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[Finding]:
    """How many points each verdict limits; warns where the numbers are only "at least", or refused."""
    yield from _refused(curves, request)
    points = [(curve, point) for curve in _asked(curves, request) for point in curve.points if point.limit]
    if not points:
        return
    counts: dict[str, int] = {}
    for _, point in points:
        counts[point.limit] = counts.get(point.limit, 0) + 1
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    parts = [f"{Limit(word).words} at {count}" for word, count in ranked]
    about = request.group or "All groups"
    yield Finding(f"{about}: of {units.counted(len(points), 'point')} with a verdict, {', '.join(parts)}.", False)
    open_above = [
        (curve, point)
        for curve, point in points
        if any(
            estimate.bound is Bound.AT_LEAST
            for name, estimate in point.estimates.items()
            if request.metric in ("", name)
        )
    ]
    if open_above:
        number = "its number is" if len(open_above) == 1 else "their numbers are"
        yield Finding(f'{_listed(open_above)}: {number} "at least": something else than the switch ended first.', True)
