"""Whether B is a regression against A, for continuous integration; pure."""

from collections.abc import Iterator

from pinchpoint.findings.wording import direction, surely_worse_by
from pinchpoint.model.comparison import Compared, Comparison, Decision, HoldsFor, Judged, MetricComparison, State
from pinchpoint.stats.paired import fewest_pairs


def judged(comparison: Comparison, margin: float) -> tuple[Judged, ...]:
    """Every metric to be judged, with what is known of it; `margin` is the share that B may be worse by."""
    return tuple(Judged(part.b, metric, _state(metric, margin)) for part, metric in _asked(comparison))


def is_answer(metric: MetricComparison) -> bool:
    """Whether a comparison came to a ratio with an interval."""
    return metric.decision not in (Decision.REFUSED, Decision.TOO_FEW)


def why_undecided(metric: MetricComparison) -> str:
    """Why a metric cannot be held against a limit, and what to do."""
    if is_answer(metric) and not direction(metric.metric, metric.unit):
        return f"{metric.metric}: neither higher nor lower is better; name another with --metric"
    more = f" (--benches {fewest_pairs()} builds enough)" if metric.holds_for is HoldsFor.BENCHES else ""
    return f"{metric.metric}: {metric.sentence}{more}"


def _asked(comparison: Comparison) -> Iterator[tuple[Compared, MetricComparison]]:
    for part in comparison.scenarios:
        yield from ((part, metric) for metric in part.metrics if metric.judged)


def _state(metric: MetricComparison, margin: float) -> State:
    rising = direction(metric.metric, metric.unit)
    known = metric.low is not None and metric.high is not None
    if not is_answer(metric) or not rising or not known or metric.holds_for is HoldsFor.BENCHES:
        return State.UNDECIDED
    by = surely_worse_by(metric)
    if by is not None and by > margin:
        return State.REGRESSION
    assert metric.low is not None and metric.high is not None
    at_worst = 1 - metric.low if rising > 0 else metric.high - 1
    return State.MIND if by is not None or at_worst > margin else State.PASSED
