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

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from pinchpoint.findings.find_compare import CYCLES, compare, cost, method
from pinchpoint.findings.find_shape import fall, flat, growth, knee
from pinchpoint.findings.find_state import caches, impossible, limit, minded
from pinchpoint.model.duet import RELATIVE
from pinchpoint.model.study import Curve, Finding, FindingRequest, Study
from pinchpoint.model.terms import answered_by

KINDS: Mapping[str, Callable[[Study, Mapping[str, Curve], FindingRequest], Iterator[Finding]]] = {
    "fall": fall,
    "knee": knee,
    "compare": compare,
    "cost": cost,
    "caches": caches,
    "flat": flat,
    "growth": growth,
    "method": method,
    "impossible": impossible,
    "limit": limit,
}


def _nothing_else(curves: Sequence[Curve]) -> Collection[str]:
    return ()


def _lookup_shares(curves: Sequence[Curve]) -> Collection[str]:
    """Those that any point has a note about, whatever the devices call their caches."""
    return {name for curve in curves for point in curve.points for name in point.notes if answered_by(name)}


# Kinds that quote numbers, each with the metrics of these curves that it rests on beside the one asked for.
_RESTS_ON: Mapping[str, Callable[[Sequence[Curve]], Collection[str]]] = {
    **dict.fromkeys(("fall", "knee", "compare", "flat", "growth", "method"), _nothing_else),
    "cost": lambda curves: (CYCLES,),
    "caches": _lookup_shares,
}


def findings(study: Study, curves: Sequence[Curve]) -> tuple[Finding, ...]:
    """What the study asks for, in its order; unknown kinds and missing curves give no sentence."""
    by_group = {curve.group: curve for curve in curves}
    sentences: list[Finding] = []
    for request in study.findings:
        if request.kind in KINDS:
            made = list(KINDS[request.kind](study, by_group, request))
            if made and request.kind in _RESTS_ON:
                names = {request.metric, RELATIVE, *_RESTS_ON[request.kind](curves)}
                made += minded(by_group, request, names)
            sentences += (sentence for sentence in made if sentence not in sentences)
    return tuple(sentences)
