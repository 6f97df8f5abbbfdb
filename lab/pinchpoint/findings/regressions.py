"""Whether B is a regression against A, for continuous integration; pure."""

from collections.abc import Iterator

from pinchpoint.findings.wording import direction, surely_worse_by
from pinchpoint.model.comparison import Compared, Comparison, Decision, MetricComparison
from pinchpoint.model.regression import Judged, State


def judged(found: Comparison, margin: float) -> tuple[Judged, ...]:
    """Every metric to be judged, with what is known of it; `margin` is the share that B may be worse by."""
    return tuple(Judged(part.b, one, _state(one, margin)) for part, one in _asked(found))


def _asked(found: Comparison) -> Iterator[tuple[Compared, MetricComparison]]:
    for part in found.scenarios:
        yield from ((part, one) for one in part.metrics if one.judged)


def _state(one: MetricComparison, margin: float) -> State:
    rising = direction(one.metric, one.unit)
    known = one.low is not None and one.high is not None
    if one.decision in (Decision.REFUSED, Decision.TOO_FEW) or not rising or not known:
        return State.UNDECIDED
    by = surely_worse_by(one)
    if by is not None and by > margin:
        return State.REGRESSION
    assert one.low is not None and one.high is not None
    at_worst = 1 - one.low if rising > 0 else one.high - 1
    return State.MIND if by is not None or at_worst > margin else State.PASSED
