"""A trend as a plot: the runs, their levels, and where a level changed."""

from html import escape

from pinchpoint.model import units
from pinchpoint.model.trend import Trend, TrendSegment
from pinchpoint.report.axes import value_axis
from pinchpoint.report.figures import Figure, error_bars, layout_of, markers


def trend_figure(found: Trend) -> Figure | None:
    """x: number of the run, in the order of their start; y: the metric. None without runs.

    A dot is a run with its own interval, a line the level of a segment with its interval, a dotted line a change.
    """
    if not found.runs:
        return None
    values = [run.value for run in found.runs]
    y = value_axis(found.unit, values)
    texts = [
        f"{escape(run.run_id)}<br>{escape(run.started)}<br>{escape(units.quantity(run.value, found.unit))}"
        for run in found.runs
    ]
    numbers = list(range(1, len(values) + 1))
    runs = markers(found.metric, numbers, [one / y.divisor for one in values], texts, {"size": 8, "color": "@accent"})
    ends = [
        tuple(end / y.divisor for end in (run.value, run.low or run.value, run.high or run.value)) for run in found.runs
    ]
    bars = error_bars([(at, low, high) for at, low, high in ends], "@shade1")
    layout = layout_of(height=360, top=18)
    layout["xaxis"] |= {"title": {"text": "run, in the order of their start"}, "rangemode": "tozero"}
    layout["yaxis"] |= {"title": {"text": f"{found.metric}, {y.label}".rstrip(", ")}}
    layout["shapes"] = [shape for segment in found.segments for shape in _level(segment, y.divisor)]
    layout["shapes"] += [_change(segment.first + 0.5) for segment in found.segments[1:]]
    return {"data": [runs | {"error_y": bars}], "layout": layout | {"showlegend": False}}


def _level(segment: TrendSegment, divisor: float) -> list[Figure]:
    first, end = segment.first + 0.6, segment.end + 0.4
    low, value, high = (end / divisor for end in (segment.low, segment.value, segment.high))
    across = {"x0": first, "x1": end, "layer": "below"}
    band = {"type": "rect", "y0": low, "y1": high, "fillcolor": "@second", "opacity": 0.2, "line": {"width": 0}}
    line = {"type": "line", "y0": value, "y1": value, "line": {"color": "@second", "width": 2}}
    return [band | across, line | across]


def _change(at: float) -> Figure:
    return {"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper",
            "line": {"color": "@bad", "width": 1.5, "dash": "dot"}}  # fmt: skip
