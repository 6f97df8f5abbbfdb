"""What a trial, and the trials of a scenario, saw: latencies, rates and losses over time, and the host meanwhile."""

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from html import escape
from itertools import pairwise
from typing import Final

from pinchpoint.model import units
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.result import LatencyPoint, ModeRates
from pinchpoint.model.trial import LatencySummary, Sample, Trial, TrialValidity
from pinchpoint.report import plot
from pinchpoint.report.plot import Figure

_DASHES: Final = ("solid", "dash", "dot", "dashdot")
_MOST_NINES: Final = 7.0
_PERCENTILES: Final = {0.0: "0", 0.5: "50", 0.9: "90", 0.99: "99", 0.999: "99.9",
                       0.9999: "99.99", 0.99999: "99.999", 0.999999: "99.9999"}  # fmt: skip
_GAP: Final = 0.06  # of the height, between two panels
_MOST_THREADS: Final = 6
_RATES: Final = (("offered", "@second"), ("received", "@accent"), ("lost", "@bad"))
_SCALES: Final = ((7200.0, 3600.0, "h"), (300.0, 60.0, "min"), (0.0, 1.0, "s"))
_MOST_TRIALS: Final = 10
_NOT_DRAWN: Final = ("soak", "search")  # the windows stand for a soak; a search has its track

Panel = tuple[list[Figure], str, Figure]  # traces, title of the y axis, more about that axis
_Shares = list[tuple[str, float | None]]  # of one trial, by thread or core


def latency_figure(points: Sequence[LatencyPoint]) -> Figure | None:
    """Latency percentiles, one line a load: x counts nines (1 is 90 %, 2 is 99 %), y microseconds. None without any."""
    timed = [(point, point.latency) for point in points if point.latency]
    lines = [(f"{units.share(point.share)} of NDR, {units.fps(point.load_fps)}", latency) for point, latency in timed]
    return percentile_figure(lines)


def percentile_figure(lines: Sequence[tuple[str, LatencySummary]]) -> Figure | None:
    """One line for each named distribution, as `latency_figure` draws them; None without any."""
    if not lines:
        return None
    data = [_percentiles(name, latency, place, len(lines)) for place, (name, latency) in enumerate(lines)]
    most = max((trace["x"][-1] for trace in data if trace["x"]), default=3.0)
    shown = {nines(quantile): text for quantile, text in _PERCENTILES.items() if nines(quantile) <= most}
    texts = list(shown.values())
    x = plot.axis("percentile of frames, %", tickvals=list(shown), ticktext=texts, tickangle=0, anchor="y")
    ticks = _one_two_five([value for trace in data for value in trace["y"]])
    y = plot.axis("one-way latency, us", type="log", tickvals=ticks, ticktext=[f"{tick:,g}" for tick in ticks])
    return plot.figure(data, 340, 12, x, y)


def nines(quantile: float) -> float:
    """-log10(1 - quantile), so 0.99 gives 2; at most 7, where 1.0 is put."""
    return _MOST_NINES if quantile >= 1 else min(_MOST_NINES, -math.log10(1 - quantile))


def _percentiles(name: str, latency: LatencySummary, place: int, total: int) -> Figure:
    """No more nines than the count of frames supports."""
    named = ((0.0, latency.min_ns), (0.5, latency.p50_ns), (0.9, latency.p90_ns), (0.99, latency.p99_ns),
             (0.999, latency.p999_ns), (0.9999, latency.p9999_ns))  # fmt: skip
    limit = math.log10(max(latency.count, 10))
    curve = [(share, value) for share, value in latency.curve or named if nines(share) <= limit and value > 0]
    shades = {0: "@accent"} if total == 1 else {0: "@shade1", total - 1: "@accent"}
    style = {"color": shades.get(place, "@shade2"), "width": 2, "dash": _DASHES[place % len(_DASHES)]}
    points = [(nines(quantile), value / 1e3) for quantile, value in curve]
    texts = [f"{quantile * 100:.7g} %: {units.nanoseconds(value)}" for quantile, value in curve]
    return plot.line(escape(name), points, style, text=texts, hovertemplate="%{text}<extra></extra>")


def _one_two_five(values: Sequence[float]) -> list[float]:
    """1, 2, 5, 10, 20 ... around the values; one a decade when they span more than three."""
    if not values:
        return []
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    digits = (1, 2, 5) if high - low <= 3 else (1,)
    return [float(f"{digit}e{decade}") for decade in range(low, high + 1) for digit in digits]


def cache_line_figure(trials: Sequence[Trial]) -> Figure | None:
    """Distance of the engine's and the DUT's core by trial, in ns, before and after each; None if not known."""
    before = [trial.witness.cache_line_before_ns for trial in trials]
    after = [trial.witness.cache_line_after_ns for trial in trials]
    if all(value is None for value in (*before, *after)):
        return None
    data = [_probes("before the trial", "circle", trials, before), _probes("after it", "circle-open", trials, after)]
    step = max(1, math.ceil(len(trials) / 10))
    x = plot.axis("trial, in the order they ran", anchor="y", dtick=step)
    return plot.figure(data, 230, 12, x, plot.axis("one way, ns", rangemode="tozero"))


def _probes(name: str, symbol: str, trials: Sequence[Trial], values: Sequence[float | None]) -> Figure:
    placed = enumerate(zip(trials, values, strict=True), 1)
    probed = [(at, ns, f"{escape(trial.id)}: {units.nanoseconds(ns)}") for at, (trial, ns) in placed if ns is not None]
    return plot.markers(name, probed, {"symbol": symbol, "size": 7, "color": "@accent", "line": {"width": 1.5}})


def seconds_of(trials: Sequence[Trial]) -> list[float]:
    """When each began, in seconds since the first."""
    starts = [datetime.fromisoformat(trial.started) for trial in trials]
    return [round((start - starts[0]).total_seconds(), 3) for start in starts]


def samples_figure(trial: Trial) -> Figure | None:
    """Offered, received and lost between each two samples, and the share of that time the engine's cores stood still.

    None with fewer than two samples. x: seconds since the trial began; y: frames per second, per cent. What was not
    countable is absent.
    """
    steps = [(before, after) for before, after in pairwise(trial.samples) if after.elapsed_s > before.elapsed_s]
    if not steps:
        return None
    rates = {name: [_growth(name, *step) for step in steps] for name, _ in _RATES}
    y = plot.value_axis("fps", [value for values in rates.values() for value in values if value is not None])
    middles = [(before.elapsed_s + after.elapsed_s) / 2 for before, after in steps]
    data = [_sampled(name, middles, rates[name], y.divisor, colour) for name, colour in _RATES]
    widths = [after.elapsed_s - before.elapsed_s for before, after in steps]
    cores = max(1, len(trial.witness.workers))
    stood = [100 * (after.gaps_s - before.gaps_s) / width / cores
             for (before, after), width in zip(steps, widths, strict=True)]  # fmt: skip
    texts = [f"{units.seconds(after.gap_max_s)} at the longest" for _, after in steps]
    look = {"yaxis": "y2", "width": widths, "hovertemplate": "%{y:.3g} %, %{text}<extra></extra>"}
    data.append(plot.bars("engine's cores stood still", middles, stood, texts, "@noisy_host", **look))
    x = plot.axis("time since the beginning of the trial, s", anchor="y2")
    above = plot.axis(y.label, rangemode="tozero", domain=[0.3 + _GAP, 1])
    still = [0, max(1.0, 1.1 * max(stood))]
    below = plot.axis("stood still, %", rangemode="tozero", domain=[0, 0.3], range=still)
    return plot.figure(data, 400, 12, x, above, yaxis2=below)


def _growth(name: str, before: Sample, after: Sample) -> float | None:
    earlier, later = getattr(before, name), getattr(after, name)
    return None if earlier is None or later is None else (later - earlier) / (after.elapsed_s - before.elapsed_s)


def _sampled(name: str, x: Sequence[float], values: Sequence[float | None], divisor: float, colour: str) -> Figure:
    kept = [(at, value) for at, value in zip(x, values, strict=True) if value is not None]
    return plot.line(
        name, [(at, value / divisor) for at, value in kept], {"color": colour, "width": 1.8}, mode="lines+markers",
        text=[units.fps(max(0.0, value)) for _, value in kept], marker={"size": 4, "color": colour},
        hovertemplate=f"{name} %{{text}} at %{{x:.3g}} s<extra></extra>",
    )  # fmt: skip


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
    height, y = (1 - _GAP * (len(shown) - 1)) / len(shown), ""
    axes: Figure = {}
    for place, (traces, title, more) in enumerate(shown):
        number = "" if place == 0 else str(place + 1)
        top, y = 1 - place * (height + _GAP), f"y{number}"
        axes[f"yaxis{number}"] = plot.axis(title, rangemode="tozero", domain=[max(0.0, top - height), top]) | more
        for trace in traces:
            trace["yaxis"] = y
    own = [at for trial, at in zip(trials, times, strict=True) if marked and trial.id == marked]
    shapes = list(_levels(modes, y)) if panels[2][0] else []
    shapes += [plot.line_at("x", at, "@line", 7, layer="below") for at in own]
    data = [trace for traces, _, _ in shown for trace in traces]
    x, first = plot.axis("time since the first trial, s", anchor=y), axes.pop("yaxis")
    return plot.figure(data, 150 + 150 * len(shown), 12, x, first, bottom=118, shapes=shapes, **axes)


def _rates(trials: Sequence[Trial], times: Sequence[float]) -> Panel:
    rates = {name: [_of_time(max(0, getattr(trial, name)), trial) for trial in trials] for name, _ in _RATES}
    y = plot.value_axis("fps", [value for values in rates.values() for value in values if value is not None])
    traces = [
        _trials(name, trials, times, rates[name], y.divisor, colour, symbol, units.fps)
        for (name, colour), symbol in zip(_RATES, ("circle-open", "circle", "x-thin"), strict=True)
    ]
    return [trace for trace in traces if trace["x"]], y.label, {}


def _of_time(frames: int, trial: Trial) -> float | None:
    """Frames a second; None of a trial that sent for no time."""
    return frames / trial.sent_duration_s if trial.sent_duration_s else None


def _busy(trials: Sequence[Trial], times: Sequence[float]) -> Panel:
    """Of the device's threads that forward, and of the engine's cores."""
    threads, cores = list[_Shares](), list[_Shares]()
    for trial in trials:
        threads.append([(load.name, load.busy_share) for load in trial.threads])
        workers = sorted(trial.witness.workers, key=lambda worker: (worker.host, worker.core))
        cores.append([(f"engine, {worker.where}", worker.busy_share) for worker in workers])
    traces: list[Figure] = []
    for shares in (threads, cores):
        for name in list(dict.fromkeys(name for own in shares for name, _ in own))[:_MOST_THREADS]:
            values = [next((share for of, share in own if of == name), None) for own in shares]
            colour = plot.COLOURS[(len(traces) + 1) % len(plot.COLOURS)]
            shape = plot.SHAPES[len(traces) % len(plot.SHAPES)]
            traces.append(_trials(f"busy: {name}", trials, times, values, 0.01, colour, shape, units.share))
    return [trace for trace in traces if trace["x"]], "busy, %", {"range": [0, 105]}


def _distances(trials: Sequence[Trial], times: Sequence[float]) -> Panel:
    probed = [trial.witness.cache_line_before_ns for trial in trials]
    trace = _trials("distance of the cores", trials, times, probed, 1.0, "@noisy_host", "diamond", units.nanoseconds)
    room = {"range": [0, 1.25 * max(trace["y"], default=1.0)]}  # for the words above the uppermost line
    return [trace] if trace["x"] else [], "cores apart, ns", room


def _trials(
    name: str, trials: Sequence[Trial], times: Sequence[float], values: Sequence[float | None], divisor: float,
    colour: str, symbol: str, told: Callable[[float], str],
) -> Figure:  # fmt: skip
    """A marker a trial; where the account cannot be used, the open marker of its validity."""
    kept = [(at, value, trial) for at, value, trial in zip(times, values, trials, strict=True) if value is not None]
    points = [(at, value / divisor, f"<b>{escape(trial.id)}</b><br>{escape(name)} {told(value)}")
              for at, value, trial in kept]  # fmt: skip
    shapes = [symbol if trial.validity == "valid" else plot.SYMBOLS[trial.validity] for _, _, trial in kept]
    marker = {"symbol": shapes, "size": 6, "color": colour, "opacity": 0.9, "line": {"width": 1.4, "color": colour}}
    return plot.markers(escape(name), points, marker)


def _levels(modes: Sequence[ModeRates], y: str) -> Iterator[Figure]:
    """A line across at the distance of each mode of the cores."""
    for mode in modes:
        if mode.distance_ns and not mode.slowed:
            label = {"text": escape(mode.label), "textposition": "end", "yanchor": "bottom",
                     "font": {"color": "@muted", "size": 11}}  # fmt: skip
            yield plot.line_at("y", mode.distance_ns, "@noisy_host", 1, "dot", yref=y, label=label)


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
    data += [_losses(trial, scale) for trial in sampled]
    title = f"time since the beginning of the {'soak' if seen else 'trial'}, {unit}"
    x = plot.axis(title, anchor="y", rangemode="tozero")
    return plot.figure(data, 300, 12, x, plot.axis("lost, % of offered", rangemode="tozero"))


def _number(window: Measurement, name: str) -> float:
    value = window.account.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _windows(validity: TrialValidity, windows: Sequence[Measurement], scale: float) -> Figure:
    chosen = [window for window in windows if window.validity is validity]
    name = "disturbed by the host" if validity is TrialValidity.NOISY_HOST else validity.words
    marker = {"symbol": plot.SYMBOLS[validity], "size": 7, "color": f"@{validity.value}", "line": {"width": 1.5}}
    points = []
    for window in chosen:
        lost, offered = _number(window, "lost"), _number(window, "offered")
        middle = (_number(window, "at_s") + _number(window, "span_s") / 2) / scale
        told = f"lost {units.frames(round(lost))} of {units.frames(round(offered))} frames"
        text = f"<b>{escape(window.id)}</b><br>{told}{plot.remarks(window.reason)}"
        points.append((middle, lost / offered * 100 if offered else 0.0, text))
    return plot.markers(f"window, {name}", points, marker)


def _losses(trial: Trial, scale: float) -> Figure:
    """The loss between each two samples, at the later one."""
    points = []
    for before, after in pairwise(trial.samples):
        if after.offered > before.offered:
            share = ((after.lost or 0) - (before.lost or 0)) / (after.offered - before.offered)
            points.append((after.elapsed_s / scale, max(0.0, share) * 100))
    return plot.line(escape(trial.id), points, {"width": 1.5})
