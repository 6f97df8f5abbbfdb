"""The original's conclusions beside what was measured; pure.

A conclusion is a comparison of two points (point_pairs.py) with an expected outcome. Where the bench has what it rests
on, it is confirmed if the interval of the ratio lies within what is expected, and contradicted if it lies outside.
Everything else is not decidable here, with the reasons.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from pinchpoint.findings.find_shape import foreign, said
from pinchpoint.findings.point_pairs import Levels, PointPair, is_at, point_pairs, published_ratio
from pinchpoint.model.measurement import CONFIDENCE, Bound, Estimate, fewest_for_interval
from pinchpoint.model.result import Outcome
from pinchpoint.model.series import listed_levels
from pinchpoint.model.study import (
    Conclusion,
    ConclusionOutcome,
    Curve,
    FindingRequest,
    JudgedConclusion,
    Need,
    Ratio,
    Study,
)


def judged(study: Study, curves: Sequence[Curve]) -> tuple[JudgedConclusion, ...]:
    """Every conclusion of the study's original, in its order."""
    by_group = {curve.group: curve for curve in curves}
    return tuple(_judged(study, by_group, conclusion) for conclusion in study.conclusions)


def _judged(study: Study, curves: Mapping[str, Curve], conclusion: Conclusion) -> JudgedConclusion:
    pairs = list(point_pairs(curves, conclusion.request))
    lacks: Mapping[Need, int | None] | None
    lacks = _lacks(pairs, conclusion.needs) if pairs else _lacked_around(curves, conclusion)
    outcomes = {_outcome(pair, conclusion) for pair in pairs}
    outcome = ConclusionOutcome.NOT_DECIDABLE
    if pairs and lacks is not None and not lacks:
        is_contradicted = ConclusionOutcome.CONTRADICTED in outcomes
        outcome = ConclusionOutcome.CONTRADICTED if is_contradicted else _same(outcomes)
    reasons = list[str]()
    if outcome is ConclusionOutcome.NOT_DECIDABLE:
        reasons += ["the run does not record what its benches had"] if lacks is None else []
        reasons += [reason for pair in pairs if (reason := _why_open(pair, conclusion))]
        reasons += [] if pairs else _missing(study, curves, conclusion)
    ours = {pair.label: Ratio(*quotient.figures, quotient.bound) for pair in pairs if (quotient := pair.ratio)}
    theirs, told = _theirs(study, conclusion, pairs), tuple(dict.fromkeys(reasons))
    numbers = [point.estimates.get(pair.metric) for pair in pairs for point in (pair.over, pair.under)]
    repeats = min((estimate.n for estimate in numbers if estimate), default=0)
    return JudgedConclusion(conclusion, outcome, theirs, ours, lacks or {}, told, repeats)


def _same(outcomes: set[ConclusionOutcome]) -> ConclusionOutcome:
    """What all pairs say; if they differ, or there are none, nothing is decided."""
    return next(iter(outcomes)) if len(outcomes) == 1 else ConclusionOutcome.NOT_DECIDABLE


def _lacked_around(curves: Mapping[str, Curve], conclusion: Conclusion) -> dict[Need, int | None]:
    """Of what a conclusion rests on, how much the best of its group's other benches had; None where there are none."""
    groups = {conclusion.request.group, conclusion.request.against or conclusion.request.group}
    points = [point for group in groups & curves.keys() for point in curves[group].points]
    benches = [point.bench for point in points if point.outcome == Outcome.MEASURED and point.bench is not None]
    had = {need: max((bench.get(need, 0) for bench in benches), default=None) for need in conclusion.needs}
    return {need: most for need, most in had.items() if most is None or most < conclusion.needs[need]}


def _lacks(pairs: Sequence[PointPair], needs: Mapping[Need, int]) -> dict[Need, int] | None:
    """Of what a conclusion rests on, how much the least of the benches had; None if that is not recorded.

    An offload is there if it was proven at one of two points: it may be the other that does without.
    """
    lacks: dict[Need, int] = {}
    for pair in pairs if needs else ():
        measured = [point.bench for point in (pair.over, pair.under) if point.outcome == Outcome.MEASURED]
        recorded = [bench for bench in measured if bench is not None]
        if len(recorded) < len(measured):
            return None
        for need, wanted in needs.items():
            numbers = [bench.get(need, 0) for bench in recorded] or [wanted]
            had = max(numbers) if need is Need.HARDWARE_OFFLOAD else min(numbers)
            if had < wanted:
                lacks[need] = min(had, lacks.get(need, had))
    return lacks


def _outcome(pair: PointPair, conclusion: Conclusion) -> ConclusionOutcome:
    """What one pair says, whatever the bench has."""
    quotient = pair.ratio
    if quotient is None or _limited(pair) or _unsafe(pair):
        return ConclusionOutcome.NOT_DECIDABLE
    possible = quotient.possible
    least = -math.inf if conclusion.least is None else conclusion.least
    most = math.inf if conclusion.most is None else conclusion.most
    if least <= possible.low and possible.high <= most:
        return ConclusionOutcome.CONFIRMED
    contradicts = possible.high < least or most < possible.low
    return ConclusionOutcome.CONTRADICTED if contradicts else ConclusionOutcome.NOT_DECIDABLE


def _limited(pair: PointPair) -> str:
    """Whose number stands in the device's place; empty if both are the device's own."""
    for point in (pair.over, pair.under):
        estimate = point.estimates.get(pair.metric)
        if estimate is not None and (limit := foreign(point, estimate)):
            return f"the {pair.metric} at {listed_levels(point.levels)} was limited by the {limit}, not by the device"
    return ""


def _unsafe(pair: PointPair) -> str:
    """Why one of the two numbers or its interval decides nothing; empty where both may."""
    for point in (pair.over, pair.under):
        where, estimate = f"the {pair.metric} at {listed_levels(point.levels)}", point.estimates.get(pair.metric)
        if cautions := (*point.to_mind(pair.metric), *point.to_mind("")):
            return f"{where}: {cautions[0].rstrip('.')}"
        if estimate is not None and _is_range(estimate):
            few = f"{estimate.n} repeats" if estimate.n > 1 else "few measurements on one bench"
            return f"{where} has no 95 % interval, only the range of {few}; use --repeats {fewest_for_interval()}"
    return ""


def _is_range(estimate: Estimate) -> bool:
    """Whether its ends hold the truth less often than an interval's do; of a run that stored no level, by repeats."""
    if estimate.level is None:
        return 1 < estimate.n < fewest_for_interval()
    return estimate.level < CONFIDENCE


def _why_open(pair: PointPair, conclusion: Conclusion) -> str:
    """Why one pair decides nothing; empty if it does."""
    if why := _unmeasured(pair) or _limited(pair):
        return why
    quotient = pair.ratio
    if quotient is None:
        numbers = " and ".join(said(point.estimates[pair.metric]) for point in (pair.over, pair.under))
        return f"{numbers} give no ratio"
    if _outcome(pair, conclusion) is not ConclusionOutcome.NOT_DECIDABLE:
        return ""
    if why := _unsafe(pair):
        return why
    if quotient.bound is Bound.FOUND and not quotient.is_closed:
        return "a single measurement has no interval; use --repeats 6"
    return "the interval extends beyond the expected range; more repeats narrow it"


def _unmeasured(pair: PointPair) -> str:
    """Which of the two numbers there is not, and why; empty if there are both."""
    for point in (pair.over, pair.under):
        if point.outcome != Outcome.MEASURED:
            reason = point.reason.partition("\n")[0].rstrip(".")
            return f"{listed_levels(point.levels)}: {reason or point.outcome}"
        if pair.metric not in point.estimates:
            refusal = point.refusals.get(pair.metric)
            return f"no {pair.metric} at {listed_levels(point.levels)}" + (f": {refusal}" if refusal else "")
    return ""


def _missing(study: Study, curves: Mapping[str, Curve], conclusion: Conclusion) -> Iterator[str]:
    """Which of the two points there is not."""
    request, form = conclusion.request, " in the short form" if study.quick else ""
    for group, levels in ((request.group, request.over), (request.against or request.group, request.under)):
        if group not in curves or not any(is_at(point, levels) for point in curves[group].points):
            yield f"no point of {group} at {listed_levels(levels)}{form}"
            return
    yield "no two points with otherwise equal levels"


def _published_beside(study: Study, request: FindingRequest) -> Iterator[Levels]:
    """The further levels at which the original has the point that is divided."""
    own = [figures for figures in study.published if (figures.group, figures.metric) == (request.group, request.metric)]
    for point in (point for figures in own for point in figures.points):
        if request.over.items() <= point.levels.items():
            yield {name: level for name, level in point.levels.items() if name not in request.over}


def _theirs(study: Study, conclusion: Conclusion, pairs: Sequence[PointPair]) -> dict[str, float]:
    """The original's ratios, by the levels that both points share: at ours, or at its own where there are none."""
    request = conclusion.request
    if conclusion.published is not None:
        return {"": conclusion.published}
    places: dict[str, tuple[Levels, Levels]] = {pair.label: (pair.over.levels, pair.under.levels) for pair in pairs}
    for other in [] if pairs else _published_beside(study, request):
        places[listed_levels(other)] = ({**other, **request.over}, {**other, **request.under})
    ratios = {label: published_ratio(study, request, over, under) for label, (over, under) in places.items()}
    return {label: value for label, value in ratios.items() if value is not None}
