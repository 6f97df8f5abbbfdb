"""A point's rate as a ratio to its group's reference, out of alternating slices of both; pure."""

import math
from collections.abc import Sequence

from pinchpoint.diagnose.comparing_slices import interval_of, rate_metric, why_refused
from pinchpoint.diagnose.duet import compare_slices, loss_after_thaw
from pinchpoint.model import units
from pinchpoint.model.duet import FORWARDED, MEASURED, RELATIVE, Stretch
from pinchpoint.model.measurement import Metric

NARROW = 0.03  # half of an interval, as a share: a curve needs no narrower one
UNIT = "x"


def of_reference() -> Metric:
    """The relative rate of the reference itself."""
    return Metric(RELATIVE, UNIT, 1.0, 1.0, 1.0, "the reference")


def relative_metrics(stretches: Sequence[Stretch], reference: str) -> tuple[Metric, ...]:
    """The ratio of B, a point, to A, its reference, and what the point forwarded; with a note where there is no ratio.

    What slices measure is the rate forwarded under overload, so that this is what the ratio is of.
    """
    measured = [one for one in stretches if one.phase == MEASURED and one.slices]
    if not measured:
        return (Metric(RELATIVE, UNIT, 0.0, note="refused: no slice was measured"),)
    found = compare_slices(stretches)
    if why := why_refused(found.summary):
        return (Metric(RELATIVE, UNIT, 0.0, note=f"refused: {why}"),)
    assert found.difference is not None  # else every slice was discarded, which has a reason
    ratio, cost = found.difference, thaw_cost(measured)
    low, high = ratio.low * (1 + min(0.0, cost)), ratio.high * (1 + max(0.0, cost))
    note = f"{interval_of(found)}, widened by {units.share(abs(cost))} for what a thaw costs"
    note += f"; of the {FORWARDED}, relative to {reference}"
    return Metric(RELATIVE, UNIT, ratio.ratio, low, high, note), rate_metric(found.quads, "B")


def thaw_cost(measured: Sequence[Stretch]) -> float:
    """By which share the ratio of B to A may be too low, because a thaw costs B more than A; negative: too high.

    The bench whose tables are larger finds less of them in the caches. Half of the slices follow a thaw.
    """
    a, b = (loss_after_thaw(measured, side) or 0.0 for side in "AB")
    return math.sqrt((1 - a) / (1 - b)) - 1


def is_narrow(stretches: Sequence[Stretch]) -> bool:
    """Whether the ratio of B to A has an interval that is narrow enough for a curve."""
    measured = [one for one in stretches if one.phase == MEASURED and one.slices]
    found = compare_slices(measured).difference if measured else None
    if found is None or found.confidence is None:
        return False
    return max(found.high - found.ratio, found.ratio - found.low) <= NARROW * found.ratio
