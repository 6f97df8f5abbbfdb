"""What was lost, at which load or in which burst: of single trials, and of trials of neighbouring loads."""

import math
from collections.abc import Sequence
from html import escape
from statistics import median
from typing import Final

from pinchpoint.model import units
from pinchpoint.model.measurement import NORMAL, BurstResult, Interval, LossPoint
from pinchpoint.model.result import LossShare, Rate, RateStatus, ScenarioResult
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.report import plot, words
from pinchpoint.report.plot import Figure

_STRIP: Final = 0.2  # share of the plot's height for trials without loss, when others lost some
_GAP: Final = 0.06  # between that strip and the rest
_NEAR: Final = 0.03  # how far the close-up reaches beyond the rates, relative to them
_FORWARDED: Final = (0.56, 1.0)  # heights of the loss curve's three parts, from the bottom 0 to the top 1
_LOSS: Final = (0.14, 0.5)
_NONE: Final = (0.0, 0.1)
_OUTCOMES: Final = (
    ("lost nothing", "circle", "@accent"),
    ("lost frames", "x-thin", "@second"),
    ("discarded", "diamond-open", "@noisy_host"),
)
_PHASES: Final = ("search", "mrr")
_FEWEST: Final = 8  # trials of a point of the curve
_NARROW, _WIDE = 1.015, 1.12  # of its lowest load: a point goes so far, and no farther


def loss_figure(result: ScenarioResult | None, trials: Sequence[Trial], step: units.Step | None = None) -> Figure:
    """Loss ratio against offered load, one marker a trial; trials without loss in a strip of their own.

    x: offered load; y: loss ratio, logarithmic (y axis) or zero (y2 axis, where the
    height within the strip only keeps markers apart).
    """
    data: list[Figure] = []
    load = plot.value_axis("fps", [trial.offered_fps for trial in trials], step)
    for validity in TrialValidity:
        chosen = [trial for trial in trials if trial.validity is validity]
        lossy, clean = [trial for trial in chosen if trial.lost > 0], [trial for trial in chosen if trial.lost <= 0]
        shown = [(part, y) for part, y in ((lossy, "y"), (clean, "y2")) if part]
        made = (_trials(validity, part, y, load.divisor) for part, y in shown)
        data += [trace | {"showlegend": not place} for place, trace in enumerate(made)]
    ratios = [trial.loss_ratio for trial in trials if trial.lost > 0]
    shapes, notes = _rates(result.rates if result else (), load.divisor, step)
    x = plot.axis(f"offered load, {load.label}", anchor="y2", rangemode="tozero")
    y = plot.loss_axis(ratios, _STRIP, 1) if ratios else plot.axis()
    strip = plot.no_loss_axis(0, _STRIP - _GAP if ratios else 1)
    height, top = 380 if ratios else 220, 54 if notes else 12
    return plot.figure(data, height, top, x, y, yaxis2=strip, shapes=shapes, annotations=notes)


def close_up(
    layout: Figure, rates: Sequence[Rate], trials: Sequence[Trial], step: units.Step | None = None
) -> Figure | None:
    """The layout of a loss figure of these trials around the rates; None when no rate has two bounds."""
    ends = words.around(rates, _NEAR)
    if ends is None:
        return None
    load = plot.value_axis("fps", [trial.offered_fps for trial in trials], step)
    title = f"offered load near the rates, {load.label}"
    near = {"range": [end / load.divisor for end in ends], "title": {"text": title}}
    return layout | {"xaxis": layout["xaxis"] | near}


def _trials(validity: TrialValidity, trials: Sequence[Trial], y: str, divisor: float) -> Figure:
    """Heights in the strip of trials without loss say nothing; the golden ratio keeps neighbours apart."""
    marker = {"symbol": plot.SYMBOLS[validity], "size": 9, "color": f"@{validity.value}", "opacity": 0.85}
    apart = [round(1.2 * math.modf(0.618034 * place)[0] - 0.6, 3) for place in range(len(trials))]
    heights = [trial.loss_ratio for trial in trials] if y == "y" else apart
    points = [(trial.offered_fps / divisor, height, plot.account(trial))
              for trial, height in zip(trials, heights, strict=True)]  # fmt: skip
    rank = 1 + list(TrialValidity).index(validity)
    return plot.markers(validity.words, points, marker, meta=validity.value, legendgroup=validity.value,
                        legendrank=rank, yaxis=y)  # fmt: skip


def _rates(rates: Sequence[Rate], divisor: float, step: units.Step | None) -> tuple[list[Figure], list[Figure]]:
    """Where NDR and PDR lie: a band between the bounds, a dashed line where there is no upper one."""
    shapes: list[Figure] = []
    notes: list[Figure] = []
    for place, rate in enumerate(rate for rate in rates if rate.lower_fps):
        colour = "@accent" if place == 0 else "@second"
        low = (rate.lower_fps or 0.0) / divisor
        at = (rate.quoted_fps or rate.lower_fps or 0.0) / divisor
        shapes.append(plot.shaded("x", low, rate.upper_fps / divisor if rate.upper_fps else low, colour, 0.25))
        if rate.quoted_fps is not None:
            dash = "dash" if rate.status is RateStatus.AT_LEAST else "solid"
            shapes.append(plot.line_at("x", at, colour, dash=dash, layer="below"))
        notes.append(plot.note_above(at, f"{rate.name}: {words.quoted(rate, step)}", colour, place))
    return shapes, notes


def interval(point: LossShare) -> Interval:
    """Its share, 95 %, binomial (Wilson 1927)."""
    squared = NORMAL**2 / point.trials
    centre = (point.share + squared / 2) / (1 + squared)
    half = math.sqrt(point.share * (1 - point.share) * squared + squared**2 / 4) / (1 + squared)
    return Interval(point.share, max(0.0, centre - half), min(1.0, centre + half))


def usable(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that a rate rests on, and those of the MRR."""
    return [trial for trial in trials if trial.phase in _PHASES and trial.is_usable and trial.burst_frames is None]


def points(trials: Sequence[Trial], loss_ratio: float) -> list[LossShare]:
    """The curve's points, by load; each has eight trials or more, where loads lie near enough."""
    groups: list[list[Trial]] = []
    for trial in sorted(trials, key=lambda trial: trial.offered_fps):
        reach = _NARROW if groups and len(groups[-1]) >= _FEWEST else _WIDE
        if groups and trial.offered_fps <= reach * groups[-1][0].offered_fps:
            groups[-1].append(trial)
        else:
            groups.append([trial])
    return [_point(group, loss_ratio) for group in groups]


def _point(group: Sequence[Trial], loss_ratio: float) -> LossShare:
    losing = sum(trial.loss_ratio > loss_ratio for trial in group)
    return LossShare(median(trial.offered_fps for trial in group), losing, len(group))


def losing_figure(
    result: ScenarioResult | None, trials: Sequence[Trial], step: units.Step | None = None
) -> Figure | None:
    """The loss curve of the first rate; None of fewer than eight usable trials, or without a rate.

    x: offered load, linear; y: share of the trials that lose more than the rate's ratio. Markers are points with their
    binomial intervals, ticks at 0 and 1 single trials, the shaded range is the band, lines are the rate and the MRR.
    """
    tried = usable(trials)
    if result is None or not result.rates or len(tried) < _FEWEST:
        return None
    rate = result.rates[0]
    curve = points(tried, rate.loss_ratio)
    x = plot.value_axis("fps", [trial.offered_fps for trial in tried], step)
    near = [(point.load_fps / x.divisor, point.share, _near(point)) for point in curve]
    shares = plot.markers("share of the trials that lose, 95 % binomial", near, {"size": 8, "color": "@accent"})
    bars = plot.error_bars([interval(point) for point in curve], "@accent")
    shares |= {"mode": "lines+markers", "line": {"color": "@accent", "width": 1.2}, "error_y": bars}
    losing = [trial for trial in tried if trial.loss_ratio > rate.loss_ratio]
    keeping = [trial for trial in tried if trial.loss_ratio <= rate.loss_ratio]
    data = [shares, _ticks("a trial that loses", 1.0, "@bad", losing, x.divisor)]
    data.append(_ticks("a trial that does not", 0.0, "@valid", keeping, x.divisor))
    shapes, notes = list[Figure](), list[Figure]()
    if rate.band:
        shapes.append(plot.shaded("x", rate.band.low_fps / x.divisor, rate.band.high_fps / x.divisor, "@shade1", 0.35))
    mrr_fps = result.mrr.estimate_fps if result.mrr else None
    named = ((rate.name, rate.quoted_fps, "@accent", "solid"), ("MRR", mrr_fps, "@second", "dash"))
    for place, (name, fps, colour, dash) in enumerate(named):
        if fps is not None:
            shapes.append(plot.line_at("x", fps / x.divisor, colour, dash=dash, layer="below"))
            notes.append(plot.note_above(fps / x.divisor, f"{name} {units.fps(fps, step)}", colour, place))
    loads = plot.axis(f"offered load, {x.label}", anchor="y", rangemode="tozero")
    y = plot.axis("share of the trials", range=[-0.06, 1.06], tickvals=[0, 0.1, 0.5, 0.9, 1],
                  ticktext=["0", "10 %", "50 %", "90 %", "100 %"])  # fmt: skip
    return plot.figure(data, 360, 54, loads, y, shapes=shapes, annotations=notes)


def _near(point: LossShare) -> str:
    share, low, high = map(units.share, interval(point).figures)
    lost = f"<b>{point.losing} of {point.trials} trials lose</b> near {escape(units.fps(point.load_fps))}"
    return f"{lost}<br>{share}, 95 % {low} to {high}"


def _ticks(name: str, at: float, colour: str, trials: Sequence[Trial], divisor: float) -> Figure:
    marker = {"symbol": "line-ns", "size": 9, "color": colour, "line": {"width": 1.3, "color": colour}}
    points = []
    for trial in trials:
        told = f"<b>{escape(trial.id)}</b>: {units.fps(trial.offered_fps)}, lost {units.loss(trial.loss_ratio)}"
        points.append((trial.offered_fps / divisor, at, told))
    return plot.markers(name, points, marker, cliponaxis=False)


def burst_figure(result: BurstResult, trials: Sequence[Trial]) -> Figure:
    """Burst length by test: each burst that was sent, and the longest without loss. x: test; y: frames."""
    known = {trial.id: trial for trial in trials}
    tested = [(number, trial_id) for number, test in enumerate(result.tests, 1) for trial_id in test.trial_ids]
    sent = [(number, known[trial_id]) for number, trial_id in tested if trial_id in known]
    stairs = plot.line("longest without loss", [(number, test.longest) for number, test in enumerate(result.tests, 1)],
                       {"color": "@accent", "width": 2, "shape": "hvh"}, hoverinfo="skip")  # fmt: skip
    note = plot.note_above(1, f"average {units.number(round(result.average))} frames", "@accent")
    note |= {"xref": "paper", "xanchor": "right", "y": result.average, "yref": "y", "yshift": 0}
    x = plot.axis("test, in the order they were made", anchor="y", rangemode="tozero")
    y = plot.axis("burst length, frames", rangemode="tozero", tickformat=",d")
    data = [*(_bursts(*outcome, sent) for outcome in _OUTCOMES), stairs]
    average = plot.line_at("y", result.average, "@accent", 1, "dash")
    return plot.figure(data, 340, 26, x, y, shapes=[average], annotations=[note])


def _bursts(name: str, symbol: str, colour: str, sent: Sequence[tuple[int, Trial]]) -> Figure:
    marker = {"symbol": symbol, "size": 7, "color": colour, "opacity": 0.8, "line": {"width": 1.5, "color": colour}}
    own = [(number, trial, trial.burst_frames) for number, trial in sent if _outcome(trial) == name]
    points = [(number, frames, f"burst of {units.frames(frames)} frames<br>{plot.account(trial)}")
              for number, trial, frames in own]  # fmt: skip
    return plot.markers(name, points, marker)


def _outcome(trial: Trial) -> str:
    if trial.validity is not TrialValidity.VALID:
        return "discarded"
    return "lost frames" if trial.lost > 0 else "lost nothing"


def loss_curve_figure(points: Sequence[LossPoint], step: units.Step | None = None) -> Figure:
    """Forwarded rate above, loss below, against offered load; loads that were not offered are a shaded range.

    x: offered load; y: forwarded rate; y2: loss ratio, logarithmic; y3: a strip for no loss.
    Bars are the intervals of the points.
    """
    judged = sorted((point for point in points if point.loss is not None), key=lambda point: point.offered_fps)
    unit = plot.value_axis("fps", [point.load_fps for point in points], step)
    lossy = [point for point in judged if point.loss]
    clean = [point for point in judged if not point.loss]
    ratios = [ratio or 0.0 for point in lossy for ratio in (point.loss_low or point.loss, point.loss)]
    losses = plot.loss_axis(ratios, *_LOSS)
    least = losses["tickvals"][0]  # a lower end of zero is drawn to the end of the logarithmic axis
    lost = [Interval(point.loss or 0.0, max(point.loss_low or 0.0, least), point.loss_high or 0.0) for point in lossy]
    rates = [(point.forwarded_fps, point.forwarded_low, point.forwarded_high) for point in judged]
    scale = unit.divisor
    forwarded = [Interval(fps or 0.0, low or 0.0, high or 0.0) / scale for fps, low, high in rates]
    most = [0.0, judged[-1].offered_fps / scale] if judged else []
    everything = plot.line("all of it forwarded", list(zip(most, most, strict=True)),
                           {"color": "@second", "width": 1, "dash": "dot"}, yaxis="y", hoverinfo="skip")  # fmt: skip
    none = _curve("no loss", clean, "y3", [Interval(0.0)] * len(clean), scale)
    none["marker"] |= {"symbol": ["circle" if point.lossless else "circle-open" for point in clean]}
    none |= {"mode": "markers", "showlegend": False}
    both = _curve("forwarded", judged, "y", forwarded, scale), _curve("loss", lossy, "y2", lost, scale)
    data = [everything, *both, none]
    x = plot.axis(f"offered load, {unit.label}", anchor="y3", rangemode="tozero")
    y = plot.axis(f"forwarded, {unit.label}", rangemode="tozero", domain=list(_FORWARDED))
    other: Figure = {"yaxis2": losses, "yaxis3": plot.no_loss_axis(*_NONE)} | _not_offered(points, judged, scale)
    return plot.figure(data, 520, 34, x, y, **other)


def _curve(name: str, points: Sequence[LossPoint], y: str, values: Sequence[Interval], divisor: float) -> Figure:
    colour = "@accent" if y == "y" else "@s1"
    placed = [(point.offered_fps / divisor, bar.value, _load(point))
              for point, bar in zip(points, values, strict=True)]  # fmt: skip
    drawn = plot.markers(name, placed, {"color": colour, "size": 8}, yaxis=y, line={"color": colour, "width": 2})
    return drawn | {"mode": "lines+markers", "error_y": plot.error_bars(values, colour)}


def _load(point: LossPoint) -> str:
    lost, low, high = (units.loss(ratio or 0.0) for ratio in (point.loss, point.loss_low, point.loss_high))
    lines = [
        f"<b>{units.share(point.share)} load</b>",
        f"intended {units.fps(point.load_fps)}, offered {units.fps(point.offered_fps)}",
        f"forwarded {units.fps(point.forwarded_fps)}",
        f"lost {lost} ({low} to {high})",
        escape(point.interval),
    ]  # fmt: skip
    if not point.loss and not point.lossless:
        lines.append("but not in every trial")
    return "<br>".join([*lines, *([f"<i>{escape(point.reason)}</i>"] if point.reason else [])])


def _not_offered(points: Sequence[LossPoint], judged: Sequence[LossPoint], divisor: float) -> Figure:
    """The range of intended loads that the generator did not offer: the DUT has no point there."""
    limited = [point for point in points if point.generator_limited]
    if not limited:
        return {}
    highest = max((point.load_fps for point in judged), default=0.0)
    lowest = max(highest, min(point.offered_fps for point in limited))
    low, high = lowest / divisor, limited[0].load_fps / divisor
    note = plot.note_above(high, "not offered: the generator's limit", "@generator_limited")
    shape = plot.shaded("x", low, high, "@generator_limited", 0.12)
    return {"shapes": [shape], "annotations": [note | {"xanchor": "right", "yshift": 0}]}
