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


def better(one: MetricComparison) -> bool | None:
    """Whether B is the better one; None if no difference was found, neither is better, or it is of two benches only."""
    rising = direction(one.metric, one.unit)
    if not rising or one.holds_for is HoldsFor.BENCHES or one.decision not in (Decision.HIGHER, Decision.LOWER):
        return None
    return (one.decision is Decision.HIGHER) == (rising > 0)


def surely_worse_by(one: MetricComparison) -> float | None:
    """The share by which B is worse at least, at the comparison's confidence; None if it is not known to be worse."""
    if one.better is not False or one.low is None or one.high is None:
        return None
    return 1 - one.high if one.decision is Decision.LOWER else one.low - 1


def sentence(one: MetricComparison, margin: float | None, of: str = "pair") -> str:
    """What the comparison says, e.g. `B is 2.1 % [1.6 .. 2.6 %] lower`; `of` is what `one.n` counts."""
    assert one.ratio is not None and one.low is not None and one.high is not None
    if one.decision is Decision.TOO_FEW:
        return f"unknown: {one.method}; the ratios of the {of}s lie between {one.low:.4g} and {one.high:.4g}"
    of_benches = one.holds_for is HoldsFor.BENCHES
    if one.decision is Decision.NOT_FOUND:
        hidden = one.largest_hidden or 0.0
        same = _margin_hidden(one, hidden, margin, of)
        where = " between these two benches" if of_benches else ""
        return f"no difference found{where}; one of up to {percent(hidden)} cannot be excluded{same}"
    smaller, larger = sorted((abs(1 - one.low), abs(1 - one.high)))
    word = "higher" if one.decision is Decision.HIGHER else "lower"
    text = f"B is {percent(abs(1 - one.ratio))} {_between(smaller, larger)} {word}"
    if of_benches:
        return f"of these two benches, {text}; one build of each cannot tell the build from the change"
    if margin is not None and larger <= margin:
        text += f", within the margin of {percent(margin)}"
    return text


def _margin_hidden(one: MetricComparison, hidden: float, margin: float | None, of: str) -> str:
    if margin is None:
        return ""
    if hidden <= margin:
        return f": the same within the margin of {percent(margin)}"
    text = f": a difference beyond the margin of {percent(margin)} is not excluded"
    if not one.n:
        return text
    # Intervals shrink with the square root of the number of pairs.
    needed = math.ceil(one.n * (hidden / margin) ** 2)
    return f"{text}; about {units.counted(needed, of)} would decide"


def _between(low: float, high: float) -> str:
    return f"[{percent(low).removesuffix(' %')} .. {percent(high)}]"


def percent(share: float) -> str:
    """A share as a percentage with two digits that count, e.g. `2.1 %`, `0.83 %`, `14.2 %`."""
    value = share * 100
    return f"{value:.1f} %" if value >= 0.995 else f"{value:.2f} %"
