"""What a trial, and the trials of a scenario, saw over time: rates, busy shares, and what the host did meanwhile."""

from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import Final

from pinchpoint.model import units
from pinchpoint.model.result import ModeRates
from pinchpoint.model.trial import Sample, Trial
from pinchpoint.report.axes import value_axis
from pinchpoint.report.figures import SYMBOLS, Figure, axis, layout_of, markers
from pinchpoint.report.rate_figures import seconds_of

_GAP: Final = 0.06  # of the height, between two panels
_MOST_THREADS: Final = 6
_COLOURS: Final = ("@s1", "@s2", "@s3", "@s4", "@s5", "@s0")
_SHAPES: Final = ("circle", "square", "diamond", "cross", "star", "hexagon")
_RATES: Final = (("offered", "@second"), ("received", "@accent"), ("lost", "@bad"))


def samples_figure(trial: Trial) -> Figure | None:
    """Offered, received and lost between each two samples, and the share of that time the engine's cores stood still.

    None with fewer than two samples. x: seconds since the trial began; y: frames per second, per cent. What was not
    countable is absent.
    """
    steps = [(before, after) for before, after in pairwise(trial.samples) if after.elapsed_s > before.elapsed_s]
    if not steps:
        return None
    drawn = {name: [_growth(name, *step) for step in steps] for name, _ in _RATES}
    y = value_axis("fps", [value for values in drawn.values() for value in values if value is not None])
    middles = [(before.elapsed_s + after.elapsed_s) / 2 for before, after in steps]
    data = [_line(name, middles, drawn[name], y.divisor, colour) for name, colour in _RATES]
    cores = max(1, len(trial.witness.workers))
    stood = [100 * (after.gaps_s - before.gaps_s) / (after.elapsed_s - before.elapsed_s) / cores
             for before, after in steps]  # fmt: skip
    data.append(
        {"type": "bar", "name": "engine's cores stood still", "x": middles, "y": stood, "yaxis": "y2",
         "width": [after.elapsed_s - before.elapsed_s for before, after in steps], "textposition": "none",
         "text": [f"{units.seconds(after.gap_max_s)} at the longest" for _, after in steps],
         "hovertemplate": "%{y:.3g} %, %{text}<extra></extra>", "marker": {"color": "@noisy_host"}}
    )  # fmt: skip
    layout = layout_of(height=400, top=12)
    layout["xaxis"] |= {"title": {"text": "time since the beginning of the trial, s"}, "anchor": "y2"}
    layout["yaxis"] |= {"title": {"text": y.label}, "rangemode": "tozero", "domain": [0.3 + _GAP, 1]}
    layout["yaxis2"] = axis() | {"title": {"text": "stood still, %"}, "rangemode": "tozero", "domain": [0, 0.3],
                                 "range": [0, max(1.0, 1.1 * max(stood))]}  # fmt: skip
    return {"data": [trace for trace in data if trace["x"]], "layout": layout}


def trials_figure(trials: Sequence[Trial], modes: Sequence[ModeRates] = (), marked: str = "") -> Figure | None:
    """Rates, busy shares of the threads and the distance of the cores, trial by trial; None with fewer than two.

    x: seconds since the first trial. `modes`: horizontal lines at the distances that the search distinguished.
    `marked`: the trial at which a line stands.
    """
    if len(trials) < 2:
        return None
    times = seconds_of(trials)
    panels = [_rates(trials, times), _busy(trials, times), _distances(trials, times)]
    shown = [(traces, title, more) for traces, title, more in panels if traces]
    layout = layout_of(height=150 + 150 * len(shown), top=12)
    height = (1 - _GAP * (len(shown) - 1)) / len(shown)
    for place, (traces, title, more) in enumerate(shown):
        number = "" if place == 0 else str(place + 1)
        top = 1 - place * (height + _GAP)
        layout[f"yaxis{number}"] = axis() | {"title": {"text": title}, "rangemode": "tozero",
                                             "domain": [max(0.0, top - height), top]} | more  # fmt: skip
        for trace in traces:
            trace["yaxis"] = f"y{number}"
    last = "" if len(shown) == 1 else str(len(shown))
    layout["xaxis"] |= {"title": {"text": "time since the first trial, s"}, "anchor": f"y{last}"}
    layout["margin"]["b"] = 118
    layout["shapes"] = [*_levels(modes, f"y{last}" if panels[2][0] else ""), *_mark(trials, times, marked)]
    return {"data": [trace for traces, _, _ in shown for trace in traces], "layout": layout}


Panel = tuple[list[Figure], str, Figure]


def _growth(name: str, before: Sample, after: Sample) -> float | None:
    earlier, two = getattr(before, name), getattr(after, name)
    return None if earlier is None or two is None else (two - earlier) / (after.elapsed_s - before.elapsed_s)


def _line(name: str, x: Sequence[float], values: Sequence[float | None], divisor: float, colour: str) -> Figure:
    kept = [(at, value) for at, value in zip(x, values, strict=True) if value is not None]
    return {"type": "scatter", "mode": "lines+markers", "name": name, "x": [at for at, _ in kept],
            "y": [value / divisor for _, value in kept], "line": {"color": colour, "width": 1.8},
            "text": [units.fps(max(0.0, value)) for _, value in kept],
            "hovertemplate": f"{name} %{{text}} at %{{x:.3g}} s<extra></extra>",
            "marker": {"size": 4, "color": colour}}  # fmt: skip


def _rates(trials: Sequence[Trial], times: Sequence[float]) -> Panel:
    spans = [trial.sent_duration_s for trial in trials]
    counted: dict[str, Callable[[Trial], int]] = {
        "offered": lambda trial: trial.offered,
        "received": lambda trial: trial.received,
        "lost": lambda trial: max(0, trial.lost),
    }
    rates = {
        name: [count(trial) / span if span else None for trial, span in zip(trials, spans, strict=True)]
        for name, count in counted.items()
    }
    y = value_axis("fps", [value for values in rates.values() for value in values if value is not None])
    traces = [
        _trials(name, trials, times, rates[name], y.divisor, colour, symbol, units.fps)
        for (name, colour), symbol in zip(_RATES, ("circle-open", "circle", "x-thin"), strict=True)
    ]
    return [trace for trace in traces if trace["x"]], y.label, {}


def _busy(trials: Sequence[Trial], times: Sequence[float]) -> Panel:
    """Of the device's threads that forward, and of the engine's cores."""
    names = list(dict.fromkeys(load.name for trial in trials for load in trial.threads))[:_MOST_THREADS]
    traces = []
    for place, name in enumerate(names):
        shares = [
            next((thread.busy_share for thread in trial.threads if thread.name == name), None) for trial in trials
        ]
        traces.append(_share(name, trials, times, shares, place))
    cores = sorted({worker.core for trial in trials for worker in trial.witness.workers})[:_MOST_THREADS]
    for place, core in enumerate(cores, len(names)):
        shares = [
            next((worker.busy_share for worker in trial.witness.workers if worker.core == core), None)
            for trial in trials
        ]
        traces.append(_share(f"engine, core {core}", trials, times, shares, place))
    return [trace for trace in traces if trace["x"]], "busy, %", {"range": [0, 105]}


def _share(
    name: str, trials: Sequence[Trial], times: Sequence[float], shares: Sequence[float | None], place: int
) -> Figure:
    colour, shape = _COLOURS[place % len(_COLOURS)], _SHAPES[place % len(_SHAPES)]
    return _trials(f"busy: {name}", trials, times, shares, 0.01, colour, shape, units.share)


def _distances(trials: Sequence[Trial], times: Sequence[float]) -> Panel:
    probed = [trial.witness.cache_line_before_ns for trial in trials]
    told = units.nanoseconds
    trace = _trials("distance of the cores", trials, times, probed, 1.0, "@noisy_host", "diamond", told)
    room = {"range": [0, 1.25 * max(trace["y"], default=1.0)]}  # for the words above the uppermost line
    return [trace] if trace["x"] else [], "cores apart, ns", room


def _trials(
    name: str, trials: Sequence[Trial], times: Sequence[float], values: Sequence[float | None], divisor: float,
    colour: str, symbol: str, told: Callable[[float], str],
) -> Figure:  # fmt: skip
    """A marker a trial; where the account cannot be used, the open marker of its validity."""
    kept = [(at, value, trial) for at, value, trial in zip(times, values, trials, strict=True) if value is not None]
    texts = [f"<b>{escape(trial.id)}</b><br>{escape(name)} {told(value)}" for _, value, trial in kept]
    shapes = [symbol if trial.validity == "valid" else SYMBOLS[trial.validity] for _, _, trial in kept]
    marker = {"symbol": shapes, "size": 6, "color": colour, "opacity": 0.9}
    drawn = markers(escape(name), [at for at, _, _ in kept], [value / divisor for _, value, _ in kept], texts, marker)
    return drawn | {"marker": marker | {"line": {"width": 1.4, "color": colour}}}


def _levels(modes: Sequence[ModeRates], y: str) -> Iterator[Figure]:
    """A line across at the distance of each mode of the cores."""
    for mode in modes if y else ():
        if mode.distance_ns and not mode.slowed:
            yield {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": y, "y0": mode.distance_ns,
                   "y1": mode.distance_ns, "line": {"color": "@noisy_host", "width": 1, "dash": "dot"},
                   "label": {"text": escape(mode.label), "textposition": "end", "yanchor": "bottom",
                             "font": {"color": "@muted", "size": 11}}}  # fmt: skip


def _mark(trials: Sequence[Trial], times: Sequence[float], marked: str) -> Iterator[Figure]:
    for trial, at in zip(trials, times, strict=True):
        if marked and trial.id == marked:
            yield {"type": "line", "xref": "x", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1,
                   "layer": "below", "line": {"color": "@line", "width": 7}}  # fmt: skip
