"""The plots as plotly figures: plain data, without colours of their own.

A colour is written as a word like `@accent`; the page puts in the colour of the
reader's theme (light, dark or paper). Formats: https://plotly.com/javascript/reference/.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape
from textwrap import wrap
from typing import Any, Final

from pinchpoint.model import units
from pinchpoint.model.result import LatencyPoint, Rate, RateStatus, ScenarioResult
from pinchpoint.model.trial import LatencySummary, Trial, TrialValidity
from pinchpoint.report import words

Figure = dict[str, Any]

SYMBOLS: Final[Mapping[TrialValidity, str]] = {
    TrialValidity.VALID: "circle",
    TrialValidity.GENERATOR_LIMITED: "triangle-up-open",
    TrialValidity.NOISY_HOST: "diamond-open",
    TrialValidity.COUNTER_MISMATCH: "square-open",
    TrialValidity.ABORTED: "x-thin",
}
_DASHES: Final = ("solid", "dash", "dot", "dashdot")
_MOST_NINES: Final = 7.0
_STRIP: Final = 0.2  # share of the plot's height for trials without loss, when others lost some
_LEAST_DECADES: Final = 3  # of an axis of loss ratios
_GAP: Final = 0.06  # between that strip and the rest
_NEAR: Final = 0.03  # how far the close-up reaches beyond the rates, relative to them
_PERCENTILES: Final = {0.0: "0", 0.5: "50", 0.9: "90", 0.99: "99", 0.999: "99.9",
                       0.9999: "99.99", 0.99999: "99.999", 0.999999: "99.9999"}  # fmt: skip


def loss_figure(result: ScenarioResult | None, trials: Sequence[Trial]) -> Figure:
    """Loss ratio against offered load, one marker a trial; trials without loss in a strip of their own.

    x: offered load in Mpps; y: loss ratio, logarithmic (y axis) or zero (y2 axis, where the
    height within the strip only keeps markers apart).
    """
    data = []
    for validity in TrialValidity:
        chosen = [trial for trial in trials if trial.validity is validity]
        lossy = [trial for trial in chosen if trial.lost > 0]
        clean = [trial for trial in chosen if trial.lost <= 0]
        data += [_markers(validity, part, axis) for part, axis in ((lossy, "y"), (clean, "y2")) if part]
    _name_each_validity_once(data)
    ratios = [trial.loss_ratio for trial in trials if trial.lost > 0]
    shapes, notes = _bands(result.rates if result else ())
    layout = layout_of(height=380 if ratios else 220, top=54 if notes else 12)
    layout["xaxis"] |= {"title": {"text": "offered load, Mpps"}, "anchor": "y2", "rangemode": "tozero"}
    if ratios:
        layout["yaxis"] |= loss_axis(ratios, _STRIP, 1)
    layout["yaxis2"] = no_loss_axis(0, _STRIP - _GAP if ratios else 1)
    layout |= {"shapes": shapes, "annotations": notes}
    return {"data": data, "layout": layout}


def close_up(layout: Figure, rates: Sequence[Rate]) -> Figure | None:
    """The layout of a loss figure around the rates; None when no rate has two bounds."""
    ends = words.bounds(rates)
    if not ends:
        return None
    low = min(lower for lower, _ in ends) * (1 - _NEAR) / 1e6
    high = max(upper for _, upper in ends) * (1 + _NEAR) / 1e6
    axis = layout["xaxis"] | {"range": [low, high], "title": {"text": "offered load near the rates, Mpps"}}
    return layout | {"xaxis": axis}


def latency_figure(points: Sequence[LatencyPoint]) -> Figure | None:
    """Latency percentiles, one line a load: x counts nines (1 is 90 %, 2 is 99 %), y microseconds. None without any."""
    return percentile_figure(
        [
            (f"{units.share(point.share)} of NDR, {units.fps(point.load_fps)}", point.latency)
            for point in points
            if point.latency is not None
        ]
    )


def percentile_figure(lines: Sequence[tuple[str, LatencySummary]]) -> Figure | None:
    """One line for each named distribution, as `latency_figure` draws them; None without any."""
    if not lines:
        return None
    data = [_percentiles(name, latency, place, len(lines)) for place, (name, latency) in enumerate(lines)]
    layout = layout_of(height=340, top=12)
    most = max((trace["x"][-1] for trace in data if trace["x"]), default=3.0)
    shown = {quantile: text for quantile, text in _PERCENTILES.items() if nines(quantile) <= most}
    layout["xaxis"] |= {
        "title": {"text": "percentile of frames, %"},
        "tickvals": [nines(quantile) for quantile in shown],
        "ticktext": list(shown.values()),
        "tickangle": 0,
        "anchor": "y",
    }
    ticks = one_two_five([value for trace in data for value in trace["y"]])
    layout["yaxis"] |= {"title": {"text": "one-way latency, us"}, "type": "log", "tickvals": ticks,
                        "ticktext": [f"{tick:,g}" for tick in ticks]}  # fmt: skip
    return {"data": data, "layout": layout}


def cache_line_figure(trials: Sequence[Trial]) -> Figure | None:
    """Distance of the engine's and the DUT's core by trial, in ns, before and after each; None if not known."""
    before = [trial.witness.cache_line_before_ns for trial in trials]
    after = [trial.witness.cache_line_after_ns for trial in trials]
    if all(value is None for value in (*before, *after)):
        return None
    data = [_probes("before the trial", "circle", trials, before), _probes("after it", "circle-open", trials, after)]
    layout = layout_of(height=230, top=12)
    step = max(1, math.ceil(len(trials) / 10))
    layout["xaxis"] |= {"title": {"text": "trial, in the order they ran"}, "anchor": "y", "dtick": step}
    layout["yaxis"] |= {"title": {"text": "one way, ns"}, "rangemode": "tozero"}
    return {"data": data, "layout": layout}


def nines(quantile: float) -> float:
    """-log10(1 - quantile), so 0.99 gives 2; at most 7, where 1.0 is put."""
    return _MOST_NINES if quantile >= 1 else min(_MOST_NINES, -math.log10(1 - quantile))


def account(trial: Trial) -> str:
    """The trial's account as plotly hover text (escaped, lines separated by <br>)."""
    lines = [
        f"<b>{escape(trial.id)}</b>, {escape(trial.phase)}, {words.VALIDITIES[trial.validity]}",
        f"intended {units.fps(trial.load_fps)}, offered {units.fps(trial.offered_fps)}",
        f"offered {units.frames(trial.offered)}, received {units.frames(trial.received)} frames",
        f"lost {units.frames(trial.lost)} ({units.loss(trial.loss_ratio)})",
    ]
    drops = [drop for hop in trial.ledger.hops for drop in hop.drops if drop.frames]
    lines += [f"  {units.frames(drop.frames)}: {escape(drop.name)}" for drop in drops]
    lines.append(f"unexplained {units.frames(trial.ledger.unexplained)}")
    return "<br>".join(lines) + remarks(trial.reason)


def remarks(*texts: str) -> str:
    """What is to be said below a hover text, each part on new lines in italics; empty ones are left out."""
    return "".join(f"<br><i>{'<br>'.join(escape(line) for line in wrap(text, 60))}</i>" for text in texts if text)


def markers(
    name: str, x: Sequence[float | str], y: Sequence[float | str | None], texts: Sequence[str], marker: Figure
) -> Figure:
    """A trace of markers, each with its text under the pointer; an outline of its colour if it has no other."""
    line = {"width": 1.8, "color": marker["color"]}
    return {"type": "scatter", "mode": "markers", "name": name, "x": list(x), "y": list(y), "text": list(texts),
            "hovertemplate": "%{text}<extra></extra>", "marker": {"line": line} | marker}  # fmt: skip


def error_bars(
    ends: Sequence[tuple[float, float, float]], colour: str, thickness: float = 1.4, width: int = 5
) -> Figure:
    """Bars from low to high round each value: (value, low, high) of each."""
    ups = [max(0.0, high - value) for value, _, high in ends]
    downs = [max(0.0, value - low) for value, low, _ in ends]
    return {"type": "data", "symmetric": False, "array": ups, "arrayminus": downs, "color": colour,
            "thickness": thickness, "width": width, "visible": any(ups) or any(downs)}  # fmt: skip


def _markers(validity: TrialValidity, trials: Sequence[Trial], axis: str) -> Figure:
    marker = {"symbol": SYMBOLS[validity], "size": 9, "color": f"@{validity.value}", "opacity": 0.85}
    loads = [trial.offered_fps / 1e6 for trial in trials]
    heights = [trial.loss_ratio for trial in trials] if axis == "y" else _apart(trials)
    return markers(words.VALIDITIES[validity], loads, heights, [account(trial) for trial in trials], marker) | {
        "meta": validity.value, "legendgroup": validity.value,
        "legendrank": 1 + list(TrialValidity).index(validity), "yaxis": axis,
    }  # fmt: skip


def _probes(name: str, symbol: str, trials: Sequence[Trial], values: Sequence[float | None]) -> Figure:
    probed = [
        (place, value, f"{escape(trial.id)}: {units.nanoseconds(value)}")
        for place, (trial, value) in enumerate(zip(trials, values, strict=True), 1)
        if value is not None
    ]
    marker = {"symbol": symbol, "size": 7, "color": "@accent", "line": {"width": 1.5}}
    return markers(name, [x for x, _, _ in probed], [y for _, y, _ in probed], [text for _, _, text in probed], marker)


def _name_each_validity_once(data: Sequence[Figure]) -> None:
    named = set()
    for trace in data:
        trace["showlegend"] = trace["name"] not in named
        named.add(trace["name"])


def _apart(trials: Sequence[Trial]) -> list[float]:
    """Heights in the strip of trials without loss; the golden ratio keeps neighbours apart."""
    return [round(1.2 * math.modf(0.618034 * place)[0] - 0.6, 3) for place in range(len(trials))]


def loss_axis(ratios: Sequence[float], low: float, high: float) -> Figure:
    """A logarithmic axis of loss ratios, three decades or more, between two heights of the plot (0..1)."""
    lowest = min((math.floor(math.log10(ratio)) for ratio in ratios if ratio > 0), default=-_LEAST_DECADES)
    decades = range(min(lowest, -_LEAST_DECADES), 1)
    return axis() | {
        "title": {"text": "loss ratio"}, "domain": [low, high], "type": "log", "range": [decades[0] - 0.15, 0.15],
        "tickvals": [10.0**decade for decade in decades],
        "ticktext": [units.loss(10.0**decade) for decade in decades],
    }  # fmt: skip


def no_loss_axis(low: float, high: float) -> Figure:
    """The axis of a strip for what lost nothing; heights in it have no meaning."""
    return axis() | {"domain": [low, high], "range": [-1, 1], "tickvals": [0], "ticktext": ["no loss"],
                     "fixedrange": True, "showgrid": False}  # fmt: skip


def _bands(rates: Sequence[Rate]) -> tuple[list[Figure], list[Figure]]:
    """Where NDR and PDR lie: a band between the bounds, a dashed line where there is no upper one."""
    shapes: list[Figure] = []
    notes: list[Figure] = []
    for place, rate in enumerate(rate for rate in rates if rate.lower_fps):
        colour = "@accent" if place == 0 else "@second"
        low = (rate.lower_fps or 0.0) / 1e6
        high = rate.upper_fps / 1e6 if rate.upper_fps else low
        across = {"xref": "x", "yref": "paper", "y0": 0, "y1": 1, "layer": "below"}
        dash = "dash" if rate.status is RateStatus.AT_LEAST else "solid"
        stroke = {"color": colour, "width": 1.5, "dash": dash}
        fill = {"fillcolor": colour, "opacity": 0.25, "line": {"width": 0}}
        band = {"type": "rect", "x0": low, "x1": high} | fill
        at = (rate.quoted_fps or rate.lower_fps or 0.0) / 1e6
        edge = {"type": "line", "x0": at, "x1": at, "line": stroke}
        shapes += [band | across] if rate.quoted_fps is None else [band | across, edge | across]
        notes.append(
            {
                "x": at, "xref": "x", "y": 1, "yref": "paper", "yshift": 4 + 16 * place, "showarrow": False,
                "xanchor": "auto", "yanchor": "bottom", "text": f"{rate.name}: {words.quoted(rate)}",
                "font": {"color": colour, "size": 12},
            }
        )  # fmt: skip
    return shapes, notes


def _percentiles(name: str, latency: LatencySummary, place: int, total: int) -> Figure:
    curve = _curve(latency)
    shades = {0: "@accent"} if total == 1 else {0: "@shade1", total - 1: "@accent"}
    return {
        "type": "scatter",
        "mode": "lines",
        "name": escape(name),
        "x": [nines(quantile) for quantile, _ in curve],
        "y": [value / 1e3 for _, value in curve],
        "text": [f"{quantile * 100:.7g} %: {units.nanoseconds(value)}" for quantile, value in curve],
        "hovertemplate": "%{text}<extra></extra>",
        "line": {"color": shades.get(place, "@shade2"), "width": 2, "dash": _DASHES[place % len(_DASHES)]},
    }


def _curve(latency: LatencySummary) -> tuple[tuple[float, int], ...]:
    """The points that can be drawn: no more nines than the count of frames supports."""
    named = ((0.0, latency.min_ns), (0.5, latency.p50_ns), (0.9, latency.p90_ns), (0.99, latency.p99_ns),
             (0.999, latency.p999_ns), (0.9999, latency.p9999_ns))  # fmt: skip
    limit = math.log10(max(latency.count, 10))
    return tuple((share, value) for share, value in latency.curve or named if nines(share) <= limit and value > 0)


def one_two_five(values: Sequence[float]) -> list[float]:
    """1, 2, 5, 10, 20 ... around the values; one a decade when they span more than three."""
    if not values:
        return []
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    digits = (1, 2, 5) if high - low <= 3 else (1,)
    return [float(f"{digit}e{decade}") for decade in range(low, high + 1) for digit in digits]


def axis() -> Figure:
    """An axis in the theme's colours."""
    return {"gridcolor": "@grid", "linecolor": "@line", "zeroline": False, "showline": True, "automargin": True,
            "ticks": "outside", "tickcolor": "@line"}  # fmt: skip


def layout_of(height: int, top: int) -> Figure:
    """A plot in the theme's colours; height and upper margin in pixels."""
    return {
        "height": height,
        "margin": {"l": 64, "r": 18, "t": top, "b": 88},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "@ink", "size": 12, "family": "@font"},
        "hoverlabel": {"bgcolor": "@paper", "bordercolor": "@line", "align": "left",
                       "font": {"color": "@ink", "size": 12, "family": "@font"}},
        "legend": {"orientation": "h", "x": 0, "y": 0, "yref": "container", "yanchor": "bottom"},
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "@muted", "activecolor": "@accent"},
        "hovermode": "closest",
        "dragmode": "zoom",
        "xaxis": axis(),
        "yaxis": axis(),
    }  # fmt: skip
