"""A comparison as one self-contained HTML file, in the report's own style."""

from collections.abc import Sequence
from html import escape
from typing import Any, Final

from pinchpoint.model import units
from pinchpoint.model.comparison import Comparison, MetricComparison, Pair
from pinchpoint.model.duet import DuetSummary
from pinchpoint.report import comparison_views as views
from pinchpoint.report.figures import Figure, error_bars, layout_of, markers
from pinchpoint.report.page import filled

_MOST_BARS: Final = 60  # ratios in one figure
_COLOURS: Final = {"A": "@s0", "B": "@s1"}
_SYMBOLS: Final = {"A": "circle", "B": "diamond"}


def render_comparison(comparison: Comparison) -> str:
    """The whole page as text; every text from outside is escaped."""
    drawn, values = parts_of(comparison)
    return filled("comparison.html.j2", drawn, **values)


def parts_of(comparison: Comparison) -> tuple[list[dict[str, Any]], dict[str, object]]:
    """The page's plots, each with the id of its element, and what its template takes."""
    drawn: list[dict[str, Any]] = []
    sections = []
    for number, part in enumerate(comparison.scenarios, start=1):
        figures = []
        for place, metric in enumerate(metric for metric in part.metrics if metric.judged and drawable(metric)):
            anchor = f"pairs-{number}-{place}"
            drawn.append({"id": anchor, **pairs_figure(metric)})
            figures.append((anchor, metric))
        if part.duet is not None and part.duet.series:
            drawn.append({"id": f"series-{number}", **series_figure(part.duet)})
        sections.append((part, views.metric_table(part.metrics), figures))
    ratios = [
        (part.a, metric)
        for part in comparison.scenarios
        for metric in part.metrics
        if metric.judged and metric.low is not None
    ]
    forest = len(ratios) > 1
    if forest:
        drawn.append({"id": "ratios", **ratios_figure(ratios[:_MOST_BARS])})
    return drawn, {
        "found": comparison,
        "sections": sections,
        "places": list(views.places(comparison.differences)),
        "own_places": lambda part: [
            difference for difference in part.differences.scenario if difference not in comparison.differences.scenario
        ],
        "method": views.method(comparison),
        "grade": views.grade,
        "duet_lines": views.duet_lines,
        "forest": forest,
    }


def drawable(metric: MetricComparison) -> bool:
    """Whether there are pairs to draw."""
    return any(not pair.left_out for pair in metric.pairs)


def pairs_figure(metric: MetricComparison) -> Figure:
    """The difference of each pair as a dot, the estimate as a line, its interval as a band.

    x: number of the pair, in the order of time; y: B / A - 1 in percent.
    """
    kept = [pair for pair in metric.pairs if not pair.left_out]
    data = [_dots(metric, first, [pair for pair in kept if pair.first == first]) for first in "AB"]
    layout = layout_of(height=320, top=18)
    layout["xaxis"] |= {"title": {"text": "pair, in the order of time"}, "dtick": max(1, len(metric.pairs) // 12)}
    layout["xaxis"]["range"] = [0.5, max(pair.number for pair in metric.pairs) + 0.5]
    layout["yaxis"] |= {"title": {"text": "B / A - 1, %"}}
    layout["shapes"] = [_line(0.0, "@muted", "dot")]
    if metric.low is not None and metric.high is not None and metric.ratio is not None:
        low, high = _percent(metric.low), _percent(metric.high)
        band = {"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "y0": low, "y1": high,
                "fillcolor": "@accent", "opacity": 0.16, "line": {"width": 0}, "layer": "below"}  # fmt: skip
        layout["shapes"] += [band, _line(_percent(metric.ratio), "@accent", "solid")]
    return {"data": [trace for trace in data if trace["x"]], "layout": layout}


def series_figure(duet: DuetSummary) -> Figure:
    """The rates of both benches over time, and their ratio moment by moment on an axis of its own.

    x: seconds of slices; y: forwarded frames per second of A and of B; y2: B / A - 1 in percent.
    """
    at_s = [point.at_s for point in duet.series]
    rates = {"A": [point.a_fps for point in duet.series], "B": [point.b_fps for point in duet.series]}
    data: list[dict[str, Any]] = [
        {"type": "scatter", "mode": "lines+markers", "name": side, "x": at_s, "y": rates[side],
         "line": {"color": _COLOURS[side]}, "marker": {"symbol": _SYMBOLS[side], "size": 6},
         "hovertemplate": f"{side} at %{{x:.1f}} s: %{{y:.4s}} fps<extra></extra>"}
        for side in "AB"
    ]  # fmt: skip
    ratios = [_percent(point.b_fps / point.a_fps) for point in duet.series]
    change = markers("B / A - 1", at_s, ratios, (), {"color": "@accent", "size": 6})
    data.append(change | {"yaxis": "y2", "hovertemplate": "B / A - 1 at %{x:.1f} s: %{y:.2f} %<extra></extra>"})
    layout = layout_of(height=380, top=18)
    layout["xaxis"] |= {"title": {"text": "seconds of slices"}}
    layout["yaxis"] |= {"title": {"text": "forwarded, fps"}, "domain": [0.36, 1.0], "rangemode": "tozero"}
    layout["yaxis2"] = {**layout["yaxis"], "title": {"text": "B / A - 1, %"}, "domain": [0.0, 0.28]}
    layout["yaxis2"].pop("rangemode")
    return {"data": data, "layout": layout}


def _dots(metric: MetricComparison, first: str, pairs: Sequence[Pair]) -> Figure:
    ratios = [(pair.number, (pair.b or 0.0) / (pair.a or 1.0), pair) for pair in pairs]
    texts = [
        f"A {escape(units.quantity(pair.a, metric.unit))}<br>B {escape(units.quantity(pair.b, metric.unit))}"
        for _, _, pair in ratios
    ]
    marker = {"symbol": _SYMBOLS[first], "size": 9, "color": _COLOURS[first]}
    numbers, heights = [number for number, _, _ in ratios], [_percent(ratio) for _, ratio, _ in ratios]
    hover = {"hovertemplate": "pair %{x}: %{y:.3f} %<br>%{text}<extra></extra>"}
    return markers(f"{first} first", numbers, heights, texts, marker) | hover


def ratios_figure(ratios: Sequence[tuple[str, MetricComparison]]) -> Figure:
    """Every judged ratio with its interval, one row each. x: B / A - 1 in percent; y: scenario and metric."""
    names = [escape(f"{name}: {metric.metric}" if name else metric.metric) for name, metric in ratios]
    centres = [_percent(metric.ratio or 1.0) for _, metric in ratios]
    bars = [
        (at, _percent(metric.low or 1.0), _percent(metric.high or 1.0))
        for (_, metric), at in zip(ratios, centres, strict=True)
    ]
    data = markers("", centres, names, (), {"size": 9, "color": "@accent"})
    data |= {"hovertemplate": "%{y}: %{x:.3f} %<extra></extra>", "error_x": error_bars(bars, "@accent", 2, 4)}
    layout = layout_of(height=140 + 26 * len(ratios), top=12)
    layout["xaxis"] |= {"title": {"text": "B / A - 1, %"}}
    layout["yaxis"] |= {"autorange": "reversed", "type": "category"}
    layout["shapes"] = [{"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": 0, "x1": 0,
                         "line": {"color": "@muted", "width": 1, "dash": "dot"}}]  # fmt: skip
    return {"data": [data], "layout": layout}


def _percent(ratio: float) -> float:
    return (ratio - 1) * 100


def _line(at: float, colour: str, dash: str) -> Figure:
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": at, "y1": at,
            "line": {"color": colour, "width": 1.5, "dash": dash}}  # fmt: skip
