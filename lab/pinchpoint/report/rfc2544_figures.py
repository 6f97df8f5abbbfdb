"""The figures of the measures burst and loss_curve, in the form of `figures`."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from pinchpoint.model import units
from pinchpoint.model.result import ScenarioResult
from pinchpoint.model.rfc2544 import BurstResult, LossPoint
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.report.figures import Figure, account, error_bars, layout_of, loss_axis, markers, no_loss_axis

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


def burst_figure(found: BurstResult, trials: Sequence[Trial]) -> Figure:
    """Burst length by test: each burst that was sent, and the longest without loss. x: test; y: frames."""
    known = {trial.id: trial for trial in trials}
    sent = [
        (number, known[one]) for number, test in enumerate(found.tests, 1) for one in test.trial_ids if one in known
    ]
    data = [_bursts(outcome, sent) for outcome in _OUTCOMES]
    data.append(
        {
            "type": "scatter",
            "mode": "lines",
            "name": "longest without loss",
            "x": list(range(1, len(found.tests) + 1)),
            "y": [test.longest for test in found.tests],
            "hoverinfo": "skip",
            "line": {"color": "@accent", "width": 2, "shape": "hvh"},
        }
    )
    layout = layout_of(height=340, top=26)
    layout["xaxis"] |= {"title": {"text": "test, in the order they were made"}, "anchor": "y", "rangemode": "tozero"}
    layout["yaxis"] |= {"title": {"text": "burst length, frames"}, "rangemode": "tozero", "tickformat": ",d"}
    layout["shapes"] = [
        {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": found.average, "y1": found.average,
         "line": {"color": "@accent", "width": 1, "dash": "dash"}}
    ]  # fmt: skip
    layout["annotations"] = [
        {"xref": "paper", "x": 1, "xanchor": "right", "y": found.average, "yanchor": "bottom", "showarrow": False,
         "text": f"average {units.number(round(found.average))} frames", "font": {"color": "@accent", "size": 12}}
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
    judged = sorted((one for one in points if one.loss is not None), key=lambda one: one.offered_fps)
    lossy = [one for one in judged if one.loss]
    losses = loss_axis([ratio for one in lossy for ratio in (one.loss_low or one.loss or 0.0, one.loss or 0.0)], *_LOSS)
    data = [_all_forwarded(judged), _forwarded(judged), _loss(lossy, losses["tickvals"][0]), _none(judged)]
    layout = layout_of(height=520, top=34)
    layout["xaxis"] |= {"title": {"text": "offered load, Mpps"}, "anchor": "y3", "rangemode": "tozero"}
    layout["yaxis"] |= {"title": {"text": "forwarded, Mpps"}, "rangemode": "tozero", "domain": list(_FORWARDED)}
    layout["yaxis2"] = losses
    layout["yaxis3"] = no_loss_axis(*_NONE)
    layout |= _not_offered(points, judged)
    return {"data": [trace for trace in data if trace["x"]], "layout": layout}


def _all_forwarded(judged: Sequence[LossPoint]) -> Figure:
    most = max((one.offered_fps for one in judged), default=0.0) / 1e6
    return {
        "type": "scatter", "mode": "lines", "name": "all of it forwarded", "x": [0, most] if judged else [],
        "y": [0, most], "yaxis": "y", "hoverinfo": "skip", "line": {"color": "@second", "width": 1, "dash": "dot"},
    }  # fmt: skip


def _forwarded(judged: Sequence[LossPoint]) -> Figure:
    values = [(one.forwarded_fps or 0.0, one.forwarded_low or 0.0, one.forwarded_high or 0.0) for one in judged]
    return _curve("forwarded", judged, "y", [(value / 1e6, low / 1e6, high / 1e6) for value, low, high in values])


def _loss(lossy: Sequence[LossPoint], least: float) -> Figure:
    """A lower end of zero is drawn to the end of the logarithmic axis."""
    values = [(one.loss or 0.0, max(one.loss_low or 0.0, least), one.loss_high or 0.0) for one in lossy]
    return _curve("loss", lossy, "y2", values)


def _none(judged: Sequence[LossPoint]) -> Figure:
    clean = [one for one in judged if not one.loss]
    trace = _curve("no loss", clean, "y3", [(0.0, 0.0, 0.0)] * len(clean))
    marker = trace["marker"] | {"symbol": ["circle" if one.lossless else "circle-open" for one in clean]}
    return trace | {"mode": "markers", "showlegend": False, "marker": marker}


def _curve(name: str, points: Sequence[LossPoint], y: str, values: Sequence[tuple[float, float, float]]) -> Figure:
    colour = "@accent" if y == "y" else "@s1"
    loads, texts = [one.offered_fps / 1e6 for one in points], [_words(one) for one in points]
    made = markers(name, loads, [value for value, _, _ in values], texts, {"color": colour, "size": 8})
    line = {"color": colour, "width": 2}
    return made | {"mode": "lines+markers", "yaxis": y, "line": line, "error_y": error_bars(values, colour)}


def _words(one: LossPoint) -> str:
    lines = [
        f"<b>{units.share(one.share)} load</b>",
        f"intended {units.fps(one.load_fps)}, offered {units.fps(one.offered_fps)}",
        f"forwarded {units.fps(one.forwarded_fps)}",
        f"lost {units.loss(one.loss or 0.0)} ({units.loss(one.loss_low or 0.0)} to {units.loss(one.loss_high or 0.0)})",
        escape(one.interval),
    ]  # fmt: skip
    if not one.loss and not one.lossless:
        lines.append("but not in every trial")
    return "<br>".join([*lines, *([f"<i>{escape(one.reason)}</i>"] if one.reason else [])])


def _not_offered(points: Sequence[LossPoint], judged: Sequence[LossPoint]) -> Figure:
    """The range of intended loads that the generator did not offer: the DUT has no point there."""
    limited = [one for one in points if one.generator_limited]
    if not limited:
        return {}
    highest = max((one.load_fps for one in judged), default=0.0)
    low, high = max(highest, min(one.offered_fps for one in limited)) / 1e6, limited[0].load_fps / 1e6
    shape = {"type": "rect", "xref": "x", "yref": "paper", "x0": low, "x1": high, "y0": 0, "y1": 1, "layer": "below",
             "fillcolor": "@generator_limited", "opacity": 0.12, "line": {"width": 0}}  # fmt: skip
    note = {"x": high, "xref": "x", "xanchor": "right", "y": 1, "yref": "paper", "yanchor": "bottom",
            "showarrow": False, "text": "not offered: the generator's limit",
            "font": {"color": "@generator_limited", "size": 12}}  # fmt: skip
    return {"shapes": [shape], "annotations": [note]}
