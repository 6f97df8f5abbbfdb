"""Whether a run answers what it was asked, by a number or, where it explains, by a cause; and why it does not."""

from collections.abc import Iterable, Iterator

from pinchpoint.model.causes import Explanation, Standing
from pinchpoint.model.duet import RELATIVE
from pinchpoint.model.groups import grouped
from pinchpoint.model.measurement import Bound
from pinchpoint.model.result import Limit, Outcome, RateStatus, RunResult, ScenarioResult

_DECIDED = (Standing.CONFIRMED, Standing.EXCLUDED)
_MOST_NAMED = 4


def is_answered(result: RunResult, *, explains: bool) -> bool:
    """Whether any scenario has a number; of a run that `explains`, whether of any rate a cause is decided."""
    if explains:
        return any(_is_explained(unchanged, explanation) for unchanged, explanation in _explained(result))
    return any(map(_has_number, result.scenarios))


def why_unanswered(result: RunResult, *, explains: bool) -> Iterator[str]:
    """Why a run without an answer has none, a sentence a reason. What failed is left out: it ends a run by itself."""
    if not result.scenarios:
        yield "nothing was measured"
    elif explains:
        yield from _by_reason(
            (unchanged.scenario, _why_open(unchanged, told)) for unchanged, told in _explained(result)
        )
    else:
        yield from _by_reason((scenario.scenario, _why_no_number(scenario)) for scenario in result.scenarios)


def _by_reason(reasons: Iterable[tuple[str, str]]) -> Iterator[str]:
    """`forward, nat and 2 more: NDR refused: ...`."""
    for reason, names in grouped((reason, name) for name, reason in reasons if reason).items():
        more = len(names) - _MOST_NAMED
        yield f"{', '.join(names[:_MOST_NAMED])}{f' and {more} more' if more > 0 else ''}: {reason.rstrip('.')}"


def _has_number(result: ScenarioResult) -> bool:
    """Or an answer that is none: that a device does other than its scenario says."""
    if result.outcome is not Outcome.MEASURED:
        return result.outcome is Outcome.WRONG
    found = {metric.name: metric.bound is not Bound.REFUSED for metric in result.metrics}
    if result.measure == "rates" and result.rates:
        return found.get(RELATIVE, False) or any(rate.status is not RateStatus.REFUSED for rate in result.rates)
    return not found or any(found.values())


def _why_no_number(result: ScenarioResult) -> str:
    if result.outcome is Outcome.FAILED:
        return ""
    if result.outcome is not Outcome.MEASURED:
        ended = "impossible here" if result.outcome is Outcome.IMPOSSIBLE else str(result.outcome)
        return f"{ended}: {result.reason.removeprefix(f'{ended}: ')}"
    refused = [(rate.name, rate.reason) for rate in result.rates if rate.status is RateStatus.REFUSED]
    refused += [(metric.name, metric.note) for metric in result.metrics if metric.bound is Bound.REFUSED]
    return next((f"{name} refused: {reason}" for name, reason in refused), "no number")


def _explained(result: RunResult) -> Iterator[tuple[ScenarioResult, Explanation | None]]:
    """Each unchanged bench with its explanation; None where it has none. It is the first of its group."""
    own = {explanation.scenario: explanation for explanation in result.explanations}
    for points in grouped((point.group, point) for point in result.scenarios).values():
        unchanged = next((point for point in points if point.scenario in own), points[0])
        yield unchanged, own.get(unchanged.scenario)


def _is_explained(unchanged: ScenarioResult, explanation: Explanation | None) -> bool:
    if explanation is None or not _has_number(unchanged):
        return False
    if any(branch.standing is not Standing.NOT_TRIED for branch in explanation.branches):
        return any(branch.standing in _DECIDED for branch in explanation.branches)
    return unchanged.verdict is not None and unchanged.verdict.limit is not Limit.UNEXPLAINED


def _why_open(unchanged: ScenarioResult, explanation: Explanation | None) -> str:
    if not _has_number(unchanged):
        return _why_no_number(unchanged)
    if explanation is None or unchanged.verdict is None:
        return "its rate has no verdict"
    if not explanation.branches:
        return unchanged.verdict.headline
    likeliest = explanation.branches[0]
    why = likeliest.reason or "the interval allows both answers"
    return f"no cause is confirmed or excluded; {likeliest.suspicion.title}: {likeliest.standing}, {why}"
