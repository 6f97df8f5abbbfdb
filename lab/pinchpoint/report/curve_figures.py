"""The plots of one curve: the metric that was looked for, its published shape, and what the DUT did meanwhile."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import cycle
from typing import Any, Final

from pinchpoint.measure import registry
from pinchpoint.model import units
from pinchpoint.model.duet import RELATIVE
from pinchpoint.model.groups import grouped
from pinchpoint.model.measurement import MRR, Bound, Estimate, Interval, answered_by, band_metrics, is_band, is_rate
from pinchpoint.model.result import Outcome
from pinchpoint.model.scenario import Level
from pinchpoint.model.series import Series, along, factor_of, published_for, series, with_unit
from pinchpoint.model.study import Curve, CurvePoint, Published
from pinchpoint.report import plot, words
from pinchpoint.report.plot import Figure, LevelAxis, level_axis

_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_SYMBOLS: Final = {Bound.AT_LEAST: "triangle-up-open", Bound.BELOW: "triangle-down-open", Bound.BETWEEN: "line-ew-open"}
_MARKED: Final = {
    Bound.AT_LEAST: "Open triangles pointing up are “at least”: something else was the limit",
    Bound.BELOW: "Open triangles pointing down are “below”",
    Bound.BETWEEN: "Bars without a marker: no number was published, only that it lies within the bar",
}
_SHARE_COLOURS: Final = ("@accent", "@shade2", "@shade1", "@second", "@mind")
_MOST_TRACES: Final = 12
_MOST_QUANTITIES: Final = 4  # metrics on one axis
_MOST_STACKS: Final = 4
_MAIN_HEIGHT: Final = 390  # pixels
_DODGE: Final = 0.12  # between series at one level of a categorical axis, in levels
_LOG_Y: Final = 100.0  # largest over smallest value of one panel
_LevelEstimate = tuple[Level, Estimate]


@dataclass(frozen=True)
class Panel:
    """One plot with its heading; `about` is a sentence below it."""

    key: str
    title: str
    about: str
    figure: Figure


def panels(curve: Curve, published: Sequence[Published]) -> tuple[Panel, ...]:
    """All plots of a curve, the metric that was looked for first; none if there is nothing to draw."""
    factor = factor_of(curve, "")
    if factor is None or not any(point.estimates for point in curve.points):
        return ()
    parts = series(curve)
    there = {point.levels[factor.name]: None for part in parts for point in part.points}
    levels = [level for level in factor.levels if level in there]
    levels += [level for level in there if level not in factor.levels]
    x = level_axis(factor, levels)
    return (_main(curve, parts, x), *_shapes(parts, published), *_stacks(parts, x), *_others(curve, parts, x))


def main_metrics(curve: Curve) -> tuple[str, ...]:
    """What the curve is about: the first metric, and for rates the others of its kind (NDR, PDRs and MRR)."""
    names = metric_names(curve)
    first = next(iter(names), "")
    if registry.is_search(curve.measure):
        rates = tuple(filter(is_rate, names))
        if _points_with(curve, RELATIVE) > max((_points_with(curve, name) for name in rates), default=0):
            return (RELATIVE,)
        if rates:
            return (*rates, *(name for name in names if name == MRR))
    return (first,) if first else ()


def _points_with(curve: Curve, metric: str) -> int:
    return sum(metric in point.estimates for point in curve.points)


def metric_names(curve: Curve | Series) -> tuple[str, ...]:
    """All metrics of the curve, in the order in which they were named first."""
    return tuple(dict.fromkeys(name for point in curve.points for name in point.estimates))


def interval_words(curve: Curve, metrics: Sequence[str]) -> tuple[str, ...]:
    """What the intervals of these metrics are, each once; why one is as wide as it is, its point tells."""
    estimates = [point.estimates[name] for point in curve.points for name in point.estimates if name in metrics]
    known = [estimate for estimate in estimates if estimate.interval and estimate.bound is Bound.FOUND]
    return tuple(dict.fromkeys(estimate.interval.partition(": ")[0] for estimate in known))


def _main(curve: Curve, parts: Sequence[Series], x: LevelAxis) -> Panel:
    metrics = main_metrics(curve)[: _MOST_QUANTITIES if len(parts) == 1 else 1]
    figure = _figure(parts, metrics, x, height=_MAIN_HEIGHT)
    title = " and ".join(metrics) if len(metrics) < 3 else ", ".join(metrics)
    return Panel("main", f"{title} by {x.factor.name}", _reading(curve, metrics), figure)


def _reading(curve: Curve, metrics: Sequence[str]) -> str:
    """How to read the plot: what its bars and markers are."""
    bounds = {point.estimates[name].bound for point in curve.points for name in metrics if name in point.estimates}
    intervals = interval_words(curve, metrics)
    said = [f"Bars: {'; '.join(intervals[:2])}"] if intervals else []
    said += [] if intervals or Bound.BETWEEN in bounds else ["No interval is known"]
    if any(is_band(name) for name in metric_names(curve)):
        said.append("Light bars: the loads at which 10 to 90 % of the trials lose")
    said += [sentence for bound, sentence in _MARKED.items() if bound in bounds]
    if any(_why_none(point, name) for point in curve.points for name in metrics):
        crosses = "Crosses at the bottom mark levels that were tried but have no number"
        said.append(f"{crosses}; lines are not drawn across them")
    if any(_minds(point, name) for point in curve.points for name in point.notes):
        said.append("Other open markers have a note (hover)")
    return "".join(f"{sentence}. " for sentence in said) + "Point at a marker for its verdict."


def _figure(parts: Sequence[Series], metrics: Sequence[str], x: LevelAxis, height: int) -> Figure:
    """One trace a series and metric, with error bars."""
    drawn = [(part, name) for part in parts for name in metrics if part.having(name)][:_MOST_TRACES]
    estimates = [estimate for part, name in drawn for _, estimate in part.having(name)]
    y = plot.value_axis(estimates[0].unit if estimates else "", [estimate.value for estimate in estimates])
    data = []
    crosses = [
        cross for part in parts for name in metrics if not part.having(name) for cross in _crosses(part, name, x)
    ]
    for place, (part, name) in enumerate(drawn):
        label = part.label if len(metrics) == 1 else f"{part.label}: {name}"
        aside = _DODGE * (place - (len(drawn) - 1) / 2) if x.categorical else 0.0
        legend = name if len(parts) == 1 else label
        made = [*_band(part, name, y.divisor, place), *_traces(part, name, x, y.divisor, place, legend)]
        data += [trace | {"x": [x.place(level) + aside for level in trace["x"]]} for trace in made]
        crosses += _crosses(part, name, x, aside, plot.COLOURS[place % len(plot.COLOURS)])
    name = metrics[0] if len(metrics) == 1 else ""
    title = _relative_title(parts) if name == RELATIVE else y.label or name  # the panel has the metric's name
    y_axis = _y_axis(escape(title), [estimate.value for estimate in estimates])
    more = 18 * ((len(drawn) - 1) // 3)  # for further lines of the legend
    x_axis = x.figure(narrow=height < _MAIN_HEIGHT)
    noted: Figure = {"annotations": crosses} if crosses else {}
    return plot.figure(data, height + more, 12, x_axis, y_axis, bottom=92 + more, showlegend=len(drawn) > 1, **noted)


def _crosses(part: Series, name: str, x: LevelAxis, aside: float = 0.0, colour: str = "@muted") -> Iterator[Figure]:
    """A mark at the bottom of the plot at each level that was tried and has no number, with the reason."""
    for point in part.without(name):
        if why := _why_none(point, name):
            level = point.levels[part.factor.name]
            at = x.place(level) + aside
            told = f"<b>{escape(along(part.factor, level))}</b><br>{escape(name)}{plot.remarks(why)}"
            place = {"x": math.log10(at) if x.log else at, "xref": "x", "y": 0, "yref": "paper", "yanchor": "bottom"}
            yield place | {"text": "×", "hovertext": told, "showarrow": False, "font": {"color": colour, "size": 18}}


def _why_none(point: CurvePoint, name: str) -> str:
    """Why a point that was tried has no number of the metric; empty of any other."""
    if name in point.estimates:
        return ""
    return str(point.refusals[name]) if name in point.refusals else point.reason * (point.outcome == Outcome.FAILED)


def _y_axis(title: str, values: Sequence[float]) -> Figure:
    """Logarithmic where the values span decades."""
    if values and min(values) > 0 and max(values) / min(values) >= _LOG_Y:
        return plot.axis(title, type="log", rangemode="normal", dtick=1)
    return plot.axis(title, rangemode="tozero")


def _relative_title(parts: Sequence[Series]) -> str:
    """What relative rates are multiples of: the point that has exactly 1, which is the reference."""
    for part in parts:
        for level, estimate in part.having(RELATIVE):
            if estimate.value == estimate.low == estimate.high == 1.0:
                return f"rate relative to that of {along(part.factor, level)}"
    return RELATIVE


def _traces(part: Series, name: str, x: LevelAxis, divisor: float, place: int, legend: str) -> Iterator[Figure]:
    """A line through the numbers, broken where one was refused; there its range stands, if it has one, on no line.

    A line through the middles of ranges, or from one word to the next, would show a shape that was not measured.
    X of a trace is its levels.
    """
    points = part.having(name)
    ranges = [(level, estimate) for level, estimate in points if estimate.bound is Bound.BETWEEN]
    common = {"name": escape(legend), "legendgroup": str(place)}
    if len(ranges) < len(points):
        dash = _DASHES[place // len(plot.COLOURS) % len(_DASHES)]
        line = {"color": plot.COLOURS[place % len(plot.COLOURS)], "width": 2, "dash": dash}
        y = [None if estimate.bound is Bound.BETWEEN else estimate.value / divisor for _, estimate in points]
        joined: Figure = {} if x.categorical else {"mode": "lines+markers", "line": line}
        trace = _marked(part, name, points, divisor, place) | common | {"y": y} | joined
        yield _broken(trace, part) if joined else trace
    if ranges:
        yield _marked(part, name, ranges, divisor, place) | common | {"showlegend": len(ranges) == len(points)}


def _broken(trace: Figure, part: Series) -> Figure:
    """The trace, of which x is levels, with a gap at each that was tried and is not in it: no line runs over one."""
    own, name = {level: place for place, level in enumerate(trace["x"])}, part.factor.name
    tried = {point.levels[name] for point in part.tried}
    levels = [point.levels[name] for point in part.points if point.levels[name] in own.keys() | tried]
    if len(levels) == len(own):
        return trace

    def spread(values: Mapping[str, Any], **blanks: Any) -> Figure:
        lists = {key: value for key, value in values.items() if isinstance(value, list) and key in blanks}
        return {key: [value[own[level]] if level in own else blanks[key] for level in levels]
                for key, value in lists.items()}  # fmt: skip

    marker = trace["marker"] | spread(trace["marker"], size=8, symbol="circle")
    bars = trace["error_y"] | spread(trace["error_y"], array=0.0, arrayminus=0.0)
    return trace | spread(trace, y=None, text="") | {"x": levels, "marker": marker, "error_y": bars}


def _band(part: Series, name: str, divisor: float, place: int) -> Iterator[Figure]:
    """A light bar at each level, over which the momentary rate moved; x is the levels."""
    low_name, high_name = band_metrics(name)
    lows, highs = dict(part.having(low_name)), dict(part.having(high_name))
    known = lows.keys() & highs.keys()
    ranges = [(level, estimate) for level, estimate in part.having(name) if level in known and _is_number(estimate)]
    if ranges:
        colour = plot.COLOURS[place % len(plot.COLOURS)]
        ends = ((estimate, lows[level], highs[level]) for level, estimate in ranges)
        bars = [Interval(middle.value, low.value, high.value) / divisor for middle, low, high in ends]
        yield {"type": "scatter", "mode": "markers", "legendgroup": str(place), "showlegend": False,
               "hoverinfo": "skip", "opacity": 0.22, "x": [level for level, _ in ranges],
               "y": [bar.value for bar in bars], "marker": {"size": 1, "color": colour},
               "error_y": plot.error_bars(bars, colour, 9, 0)}  # fmt: skip


def _marked(part: Series, name: str, points: Sequence[_LevelEstimate], divisor: float, place: int) -> Figure:
    """Markers, error bars and what the pointer shows."""
    colour, shape = plot.COLOURS[place % len(plot.COLOURS)], plot.SHAPES[place % len(plot.SHAPES)]
    marker = {"color": colour, "size": [11 if estimate.bound in _SYMBOLS else 8 for _, estimate in points],
              "symbol": [_symbol(part, level, name, estimate, shape) for level, estimate in points]}  # fmt: skip
    bars = plot.error_bars([Interval.of(estimate) / divisor for _, estimate in points], colour)
    placed = [(level, estimate.value / divisor, hover(part, level, name, estimate)) for level, estimate in points]
    return plot.markers("", placed, marker, error_y=bars)


def _is_number(estimate: Estimate) -> bool:
    return estimate.value > 0 and estimate.bound is not Bound.BETWEEN


def _minded(part: Series, level: Level, name: str) -> tuple[str, ...]:
    """What to mind about the number: of its own, and of all of its point."""
    point = part.at(level)
    return tuple(dict.fromkeys((*_minds(point, name), *point.to_mind("")))) if point else ()


def _minds(point: CurvePoint, name: str) -> tuple[str, ...]:
    refusal = (str(point.refusals[name]),) if name in point.refusals else ()
    return (*refusal, *point.to_mind(name))


def _symbol(part: Series, level: Level, name: str, estimate: Estimate, plain: str) -> str:
    if estimate.bound in _SYMBOLS:
        return _SYMBOLS[estimate.bound]
    return f"{plain}-open" if _minded(part, level, name) else plain


def hover(part: Series, level: Level, name: str, estimate: Estimate) -> str:
    """A point's account as plotly hover text: escaped, lines separated by <br>."""
    point = part.at(level)
    factor = part.factor
    label = f", {escape(part.label)}" if part.label else ""
    lines = [f"<b>{escape(factor.name)} {escape(with_unit(level, factor.unit))}</b>{label}"]
    lines.append(f"{escape(name)}: {escape(estimate.quoted)}")
    if estimate.interval:
        lines.append(f"{escape(words.spread(estimate) or 'open')} ({escape(estimate.interval)})")
    said = (*_minded(part, level, name), point.verdict, point.invisible) if point else ()
    return "<br>".join(lines) + plot.remarks(*said)


def _shapes(parts: Sequence[Series], published: Sequence[Published]) -> Iterable[Panel]:
    """Ours and the published curves, each relative to its value at the first common level."""
    data: list[Figure] = []
    shared: list[Published] = []  # a published curve that several series share is drawn once
    sources: list[str] = []
    for part in parts:
        for figures, every in published_for(published, part):
            theirs = [(level, value) for level, value in every if value > 0]
            ours = [(level, estimate) for level, estimate in part.having(figures.metric) if _is_number(estimate)]
            if len(ours) < 2 or len(theirs) < 2:
                continue
            common = next((level for level, _ in ours if level in dict(theirs)), None)
            colour = plot.COLOURS[len(sources) % len(plot.COLOURS)]
            data.append(_broken(_ours(part, figures.metric, ours, common, colour), part))
            if figures not in shared:
                shared.append(figures)
                data.append(_theirs(part, figures, theirs, common))
            sources.append(f"{figures.title} ({figures.metric})" + ("" if common is not None else ", no common level"))
    if not data:
        return
    _colour_published(data, len(shared))
    x = level_axis(parts[0].factor, _sorted({level for trace in data for level in trace["x"]}))
    for trace in data:
        trace["x"] = [x.place(level) for level in trace["x"]]
        if x.categorical:
            trace["mode"] = "markers"
    y = _y_axis("relative to the first common level", [y for trace in data for y in trace["y"] if y is not None])
    more = 18 * ((len(data) - 1) // 2)
    about = (
        "Only the shape can be compared, the machines differ: both curves are divided by their value at the first "
        f"level that both have. Published: {'; '.join(dict.fromkeys(sources))}."
    )
    figure = plot.figure(data, 340 + more, 12, x.figure(narrow=True), y, bottom=92 + more)
    yield Panel("shape", "The published shape beside ours", about, figure)


def _ours(part: Series, metric: str, points: Sequence[_LevelEstimate], common: Level | None, colour: str) -> Figure:
    base = dict(points)[common].value if common is not None else points[0][1].value
    symbols = [_symbol(part, level, metric, estimate, "circle") for level, estimate in points]
    said = [(level, estimate.value, estimate.quoted) for level, estimate in points]
    bars = plot.error_bars([Interval.of(estimate) / base for _, estimate in points], colour, 1.2, 4)
    return _relative(part, "here", said, base, {"color": colour, "width": 2}, symbols) | {"error_y": bars}


def _theirs(part: Series, published: Published, points: Sequence[tuple[Level, float]], common: Level | None) -> Figure:
    base = dict(points)[common] if common is not None else points[0][1]
    said = [(level, value, units.quantity(value, published.unit)) for level, value in points]
    dashed = {"color": "@second", "width": 1.6, "dash": "dash"}
    return _relative(part, "published", said, base, dashed, "diamond-open")


def _relative(
    part: Series, lead: str, points: Sequence[tuple[Level, float, str]], base: float, line: Figure, symbol: object
) -> Figure:
    """Values as multiples of `base`; x is the levels."""
    unit, label = part.factor.unit, f", {part.label}" if part.label else ""
    placed = [(level, value / base, f"{lead}, {escape(with_unit(level, unit))}: {value / base:.2f}<br>{escape(said)}")
              for level, value, said in points]  # fmt: skip
    marker = {"color": line["color"], "size": 7, "symbol": symbol}
    return plot.markers(escape(f"{lead}{label}"), placed, marker, mode="lines+markers", line=line)


def _colour_published(data: Sequence[Figure], published: int) -> None:
    """A single published curve is grey; several have the colour of the series before them."""
    colour = "@second"
    for trace in data:
        if trace["line"].get("dash") != "dash":
            colour = trace["line"]["color"]
        elif published > 1:
            trace["line"]["color"] = trace["marker"]["color"] = colour


def _sorted(levels: Iterable[Level]) -> list[Level]:
    return sorted(levels, key=lambda level: (isinstance(level, str), level if isinstance(level, str) else float(level)))


def _stacks(parts: Sequence[Series], x: LevelAxis) -> Iterable[Panel]:
    """Which cache answered the lookups, as parts of one whole."""
    for place, part in enumerate(parts[:_MOST_STACKS]):
        names = [name for name in metric_names(part) if answered_by(name)]
        if not names:
            continue
        counted = [point for point in part.points if any(name in point.estimates for name in names)]
        levels = [point.levels[part.factor.name] for point in counted]
        data = [_layer(part, name, levels, x, colour) for name, colour in zip(names, cycle(_SHARE_COLOURS))]
        y = plot.axis("lookups, %", range=[0, 100])
        label = f" ({part.label})" if part.label else ""
        figure = plot.figure(data, 320, 12, x.figure(narrow=True), y, barmode="stack")
        yield Panel(f"caches-{place}", f"Which cache answered{label}", "", figure)


def _layer(part: Series, name: str, levels: Sequence[Level], x: LevelAxis, colour: str) -> Figure:
    shares, cache = dict(part.having(name)), escape(answered_by(name))
    values = [100 * shares[level].value if level in shares else None for level in levels]
    places = [x.place(level) for level in levels]
    texts = [f"{cache} {'not counted' if value is None else units.share(value / 100)} at {escape(units.level(level))}"
             for value, level in zip(values, levels, strict=True)]  # fmt: skip
    if x.categorical:
        return plot.bars(cache, places, values, texts, colour, width=0.5)
    area = {"stackgroup": "lookups", "fillcolor": colour, "text": texts, "hovertemplate": "%{text}<extra></extra>"}
    return plot.line(cache, list(zip(places, values, strict=True)), {"color": colour, "width": 1.5}, **area)


_TITLES: Final[Mapping[str, str]] = {
    "cycles": "What a packet costs", "share": "Shares", "ns": "Latency", "s": "Times", "1/s": "Rates",
    "bit/s": "Bandwidth", "fps": "Packet rates", "count": "In the datapath", "bytes": "Memory",
}  # fmt: skip
"""Of panels by their unit, in their order; those of other units come last."""


def _others(curve: Curve, parts: Sequence[Series], x: LevelAxis) -> Iterable[Panel]:
    """Every other metric under the same x axis, but for counts that never change.

    One panel a unit; a metric for each panel where series are many.
    """
    wanted = main_metrics(curve)
    shown = set(wanted[:_MOST_QUANTITIES] if len(parts) == 1 else wanted)
    units_of = {name: estimate.unit for point in curve.points for name, estimate in point.estimates.items()}
    others = [name for name in units_of if not (name in shown or answered_by(name) or is_band(name))]
    others = [name for name in others if units_of[name] != "count" or _changes(curve, name)]
    by_unit = grouped((units_of[name], name) for name in others)
    for unit in (*(unit for unit in _TITLES if unit in by_unit), *(unit for unit in by_unit if unit not in _TITLES)):
        names, key = by_unit[unit], "".join(filter(str.isalnum, unit)) or "other"
        groups = _few(names) if len(parts) == 1 else [[name] for name in names[:_MOST_STACKS]]
        for place, group in enumerate(groups):
            title = _TITLES.get(unit, unit) if len(group) > 1 else group[0]
            title += f" ({place + 1} of {len(groups)})" if len(group) > 1 and len(groups) > 1 else ""
            yield Panel(f"{key}-{place}", title, "", _figure(parts, group, x, height=290))


def _changes(curve: Curve, name: str) -> bool:
    """Whether a metric has two values on the curve, or only one point."""
    values = [point.estimates[name].value for point in curve.points if name in point.estimates]
    return len(values) < 2 or len(set(values)) > 1


def _few(names: list[str]) -> list[list[str]]:
    """In parts of about the same length, as long as one axis bears."""
    size = math.ceil(len(names) / math.ceil(len(names) / _MOST_QUANTITIES))
    return [names[first : first + size] for first in range(0, len(names), size)]


def overlaid(curves: Sequence[tuple[str, Curve]]) -> Panel | None:
    """The first metric of the same sweep in several runs, a line for each run and series; None if they share none."""
    metric = next(iter(main_metrics(curves[0][1])), "")
    every = [(run, part) for run, curve in curves for part in series(curve) if part.having(metric)]
    parts = [replace(part, others={"run": run, **part.others}) for run, part in every]
    if len({part.others["run"] for part in parts}) < 2:
        return None
    levels = _sorted({point.levels[part.factor.name] for part in parts for point in part.points})
    figure = _figure(parts, (metric,), level_axis(parts[0].factor, levels), height=_MAIN_HEIGHT)
    curve = curves[0][1]
    return Panel(curve.group, f"{curve.title}: {metric} by {parts[0].factor.name}", "", figure)
