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

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from pinchpoint.findings.find_compare import CYCLES, compare, cost, method
from pinchpoint.findings.find_shape import chosen, fall, flat, growth, knee, named_series, refused_rate
from pinchpoint.model import units
from pinchpoint.model.duet import RELATIVE
from pinchpoint.model.groups import grouped
from pinchpoint.model.result import Limit, Outcome
from pinchpoint.model.series import Series, along, levels_of, with_unit
from pinchpoint.model.study import Bound, Curve, CurvePoint, Finding, FindingRequest, Study
from pinchpoint.model.terms import answered_by

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
    counts = Counter(point.limit for _, point in points)
    parts = [f"{Limit(word).words} at {count}" for word, count in counts.most_common()]
    about = request.group or "All groups"
    yield Finding(f"{about}: of {units.counted(len(points), 'point')} with a verdict, {', '.join(parts)}.", False)
    open_above = [(curve, point) for curve, point in points if _is_open_above(point, request.metric)]
    if open_above:
        number = "its number is" if len(open_above) == 1 else "their numbers are"
        yield Finding(f'{_listed(open_above)}: {number} "at least": something else than the switch ended first.', True)


def _is_open_above(point: CurvePoint, asked: str) -> bool:
    own = [estimate for name, estimate in point.estimates.items() if asked in ("", name)]
    return any(estimate.bound is Bound.AT_LEAST for estimate in own)


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
