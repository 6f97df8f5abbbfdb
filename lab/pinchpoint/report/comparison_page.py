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


def render_comparison(found: Comparison) -> str:
    """The whole page as text; every text from outside is escaped."""
    drawn, values = parts_of(found)
    return filled("comparison.html.j2", drawn, **values)


def parts_of(found: Comparison) -> tuple[list[dict[str, Any]], dict[str, object]]:
    """The page's plots, each with the id of its element, and what its template takes."""
    drawn: list[dict[str, Any]] = []
    sections = []
    for number, part in enumerate(found.scenarios, start=1):
        figures = []
        for place, one in enumerate(one for one in part.metrics if one.judged and drawable(one)):
            anchor = f"pairs-{number}-{place}"
            drawn.append({"id": anchor, **pairs_figure(one)})
            figures.append((anchor, one))
        if part.duet is not None and part.duet.series:
            drawn.append({"id": f"series-{number}", **series_figure(part.duet)})
        sections.append((part, views.metric_table(part.metrics), figures))
    ratios = [(part.a, one) for part in found.scenarios for one in part.metrics if one.judged and one.low is not None]
    forest = len(ratios) > 1
    if forest:
        drawn.append({"id": "ratios", **ratios_figure(ratios[:_MOST_BARS])})
    return drawn, {
        "found": found,
        "sections": sections,
        "places": list(views.places(found.differences)),
        "own_places": lambda part: [one for one in part.differences.scenario if one not in found.differences.scenario],
        "method": views.method(found),
        "grade": views.grade,
        "duet_lines": views.duet_lines,
        "forest": forest,
    }


def drawable(one: MetricComparison) -> bool:
    """Whether there are pairs to draw."""
    return any(not pair.left_out for pair in one.pairs)


def pairs_figure(one: MetricComparison) -> Figure:
    """The difference of each pair as a dot, the estimate as a line, its interval as a band.

    x: number of the pair, in the order of time; y: B / A - 1 in percent.
    """
    kept = [pair for pair in one.pairs if not pair.left_out]
    data = [_dots(one, first, [pair for pair in kept if pair.first == first]) for first in "AB"]
    layout = layout_of(height=320, top=18)
    layout["xaxis"] |= {"title": {"text": "pair, in the order of time"}, "dtick": max(1, len(one.pairs) // 12)}
    layout["xaxis"]["range"] = [0.5, max(pair.number for pair in one.pairs) + 0.5]
    layout["yaxis"] |= {"title": {"text": "B / A - 1, %"}}
    layout["shapes"] = [_line(0.0, "@muted", "dot")]
    if one.low is not None and one.high is not None and one.ratio is not None:
        band = {"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "y0": _percent(one.low), "y1": _percent(one.high),
                "fillcolor": "@accent", "opacity": 0.16, "line": {"width": 0}, "layer": "below"}  # fmt: skip
        layout["shapes"] += [band, _line(_percent(one.ratio), "@accent", "solid")]
    return {"data": [trace for trace in data if trace["x"]], "layout": layout}


def series_figure(found: DuetSummary) -> Figure:
    """The rates of both benches over time, and their ratio moment by moment on an axis of its own.

    x: seconds of slices; y: forwarded frames per second of A and of B; y2: B / A - 1 in percent.
    """
    at_s = [one.at_s for one in found.series]
    rates = {"A": [one.a_fps for one in found.series], "B": [one.b_fps for one in found.series]}
    data: list[dict[str, Any]] = [
        {"type": "scatter", "mode": "lines+markers", "name": side, "x": at_s, "y": rates[side],
         "line": {"color": _COLOURS[side]}, "marker": {"symbol": _SYMBOLS[side], "size": 6},
         "hovertemplate": f"{side} at %{{x:.1f}} s: %{{y:.4s}} fps<extra></extra>"}
        for side in "AB"
    ]  # fmt: skip
    ratios = [_percent(one.b_fps / one.a_fps) for one in found.series]
    change = markers("B / A - 1", at_s, ratios, (), {"color": "@accent", "size": 6})
    data.append(change | {"yaxis": "y2", "hovertemplate": "B / A - 1 at %{x:.1f} s: %{y:.2f} %<extra></extra>"})
    layout = layout_of(height=380, top=18)
    layout["xaxis"] |= {"title": {"text": "seconds of slices"}}
    layout["yaxis"] |= {"title": {"text": "forwarded, fps"}, "domain": [0.36, 1.0], "rangemode": "tozero"}
    layout["yaxis2"] = {**layout["yaxis"], "title": {"text": "B / A - 1, %"}, "domain": [0.0, 0.28]}
    layout["yaxis2"].pop("rangemode")
    return {"data": data, "layout": layout}


def _dots(one: MetricComparison, first: str, pairs: Sequence[Pair]) -> Figure:
    ratios = [(pair.number, (pair.b or 0.0) / (pair.a or 1.0), pair) for pair in pairs]
    texts = [
        f"A {escape(units.quantity(pair.a, one.unit))}<br>B {escape(units.quantity(pair.b, one.unit))}"
        for _, _, pair in ratios
    ]
    marker = {"symbol": _SYMBOLS[first], "size": 9, "color": _COLOURS[first]}
    numbers, heights = [number for number, _, _ in ratios], [_percent(ratio) for _, ratio, _ in ratios]
    hover = {"hovertemplate": "pair %{x}: %{y:.3f} %<br>%{text}<extra></extra>"}
    return markers(f"{first} first", numbers, heights, texts, marker) | hover


def ratios_figure(found: Sequence[tuple[str, MetricComparison]]) -> Figure:
    """Every judged ratio with its interval, one row each. x: B / A - 1 in percent; y: scenario and metric."""
    names = [escape(f"{name}: {one.metric}" if name else one.metric) for name, one in found]
    centres = [_percent(one.ratio or 1.0) for _, one in found]
    bars = [
        (at, _percent(one.low or 1.0), _percent(one.high or 1.0)) for (_, one), at in zip(found, centres, strict=True)
    ]
    data = markers("", centres, names, (), {"size": 9, "color": "@accent"})
    data |= {"hovertemplate": "%{y}: %{x:.3f} %<extra></extra>", "error_x": error_bars(bars, "@accent", 2, 4)}
    layout = layout_of(height=140 + 26 * len(found), top=12)
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
