"""One metric over its repeats, as an estimate; pure."""

from collections.abc import Sequence

from pinchpoint.model.measurement import Metric
from pinchpoint.model.study import Bound, Estimate
from pinchpoint.stats.estimate import FEWEST_FOR_INTERVAL, median_interval, without_extremes


def bound_of(metric: Metric) -> Bound:
    """How a metric's value is to be read. One that does not say so and has one end only is a bound."""
    if metric.bound is not None:
        return metric.bound
    if (metric.low is None) == (metric.high is None):
        return Bound.FOUND
    return Bound.AT_LEAST if metric.high is None else Bound.BELOW


def estimate(metrics: Sequence[Metric]) -> Estimate:
    """One metric over its repeats, none of them refused.

    The value is the median. The interval is taken at the lower ends for its low and at the
    upper ends for its high: so it is never narrower than what one search leaves open. A single
    "at least" leaves it open above, a single "below" open below.
    """
    values = [metric.value for metric in metrics]
    lows = [metric.value if metric.low is None else metric.low for metric in metrics]
    highs = [metric.value if metric.high is None else metric.high for metric in metrics]
    bounds = {bound_of(metric) for metric in metrics}
    bound = next((one for one in (Bound.AT_LEAST, Bound.BELOW) if one in bounds), Bound.FOUND)
    n = len(values)
    known = n > 1 or metrics[0].low is not None or metrics[0].high is not None
    # One repeat with one end only is open at the other, and so is the median of all.
    open_above = Bound.AT_LEAST in bounds or any(one.high is None and one.low is not None for one in metrics)
    open_below = Bound.BELOW in bounds or any(one.low is None and one.high is not None for one in metrics)
    low, high, words = _ends(values, lows, highs, metrics[0].note)
    if min(lows) >= 0:
        low = max(low, 0.0)
    return Estimate(
        unit=metrics[0].unit,
        value=median_interval(values).centre,
        low=low if known and not open_below else None,
        high=high if known and not open_above else None,
        n=n,
        interval=words if known else "",
        trimmed_mean=without_extremes(values),
        bound=bound,
    )


def _ends(
    values: Sequence[float], lows: Sequence[float], highs: Sequence[float], note: str
) -> tuple[float, float, str]:
    n = len(values)
    if n == 1:
        return lows[0], highs[0], note or "of the one measurement"
    low, high = median_interval(lows), median_interval(highs)
    widened = n >= FEWEST_FOR_INTERVAL and list(lows) != list(highs)
    return low.low, high.high, low.words() + (", widened by each one's own bounds" if widened else "")
