"""The plots of one curve: the metric that was looked for, its published shape, and what the DUT did meanwhile."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import cycle
from typing import Final

from pinchpoint.model import units
from pinchpoint.model.duet import RELATIVE
from pinchpoint.model.scenario import Level
from pinchpoint.model.series import Series, along, factor_of, published_for, series, with_unit
from pinchpoint.model.study import Bound, Curve, CurvePoint, Estimate, Published
from pinchpoint.model.terms import MRR, answered_by, band_metrics, is_band, is_rate
from pinchpoint.report import words
from pinchpoint.report.axes import LevelAxis, level_axis, value_axis
from pinchpoint.report.figures import Figure, error_bars, layout_of, markers, remarks

COLOURS: Final = ("@s0", "@s1", "@s2", "@s3", "@s4", "@s5")
_SHAPES: Final = ("circle", "square", "diamond", "cross", "star", "hexagon")
_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_SYMBOLS: Final = {
    Bound.AT_LEAST: "triangle-up-open",
    Bound.BELOW: "triangle-down-open",
    Bound.BETWEEN: "line-ew-open",
}
_SHARE_COLOURS: Final = ("@accent", "@shade2", "@shade1", "@second", "@mind")
_MOST_TRACES: Final = 12
_MOST_STACKS: Final = 4
_MAIN_HEIGHT: Final = 390  # pixels
_DODGE: Final = 0.12  # between series at one level of a categorical axis, in levels
_LOG_Y: Final = 100.0  # largest over smallest value of one panel


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
    drawings = [
        _main(curve, parts, x),
        *_shapes(curve, parts, published),
        *_stacks(parts, x),
        *_others(curve, parts, x),
    ]
    return tuple(drawings)


def main_metrics(curve: Curve) -> tuple[str, ...]:
    """What the curve is about: the first metric, and for rates the others of its kind (NDR, PDRs and MRR)."""
    names = metric_names(curve)
    first = next(iter(names), "")
    if curve.measure == "rates":
        rates = tuple(filter(is_rate, names))
        if _points_with(curve, RELATIVE) > max((_points_with(curve, name) for name in rates), default=0):
            return (RELATIVE,)
        if rates:
            return (*rates, *(name for name in names if name == MRR))
    return (first,) if first else ()


def _points_with(curve: Curve, metric: str) -> int:
    return sum(metric in point.estimates for point in curve.points)


def metric_names(curve: Curve) -> tuple[str, ...]:
    """All metrics of the curve, in the order in which they were named first."""
    return tuple(dict.fromkeys(name for point in curve.points for name in point.estimates))


def _main(curve: Curve, parts: Sequence[Series], x: LevelAxis) -> Panel:
    wanted = main_metrics(curve)
    metrics = wanted if len(parts) == 1 else wanted[:1]
    figure = _figure(parts, metrics, x, height=_MAIN_HEIGHT)
    title = " and ".join(metrics) if len(metrics) < 3 else ", ".join(metrics)
    return Panel("main", f"{title} by {x.factor.name}", _reading(curve, metrics), figure)


def _reading(curve: Curve, metrics: Sequence[str]) -> str:
    estimates = [point.estimates[name] for point in curve.points for name in metrics if name in point.estimates]
    intervals = list(
        dict.fromkeys(
            estimate.interval for estimate in estimates if estimate.interval and estimate.bound is Bound.FOUND
        )
    )
    open_above = "Open triangles pointing up are “at least”: something else ended first. "
    open_below = "Open triangles pointing down are “below”. "
    bands = any(is_band(name) for name in metric_names(curve))
    band = "Light bars: the loads at which 10 to 90 % of the trials lose. " if bands else ""
    no_number = "Bars without a marker were refused a number: it lies somewhere within. "
    bounds = {estimate.bound for estimate in estimates}
    any_minded = any(_minds(point, name) for point in curve.points for name in point.notes)
    open_else = "Other open markers have a note (hover). " if any_minded else ""
    unknown = "" if Bound.BETWEEN in bounds else "No interval is known. "
    bars = f"Bars: {'; '.join(intervals[:2])}. " if intervals else unknown
    said = ((Bound.AT_LEAST, open_above), (Bound.BELOW, open_below), (Bound.BETWEEN, no_number))
    marks = "".join(words for bound, words in said if bound in bounds) + open_else
    return f"{bars}{band}{marks}Point at a marker for its verdict."


def _figure(parts: Sequence[Series], metrics: Sequence[str], x: LevelAxis, height: int) -> Figure:
    """One trace a series and metric, with error bars."""
    drawn = [(part, name) for part in parts for name in metrics if part.having(name)][:_MOST_TRACES]
    estimates = [estimate for part, name in drawn for _, estimate in part.having(name)]
    y = value_axis(estimates[0].unit if estimates else "", [estimate.value for estimate in estimates])
    data = []
    for place, (part, name) in enumerate(drawn):
        legend = _legend(part, name, len(parts), len(metrics))
        aside = _DODGE * (place - (len(drawn) - 1) / 2) if x.categorical else 0.0
        made = [*_band(part, name, y.divisor, place), *_traces(part, name, x, y.divisor, place, legend)]
        data += [trace | {"x": [x.place(level) + aside for level in trace["x"]]} for trace in made]
    layout = layout_of(height=height + 18 * ((len(drawn) - 1) // 3), top=12)
    layout["margin"]["b"] = 92 + 18 * ((len(drawn) - 1) // 3)
    layout["xaxis"] = x.figure(narrow=height < _MAIN_HEIGHT)
    name = metrics[0] if len(metrics) == 1 else ""
    title = escape(_relative_title(parts) if name == RELATIVE else ", ".join(part for part in (name, y.label) if part))
    layout["yaxis"] |= {"title": {"text": title}, "rangemode": "tozero"}
    _log_if_wide(layout, [estimate.value for estimate in estimates])
    layout["showlegend"] = len(drawn) > 1
    return {"data": data, "layout": layout}


def _relative_title(parts: Sequence[Series]) -> str:
    """What relative rates are multiples of: the point that has exactly 1, which is the reference."""
    for part in parts:
        for level, estimate in part.having(RELATIVE):
            if estimate.value == estimate.low == estimate.high == 1.0:
                return f"rate relative to that of {along(part.factor, level)}"
    return RELATIVE


def _log_if_wide(layout: Figure, values: Sequence[float]) -> None:
    if values and min(values) > 0 and max(values) / min(values) >= _LOG_Y:
        layout["yaxis"] |= {"type": "log", "rangemode": "normal", "dtick": 1}


def _legend(part: Series, name: str, parts: int, metrics: int) -> str:
    if parts == 1:
        return name
    return part.label if metrics == 1 else f"{part.label}: {name}"


def _traces(part: Series, name: str, x: LevelAxis, divisor: float, place: int, legend: str) -> Iterator[Figure]:
    """A line through the numbers, broken where one was refused; there only its range stands, on no line.

    A line through the middles of ranges, or from one word to the next, would show a shape that was not measured.
    X of a trace is its levels.
    """
    points = part.having(name)
    colour = COLOURS[place % len(COLOURS)]
    line = {"color": colour, "width": 2, "dash": _DASHES[place // len(COLOURS) % len(_DASHES)]}
    numbers = [(level, estimate) for level, estimate in points if estimate.bound is not Bound.BETWEEN]
    ranges = [(level, estimate) for level, estimate in points if estimate.bound is Bound.BETWEEN]
    common = {"type": "scatter", "name": escape(legend), "legendgroup": str(place)}
    if numbers:
        y = [None if estimate.bound is Bound.BETWEEN else estimate.value / divisor for _, estimate in points]
        places = {"x": [level for level, _ in points], "y": y}
        yield common | _joined(x, line) | _marked(part, name, points, divisor, place) | places
    if ranges:
        places = {"x": [level for level, _ in ranges], "y": [estimate.value / divisor for _, estimate in ranges]}
        marked = _marked(part, name, ranges, divisor, place)
        yield common | {"mode": "markers", "showlegend": not numbers} | marked | places


def _joined(x: LevelAxis, line: Figure) -> Figure:
    return {"mode": "markers"} if x.categorical else {"mode": "lines+markers", "line": line}


def _band(part: Series, name: str, divisor: float, place: int) -> Iterator[Figure]:
    """A light bar at each level, over which the momentary rate moved; x is the levels."""
    low_name, high_name = band_metrics(name)
    lows, highs = dict(part.having(low_name)), dict(part.having(high_name))
    ranges = [
        (level, estimate)
        for level, estimate in part.having(name)
        if level in lows and level in highs and _is_number(estimate)
    ]
    if ranges:
        colour = COLOURS[place % len(COLOURS)]
        ends = ((estimate, lows[level], highs[level]) for level, estimate in ranges)
        bars = [(middle.value / divisor, low.value / divisor, high.value / divisor) for middle, low, high in ends]
        yield {"type": "scatter", "mode": "markers", "legendgroup": str(place), "showlegend": False,
               "hoverinfo": "skip", "opacity": 0.22, "x": [level for level, _ in ranges],
               "y": [value for value, _, _ in bars], "marker": {"size": 1, "color": colour},
               "error_y": error_bars(bars, colour, 9, 0)}  # fmt: skip


def _marked(part: Series, name: str, points: Sequence[tuple[Level, Estimate]], divisor: float, place: int) -> Figure:
    """Markers, error bars and what the pointer shows."""
    colour, shape = COLOURS[place % len(COLOURS)], _SHAPES[place % len(_SHAPES)]
    marker = {"color": colour, "size": [11 if estimate.bound in _SYMBOLS else 8 for _, estimate in points],
              "symbol": [_symbol(part, level, name, estimate, shape) for level, estimate in points],
              "line": {"width": 1.8, "color": colour}}  # fmt: skip
    bars = error_bars([_ends(estimate, divisor) for _, estimate in points], colour)
    texts = [hover(part, level, name, estimate) for level, estimate in points]
    return {"text": texts, "hovertemplate": "%{text}<extra></extra>", "marker": marker, "error_y": bars}


def _is_number(estimate: Estimate) -> bool:
    return estimate.value > 0 and estimate.bound is not Bound.BETWEEN


def _ends(estimate: Estimate, divisor: float) -> tuple[float, float, float]:
    """(value, low, high); an open end is the value itself."""
    ends = (estimate.value if end is None else end for end in (estimate.low, estimate.high))
    low, high = ends
    return estimate.value / divisor, low / divisor, high / divisor


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
    lines = [
        f"<b>{escape(factor.name)} {escape(with_unit(level, factor.unit))}</b>"
        + (f", {escape(part.label)}" if part.label else ""),
        f"{escape(name)}: {escape(words.estimated(estimate))}",
    ]
    if estimate.interval:
        lines.append(f"{escape(words.spread(estimate) or 'open')} ({escape(estimate.interval)})")
    said = (*_minded(part, level, name), point.verdict, point.invisible) if point else ()
    return "<br>".join(lines) + remarks(*said)


def _shapes(curve: Curve, parts: Sequence[Series], published: Sequence[Published]) -> Iterable[Panel]:
    """Ours and the published curves, each relative to its value at the first common level."""
    data: list[Figure] = []
    shared: list[Published] = []  # a published curve that several series share is drawn once
    sources: list[str] = []
    levels: set[Level] = set()
    for part in parts:
        for figures, every in published_for(published, part):
            points = [(level, value) for level, value in every if value > 0]
            metric = figures.metric if part.having(figures.metric) else ""
            ours = (
                [(level, estimate) for level, estimate in part.having(metric) if _is_number(estimate)] if metric else []
            )
            if len(ours) < 2 or len(points) < 2:
                continue
            common = next((level for level, _ in ours if level in dict(points)), None)
            levels |= {level for level, _ in [*ours, *points]}
            both = _normalised(
                part, figures, points, ours, common, len({trace["line"]["color"] for trace in data} - {"@second"})
            )
            data += both[: 1 if figures in shared else 2]
            if figures not in shared:
                shared.append(figures)
            sources.append(f"{figures.title} ({figures.metric})" + ("" if common is not None else ", no common level"))
    if not data:
        return
    _colour_published(data, len(shared))
    factor = parts[0].factor
    x = level_axis(factor, _sorted(levels))
    for trace in data:
        trace["x"] = [x.place(level) for level in trace["x"]]
        if x.categorical:
            trace["mode"] = "markers"
    layout = layout_of(height=340, top=12)
    layout["xaxis"] = x.figure(narrow=True)
    layout["yaxis"] |= {"title": {"text": "relative to the first common level"}, "rangemode": "tozero"}
    _log_if_wide(layout, [value for trace in data for value in trace["y"]])
    layout["margin"]["b"] = 92 + 18 * ((len(data) - 1) // 2)
    layout["height"] += 18 * ((len(data) - 1) // 2)
    about = (
        "Only the shape can be compared, the machines differ: both curves are divided by their value at the first "
        f"level that both have. Published: {'; '.join(dict.fromkeys(sources))}."
    )
    yield Panel("shape", "The published shape beside ours", about, {"data": data, "layout": layout})


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


def _normalised(
    part: Series,
    published: Published,
    points: Sequence[tuple[Level, float]],
    ours: Sequence[tuple[Level, Estimate]],
    common: Level | None,
    place: int,
) -> list[Figure]:
    base_ours = dict(ours)[common].value if common is not None else ours[0][1].value
    base_theirs = dict(points)[common] if common is not None else points[0][1]
    colour = COLOURS[place % len(COLOURS)]
    label = f", {part.label}" if part.label else ""
    factor = part.factor

    def drawn(
        lead: str, points: Sequence[tuple[Level, float, str]], base: float, line: Figure, symbol: object
    ) -> Figure:
        texts = [f"{lead}, {escape(with_unit(level, factor.unit))}: {value / base:.2f}<br>{escape(said)}"
                 for level, value, said in points]  # fmt: skip
        marker = {"color": line["color"], "size": 7, "symbol": symbol}
        made = markers(escape(f"{lead}{label}"), [], [value / base for _, value, _ in points], texts, marker)
        return made | {"mode": "lines+markers", "x": [level for level, _, _ in points], "line": line}

    symbols = [_symbol(part, level, published.metric, estimate, "circle") for level, estimate in ours]
    here = [(level, estimate.value, words.estimated(estimate)) for level, estimate in ours]
    there = [(level, value, units.quantity(value, published.unit)) for level, value in points]
    mine = drawn("here", here, base_ours, {"color": colour, "width": 2}, symbols)
    mine["error_y"] = error_bars([_ends(estimate, base_ours) for _, estimate in ours], colour, 1.2, 4)
    dashed = {"color": "@second", "width": 1.6, "dash": "dash"}
    theirs = drawn("published", there, base_theirs, dashed, "diamond-open")
    return [mine, theirs]


def _stacks(parts: Sequence[Series], x: LevelAxis) -> Iterable[Panel]:
    """Which cache answered the lookups, as parts of one whole."""
    for place, part in enumerate(parts[:_MOST_STACKS]):
        names = [name for name in dict.fromkeys(name for point in part.points for name in point.estimates)
                 if answered_by(name)]  # fmt: skip
        if not names:
            continue
        levels = [
            point.levels[part.factor.name] for point in part.points if any(name in point.estimates for name in names)
        ]
        data = [_layer(part, name, levels, x, colour) for name, colour in zip(names, cycle(_SHARE_COLOURS))]
        layout = layout_of(height=320, top=12) | {"barmode": "stack"}
        layout["xaxis"] = x.figure(narrow=True)
        layout["yaxis"] |= {"title": {"text": "lookups, %"}, "range": [0, 100]}
        label = f" ({part.label})" if part.label else ""
        yield Panel(f"caches-{place}", f"Which cache answered{label}", "", {"data": data, "layout": layout})


def _layer(part: Series, name: str, levels: Sequence[Level], x: LevelAxis, colour: str) -> Figure:
    shares, cache = dict(part.having(name)), escape(answered_by(name))
    values = [100 * shares[level].value if level in shares else None for level in levels]
    bar: Figure = {"type": "bar", "width": 0.5, "textposition": "none", "marker": {"color": colour}}
    area: Figure = {"type": "scatter", "mode": "lines", "stackgroup": "lookups",
                    "line": {"color": colour, "width": 1.5}, "fillcolor": colour}  # fmt: skip
    return (bar if x.categorical else area) | {
        "name": cache,
        "x": [x.place(level) for level in levels],
        "y": values,
        "text": [f"{cache} {'not counted' if value is None else units.share(value / 100)} "
                 f"at {escape(units.level(level))}" for value, level in zip(values, levels, strict=True)],
        "hovertemplate": "%{text}<extra></extra>",
    }  # fmt: skip


_TITLES: Final[Mapping[str, str]] = {
    "cycles": "What a packet costs",
    "share": "Shares",
    "ns": "Latency",
    "s": "Times",
    "count": "In the datapath",
    "bytes": "Memory",
    "1/s": "Rates",
    "fps": "Packet rates",
    "bit/s": "Bandwidth",
}
_ORDER: Final = ("cycles", "share", "ns", "s", "1/s", "bit/s", "fps", "count", "bytes")


def _others(curve: Curve, parts: Sequence[Series], x: LevelAxis) -> Iterable[Panel]:
    """Every other metric under the same x axis, one panel a unit; a metric for each panel where series are many."""
    shown = set(main_metrics(curve))
    by_unit: dict[str, list[str]] = {}
    for name in metric_names(curve):
        if not (name in shown or answered_by(name) or is_band(name)):
            unit = next(point.estimates[name].unit for point in curve.points if name in point.estimates)
            by_unit.setdefault(unit, []).append(name)
    ranked = sorted(by_unit, key=lambda unit: _ORDER.index(unit) if unit in _ORDER else len(_ORDER))
    for unit in ranked:
        names = by_unit[unit]
        groups = [names] if len(parts) == 1 else [[name] for name in names[:_MOST_STACKS]]
        for place, group in enumerate(groups):
            title = _TITLES.get(unit, unit) if len(group) > 1 else group[0]
            yield Panel(f"{_key(unit)}-{place}", title, "", _figure(parts, group, x, height=290))


def _key(unit: str) -> str:
    return "".join(letter for letter in unit if letter.isalnum()) or "other"


def overlaid(curves: Sequence[tuple[str, Curve]]) -> Panel | None:
    """The first metric of the same sweep in several runs, a line for each run and series; None if they share none."""
    metric = next(iter(main_metrics(curves[0][1])), "")
    parts = [
        replace(part, others={"run": run, **part.others})
        for run, curve in curves
        for part in series(curve)
        if part.having(metric)
    ]
    if len({part.others["run"] for part in parts}) < 2:
        return None
    levels = _sorted({point.levels[part.factor.name] for part in parts for point in part.points})
    figure = _figure(parts, (metric,), level_axis(parts[0].factor, levels), height=_MAIN_HEIGHT)
    curve = curves[0][1]
    return Panel(curve.group, f"{curve.title}: {metric} by {parts[0].factor.name}", "", figure)
