"""What the ratio of one metric of two benches says: which way is better, its sentence, whether B got worse; pure."""

import math
from dataclasses import replace

from pinchpoint.findings.find_compare import direction
from pinchpoint.model import units
from pinchpoint.model.comparison import Comparison, Decision, HoldsFor, Judged, MetricComparison, State
from pinchpoint.stats.paired import PairedDifference, fewest_pairs


def refused(metric: str, unit: str, why: str, is_judged: bool = True) -> MetricComparison:
    """A metric without a ratio."""
    return MetricComparison(metric, unit, is_judged, Decision.REFUSED, f"not compared: {why}")


def with_ratio(
    base: MetricComparison, ratio: PairedDifference, holds_for: HoldsFor, margin: float | None, *, of: str
) -> MetricComparison:
    """`base` with the ratio of B to A, the decision, and its sentence; `of` is what `base.n` counts.

    `holds_for` counts where the ratio has an interval with a confidence.
    """
    compared = replace(
        base,
        ratio=ratio.ratio,
        low=ratio.low,
        high=ratio.high,
        confidence=ratio.confidence,
        p_value=ratio.p_value,
        largest_hidden=ratio.largest_hidden,
        holds_for=holds_for if ratio.confidence is not None else None,
    )
    return decided(compared, decision_of(ratio), margin, of)


def decided(compared: MetricComparison, decision: Decision, margin: float | None, of: str = "pair") -> MetricComparison:
    """A metric whose ratio is known, with what that says."""
    compared = replace(compared, decision=decision)
    compared = replace(compared, better=_better(compared))
    return replace(compared, sentence=_sentence(compared, margin, of))


def decision_of(difference: PairedDifference) -> Decision:
    """What the ratio of pairs, or of blocks of slices, says."""
    if difference.confidence is None:
        return Decision.TOO_FEW
    if not difference.differs:
        return Decision.NOT_FOUND
    return Decision.HIGHER if difference.ratio > 1 else Decision.LOWER


def _better(metric: MetricComparison) -> bool | None:
    """Whether B is the better one; None if no difference was found, neither is better, or it is of two benches only."""
    rising = direction(metric.metric, metric.unit)
    if not rising or metric.holds_for is HoldsFor.BENCHES or metric.decision not in (Decision.HIGHER, Decision.LOWER):
        return None
    return (metric.decision is Decision.HIGHER) == (rising > 0)


def _sentence(metric: MetricComparison, margin: float | None, of: str) -> str:
    """What the comparison says, e.g. `B is 2.1 % [1.6 .. 2.6 %] lower`."""
    assert metric.ratio is not None and metric.low is not None and metric.high is not None
    if metric.decision is Decision.TOO_FEW:
        return f"unknown: {metric.method}; the ratios of the {of}s lie between {metric.low:.4g} and {metric.high:.4g}"
    of_benches = metric.holds_for is HoldsFor.BENCHES
    if metric.decision is Decision.NOT_FOUND:
        hidden = metric.largest_hidden or 0.0
        where = " between these two benches" if of_benches else ""
        ratio = f"B / A is {metric.ratio:.3f} [{metric.low:.3f} .. {metric.high:.3f}]"
        excluded = f"one of up to {percent(hidden)} cannot be excluded"
        return f"no difference found{where}: {ratio}; {excluded}{_margin_hidden(metric, hidden, margin, of)}"
    smaller, larger = sorted((abs(1 - metric.low), abs(1 - metric.high)))
    ends = f"[{percent(smaller).removesuffix(' %')} .. {percent(larger)}]"
    text = f"B is {percent(abs(1 - metric.ratio))} {ends} {metric.decision.value}"
    if of_benches:
        return f"of these two benches, {text}; one build of each cannot tell the build from the change"
    return f"{text}, within the margin of {percent(margin)}" if margin is not None and larger <= margin else text


def _margin_hidden(metric: MetricComparison, hidden: float, margin: float | None, of: str) -> str:
    if margin is None:
        return ""
    if hidden <= margin:
        return f": the same within the margin of {percent(margin)}"
    text = f": a difference beyond the margin of {percent(margin)} is not excluded"
    # Intervals shrink with the square root of the number of pairs.
    needed = math.ceil(metric.n * (hidden / margin) ** 2) if metric.n else 0
    return f"{text}; about {units.counted(needed, of)} would decide" if needed else text


def percent(share: float) -> str:
    """A share as a percentage with two digits that count, e.g. `2.1 %`, `0.83 %`, `14.2 %`."""
    value = share * 100
    return f"{value:.1f} %" if value >= 0.995 else f"{value:.2f} %"


def judged(comparison: Comparison, margin: float) -> tuple[Judged, ...]:
    """Every metric to be judged, with what is known of it; `margin` is the share that B may be worse by."""
    asked = [(part.b, metric) for part in comparison.scenarios for metric in part.metrics if metric.judged]
    return tuple(Judged(scenario, metric, _state(metric, margin)) for scenario, metric in asked)


def is_answer(metric: MetricComparison) -> bool:
    """Whether a comparison came to a ratio with an interval."""
    return metric.decision not in (Decision.REFUSED, Decision.TOO_FEW)


def why_undecided(metric: MetricComparison) -> str:
    """Why a metric cannot be judged against a limit, and what to do."""
    if is_answer(metric) and not direction(metric.metric, metric.unit):
        return f"{metric.metric}: neither higher nor lower is better; name another with --metric"
    more = f" (--benches {fewest_pairs()} builds enough)" if metric.holds_for is HoldsFor.BENCHES else ""
    return f"{metric.metric}: {metric.sentence}{more}"


def _state(metric: MetricComparison, margin: float) -> State:
    rising = direction(metric.metric, metric.unit)
    if not is_answer(metric) or not rising or metric.holds_for is HoldsFor.BENCHES:
        return State.UNDECIDED
    if metric.low is None or metric.high is None:
        return State.UNDECIDED
    at_best = 1 - metric.high if metric.decision is Decision.LOWER else metric.low - 1
    is_worse = metric.better is False
    if is_worse and at_best > margin:
        return State.REGRESSION
    at_worst = 1 - metric.low if rising > 0 else metric.high - 1
    return State.MIND if is_worse or at_worst > margin else State.PASSED
