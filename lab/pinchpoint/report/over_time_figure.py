"""Loss over time: windows of a soak, or the samples of trials whose load changes."""

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Final

from pinchpoint.model import units
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.report import words
from pinchpoint.report.figures import SYMBOLS, Figure, layout_of, markers, remarks

_SCALES: Final = ((7200.0, 3600.0, "h"), (300.0, 60.0, "min"), (0.0, 1.0, "s"))
_MOST_TRIALS: Final = 10
_NOT_DRAWN: Final = ("soak", "search")  # the windows stand for a soak; a search has its track


def over_time_figure(trials: Sequence[Trial], windows: Sequence[Measurement]) -> Figure | None:
    """Share of the offered frames lost, by the time in which they were; None where nothing was seen over time.

    Windows that the host disturbed have a marker of their own. Of trials, at most ten are drawn.
    """
    seen = [one for one in windows if one.kind == "soak"]
    sampled = [trial for trial in trials if len(trial.samples) > 1 and trial.phase not in _NOT_DRAWN][:_MOST_TRIALS]
    if not seen and not sampled:
        return None
    ends = [_number(one, "at_s") + _number(one, "span_s") for one in seen]
    ends += [trial.samples[-1].elapsed_s for trial in sampled]
    scale, unit = next((scale, unit) for most, scale, unit in _SCALES if max(ends) >= most)
    data = [_windows(validity, seen, scale) for validity in TrialValidity]
    data += [_samples(trial, scale) for trial in sampled]
    layout = layout_of(height=300, top=12)
    begun = "the beginning of the soak" if seen else "the beginning of the trial"
    layout["xaxis"] |= {"title": {"text": f"time since {begun}, {unit}"}, "anchor": "y", "rangemode": "tozero"}
    layout["yaxis"] |= {"title": {"text": "lost, % of offered"}, "rangemode": "tozero"}
    return {"data": [trace for trace in data if trace["x"]], "layout": layout}


def _number(one: Measurement, name: str) -> float:
    value = one.account.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _windows(validity: TrialValidity, windows: Sequence[Measurement], scale: float) -> Figure:
    chosen = [one for one in windows if one.validity is validity]
    name = "disturbed by the host" if validity is TrialValidity.NOISY_HOST else words.VALIDITIES[validity]
    middles = [(_number(one, "at_s") + _number(one, "span_s") / 2) / scale for one in chosen]
    marker = {"symbol": SYMBOLS[validity], "size": 7, "color": f"@{validity.value}", "line": {"width": 1.5}}
    return markers(f"window, {name}", middles, [_loss(one) * 100 for one in chosen], [*map(_told, chosen)], marker)


def _loss(one: Measurement) -> float:
    offered = _number(one, "offered")
    return _number(one, "lost") / offered if offered else 0.0


def _told(one: Measurement) -> str:
    lost, offered = round(_number(one, "lost")), round(_number(one, "offered"))
    text = f"<b>{escape(one.id)}</b><br>lost {units.frames(lost)} of {units.frames(offered)} frames"
    return text + remarks(one.reason)


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
