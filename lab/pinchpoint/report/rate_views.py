"""What the tables about rates show, as plain values; the page, Markdown and the terminal only place them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pinchpoint.model import units
from pinchpoint.model.result import Rate, RateStatus, ScenarioResult
from pinchpoint.report import rate_words, words
from pinchpoint.report.tables import ABSENT, Column, Table, column


@dataclass(frozen=True)
class RateView:
    """A rate with what is known of it; texts without a unit are in the unit of the number."""

    name: str
    headed: str  # the name with its trial length, e.g. "NDR (0.2 s)"
    status: RateStatus
    quoted: str  # with its unit, e.g. "at least 7.10 Mpps"
    qualifier: str  # "at least", "below", "loses" or empty
    number: str  # "7.10", or "no number"
    unit: str
    ends: str  # of the interval, e.g. "4.71 .. 5.02"; empty if it has not two
    band: str  # loads at which 10 % and 90 % of the trials lose; empty if not known
    interval: str  # in words
    band_words: str


def rate_view(rate: Rate) -> RateView:
    """Everything that is written about one rate."""
    qualifier, quoted = words.qualified(rate)
    number, _, unit = (quoted, "", "") if quoted == words.NO_NUMBER else quoted.partition(" ")
    middle, band = rate.quoted_fps, rate.band
    return RateView(
        name=rate.name,
        headed=rate_words.headed(rate.name, (rate,)),
        status=rate.status,
        quoted=words.quoted(rate),
        qualifier=qualifier,
        number=number,
        unit=unit,
        ends=_ends(rate),
        band=units.beside(middle, band.low_fps, band.high_fps, unit="fps") if middle and band else "",
        interval=words.interval(rate),
        band_words=words.band(rate),
    )


def _ends(rate: Rate) -> str:
    if rate.status is RateStatus.LOSES_ALWAYS and rate.floor is not None:
        return units.beside(rate.floor.loss_ratio, rate.floor.lower, rate.floor.upper, unit="share")
    if rate.status is not RateStatus.FOUND or not (rate.quoted_fps and rate.lower_fps and rate.upper_fps):
        return ""
    return units.beside(rate.quoted_fps, rate.lower_fps, rate.upper_fps, unit="fps")


def rate_table(results: Sequence[ScenarioResult]) -> Table:
    """One row a scenario; the first rate, most often the NDR, has all that is known of it.

    A column in which nothing is known is left out. Those of further rates have the key "other".
    """
    names = words.rate_names(results) or ("NDR",)
    main = [rate_view(rate) if (rate := words.rate_named(one, names[0])) else None for one in results]

    def of_rate(key: str, heading: str, text: Callable[[RateView], str]) -> Column:
        return column(key, heading, (text(view) if view else "" for view in main))

    every = [rate for one in results for rate in one.rates]
    marks = [view.status if view else "" for view in main]
    rates = of_rate("rate", names[0], lambda view: view.quoted).cells
    found = [
        column("scenario", "scenario", (one.scenario for one in results), is_number=False),
        Column(
            "rate",
            rate_words.headed(names[0], every),
            tuple(replace(cell, mark=mark) for cell, mark in zip(rates, marks, strict=True)),
        ),
        of_rate("interval", _interval_heading(results, names[0]), lambda view: view.ends),
        of_rate("band", "10 to 90 %\nlose", lambda view: view.band),
        column("mrr", "MRR", (rate_words.receive_rate(one.mrr) for one in results)),
        column("busy", "thread\nbusy", map(busy, results)),
        column("cycles", "cycles/\npacket", map(cycles, results)),
        *(
            column("other", rate_words.headed(name, every), (_quoted(one, name) for one in results))
            for name in names[1:]
        ),
        column("limit", "pinched by", map(words.pinched_by, results), is_number=False),
    ]
    always = ("scenario", "rate", "other")
    return Table(tuple(one for one in found if one.key in always or one.is_known))


def _interval_heading(results: Sequence[ScenarioResult], name: str) -> str:
    rates = [rate for one in results if (rate := words.rate_named(one, name)) and rate.status is RateStatus.FOUND]
    sure = {rate.confidence for rate in rates}
    confidence = sure.pop() if len(sure) == 1 else None
    return f"{units.percent(confidence)},\nthis time" if confidence else "interval"


def _quoted(one: ScenarioResult, name: str) -> str:
    rate = words.rate_named(one, name)
    return ABSENT if rate is None else words.quoted(rate)


def busy(one: ScenarioResult) -> str:
    """How busy the busiest thread that forwards was."""
    return units.share(max((load.busy_share for load in one.pmds if load.busy_share is not None), default=None))


def cycles(one: ScenarioResult) -> str:
    """What a packet cost that thread."""
    busiest = max(one.pmds, key=lambda load: load.busy_share or 0.0, default=None)
    if busiest is None or busiest.cycles_per_packet is None:
        return ABSENT
    return f"{busiest.cycles_per_packet:,.0f}"
