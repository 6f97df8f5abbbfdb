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
        said = {Bound.AT_LEAST: "at least ", Bound.BELOW: "at most "}.get(self.bound, "") + units.times(self.value)
        if self.low is None or self.high is None:
            return said
        low, high = (units.times(end).removesuffix(" x") for end in (self.low, self.high))
        return f"between {low} and {high} x" if self.bound is Bound.BETWEEN else f"{said} [{low} .. {high}]"

    @property
    def tells_apart(self) -> bool:
        """Whether 1, which means no difference, lies outside the interval; with no interval it does not."""
        return self.low is not None and self.high is not None and not self.low <= 1.0 <= self.high


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
