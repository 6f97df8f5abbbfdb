"""How a number is known: a value with its interval, the one type for it, with its arithmetic and its words.

Stored records keep value and ends in fields of their own, where an end that is open or not known is None. `Interval.of`
reads them and `figures` gives them back. Here such an end is infinite, so that arithmetic needs no cases.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol, Self

from pinchpoint.model import units


class Bound(StrEnum):
    """How a number is to be read."""

    FOUND = "found"
    AT_LEAST = "at_least"  # something else ended first, e.g. the traffic generator: the true value is no smaller
    BELOW = "below"  # even the lowest load was too much: the true value is no larger
    BETWEEN = "between"  # refused as a number, but it lies between two ends, and only those count
    REFUSED = "refused"  # the bench could not support a number


class HasInterval(Protocol):
    """A record with a value and two ends; None: the end is open or not known."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


@dataclass(frozen=True)
class Interval:
    """A value between two ends, all in one unit; an end that is open or not known is infinite."""

    value: float
    low: float = -math.inf
    high: float = math.inf
    level: float | None = None  # how often, of 1, the truth lies within, at least; None: it is not known
    meaning: str = ""  # what the ends are and hold for, e.g. `95 %, of the median by ranks over 7 repeats`
    bound: Bound = Bound.FOUND

    @classmethod
    def of(cls, record: HasInterval) -> "Interval":
        """Of a stored record."""
        low, high = record.low, record.high
        return Interval(record.value, -math.inf if low is None else low, math.inf if high is None else high)

    @property
    def is_closed(self) -> bool:
        """Whether both ends are known."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def figures(self) -> tuple[float, float | None, float | None]:
        """Value, low and high as records store them."""
        low, high = (end if math.isfinite(end) else None for end in (self.low, self.high))
        return self.value, low, high

    @property
    def closed(self) -> Self:
        """The same, an open end at the value itself."""
        low, high = (end if math.isfinite(end) else self.value for end in (self.low, self.high))
        return replace(self, low=low, high=high)

    @property
    def width(self) -> float:
        """Relative to the upper end."""
        return (self.high - self.low) / self.high

    @property
    def tells_apart(self) -> bool:
        """Of a ratio: whether 1, which means no difference, lies outside; without two ends it does not."""
        return self.is_closed and not self.low <= 1.0 <= self.high

    @property
    def reach(self) -> float:
        """Of a ratio: how far from 1 it may be, either way."""
        return max(self.high - 1, 1 - self.low)

    def __mul__(self, factor: float) -> Self:
        return replace(self, value=self.value * factor, low=self.low * factor, high=self.high * factor)

    def __truediv__(self, divisor: float) -> Self:
        return replace(self, value=self.value / divisor, low=self.low / divisor, high=self.high / divisor)

    def widened(self, below: float, above: float) -> Self:
        """The same, its ends this much farther out, as shares of each."""
        return replace(self, low=self.low * (1 - below), high=self.high * (1 + above))

    def reaching(self, low: float, high: float) -> Self:
        """The same, from `low` to `high` at least."""
        return replace(self, low=min(self.low, low), high=max(self.high, high))

    def overlaps(self, low: float, high: float) -> bool:
        """Whether some value lies within it and from `low` to `high`."""
        return max(self.low, low) <= min(self.high, high)

    def ends(self, unit: str) -> str:
        """Both ends in one unit, e.g. `3.10 to 3.12 Mpps`; empty without two."""
        return units.quantity_range(self.low, self.high, unit) if self.is_closed else ""

    @property
    def times(self) -> str:
        """Of a ratio, e.g. `2.04 x [1.90 .. 2.20]`, `at least 2.04 x`, `between 1.9 and 2.2 x`."""
        said = {Bound.AT_LEAST: "at least ", Bound.BELOW: "at most "}.get(self.bound, "") + units.times(self.value)
        if not self.is_closed:
            return said
        low, high = (units.times(end).removesuffix(" x") for end in (self.low, self.high))
        return f"between {low} and {high} x" if self.bound is Bound.BETWEEN else f"{said} [{low} .. {high}]"


@dataclass(frozen=True)
class Estimate:
    """One metric at one point, all repeats together."""

    unit: str
    value: float  # the median of the repeats; of BETWEEN the middle, for drawing only
    low: float | None
    high: float | None
    n: int  # repeats it rests on
    interval: str  # what low and high are, e.g. "95 %, of the median by ranks over 7 repeats" or "bounds of the search"
    trimmed_mean: float | None = None  # lowest and highest dropped, as some publish; from 5 repeats on
    bound: Bound = Bound.FOUND  # never REFUSED: a refused number is none

    @property
    def quoted(self) -> str:
        """The number to quote: `3.10 Mpps`, `at least 7.10 Mpps` or `below 10.0 kpps`; else `3.05 to 3.20 Mpps`."""
        if self.bound is Bound.BETWEEN:
            return Interval.of(self).ends(self.unit)
        lead = {Bound.AT_LEAST: "at least ", Bound.BELOW: "below "}.get(self.bound, "")
        return f"{lead}{units.quantity(self.value, self.unit)}"


def ratio(over: Estimate | None, under: Estimate | None) -> Interval | None:
    """`over` by `under`; None if either is missing or zero, or if both are only bounds.

    The ends combine the worst ends of both, so they cover at least as often.
    """
    if over is None or under is None or under.value <= 0 or over.value <= 0:
        return None
    opposite = {Bound.AT_LEAST: Bound.BELOW, Bound.BELOW: Bound.AT_LEAST}.get(under.bound, under.bound)
    bound = opposite if over.bound is Bound.FOUND else over.bound
    low = over.low / under.high if over.low is not None and under.high else -math.inf
    high = over.high / under.low if over.high is not None and under.low else math.inf
    quotient = Interval(over.value / under.value, low, high, bound=bound)
    is_unknown = opposite not in (Bound.FOUND, bound) or (bound is Bound.BETWEEN and not quotient.is_closed)
    return None if is_unknown else quotient
