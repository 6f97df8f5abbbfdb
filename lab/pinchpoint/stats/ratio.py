"""Ratios of estimates with their intervals; pure."""

from pinchpoint.model.study import Bound, Estimate, Ratio


def ratio(over: Estimate | None, under: Estimate | None) -> Ratio | None:
    """`over` by `under`; None if either is missing or zero, or if both are only bounds."""
    if over is None or under is None or under.value <= 0 or over.value <= 0:
        return None
    opposite = {Bound.AT_LEAST: Bound.BELOW, Bound.BELOW: Bound.AT_LEAST}.get(under.bound, under.bound)
    bound = opposite if over.bound is Bound.FOUND else over.bound
    low = over.low / under.high if over.low is not None and under.high else None
    high = over.high / under.low if over.high is not None and under.low else None
    if opposite not in (Bound.FOUND, bound) or (bound is Bound.BETWEEN and (low is None or high is None)):
        return None
    return Ratio(over.value / under.value, low, high, bound)
