"""What the tables about rates show, as plain values; the page, Markdown and the terminal only place them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pinchpoint.model import units
from pinchpoint.model.result import Rate, RateStatus, RunResult, ScenarioResult
from pinchpoint.report import words

ABSENT: Final = "-"


@dataclass(frozen=True)
class RateView:
    """A rate with what is known of it; texts without a unit are in the unit of the number."""

    name: str
    status: RateStatus
    quoted: str  # with its unit, e.g. "at least 7.10 Mpps"
    qualifier: str  # "at least", "below", "loses" or empty
    number: str  # "7.10", or "no number"
    unit: str
    ends: str  # of the interval, e.g. "4.71 .. 5.02"; empty if it has not two
    band: str  # 5 % and 95 % of the time; empty if not known
    best: str  # best sustained; empty if not known, or written as the number is
    interval: str  # in words
    band_words: str


@dataclass(frozen=True)
class Column:
    """One column of a table with one row a scenario."""

    key: str
    heading: str
    cells: tuple[str, ...]
    is_number: bool = True


@dataclass(frozen=True)
class RateTable:
    """Scenarios of the measure `rates`, one row each; a column in which nothing is known is left out."""

    results: tuple[ScenarioResult, ...]
    columns: tuple[Column, ...]
    others: tuple[Column, ...]  # of each rate but the first: what to quote


def rate_view(rate: Rate) -> RateView:
    """Everything that is written about one rate."""
    qualifier, quoted = words.qualified(rate)
    number, _, unit = (quoted, "", "") if quoted == words.NO_NUMBER else quoted.partition(" ")
    middle, band = rate.quoted_fps, rate.band
    best = units.beside(middle, band.best_fps, unit="fps") if middle and band else ""
    return RateView(
        name=rate.name,
        status=rate.status,
        quoted=words.quoted(rate),
        qualifier=qualifier,
        number=number,
        unit=unit,
        ends=_ends(rate),
        band=units.beside(middle, band.low_fps, band.high_fps, unit="fps") if middle and band else "",
        best="" if best == number else best,
        interval=words.interval(rate),
        band_words=words.band(rate),
    )


def _ends(rate: Rate) -> str:
    if rate.status is RateStatus.LOSES_ALWAYS and rate.floor is not None:
        return units.beside(rate.floor.loss_ratio, rate.floor.lower, rate.floor.upper, unit="share")
    if rate.status is not RateStatus.FOUND or not (rate.quoted_fps and rate.lower_fps and rate.upper_fps):
        return ""
    return units.beside(rate.quoted_fps, rate.lower_fps, rate.upper_fps, unit="fps")


def rate_table(result: RunResult) -> RateTable:
    """The table of all scenarios; its first rate, most often the NDR, has all that is known of it."""
    results = result.scenarios
    names = words.rate_names(result) or ("NDR",)
    main = [rate_view(rate) if (rate := words.rate_named(one, names[0])) else None for one in results]

    def of_rate(key: str, heading: str, text: Callable[[RateView], str]) -> Column:
        return Column(key, heading, tuple((text(view) if view else "") or ABSENT for view in main))

    found = [
        Column("scenario", "scenario", tuple(one.scenario for one in results), is_number=False),
        of_rate("rate", names[0], lambda view: view.quoted),
        of_rate("interval", _interval_heading(results, names[0]), lambda view: view.ends),
        of_rate("band", "5 to 95 %\nof the time", lambda view: view.band),
        of_rate("best", "best\nsustained", lambda view: view.best),
        Column("busy", "thread\nbusy", tuple(busy(one) for one in results)),
        Column("cycles", "cycles/\npacket", tuple(cycles(one) for one in results)),
        Column("limit", "pinched by", tuple(words.pinched_by(one) for one in results), is_number=False),
    ]
    others = tuple(Column(name, name, tuple(_quoted(one, name) for one in results)) for name in names[1:])
    always = ("scenario", "rate")
    kept = tuple(one for one in found if one.key in always or any(cell != ABSENT for cell in one.cells))
    return RateTable(results, kept, others)


def _interval_heading(results: Sequence[ScenarioResult], name: str) -> str:
    rates = [rate for one in results if (rate := words.rate_named(one, name)) and rate.status is RateStatus.FOUND]
    sure = {rate.confidence for rate in rates}
    confidence = sure.pop() if len(sure) == 1 else None
    return f"{units.percent(confidence)}\ninterval" if confidence else "interval"


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
