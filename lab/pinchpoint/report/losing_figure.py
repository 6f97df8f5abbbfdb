"""The loss curve: the share of the trials that lose, over the offered load."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from statistics import median
from typing import Final

from pinchpoint.model import units
from pinchpoint.model.result import Rate, ScenarioResult
from pinchpoint.model.trial import Trial
from pinchpoint.report.axes import value_axis
from pinchpoint.report.figures import Figure, error_bars, layout_of, markers

_PHASES: Final = ("search", "mrr")
_FEWEST: Final = 8  # trials of a point of the curve
_NARROW, _WIDE = 1.015, 1.12  # of its lowest load: a point goes so far, and no farther
_SURE: Final = 1.96  # standard deviations of a 95 % interval


@dataclass(frozen=True)
class Point:
    """Trials of neighbouring loads."""

    load_fps: float  # offered, median
    losing: int
    trials: int

    @property
    def share(self) -> float:
        """Of the trials that lose."""
        return self.losing / self.trials

    @property
    def interval(self) -> tuple[float, float]:
        """Of that share, 95 %, binomial (Wilson 1927)."""
        squared = _SURE**2 / self.trials
        centre = (self.share + squared / 2) / (1 + squared)
        half = math.sqrt(self.share * (1 - self.share) * squared + squared**2 / 4) / (1 + squared)
        return max(0.0, centre - half), min(1.0, centre + half)


def usable(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that a rate rests on, and those of the MRR."""
    return [trial for trial in trials if trial.phase in _PHASES and trial.is_usable and trial.burst_frames is None]


def points(trials: Sequence[Trial], loss_ratio: float) -> list[Point]:
    """The curve's points, by load; each has eight trials or more, where loads lie near enough."""
    groups: list[list[Trial]] = []
    for trial in sorted(trials, key=lambda trial: trial.offered_fps):
        lowest = groups[-1][0].offered_fps if groups else 0.0
        reach = _NARROW if groups and len(groups[-1]) >= _FEWEST else _WIDE
        if groups and trial.offered_fps <= reach * lowest:
            groups[-1].append(trial)
        else:
            groups.append([trial])
    return [
        Point(
            median(trial.offered_fps for trial in group),
            sum(trial.loss_ratio > loss_ratio for trial in group),
            len(group),
        )
        for group in groups
    ]


def losing_figure(result: ScenarioResult | None, trials: Sequence[Trial]) -> Figure | None:
    """The loss curve of the first rate; None of fewer than eight usable trials, or without a rate.

    x: offered load, linear; y: share of the trials that lose more than the rate's ratio. Markers are points with their
    binomial intervals, ticks at 0 and 1 single trials, the shaded range is the band, lines are the rate and the MRR.
    """
    rate = result.rates[0] if result and result.rates else None
    tried = usable(trials)
    if rate is None or len(tried) < _FEWEST:
        return None
    curve = points(tried, rate.loss_ratio)
    x = value_axis("fps", [trial.offered_fps for trial in tried])
    shares = [point.share for point in curve]
    marker = {"symbol": "circle", "size": 8, "color": "@accent"}
    ends = [(point.share, *point.interval) for point in curve]
    loads = [point.load_fps / x.divisor for point in curve]
    drawn = markers("share of the trials that lose, 95 % binomial", loads, shares, list(map(_told, curve)), marker)
    drawn |= {"mode": "lines+markers", "line": {"color": "@accent", "width": 1.2},
              "error_y": error_bars(ends, "@accent")}  # fmt: skip
    losing = [trial for trial in tried if trial.loss_ratio > rate.loss_ratio]
    keeping = [trial for trial in tried if trial.loss_ratio <= rate.loss_ratio]
    data = [
        drawn,
        _ticks("a trial that loses", 1.0, "@bad", losing, x.divisor),
        _ticks("a trial that does not", 0.0, "@valid", keeping, x.divisor),
    ]
    mrr = result.mrr if result else None
    shapes, notes = _marks(rate, mrr.estimate_fps if mrr else None, x.divisor)
    layout = layout_of(height=360, top=54)
    layout["xaxis"] |= {"title": {"text": f"offered load, {x.label}"}, "anchor": "y", "rangemode": "tozero"}
    ticks = {"tickvals": [0, 0.1, 0.5, 0.9, 1], "ticktext": ["0", "10 %", "50 %", "90 %", "100 %"]}
    layout["yaxis"] |= ticks | {"title": {"text": "share of the trials"}, "range": [-0.06, 1.06]}
    layout |= {"shapes": shapes, "annotations": notes}
    return {"data": [trace for trace in data if trace["x"]], "layout": layout}


def _told(point: Point) -> str:
    low, high = point.interval
    return (
        f"<b>{point.losing} of {point.trials} trials lose</b> near {escape(units.fps(point.load_fps))}"
        f"<br>{units.share(point.share)}, 95 % {units.share(low)} to {units.share(high)}"
    )


def _ticks(name: str, at: float, colour: str, trials: Sequence[Trial], divisor: float) -> Figure:
    marker = {"symbol": "line-ns", "size": 9, "color": colour, "line": {"width": 1.3, "color": colour}}
    texts = [
        f"<b>{escape(trial.id)}</b>: {units.fps(trial.offered_fps)}, lost {units.loss(trial.loss_ratio)}"
        for trial in trials
    ]
    loads = [trial.offered_fps / divisor for trial in trials]
    return markers(name, loads, [at] * len(trials), texts, marker) | {"cliponaxis": False}


def _marks(rate: Rate, mrr_fps: float | None, divisor: float) -> tuple[list[Figure], list[Figure]]:
    """The band, the rate and the MRR."""
    upright: Figure = {"xref": "x", "yref": "paper", "y0": 0, "y1": 1, "layer": "below"}
    shapes: list[Figure] = []
    if rate.band:
        ends = {"x0": rate.band.low_fps / divisor, "x1": rate.band.high_fps / divisor}
        shapes.append(upright | ends | {"type": "rect", "fillcolor": "@shade1", "opacity": 0.35, "line": {"width": 0}})
    notes = []
    named = ((rate.name, rate.quoted_fps, "@accent", "solid", 0), ("MRR", mrr_fps, "@second", "dash", 1))
    for name, fps, colour, dash, place in named:
        if fps is None:
            continue
        at = fps / divisor
        shapes.append(
            upright | {"type": "line", "x0": at, "x1": at, "line": {"color": colour, "width": 1.5, "dash": dash}}
        )
        notes.append({
            "x": at, "xref": "x", "y": 1, "yref": "paper", "yshift": 4 + 16 * place, "showarrow": False,
            "xanchor": "auto", "yanchor": "bottom", "text": f"{name} {units.fps(fps)}",
            "font": {"color": colour, "size": 12},
        })  # fmt: skip
    return shapes, notes
