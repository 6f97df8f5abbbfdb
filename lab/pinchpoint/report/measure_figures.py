"""The figures of the measures burst and loss_curve, in the form of `figures`."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import Final

from pinchpoint.model import units
from pinchpoint.model.measurement import BurstResult, LossPoint, Measurement
from pinchpoint.model.result import ScenarioResult
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.report import words
from pinchpoint.report.figures import (
    SYMBOLS,
    Figure,
    account,
    error_bars,
    layout_of,
    loss_axis,
    markers,
    no_loss_axis,
    remarks,
)

_FORWARDED: Final = (0.56, 1.0)  # heights of the loss curve's three parts, from the bottom 0 to the top 1
_LOSS: Final = (0.14, 0.5)
_NONE: Final = (0.0, 0.1)
_OUTCOMES: Final = (
    ("lost nothing", "circle", "@accent"),
    ("lost frames", "x-thin", "@second"),
    ("discarded", "diamond-open", "@noisy_host"),
)


def figures_of(result: ScenarioResult | None, trials: Sequence[Trial]) -> Iterator[tuple[str, Figure]]:
    """Each figure of a scenario's result with its name; none for other measures."""
    if result is not None and result.burst is not None and result.burst.tests:
        yield "bursts", burst_figure(result.burst, trials)
    if result is not None and result.loss_curve:
        yield "curve", loss_curve_figure(result.loss_curve)


def burst_figure(result: BurstResult, trials: Sequence[Trial]) -> Figure:
    """Burst length by test: each burst that was sent, and the longest without loss. x: test; y: frames."""
    known = {trial.id: trial for trial in trials}
    sent = [
        (number, known[trial_id])
        for number, test in enumerate(result.tests, 1)
        for trial_id in test.trial_ids
        if trial_id in known
    ]
    data = [_bursts(outcome, sent) for outcome in _OUTCOMES]
    data.append(
        {
            "type": "scatter",
            "mode": "lines",
            "name": "longest without loss",
            "x": list(range(1, len(result.tests) + 1)),
            "y": [test.longest for test in result.tests],
            "hoverinfo": "skip",
            "line": {"color": "@accent", "width": 2, "shape": "hvh"},
        }
    )
    layout = layout_of(height=340, top=26)
    layout["xaxis"] |= {"title": {"text": "test, in the order they were made"}, "anchor": "y", "rangemode": "tozero"}
    layout["yaxis"] |= {"title": {"text": "burst length, frames"}, "rangemode": "tozero", "tickformat": ",d"}
    layout["shapes"] = [
        {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": result.average, "y1": result.average,
         "line": {"color": "@accent", "width": 1, "dash": "dash"}}
    ]  # fmt: skip
    layout["annotations"] = [
        {"xref": "paper", "x": 1, "xanchor": "right", "y": result.average, "yanchor": "bottom", "showarrow": False,
         "text": f"average {units.number(round(result.average))} frames", "font": {"color": "@accent", "size": 12}}
    ]  # fmt: skip
    return {"data": [trace for trace in data if trace["x"]], "layout": layout}


def _bursts(outcome: tuple[str, str, str], sent: Sequence[tuple[int, Trial]]) -> Figure:
    name, symbol, colour = outcome
    chosen = [(number, trial) for number, trial in sent if _outcome(trial) == name]
    texts = [f"burst of {units.frames(trial.burst_frames)} frames<br>{account(trial)}" for _, trial in chosen]
    marker = {"symbol": symbol, "size": 7, "color": colour, "opacity": 0.8, "line": {"width": 1.5, "color": colour}}
    tests, lengths = [number for number, _ in chosen], [trial.burst_frames for _, trial in chosen]
    return markers(name, tests, lengths, texts, marker)


def _outcome(trial: Trial) -> str:
    if trial.validity is not TrialValidity.VALID:
        return "discarded"
    return "lost frames" if trial.lost > 0 else "lost nothing"


def loss_curve_figure(points: Sequence[LossPoint]) -> Figure:
    """Forwarded rate above, loss below, against offered load; loads that were not offered are a shaded range.

    x: offered load, Mpps; y: forwarded rate, Mpps; y2: loss ratio, logarithmic; y3: a strip for no loss.
    Bars are the intervals of the points.
    """
    judged = sorted((point for point in points if point.loss is not None), key=lambda point: point.offered_fps)
    lossy = [point for point in judged if point.loss]
    losses = loss_axis(
        [ratio for point in lossy for ratio in (point.loss_low or point.loss or 0.0, point.loss or 0.0)], *_LOSS
    )
    data = [_all_forwarded(judged), _forwarded(judged), _loss(lossy, losses["tickvals"][0]), _none(judged)]
    layout = layout_of(height=520, top=34)
    layout["xaxis"] |= {"title": {"text": "offered load, Mpps"}, "anchor": "y3", "rangemode": "tozero"}
    layout["yaxis"] |= {"title": {"text": "forwarded, Mpps"}, "rangemode": "tozero", "domain": list(_FORWARDED)}
    layout["yaxis2"] = losses
    layout["yaxis3"] = no_loss_axis(*_NONE)
    layout |= _not_offered(points, judged)
    return {"data": [trace for trace in data if trace["x"]], "layout": layout}


def _all_forwarded(judged: Sequence[LossPoint]) -> Figure:
    most = max((point.offered_fps for point in judged), default=0.0) / 1e6
    return {
        "type": "scatter", "mode": "lines", "name": "all of it forwarded", "x": [0, most] if judged else [],
        "y": [0, most], "yaxis": "y", "hoverinfo": "skip", "line": {"color": "@second", "width": 1, "dash": "dot"},
    }  # fmt: skip


def _forwarded(judged: Sequence[LossPoint]) -> Figure:
    values = [(point.forwarded_fps or 0.0, point.forwarded_low or 0.0, point.forwarded_high or 0.0) for point in judged]
    return _curve("forwarded", judged, "y", [(value / 1e6, low / 1e6, high / 1e6) for value, low, high in values])


def _loss(lossy: Sequence[LossPoint], least: float) -> Figure:
    """A lower end of zero is drawn to the end of the logarithmic axis."""
    values = [(point.loss or 0.0, max(point.loss_low or 0.0, least), point.loss_high or 0.0) for point in lossy]
    return _curve("loss", lossy, "y2", values)


def _none(judged: Sequence[LossPoint]) -> Figure:
    clean = [point for point in judged if not point.loss]
    trace = _curve("no loss", clean, "y3", [(0.0, 0.0, 0.0)] * len(clean))
    marker = trace["marker"] | {"symbol": ["circle" if point.lossless else "circle-open" for point in clean]}
    return trace | {"mode": "markers", "showlegend": False, "marker": marker}


def _curve(name: str, points: Sequence[LossPoint], y: str, values: Sequence[tuple[float, float, float]]) -> Figure:
    colour = "@accent" if y == "y" else "@s1"
    loads, texts = [point.offered_fps / 1e6 for point in points], [_words(point) for point in points]
    made = markers(name, loads, [value for value, _, _ in values], texts, {"color": colour, "size": 8})
    line = {"color": colour, "width": 2}
    return made | {"mode": "lines+markers", "yaxis": y, "line": line, "error_y": error_bars(values, colour)}


def _words(point: LossPoint) -> str:
    lines = [
        f"<b>{units.share(point.share)} load</b>",
        f"intended {units.fps(point.load_fps)}, offered {units.fps(point.offered_fps)}",
        f"forwarded {units.fps(point.forwarded_fps)}",
        f"lost {units.loss(point.loss or 0.0)} "
        f"({units.loss(point.loss_low or 0.0)} to {units.loss(point.loss_high or 0.0)})",
        escape(point.interval),
    ]  # fmt: skip
    if not point.loss and not point.lossless:
        lines.append("but not in every trial")
    return "<br>".join([*lines, *([f"<i>{escape(point.reason)}</i>"] if point.reason else [])])


def _not_offered(points: Sequence[LossPoint], judged: Sequence[LossPoint]) -> Figure:
    """The range of intended loads that the generator did not offer: the DUT has no point there."""
    limited = [point for point in points if point.generator_limited]
    if not limited:
        return {}
    highest = max((point.load_fps for point in judged), default=0.0)
    low, high = max(highest, min(point.offered_fps for point in limited)) / 1e6, limited[0].load_fps / 1e6
    shape = {"type": "rect", "xref": "x", "yref": "paper", "x0": low, "x1": high, "y0": 0, "y1": 1, "layer": "below",
             "fillcolor": "@generator_limited", "opacity": 0.12, "line": {"width": 0}}  # fmt: skip
    note = {"x": high, "xref": "x", "xanchor": "right", "y": 1, "yref": "paper", "yanchor": "bottom",
            "showarrow": False, "text": "not offered: the generator's limit",
            "font": {"color": "@generator_limited", "size": 12}}  # fmt: skip
    return {"shapes": [shape], "annotations": [note]}


_SCALES: Final = ((7200.0, 3600.0, "h"), (300.0, 60.0, "min"), (0.0, 1.0, "s"))
_MOST_TRIALS: Final = 10
_NOT_DRAWN: Final = ("soak", "search")  # the windows stand for a soak; a search has its track


def over_time_figure(trials: Sequence[Trial], windows: Sequence[Measurement]) -> Figure | None:
    """Share of the offered frames lost, by the time in which they were; None where nothing was seen over time.

    Windows that the host disturbed have a marker of their own. Of trials, at most ten are drawn.
    """
    seen = [measurement for measurement in windows if measurement.kind == "soak"]
    sampled = [trial for trial in trials if len(trial.samples) > 1 and trial.phase not in _NOT_DRAWN][:_MOST_TRIALS]
    if not seen and not sampled:
        return None
    ends = [_number(window, "at_s") + _number(window, "span_s") for window in seen]
    ends += [trial.samples[-1].elapsed_s for trial in sampled]
    scale, unit = next((scale, unit) for most, scale, unit in _SCALES if max(ends) >= most)
    data = [_windows(validity, seen, scale) for validity in TrialValidity]
    data += [_samples(trial, scale) for trial in sampled]
    layout = layout_of(height=300, top=12)
    begun = "the beginning of the soak" if seen else "the beginning of the trial"
    layout["xaxis"] |= {"title": {"text": f"time since {begun}, {unit}"}, "anchor": "y", "rangemode": "tozero"}
    layout["yaxis"] |= {"title": {"text": "lost, % of offered"}, "rangemode": "tozero"}
    return {"data": [trace for trace in data if trace["x"]], "layout": layout}


def _number(window: Measurement, name: str) -> float:
    value = window.account.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _windows(validity: TrialValidity, windows: Sequence[Measurement], scale: float) -> Figure:
    chosen = [window for window in windows if window.validity is validity]
    name = "disturbed by the host" if validity is TrialValidity.NOISY_HOST else words.VALIDITIES[validity]
    middles = [(_number(window, "at_s") + _number(window, "span_s") / 2) / scale for window in chosen]
    marker = {"symbol": SYMBOLS[validity], "size": 7, "color": f"@{validity.value}", "line": {"width": 1.5}}
    return markers(
        f"window, {name}", middles, [_loss_ratio(window) * 100 for window in chosen], [*map(_told, chosen)], marker
    )


def _loss_ratio(window: Measurement) -> float:
    offered = _number(window, "offered")
    return _number(window, "lost") / offered if offered else 0.0


def _told(window: Measurement) -> str:
    lost, offered = round(_number(window, "lost")), round(_number(window, "offered"))
    text = f"<b>{escape(window.id)}</b><br>lost {units.frames(lost)} of {units.frames(offered)} frames"
    return text + remarks(window.reason)


def _samples(trial: Trial, scale: float) -> Figure:
    """The loss between each two samples, at the later one."""
    steps = [
        (after.elapsed_s / scale, ((after.lost or 0) - (before.lost or 0)) / (after.offered - before.offered))
        for before, after in pairwise(trial.samples)
        if after.offered > before.offered
    ]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": escape(trial.id),
        "x": [at for at, _ in steps],
        "y": [max(0.0, share) * 100 for _, share in steps],
        "line": {"width": 1.5},
    }
