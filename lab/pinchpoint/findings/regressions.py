"""Whether B is a regression against A, for continuous integration; pure."""

from collections.abc import Iterator

from pinchpoint.findings.wording import direction, surely_worse_by
from pinchpoint.model.comparison import Compared, Comparison, Decision, HoldsFor, MetricComparison
from pinchpoint.model.regression import Judged, State
from pinchpoint.stats.paired import fewest_pairs


def judged(found: Comparison, margin: float) -> tuple[Judged, ...]:
    """Every metric to be judged, with what is known of it; `margin` is the share that B may be worse by."""
    return tuple(Judged(part.b, one, _state(one, margin)) for part, one in _asked(found))


def is_answer(one: MetricComparison) -> bool:
    """Whether a comparison came to a ratio with an interval."""
    return one.decision not in (Decision.REFUSED, Decision.TOO_FEW)


def why_undecided(one: MetricComparison) -> str:
    """Why a metric cannot be held against a limit, and what to do."""
    if is_answer(one) and not direction(one.metric, one.unit):
        return f"{one.metric}: neither higher nor lower is better; name another with --metric"
    more = f" (--benches {fewest_pairs()} builds enough)" if one.holds_for is HoldsFor.BENCHES else ""
    return f"{one.metric}: {one.sentence}{more}"


def _asked(found: Comparison) -> Iterator[tuple[Compared, MetricComparison]]:
    for part in found.scenarios:
        yield from ((part, one) for one in part.metrics if one.judged)


def _state(one: MetricComparison, margin: float) -> State:
    rising = direction(one.metric, one.unit)
    known = one.low is not None and one.high is not None
    if not is_answer(one) or not rising or not known or one.holds_for is HoldsFor.BENCHES:
        return State.UNDECIDED
    by = surely_worse_by(one)
    if by is not None and by > margin:
        return State.REGRESSION
    assert one.low is not None and one.high is not None
    at_worst = 1 - one.low if rising > 0 else one.high - 1
    return State.MIND if by is not None or at_worst > margin else State.PASSED
