"""What the tables about rates show, as plain values; the page, Markdown and the terminal only place them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from pinchpoint.model import units
from pinchpoint.model.result import Claim, Memory, PauseGap, Rate, RateStatus, ReceiveRate, ScenarioResult
from pinchpoint.report import words
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
        headed=headed(rate.name, (rate,)),
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
    main = [rate_view(rate) if (rate := words.rate_named(result, names[0])) else None for result in results]

    def of_rate(key: str, heading: str, text: Callable[[RateView], str]) -> Column:
        return column(key, heading, (text(view) if view else "" for view in main))

    every = [rate for result in results for rate in result.rates]
    marks = [view.status if view else "" for view in main]
    rates = of_rate("rate", names[0], lambda view: view.quoted).cells
    columns = [
        column("scenario", "scenario", (result.scenario for result in results), is_number=False),
        Column(
            "rate",
            headed(names[0], every),
            tuple(replace(cell, mark=mark) for cell, mark in zip(rates, marks, strict=True)),
        ),
        of_rate("interval", _interval_heading(results, names[0]), lambda view: view.ends),
        of_rate("band", "10 to 90 %\nlose", lambda view: view.band),
        column("mrr", "MRR", (receive_rate(result.mrr) for result in results)),
        column("busy", "thread\nbusy", map(busy, results)),
        column("cycles", "cycles/\npacket", map(cycles, results)),
        *(column("other", headed(name, every), (_quoted(result, name) for result in results)) for name in names[1:]),
        column("limit", "pinched by", map(words.pinched_by, results), is_number=False),
    ]
    always = ("scenario", "rate", "other")
    return Table(tuple(candidate for candidate in columns if candidate.key in always or candidate.is_known))


def _interval_heading(results: Sequence[ScenarioResult], name: str) -> str:
    rates = [rate for result in results if (rate := words.rate_named(result, name)) and rate.status is RateStatus.FOUND]
    sure = {rate.confidence for rate in rates}
    confidence = sure.pop() if len(sure) == 1 else None
    return f"{units.percent(confidence)},\nthis time" if confidence else "interval"


def _quoted(result: ScenarioResult, name: str) -> str:
    rate = words.rate_named(result, name)
    return ABSENT if rate is None else words.quoted(rate)


def busy(result: ScenarioResult) -> str:
    """How busy the busiest thread that forwards was."""
    return units.share(max((load.busy_share for load in result.threads if load.busy_share is not None), default=None))


def cycles(result: ScenarioResult) -> str:
    """What a packet cost that thread."""
    busiest = max(result.threads, key=lambda load: load.busy_share or 0.0, default=None)
    if busiest is None or busiest.cycles_per_packet is None:
        return ABSENT
    return f"{busiest.cycles_per_packet:,.0f}"


LOADED = 0.99  # of the load: a device that forwards more of it was not overloaded, and the MRR is the generator's
INTERVALS = (
    "Intervals are of this measured time on this host. For the next run: --repeats N, or pinchpoint pilot, which also "
    "says how many repeats are enough"
)


def headed(name: str, rates: Sequence[Rate]) -> str:
    """A rate's name with the trial length that belongs to it, e.g. `NDR (0.2 s)`; without, where lengths differ."""
    lengths = {rate.trial_duration_s for rate in rates if rate.name == name}
    return f"{name} ({lengths.pop():g} s)" if len(lengths) == 1 else name


def receive_rate(mrr: ReceiveRate | None) -> str:
    """The MRR, e.g. `10.0 Mpps`; `at least` where the engine could not overload the device; empty if not measured."""
    if mrr is None:
        return ""
    least = "at least " if mrr.estimate_fps >= LOADED * mrr.load_fps else ""
    return f"{least}{units.fps(mrr.estimate_fps)}"


def receive_rate_interval(mrr: ReceiveRate) -> str:
    """How sharply the MRR is known, and at which load."""
    ends = units.fps_range(mrr.lower_fps, mrr.upper_fps)
    return (
        f"{units.percent(mrr.confidence)} interval {ends}; forwarded at {units.fps(mrr.load_fps)} offered, median of "
        f"{mrr.trials} trials of {mrr.trial_duration_s:g} s"
    )


def facts(result: ScenarioResult) -> tuple[str, ...]:
    """What is known beside the rates, a sentence each, without a full stop."""
    ndr = next(iter(result.rates), None)
    gap = _gap(result.gap, ndr, result.mrr) if result.gap and ndr and result.mrr else ""
    beside = [line for rate in result.rates[:1] for line in _beside(rate)]
    return tuple(filter(None, (gap, *beside)))


def warnings(result: ScenarioResult) -> tuple[str, ...]:
    """Where the rates need care: the counts contradict them, the load before matters, overload makes it slower."""
    words: list[str] = []
    for rate in result.rates:
        words += [_claim(rate.name, rate.claim)] if rate.claim and not rate.claim.holds else []
        words += [_memory(rate.name, rate.memory)] if rate.memory else []
        words += [_floor(rate, result.rates)] if rate.floor and rate.status is RateStatus.FOUND else []
    ndr = next(iter(result.rates), None)
    if ndr and result.mrr and ndr.status is RateStatus.FOUND and ndr.lower_fps and result.mrr.upper_fps < ndr.lower_fps:
        words.append(
            f"collapses under overload: at {units.fps(result.mrr.load_fps)} offered it forwards "
            f"{units.fps(result.mrr.estimate_fps)}, less than its NDR"
        )
    return tuple(words)


def _gap(gap: PauseGap, ndr: Rate, mrr: ReceiveRate) -> str:
    return (
        f"Loses from {units.fps(ndr.quoted_fps)} on: a ring of {units.frames(gap.ring)} frames bears a pause of "
        f"{units.seconds(gap.pause_s)} up to there; under overload the device forwards {units.fps(mrr.estimate_fps)}. "
        f"If pauses are the cause, a ring of {units.frames(gap.longer_ring)} gives {units.fps(gap.longer_ring_fps)} "
        "(a prediction that pinchpoint explain can test)"
    )


def _beside(rate: Rate) -> Iterator[str]:
    """What the trials at half of the rate show, and how many trials were not usable."""
    if (half := rate.at_half) and half.losing:
        yield (
            f"{units.share(half.share)} of the trials lose at any load that was tried: {half.losing} of "
            f"{half.trials} at {units.fps(half.load_fps)}, half of the {rate.name}"
        )
    if rate.unusable_share:
        share = units.share(rate.unusable_share)
        yield f"{share} of the trials were not usable: the engine's receiving core stood still"


def _claim(name: str, claim: Claim) -> str:
    below, above = claim.below, claim.above
    return (
        f"the trials beside the {name} contradict it: at most 3 % below it {below.losing} of {below.trials} lost, at "
        f"most 3 % above it {above.losing} of {above.trials}"
    )


def _memory(name: str, memory: Memory) -> str:
    return (
        f"the load before a trial decides: {units.fps(memory.rested_fps)} after rests, "
        f"{units.fps(memory.sustained_fps)} after overloads, which is the {name}"
    )


def _floor(rate: Rate, every: Sequence[Rate]) -> str:
    """A constant loss ratio beside a literal rate."""
    ratio = rate.floor.loss_ratio if rate.floor else 0.0
    useful = next((rate for rate in every if rate.loss_ratio > ratio and rate.quoted_fps), None)
    told = f": the useful rate is {useful.name}, {units.fps(useful.quoted_fps)}" if useful else ""
    return f"loses {units.loss(ratio)} of its frames at any load, so the {rate.name} depends on the trial length{told}"
