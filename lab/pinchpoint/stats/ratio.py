"""Ratios of estimates with their intervals; pure."""

from dataclasses import dataclass

from pinchpoint.model import units
from pinchpoint.model.study import Bound, Estimate


@dataclass(frozen=True)
class Ratio:
    """One estimate over another; the ends combine the worst ends of both, so they cover at least as often."""

    value: float
    low: float | None
    high: float | None
    bound: Bound = Bound.FOUND  # AT_LEAST: the true ratio is no smaller; BELOW: no larger; BETWEEN: only the ends count

    def __str__(self) -> str:
        """E.g. `2.04 x [1.90 .. 2.20]`, `at least 2.04 x`, `between 1.9 and 2.2 x`."""
        lead = {Bound.AT_LEAST: "at least ", Bound.BELOW: "at most "}.get(self.bound, "")
        spread = ""
        if self.low is not None and self.high is not None:
            low, high = units.times(self.low).removesuffix(" x"), units.times(self.high).removesuffix(" x")
            if self.bound is Bound.BETWEEN:
                return f"between {low} and {high} x"
            spread = f" [{low} .. {high}]"
        return f"{lead}{units.times(self.value)}{spread}"

    @property
    def tells_apart(self) -> bool:
        """Whether 1, which means no difference, lies outside the interval; with no interval it does not."""
        return self.low is not None and self.high is not None and not self.low <= 1.0 <= self.high


def ratio(over: Estimate | None, under: Estimate | None) -> Ratio | None:
    """`over` by `under`; None if either is missing or zero, or if both are only bounds."""
    if over is None or under is None or under.value <= 0 or over.value <= 0:
        return None
    bound = _bound(over.bound, under.bound)
    if bound is None:
        return None
    low = over.low / under.high if over.low is not None and under.high else None
    high = over.high / under.low if over.high is not None and under.low else None
    if bound is Bound.BETWEEN and (low is None or high is None):
        return None
    return Ratio(over.value / under.value, low, high, bound)


def _bound(over: Bound, under: Bound) -> Bound | None:
    opposite = {Bound.AT_LEAST: Bound.BELOW, Bound.BELOW: Bound.AT_LEAST}.get(under, under)
    if over is Bound.FOUND:
        return opposite
    return over if opposite in (Bound.FOUND, over) else None
