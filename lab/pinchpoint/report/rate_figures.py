"""A rate on a shared machine: its distribution over time, and the trials behind it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from math import log
from statistics import median
from typing import Final

from pinchpoint.model import units
from pinchpoint.model.measurement import Bound, Interval
from pinchpoint.model.result import ModeRates, Rate, RateStatus, ReceiveRate, ScenarioResult
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.report import number_views, plot, words
from pinchpoint.report.plot import Figure
from pinchpoint.report.trial_figures import seconds_of

_ROW: Final = 44  # pixels
_MARKS: Final = {
    RateStatus.FOUND: ("median", "line-ns", 26),
    RateStatus.AT_LEAST: ("at least", "triangle-right-open", 13),
    RateStatus.BELOW_MINIMUM: ("below minimum", "triangle-left-open", 13),
}
_AROUND: Final = 3  # trials before and after one, that say with it where the threshold was
_TOP: Final = 1.4  # of the highest rate of interest: loads above are drawn at the edge
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


Between = tuple[float, Interval]
"""Seconds since a search's first trial, and loads between which its rate lies, as far as a few trials say."""


def narrowing(trials: Sequence[Trial], allowed: float) -> tuple[Between, ...]:
    """After each trial of a search: the highest load that held and the lowest that lost more, of the newest 12.

    Where a load that held lies above one that lost, both happened between them. Before either was seen, nothing is
    known.
    """
    ends: list[Between] = []
    usable: list[Trial] = []
    for at_s, trial in _of_search(trials):
        usable = [*usable, trial][-_NEWEST:] if trial.validity is TrialValidity.VALID else usable
        held = [trial.offered_fps for trial in usable if trial.loss_ratio <= allowed]
        lost = [trial.offered_fps for trial in usable if trial.loss_ratio > allowed]
        if held and lost:
            low, high = sorted((max(held), min(lost)))
            ends.append((at_s, Interval((low + high) / 2, low, high, bound=Bound.BETWEEN)))
    return tuple(ends)


def spread_of(label: str, rate: Rate) -> Spread:
    """A rate as a row."""
    value = rate.upper_fps if rate.status is RateStatus.BELOW_MINIMUM else rate.quoted_fps
    known = rate.interval if rate.status is RateStatus.FOUND else None
    ends = (known.low, known.high) if known else None
    band = (rate.band.low_fps, rate.band.high_fps) if rate.band else None
    text = "; ".join(filter(None, (words.quoted(rate), words.interval(rate), words.band(rate))))
    return Spread(label, value, ends, band, rate.status, text)


def scenario_spreads(result: ScenarioResult) -> tuple[Spread, ...]:
    """Every rate of a scenario and the MRR, then the first rate in each mode of the cores."""
    rates = tuple(spread_of(rate.name, rate) for rate in result.rates)
    rates += (_of_overload(result.mrr),) if result.mrr else ()
    modes = result.modes if len(result.modes) > 1 else ()
    return (*rates, *(_of_mode(mode, modes) for mode in modes))


def _of_overload(mrr: ReceiveRate) -> Spread:
    text = f"{number_views.receive_rate(mrr)}; {number_views.receive_rate_interval(mrr)}"
    ends, band = (mrr.lower_fps, mrr.upper_fps), (mrr.band.low_fps, mrr.band.high_fps)
    return Spread("MRR", mrr.estimate_fps, ends, band, text=text)


def _of_mode(mode: ModeRates, every: Sequence[ModeRates]) -> Spread:
    value = mode.median_fps or (mode.rates[0].quoted_fps if mode.rates else None)
    share = words.mode_share(mode, every)
    return Spread(f"{mode.label}, {share}", value, text=f"{words.mode_rate(mode)} for {share} of the time")


def overview_figure(rates: Sequence[tuple[str, Rate]], title: str) -> Figure | None:
    """Rates of several scenarios or runs on one axis, each with what it is called; None as of `rates_figure`."""
    return rates_figure([spread_of(name, rate) for name, rate in rates], title, from_zero=True)


def rates_figure(
    spreads: Sequence[Spread], title: str = "rate", *, from_zero: bool = False, step: units.Step | None = None
) -> Figure | None:
    """One row a rate: a light bar over the band, a dark one over the interval, a tick at the median.

    None where no row has an interval or a band. x: in the unit of `step`, or one that fits; y: the label.
    """
    drawn = [spread for spread in spreads if spread.value]
    if not any(spread.ends or spread.band for spread in drawn):
        return None
    places = [place for spread in drawn for place in (spread.value, *(spread.ends or ()), *(spread.band or ()))]
    x = plot.value_axis("fps", [place for place in places if place is not None], step)
    bands = [(spread, spread.band) for spread in drawn if spread.band]
    intervals = [(spread, spread.ends) for spread in drawn if spread.ends]
    data = [_bars("10 to 90 % of the trials lose", "@shade1", bands, x.divisor, 0.62)]
    data.append(_bars("interval of the median", "@accent", intervals, x.divisor, 0.3))
    for status, (name, symbol, size) in _MARKS.items():
        own = [spread for spread in drawn if spread.status is status]
        marker = {"symbol": symbol, "size": size, "color": "@ink", "line": {"width": 2.5, "color": "@ink"}}
        points = [((spread.value or 0.0) / x.divisor, escape(spread.label), escape(spread.text)) for spread in own]
        data.append(plot.markers(name, points, marker))
    labels = [escape(spread.label) for spread in reversed(drawn)]
    rates = plot.axis(f"{escape(title)}, {x.label}", anchor="y", **({"rangemode": "tozero"} if from_zero else {}))
    rows = plot.axis(type="category", categoryorder="array", categoryarray=labels, showgrid=False, ticks="",
                     range=[-0.6, len(drawn) - 0.4], fixedrange=True)  # fmt: skip
    return plot.figure(data, 118 + _ROW * len(drawn), 8, rates, rows, left=8, barmode="overlay")


def _bars(
    name: str, colour: str, spans: Sequence[tuple[Spread, tuple[float, float]]], divisor: float, width: float
) -> Figure:
    labels, texts = [escape(spread.label) for spread, _ in spans], [escape(spread.text) for spread, _ in spans]
    lows = [low / divisor for _, (low, _) in spans]
    lengths = [(high - low) / divisor for _, (low, high) in spans]
    return plot.bars(name, lengths, labels, texts, colour, base=lows, width=width, orientation="h")


def search_figure(
    result: ScenarioResult | None,
    trials: Sequence[Trial],
    bounds: Sequence[Between] = (),
    allowed: float = 0.0,
    step: units.Step | None = None,
) -> Figure | None:
    """The loads that a search tried against the time, and what came of each; None with fewer than seven.

    x: seconds since the first; y: offered load. The line is the threshold that the search tracked; without one,
    what came back, as the median of seven trials in turn. Bars across are the band and the interval of the first
    rate. Bars upright are the times in which the cores were not in their most frequent mode. Of a search in progress,
    `bounds` are drawn as they narrow, and `allowed` is the loss ratio that its first rate bears.
    """
    tried = _of_search(trials)
    if len(tried) < 2 * _AROUND + 1:
        return None
    rate = result.rates[0] if result and result.rates else None
    allowed = rate.loss_ratio if rate else allowed
    spread = spread_of("", rate) if rate else Spread("", None)
    times = {trial.id: at for at, trial in tried}
    track = [moment for moment in result.track if moment.trial_id in times] if result else []
    moving = [(times[moment.trial_id], moment.median_fps) for moment in track] or _moving(tried)
    of_interest = [fps for _, fps in moving] + [end for ends in (spread.band, spread.ends) if ends for end in ends]
    of_interest += [] if spread.value is None else [spread.value]
    top = _TOP * max(of_interest, default=max(trial.offered_fps for _, trial in tried))
    y = plot.value_axis("fps", [top], step)
    name = "threshold, as estimated" if track else f"came back, median of {2 * _AROUND + 1} trials"
    line = plot.line(name, [(at, fps / y.divisor) for at, fps in moving], {"color": "@second", "width": 2})
    came = [(_what_came(trial, allowed, top), at, trial) for at, trial in tried]
    kinds = (
        ("held" if allowed else "no frame lost", "circle", "@valid"),
        ("lost more than allowed" if allowed else "frames lost", "x-thin", "@bad"),
        ("load above the axis", "triangle-up-open", "@bad"),
        ("discarded", "diamond-open", "@aborted"),
    )
    data = [*_narrowing(bounds, y.divisor), line | {"hoverinfo": "skip"}]
    for number, (name, symbol, colour) in enumerate(kinds):
        own = [(at, trial) for kind, at, trial in came if kind == number]
        points = [(at, min(trial.offered_fps, top) / y.divisor, _told(trial)) for at, trial in own]
        marker = {"symbol": symbol, "size": 7, "color": colour, "line": {"width": 1.6, "color": colour}}
        data.append(plot.markers(name, points, marker, cliponaxis=False))
    x = plot.axis("time since the first trial, s", anchor="y")
    loads = plot.axis(f"offered load, {y.label}", range=[0, top / y.divisor])
    shapes = [*_across(spread, y.divisor), *_other_modes(result, tried)]
    return plot.figure(data, 340, 12, x, loads, shapes=shapes)


def _of_search(trials: Sequence[Trial]) -> list[tuple[float, Trial]]:
    """The trials of a search, each with its seconds since the first one."""
    tried = [trial for trial in trials if trial.phase == "search" and trial.burst_frames is None]
    return list(zip(seconds_of(tried), tried, strict=True))


def _what_came(trial: Trial, allowed: float, top: float) -> int:
    """Of a trial, as the number of its kind: it held, lost more, had a load above `top`, or was discarded."""
    if trial.validity is not TrialValidity.VALID:
        return 3
    return 2 if trial.offered_fps > top else int(trial.loss_ratio > allowed)


def _narrowing(bounds: Sequence[Between], divisor: float) -> list[Figure]:
    """The area between the two, in steps."""
    style = {"color": "@shade2", "width": 1.2, "shape": "hv"}
    low = [(at_s, interval.low / divisor) for at_s, interval in bounds]
    high = [(at_s, interval.high / divisor) for at_s, interval in bounds]
    filled = plot.line("between a load that held and one that lost", high, style, fill="tonexty", fillcolor="@grid")
    return [plot.line("lower bound", low, style, hoverinfo="skip", showlegend=False), filled | {"hoverinfo": "skip"}]


def _moving(tried: Sequence[tuple[float, Trial]]) -> list[tuple[float, float]]:
    """What came back, the median of each valid trial with those around it: where the threshold was just then."""
    valid = [(at, trial) for at, trial in tried if trial.validity is TrialValidity.VALID]
    carried = [trial.carried_fps for _, trial in valid]
    return [(at, median(carried[max(0, place - _AROUND) : place + _AROUND + 1])) for place, (at, _) in enumerate(valid)]


def _told(trial: Trial) -> str:
    lost = f"lost {units.loss(trial.loss_ratio)}" if trial.lost else "no loss"
    return f"<b>{escape(trial.id)}</b>: {units.fps(trial.offered_fps)}, {lost}{plot.remarks(trial.reason)}"


def _across(spread: Spread, divisor: float) -> Iterator[Figure]:
    """The band and the interval as bars across, the quoted rate as a line."""
    for ends, colour, opacity in ((spread.band, "@shade1", 0.28), (spread.ends, "@accent", 0.35)):
        if ends:
            yield plot.shaded("y", ends[0] / divisor, ends[1] / divisor, colour, opacity)
    if spread.value:
        yield plot.line_at("y", spread.value / divisor, "@accent", layer="below")


def _other_modes(result: ScenarioResult | None, tried: Sequence[tuple[float, Trial]]) -> Iterator[Figure]:
    """Where the cores were farther apart or nearer than most of the time."""
    modes = _distances(result)
    if len(modes) < 2:
        return
    usual = max(modes, key=lambda mode: mode.trials)
    stretches = groupby(range(len(tried)), key=lambda place: _nearest(modes, tried[place][1]) not in (None, usual))
    for other, places in stretches:
        if other:
            inside = list(places)
            after = tried[min(inside[-1] + 1, len(tried) - 1)][0]
            yield plot.shaded("x", tried[inside[0]][0], after, "@line", 0.35)


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
        "Each marker is a trial; point at one for its account. The grey line follows the device, the straight one is "
        f"the load at which half of the trials lose more than allowed, within its interval and its band.{grey}"
    )
