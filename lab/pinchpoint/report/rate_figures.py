"""A rate on a shared machine: its distribution over time, and the trials behind it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from itertools import groupby
from math import log
from statistics import median
from typing import Final

from pinchpoint.model import units
from pinchpoint.model.result import ModeRates, Rate, RateStatus, ReceiveRate, ScenarioResult
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.report import rate_views, words
from pinchpoint.report.axes import value_axis
from pinchpoint.report.figures import Figure, layout_of, markers, remarks

_ROW: Final = 44  # pixels
_BAND: Final = "10 to 90 % of the trials lose"
_OPEN: Final = {RateStatus.AT_LEAST: "triangle-right-open", RateStatus.BELOW_MINIMUM: "triangle-left-open"}
_AROUND: Final = 3  # trials before and after one, that say with it where the threshold was
_TOP: Final = 1.4  # of the highest rate of interest: loads above are drawn at the edge
_PHASE: Final = "search"
_NEWEST: Final = 12  # trials that the bounds of a search in progress rest on: older ones met another level of the host


@dataclass(frozen=True)
class Spread:
    """One row of a figure of rates; frames per second."""

    label: str
    value: float | None  # the one that is quoted, or an end that is open
    ends: tuple[float, float] | None = None  # of the interval
    band: tuple[float, float] | None = None  # 10 % and 90 % of the trials lose
    status: RateStatus = RateStatus.FOUND
    text: str = ""


@dataclass(frozen=True)
class Bounds:
    """Loads between which a rate lies, as far as a few trials say; frames per second, offered."""

    at_s: float  # since the search's first trial
    low_fps: float
    high_fps: float

    @property
    def width(self) -> float:
        """Relative to the upper end."""
        return (self.high_fps - self.low_fps) / self.high_fps


def narrowing(trials: Sequence[Trial], allowed: float) -> tuple[Bounds, ...]:
    """After each trial of a search: the highest load that held and the lowest that lost more, of the newest 12.

    Where a load that held lies above one that lost, both happened between them. Before either was seen, nothing is
    known.
    """
    tried = [trial for trial in trials if trial.phase == _PHASE and trial.burst_frames is None]
    ends: list[Bounds] = []
    usable: list[Trial] = []
    for at_s, trial in zip(seconds_of(tried), tried, strict=True):
        usable = [*usable, trial][-_NEWEST:] if trial.validity is TrialValidity.VALID else usable
        held = [trial.offered_fps for trial in usable if trial.loss_ratio <= allowed]
        lost = [trial.offered_fps for trial in usable if trial.loss_ratio > allowed]
        if held and lost:
            ends.append(Bounds(at_s, *sorted((max(held), min(lost)))))
    return tuple(ends)


def spread_of(label: str, rate: Rate) -> Spread:
    """A rate as a row."""
    both = rate.status is RateStatus.FOUND and rate.lower_fps and rate.upper_fps
    return Spread(
        label=label,
        value=rate.upper_fps if rate.status is RateStatus.BELOW_MINIMUM else rate.quoted_fps,
        ends=(rate.lower_fps or 0.0, rate.upper_fps or 0.0) if both else None,
        band=(rate.band.low_fps, rate.band.high_fps) if rate.band else None,
        status=rate.status,
        text="; ".join(filter(None, (words.quoted(rate), words.interval(rate), words.band(rate)))),
    )


def scenario_spreads(result: ScenarioResult) -> tuple[Spread, ...]:
    """Every rate of a scenario and the MRR, then the first rate in each mode of the cores."""
    rates = tuple(spread_of(rate.name, rate) for rate in result.rates)
    rates += (_of_overload(result.mrr),) if result.mrr else ()
    modes = result.modes if len(result.modes) > 1 else ()
    return (*rates, *(_of_mode(mode, modes) for mode in modes))


def _of_overload(mrr: ReceiveRate) -> Spread:
    text = f"{rate_views.receive_rate(mrr)}; {rate_views.receive_rate_interval(mrr)}"
    return Spread(
        "MRR", mrr.estimate_fps, (mrr.lower_fps, mrr.upper_fps), (mrr.band.low_fps, mrr.band.high_fps), text=text
    )


def _of_mode(mode: ModeRates, every: Sequence[ModeRates]) -> Spread:
    value = mode.median_fps or (mode.rates[0].quoted_fps if mode.rates else None)
    share = words.mode_share(mode, every)
    return Spread(f"{mode.label}, {share}", value, text=f"{words.mode_rate(mode)} for {share} of the time")


def rates_figure(spreads: Sequence[Spread], title: str = "rate", *, from_zero: bool = False) -> Figure | None:
    """One row a rate: a light bar over the band, a dark one over the interval, a tick at the median.

    None where no row has an interval or a band. x: Mpps or another unit that fits; y: the label.
    """
    drawn = [spread for spread in spreads if spread.value]
    if not any(spread.ends or spread.band for spread in drawn):
        return None
    places = [place for spread in drawn for place in (spread.value, *(spread.ends or ()), *(spread.band or ()))]
    x = value_axis("fps", [place for place in places if place is not None])
    data = [
        _bars(_BAND, "@shade1", [(spread, spread.band) for spread in drawn if spread.band], x.divisor, 0.62),
        _bars(
            "interval of the median",
            "@accent",
            [(spread, spread.ends) for spread in drawn if spread.ends],
            x.divisor,
            0.3,
        ),
        _marks("median", "line-ns", 26, [spread for spread in drawn if spread.status is RateStatus.FOUND], x.divisor),
        *(
            _marks(
                status.value.replace("_", " "),
                symbol,
                13,
                [spread for spread in drawn if spread.status is status],
                x.divisor,
            )
            for status, symbol in _OPEN.items()
        ),
    ]
    layout = layout_of(height=118 + _ROW * len(drawn), top=8) | {"barmode": "overlay"}
    layout["margin"] |= {"l": 8}
    layout["xaxis"] |= {"title": {"text": f"{escape(title)}, {x.label}"}, "anchor": "y"}
    layout["xaxis"] |= {"rangemode": "tozero"} if from_zero else {}
    labels = [escape(spread.label) for spread in reversed(drawn)]
    layout["yaxis"] |= {"type": "category", "categoryorder": "array", "categoryarray": labels, "showgrid": False,
                        "ticks": "", "range": [-0.6, len(drawn) - 0.4], "fixedrange": True}  # fmt: skip
    return {"data": [trace for trace in data if trace["y"]], "layout": layout}


def _bars(
    name: str, colour: str, spans: Sequence[tuple[Spread, tuple[float, float]]], divisor: float, width: float
) -> Figure:
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": [escape(spread.label) for spread, _ in spans],
        "base": [low / divisor for _, (low, _) in spans],
        "x": [(high - low) / divisor for _, (low, high) in spans],
        "width": width,
        "text": [escape(spread.text) for spread, _ in spans],
        "textposition": "none",
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"color": colour},
    }


def _marks(name: str, symbol: str, size: int, spreads: Sequence[Spread], divisor: float) -> Figure:
    marker = {"symbol": symbol, "size": size, "color": "@ink", "line": {"width": 2.5, "color": "@ink"}}
    labels, values = (
        [escape(spread.label) for spread in spreads],
        [(spread.value or 0.0) / divisor for spread in spreads],
    )
    return markers(name, values, labels, [escape(spread.text) for spread in spreads], marker)


def search_figure(
    result: ScenarioResult | None, trials: Sequence[Trial], bounds: Sequence[Bounds] = (), allowed: float = 0.0
) -> Figure | None:
    """The loads that a search tried against the time, and what came of each; None with fewer than seven.

    x: seconds since the first; y: offered load. The line is the threshold that the search tracked; without one,
    what came back, as the median of seven trials in turn. Bars across are the band and the interval of the first
    rate. Bars upright are the times in which the cores were not in their most frequent mode. Of a search in progress,
    `bounds` are drawn as they narrow, and `allowed` is the loss ratio that its first rate bears.
    """
    tried = [trial for trial in trials if trial.phase == _PHASE and trial.burst_frames is None]
    if len(tried) < 2 * _AROUND + 1:
        return None
    rate = result.rates[0] if result and result.rates else None
    times = seconds_of(tried)
    valid = [(at, trial) for at, trial in zip(times, tried, strict=True) if trial.validity is TrialValidity.VALID]
    allowed = rate.loss_ratio if rate else allowed
    discarded = [pair for pair in zip(times, tried, strict=True) if pair[1].validity is not TrialValidity.VALID]
    at = dict(zip((trial.id for trial in tried), times, strict=True))
    track = [moment for moment in result.track if moment.trial_id in at] if result else []
    moving = [(at[step.trial_id], step.median_fps) for step in track] or _moving(valid)
    spread = spread_of("", rate) if rate else Spread("", None)
    of_interest = [fps for _, fps in moving] + [end for ends in (spread.band, spread.ends) if ends for end in ends]
    of_interest += [] if spread.value is None else [spread.value]
    top = _TOP * max(of_interest, default=max(trial.offered_fps for trial in tried))
    y = value_axis("fps", [top])
    held = [pair for pair in valid if pair[1].loss_ratio <= allowed and pair[1].offered_fps <= top]
    lost = [pair for pair in valid if pair[1].loss_ratio > allowed and pair[1].offered_fps <= top]
    over = [pair for pair in valid if pair[1].offered_fps > top]
    data = [
        *_narrowing(bounds, y.divisor),
        {"type": "scatter", "mode": "lines", "hoverinfo": "skip", "line": {"color": "@second", "width": 2},
         "name": "threshold, as estimated" if track else f"came back, median of {2 * _AROUND + 1} trials",
         "x": [at for at, _ in moving], "y": [fps / y.divisor for _, fps in moving]},
        _tried("held" if allowed else "no frame lost", "circle", "@valid", held, top, y.divisor),
        _tried("lost more than allowed" if allowed else "frames lost", "x-thin", "@bad", lost, top, y.divisor),
        _tried("load above the axis", "triangle-up-open", "@bad", over, top, y.divisor),
        _tried("discarded", "diamond-open", "@aborted", discarded, top, y.divisor),
    ]  # fmt: skip
    layout = layout_of(height=340, top=12)
    layout["xaxis"] |= {"title": {"text": "time since the first trial, s"}, "anchor": "y"}
    layout["yaxis"] |= {"title": {"text": f"offered load, {y.label}"}, "range": [0, top / y.divisor]}
    shapes = _across(spread, y.divisor) + list(_other_modes(result, times, tried))
    return {"data": [trace for trace in data if trace["x"]], "layout": layout | {"shapes": shapes}}


def _narrowing(bounds: Sequence[Bounds], divisor: float) -> list[Figure]:
    """The area between the two, in steps."""
    line = {"color": "@shade2", "width": 1.2, "shape": "hv"}
    edge = {
        "type": "scatter",
        "mode": "lines",
        "x": [bound.at_s for bound in bounds],
        "hoverinfo": "skip",
        "line": line,
    }
    low = edge | {"y": [bound.low_fps / divisor for bound in bounds], "name": "lower bound", "showlegend": False}
    high = edge | {
        "y": [bound.high_fps / divisor for bound in bounds],
        "name": "between a load that held and one that lost",
    }
    return [low, high | {"fill": "tonexty", "fillcolor": "@grid"}]


def seconds_of(trials: Sequence[Trial]) -> list[float]:
    """When each began, in seconds since the first."""
    starts = [datetime.fromisoformat(trial.started) for trial in trials]
    return [round((start - starts[0]).total_seconds(), 3) for start in starts]


def _moving(valid: Sequence[tuple[float, Trial]]) -> list[tuple[float, float]]:
    """What came back, the median of each trial with those around it: where the threshold was just then."""
    carried = [trial.received / trial.sent_duration_s if trial.sent_duration_s else 0.0 for _, trial in valid]
    return [(at, median(carried[max(0, place - _AROUND) : place + _AROUND + 1])) for place, (at, _) in enumerate(valid)]


def _tried(
    name: str, symbol: str, colour: str, tried: Sequence[tuple[float, Trial]], top: float, divisor: float
) -> Figure:
    loads = [min(trial.offered_fps, top) / divisor for _, trial in tried]
    marker = {"symbol": symbol, "size": 7, "color": colour, "line": {"width": 1.6, "color": colour}}
    return markers(name, [at for at, _ in tried], loads, [_told(trial) for _, trial in tried], marker) | {
        "cliponaxis": False
    }


def _told(trial: Trial) -> str:
    lost = f"lost {units.loss(trial.loss_ratio)}" if trial.lost else "no loss"
    return f"<b>{escape(trial.id)}</b>: {units.fps(trial.offered_fps)}, {lost}{remarks(trial.reason)}"


def _across(spread: Spread, divisor: float) -> list[Figure]:
    """The band and the interval as bars across, the quoted rate as a line."""
    across = {"xref": "paper", "x0": 0, "x1": 1, "yref": "y", "layer": "below"}
    bars = ((spread.band, "@shade1", 0.28), (spread.ends, "@accent", 0.35))
    shapes: list[Figure] = [
        across | {"type": "rect", "y0": ends[0] / divisor, "y1": ends[1] / divisor,
                  "fillcolor": colour, "opacity": opacity, "line": {"width": 0}}
        for ends, colour, opacity in bars if ends
    ]  # fmt: skip
    if spread.value:
        at = spread.value / divisor
        shapes.append(across | {"type": "line", "y0": at, "y1": at, "line": {"color": "@accent", "width": 1.5}})
    return shapes


def _other_modes(result: ScenarioResult | None, times: Sequence[float], trials: Sequence[Trial]) -> Iterator[Figure]:
    """Where the cores were farther apart or nearer than most of the time."""
    modes = _distances(result)
    if len(modes) < 2:
        return
    usual = max(modes, key=lambda mode: mode.trials)
    stretches = groupby(range(len(trials)), key=lambda place: _nearest(modes, trials[place]) not in (None, usual))
    for other, places in stretches:
        if other:
            inside = list(places)
            after = times[min(inside[-1] + 1, len(times) - 1)]
            yield {"type": "rect", "xref": "x", "x0": times[inside[0]], "x1": after, "yref": "paper", "y0": 0, "y1": 1,
                   "layer": "below", "fillcolor": "@line", "opacity": 0.35, "line": {"width": 0}}  # fmt: skip


def _distances(result: ScenarioResult | None) -> list[ModeRates]:
    """Modes that differ in the distance of the cores. That a neighbour slowed a trial stands in no single trial."""
    return [mode for mode in (result.modes if result else ()) if mode.distance_ns and not mode.slowed]


def _nearest(modes: Sequence[ModeRates], trial: Trial) -> ModeRates | None:
    probed_ns = trial.witness.cache_line_before_ns
    if not probed_ns:
        return None
    return min(modes, key=lambda mode: abs(log((mode.distance_ns or probed_ns) / probed_ns)))


def search_words(result: ScenarioResult | None) -> str:
    """What to see in the figure of a search."""
    modes = _distances(result)
    usual = max(modes, key=lambda mode: mode.trials) if len(modes) > 1 else None
    others = " and ".join(mode.label for mode in modes if mode is not usual)
    grey = f" Grey background: {others}; most of the time: {usual.label}." if usual else ""
    return (
        "Each marker is a trial; point at one for its account. The grey line follows the device, "
        f"the straight one is the load at which half of the trials lose more than allowed, within its interval and its "
        f"band.{grey}"
    )
