"""What every plot is made of, as plotly figures: plain data, without colours of its own.

A colour is written as a word like `@accent`; the page puts in the colour of the
reader's theme (light, dark or paper). Formats: https://plotly.com/javascript/reference/.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import Any, Final

from pinchpoint.model import units
from pinchpoint.model.measurement import Interval
from pinchpoint.model.scenario import Factor, Level
from pinchpoint.model.trial import Trial, TrialValidity

Figure = dict[str, Any]
Point = tuple[Any, Any, str]  # x, y and what the pointer shows

SYMBOLS: Final[Mapping[TrialValidity, str]] = {
    TrialValidity.VALID: "circle", TrialValidity.GENERATOR_LIMITED: "triangle-up-open",
    TrialValidity.NOISY_HOST: "diamond-open", TrialValidity.COUNTER_MISMATCH: "square-open",
    TrialValidity.CHANGED: "pentagon-open", TrialValidity.ABORTED: "x-thin",
}  # fmt: skip
COLOURS: Final = ("@s0", "@s1", "@s2", "@s3", "@s4", "@s5")
"""Of lines that differ in nothing but what they are of."""
SHAPES: Final = ("circle", "square", "diamond", "cross", "star", "hexagon")
_WHOLE: Final[Mapping[str, Figure]] = {
    "x": {"xref": "x", "yref": "paper", "y0": 0, "y1": 1},
    "y": {"xref": "paper", "x0": 0, "x1": 1, "yref": "y"},
}
_LEAST_DECADES: Final = 3  # of an axis of loss ratios
_LOG_FROM: Final = 20.0  # largest over smallest level
_ZERO_BELOW: Final = 4.0  # on a logarithmic axis 0 stands this far left of the smallest other level
_NARROWEST: Final = 0.085  # of the axis, between two ticks with text


def figure(
    data: Sequence[Figure], height: int, top: int, x: Figure, y: Figure, bottom: int = 88, left: int = 64, **layout: Any
) -> Figure:
    """A plot of the traces that have points, in the theme's colours; height and margins in pixels.

    `layout`: its further axes, shapes and so on.
    """
    text = {"color": "@ink", "size": 12, "family": "@font"}
    common = {
        "height": height,
        "margin": {"l": left, "r": 18, "t": top, "b": bottom},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": text,
        "hoverlabel": {"bgcolor": "@paper", "bordercolor": "@line", "align": "left", "font": text},
        "legend": {"orientation": "h", "x": 0, "y": 0, "yref": "container", "yanchor": "bottom"},
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "@muted", "activecolor": "@accent"},
        "hovermode": "closest",
        "dragmode": "zoom",
        "xaxis": x,
        "yaxis": y,
    }
    return {"data": [trace for trace in data if trace["x"]], "layout": common | layout}


def axis(title: str = "", **more: Any) -> Figure:
    """An axis in the theme's colours."""
    named = {"title": {"text": title}} if title else {}
    return {"gridcolor": "@grid", "linecolor": "@line", "zeroline": False, "showline": True, "automargin": True,
            "ticks": "outside", "tickcolor": "@line"} | named | more  # fmt: skip


def loss_axis(ratios: Sequence[float], low: float, high: float) -> Figure:
    """A logarithmic axis of loss ratios, three decades or more, between two heights of the plot (0..1)."""
    lowest = min((math.floor(math.log10(ratio)) for ratio in ratios if ratio > 0), default=-_LEAST_DECADES)
    decades = range(min(lowest, -_LEAST_DECADES), 1)
    ticks = [10.0**decade for decade in decades]
    return axis("loss ratio", domain=[low, high], type="log", range=[decades[0] - 0.15, 0.15], tickvals=ticks,
                ticktext=[units.loss(tick) for tick in ticks])  # fmt: skip


def no_loss_axis(low: float, high: float) -> Figure:
    """The axis of a strip for what lost nothing; heights in it have no meaning."""
    return axis(domain=[low, high], range=[-1, 1], tickvals=[0], ticktext=["no loss"], fixedrange=True, showgrid=False)


def markers(name: str, points: Sequence[Point], marker: Figure, **more: Any) -> Figure:
    """A trace of markers, each with its text under the pointer; an outline of its colour if it has no other."""
    outlined = {"line": {"width": 1.8, "color": marker["color"]}} | marker
    trace = {"type": "scatter", "mode": "markers", "name": name, "x": [x for x, _, _ in points],
             "y": [y for _, y, _ in points], "text": [text for _, _, text in points],
             "hovertemplate": "%{text}<extra></extra>", "marker": outlined}  # fmt: skip
    return trace | more


def line(name: str, points: Sequence[tuple[Any, Any]], style: Figure, **more: Any) -> Figure:
    """A trace without markers; `style` is its colour, width and so on."""
    x, y = [x for x, _ in points], [y for _, y in points]
    return {"type": "scatter", "mode": "lines", "name": name, "x": x, "y": y, "line": style} | more


def bars(name: str, x: Sequence[Any], y: Sequence[Any], texts: Sequence[str], colour: str, **more: Any) -> Figure:
    """A trace of bars, each with its text under the pointer."""
    trace = {"type": "bar", "name": name, "x": x, "y": y, "text": texts, "textposition": "none",
             "hovertemplate": "%{text}<extra></extra>", "marker": {"color": colour}}  # fmt: skip
    return trace | more


def error_bars(intervals: Sequence[Interval], colour: str, thickness: float = 1.4, width: int = 5) -> Figure:
    """Bars from low to high round each value; none towards an open end."""
    closed = [interval.closed for interval in intervals]
    ups = [max(0.0, interval.high - interval.value) for interval in closed]
    downs = [max(0.0, interval.value - interval.low) for interval in closed]
    return {"type": "data", "symmetric": False, "array": ups, "arrayminus": downs, "color": colour,
            "thickness": thickness, "width": width, "visible": any(ups) or any(downs)}  # fmt: skip


def line_at(along: str, at: float, colour: str, width: float = 1.5, dash: str = "solid", **more: Any) -> Figure:
    """A straight line over the whole plot at one place of the axis `along`, "x" or "y"."""
    line = {"color": colour, "width": width, "dash": dash}
    return {"type": "line", f"{along}0": at, f"{along}1": at, "line": line} | _WHOLE[along] | more


def shaded(along: str, low: float, high: float, colour: str, opacity: float) -> Figure:
    """The plot behind a range of one axis, shaded."""
    fill = {"fillcolor": colour, "opacity": opacity, "line": {"width": 0}, "layer": "below"}
    return {"type": "rect", f"{along}0": low, f"{along}1": high} | fill | _WHOLE[along]


def note_above(at: float, text: str, colour: str, place: int = 0) -> Figure:
    """Words above the plot at a place of its x axis; `place` counts lines upwards."""
    return {"x": at, "xref": "x", "y": 1, "yref": "paper", "yshift": 4 + 16 * place, "showarrow": False,
            "xanchor": "auto", "yanchor": "bottom", "text": text, "font": {"color": colour, "size": 12}}  # fmt: skip


def account(trial: Trial) -> str:
    """The trial's account as plotly hover text (escaped, lines separated by <br>)."""
    lines = [
        f"<b>{escape(trial.id)}</b>, {escape(trial.phase)}, {trial.validity.words}",
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


@dataclass(frozen=True)
class LevelAxis:
    """Where each level of a factor stands on the x axis."""

    factor: Factor
    levels: tuple[Level, ...]  # those that are drawn, in order
    log: bool
    places: tuple[float, ...]  # x of each level

    @property
    def categorical(self) -> bool:
        """Whether levels are words: between two of them is nothing that a line could run through."""
        return any(isinstance(level, str | bool) for level in self.levels)

    def place(self, level: Level) -> float:
        """X of a level that is drawn."""
        return self.places[self.levels.index(level)]

    def figure(self, narrow: bool = False) -> Figure:
        """The axis for plotly; ticks stand at the levels themselves, as many as have room."""
        drawn = [math.log10(place) if self.log else place for place in self.places]
        ticks = self._ticks(drawn, _NARROWEST * (2 if narrow else 1))
        margin = (max(drawn) - min(drawn)) * 0.05 or 0.5
        title = escape(self.factor.name + (f", {self.factor.unit}" if self.factor.unit else ""))
        values = [self.places[place] for place in ticks]
        texts = [escape(units.level(self.levels[place])) for place in ticks]
        kind, ends = "log" if self.log else "linear", [min(drawn) - margin, max(drawn) + margin]
        return axis(title, type=kind, tickvals=values, ticktext=texts, range=ends, anchor="y")

    def _ticks(self, drawn: Sequence[float], least: float) -> list[int]:
        """Indexes of levels whose text has room, the last one always among them."""
        span = (max(drawn) - min(drawn)) or 1.0
        shown = [len(drawn) - 1]
        for place in range(len(drawn) - 2, -1, -1):
            room = (drawn[shown[-1]] - drawn[place]) / span
            widest = max(len(units.level(self.levels[index])) for index in (place, shown[-1]))
            if room >= least * max(1.0, widest / 6):
                shown.append(place)
        return sorted(shown)


def level_axis(factor: Factor, levels: Sequence[Level]) -> LevelAxis:
    """Levels at their value, logarithmic where they span decades; words one beside the other."""
    shown = tuple(levels)
    numbers = [float(level) for level in shown if not isinstance(level, str | bool)]
    if len(numbers) < len(shown) or len(set(numbers)) < len(numbers) or min(numbers, default=0.0) < 0:
        return LevelAxis(factor, shown, log=False, places=tuple(float(place) for place in range(len(shown))))
    positive = [number for number in numbers if number > 0]
    log = len(positive) > 1 and max(positive) / min(positive) >= _LOG_FROM
    zero = min(positive) / _ZERO_BELOW if log else 0.0
    return LevelAxis(factor, shown, log, places=tuple(number or zero for number in numbers))


def value_axis(unit: str, values: Sequence[float], step: units.Step | None = None) -> units.Step:
    """The unit in which the largest value is at least 1; or that of `step`, which the page has for all."""
    return step or units.step_of(max(map(abs, values), default=0.0), unit)
