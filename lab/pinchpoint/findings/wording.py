"""The sentences of a comparison; pure."""

import math

from pinchpoint.findings.find_compare import MORE_IS_BETTER, RATES, less_is_better
from pinchpoint.model import units
from pinchpoint.model.comparison import Decision, HoldsFor, MetricComparison


def direction(metric: str, unit: str) -> int:
    """1 if higher numbers of a metric are better, -1 if lower ones are, 0 if neither."""
    if unit in RATES or metric.startswith(MORE_IS_BETTER):
        return 1
    return -1 if less_is_better(metric, unit) else 0


def better(metric: MetricComparison) -> bool | None:
    """Whether B is the better one; None if no difference was found, neither is better, or it is of two benches only."""
    rising = direction(metric.metric, metric.unit)
    if not rising or metric.holds_for is HoldsFor.BENCHES or metric.decision not in (Decision.HIGHER, Decision.LOWER):
        return None
    return (metric.decision is Decision.HIGHER) == (rising > 0)


def surely_worse_by(metric: MetricComparison) -> float | None:
    """The share by which B is worse at least, at the comparison's confidence; None if it is not known to be worse."""
    if metric.better is not False or metric.low is None or metric.high is None:
        return None
    return 1 - metric.high if metric.decision is Decision.LOWER else metric.low - 1


def sentence(metric: MetricComparison, margin: float | None, of: str = "pair") -> str:
    """What the comparison says, e.g. `B is 2.1 % [1.6 .. 2.6 %] lower`; `of` is what `one.n` counts."""
    assert metric.ratio is not None and metric.low is not None and metric.high is not None
    if metric.decision is Decision.TOO_FEW:
        return f"unknown: {metric.method}; the ratios of the {of}s lie between {metric.low:.4g} and {metric.high:.4g}"
    of_benches = metric.holds_for is HoldsFor.BENCHES
    if metric.decision is Decision.NOT_FOUND:
        hidden = metric.largest_hidden or 0.0
        same = _margin_hidden(metric, hidden, margin, of)
        where = " between these two benches" if of_benches else ""
        ratio = f"B / A is {metric.ratio:.3f} [{metric.low:.3f} .. {metric.high:.3f}]"
        return f"no difference found{where}: {ratio}; one of up to {percent(hidden)} cannot be excluded{same}"
    smaller, larger = sorted((abs(1 - metric.low), abs(1 - metric.high)))
    word = "higher" if metric.decision is Decision.HIGHER else "lower"
    text = f"B is {percent(abs(1 - metric.ratio))} {_between(smaller, larger)} {word}"
    if of_benches:
        return f"of these two benches, {text}; one build of each cannot tell the build from the change"
    if margin is not None and larger <= margin:
        text += f", within the margin of {percent(margin)}"
    return text


def _margin_hidden(metric: MetricComparison, hidden: float, margin: float | None, of: str) -> str:
    if margin is None:
        return ""
    if hidden <= margin:
        return f": the same within the margin of {percent(margin)}"
    text = f": a difference beyond the margin of {percent(margin)} is not excluded"
    if not metric.n:
        return text
    # Intervals shrink with the square root of the number of pairs.
    needed = math.ceil(metric.n * (hidden / margin) ** 2)
    return f"{text}; about {units.counted(needed, of)} would decide"


def _between(low: float, high: float) -> str:
    return f"[{percent(low).removesuffix(' %')} .. {percent(high)}]"


def percent(share: float) -> str:
    """A share as a percentage with two digits that count, e.g. `2.1 %`, `0.83 %`, `14.2 %`."""
    value = share * 100
    return f"{value:.1f} %" if value >= 0.995 else f"{value:.2f} %"
