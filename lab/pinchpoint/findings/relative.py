"""A point's rate as a ratio to its group's reference, out of alternating slices of both; pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from pinchpoint.findings.comparing_slices import MOST_NOT_OVERLOADED, interval_of, rate_metric, reasons, why_refused
from pinchpoint.model import units
from pinchpoint.model.duet import FORWARDED, RELATIVE, Stretch
from pinchpoint.model.measurement import Metric
from pinchpoint.model.study import Bound
from pinchpoint.stats.duet import NOT_OVERLOADED, Duet, compare_slices, counted, in_parts, length_of, loss_after_thaw

NARROW = 0.04  # half of an interval, as a share, at which slices end: 0.05 is aimed at, and stopping early flatters
MOST_USED_S = 30.0  # of slices that could be used: half of an interval shrinks with the root of the time
LEAST_USED = 0.02  # of the slices: with fewer, whole trials of the same time say more
LEAST_TRIED_S = 4.9  # of slices, before too few could be used: two stretches, which whole groups of slices do not fill
Z = 1.96
UNIT = "x"


@dataclass(frozen=True)
class Ratio:
    """Of B, a point, to A, its reference."""

    value: float
    low: float  # what a thaw may have cost is in the interval
    high: float
    thaw_cost: float

    @property
    def is_narrow(self) -> bool:
        """Narrow enough for a curve."""
        return max(self.high - self.value, self.value - self.low) <= NARROW * self.value


def of_reference() -> Metric:
    """The relative rate of the reference itself."""
    return Metric(RELATIVE, UNIT, 1.0, 1.0, 1.0, "the reference")


def not_overloaded(most_fps: float | None) -> Metric:
    """The relative rate of a point that can be no reference: its own search ended with the highest load."""
    most = "" if most_fps is None else f" with {units.fps(most_fps)}, the most that was offered"
    return Metric(RELATIVE, UNIT, 0.0, note=f"the engine cannot overload it{most}", bound=Bound.REFUSED)


def relative_metrics(stretches: Sequence[Stretch], reference: str, needs_interval: bool = False) -> tuple[Metric, ...]:
    """The ratio of B, a point, to A, its reference, and what the point forwarded; with a note where there is no ratio.

    What slices measure is the rate forwarded under overload, so that this is what the ratio is of. Where the engine
    could overload the reference but not the point, it is a bound: the point forwards as much at least.
    `needs_interval`: there is no ratio either where too few slices could be used for an interval.
    """
    measured = counted(stretches)
    if not any(stretch.slices for stretch in measured):
        return (Metric(RELATIVE, UNIT, 0.0, note="no slice was measured", bound=Bound.REFUSED),)
    why = {side: _not_overloaded(measured, side, reference) for side in "AB"}
    is_bound = bool(why["B"]) and not why["A"]
    duet = compare_slices(stretches, carried="B" if is_bound else "")
    if refused := why["A"] or why_refused(duet.summary):
        return (Metric(RELATIVE, UNIT, 0.0, note=refused, bound=Bound.REFUSED),)
    if needs_interval and duet.difference is not None and duet.difference.confidence is None:
        return (Metric(RELATIVE, UNIT, 0.0, note=interval_of(duet), bound=Bound.REFUSED),)
    ratio = _ratio(duet, measured)
    assert ratio is not None  # else every slice was discarded, which has a reason
    note = f"{interval_of(duet)}, widened by {units.share(abs(ratio.thaw_cost))} for what a thaw costs"
    note += f"; of the {FORWARDED}, relative to {reference}"
    rate = rate_metric(duet.quads, "B")
    if not is_bound:
        return Metric(RELATIVE, UNIT, ratio.value, ratio.low, ratio.high, note), rate
    at_least = Metric(RELATIVE, UNIT, ratio.low, ratio.low, None, f"{why['B']}; {note}", Bound.AT_LEAST)
    return at_least, replace(rate, high=None, bound=Bound.AT_LEAST)


def _ratio(duet: Duet, measured: Sequence[Stretch]) -> Ratio | None:
    if duet.difference is None:
        return None
    ratio, cost = duet.difference, thaw_cost(measured)
    low, high = ratio.low * (1 + min(0.0, cost)), ratio.high * (1 + max(0.0, cost))
    return Ratio(ratio.ratio, low, high, cost)


def thaw_cost(measured: Sequence[Stretch]) -> float:
    """By which share the ratio of B to A may be too low, because a thaw costs B more than A; negative: too high.

    The bench whose tables are larger finds less of them in the caches. Half of the parts follow a thaw.
    """
    a, b = (loss_after_thaw(measured, side) or 0.0 for side in "AB")
    return math.sqrt((1 - a) / (1 - b)) - 1


def is_enough(stretches: Sequence[Stretch]) -> bool:
    """Whether more slices would be wasted: the interval is narrow, enough could be used, or the ratio is surely none,
    since the reference cannot be overloaded, or only a bound, since the point cannot.
    """
    measured = counted(stretches)
    if not any(stretch.slices for stretch in measured):
        return False
    if surely_not_overloaded(measured, "A"):
        return True
    is_bound = surely_not_overloaded(measured, "B")
    duet = compare_slices(stretches, carried="B" if is_bound else "")
    if math.fsum(quad.length_s for quad in duet.quads) >= MOST_USED_S:
        return True
    ratio = _ratio(duet, measured)
    is_interval = duet.difference is not None and duet.difference.confidence is not None
    return ratio is not None and is_interval and (is_bound or ratio.is_narrow)


def surely_not_overloaded(stretches: Sequence[Stretch], side: str) -> bool:
    """Whether the engine could not overload the bench in more slices than chance explains, and a ratio bears."""
    share, number = _without_overload(counted(stretches), side)
    return number > 0 and share - Z * math.sqrt(share * (1 - share) / number) > MOST_NOT_OVERLOADED


def why_hopeless(stretches: Sequence[Stretch]) -> str:
    """Why more slices would give no ratio of two benches either; empty if they may."""
    measured = counted(stretches)
    if any(surely_not_overloaded(measured, side) for side in "AB"):
        return why_refused(compare_slices(stretches).summary)
    if sum(map(length_of, measured)) < LEAST_TRIED_S:
        return ""
    summary = compare_slices(stretches).summary
    is_poor = summary.used < LEAST_USED * summary.slices
    return f"{summary.used:,} of {summary.slices:,} slices could be used ({reasons(summary)})" if is_poor else ""


def _without_overload(measured: Sequence[Stretch], side: str) -> tuple[float, int]:
    """(share of the slices of a bench in which it was not overloaded, how many could have been)."""
    every = [part for stretch in measured for part in in_parts(stretch) if part.side == side]
    reasons = [reason for part in every for reason in part.reasons if reason in ("", NOT_OVERLOADED)]
    return reasons.count(NOT_OVERLOADED) / max(1, len(reasons)), len(reasons)


def _not_overloaded(measured: Sequence[Stretch], side: str, reference: str) -> str:
    """That the engine could not overload one of the two, and how much it offered; empty if it did."""
    share, _ = _without_overload(measured, side)
    if share <= MOST_NOT_OVERLOADED:
        return ""
    name = f"its reference {reference}" if side == "A" else "it"
    own = (part for stretch in measured for part in stretch.slices if part.side == side and part.length_s)
    rates = [part.offered / part.length_s for part in own]
    return (
        f"the engine could not overload {name}, which forwarded all that was offered "
        f"({units.fps(median(rates))}) in {units.share(share)} of its slices"
    )
