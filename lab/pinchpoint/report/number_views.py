"""What is shown of numbers, as plain values: rates with what is known beside them, metrics, measurements, curves.

The page, Markdown and the terminal only place them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pinchpoint.measure import registry
from pinchpoint.model import units
from pinchpoint.model.duet import RELATIVE
from pinchpoint.model.groups import grouped
from pinchpoint.model.measurement import (
    CYCLES,
    MRR,
    THREAD_BUSY,
    Bound,
    Interval,
    Measurement,
    Metric,
    is_band,
    is_rate,
)
from pinchpoint.model.result import Limit, LossShare, Outcome, Rate, RateStatus, ReceiveRate, ScenarioResult
from pinchpoint.model.series import levels_of, with_unit
from pinchpoint.model.study import Curve, CurvePoint, Published, Study
from pinchpoint.model.warning import ResultWarning, Warn
from pinchpoint.report import curve_figures, words
from pinchpoint.report.curve_figures import Panel, interval_words, metric_names, panels
from pinchpoint.report.tables import ABSENT, Cell, Column, Table, column, table_of

LOADED: Final = 0.99  # of the load: a device that forwards more was not overloaded, and the MRR is the generator's
INTERVALS: Final = (
    "Intervals are of this measured time on this host. For the next run: --repeats N, or pinchpoint pilot, which also "
    "says how many repeats are enough"
)
_FEW: Final = 4  # metrics of a measure that is not listed, and columns of measurements


def common_step(results: Sequence[ScenarioResult]) -> units.Step | None:
    """The unit in which a page writes the rates of these scenarios; None: each in its own."""
    quoted = [rate.quoted_fps or rate.upper_fps for result in results for rate in result.rates]
    quoted += [result.mrr.estimate_fps for result in results if result.mrr]
    return units.common((fps for fps in quoted if fps), "fps")


def parts(rate: Rate, step: units.Step | None = None) -> tuple[str, str, str]:
    """The number to quote as qualifier, number and unit, e.g. `("at least", "7.10", "Mpps")`."""
    qualifier, quoted = words.qualified(rate, step)
    number, _, unit = (quoted, "", "") if quoted == words.NO_NUMBER else quoted.partition(" ")
    return qualifier, number, unit


def ends(rate: Rate, step: units.Step | None = None) -> str:
    """Of the interval, in the unit of the number, e.g. `4.71 .. 5.02`; empty if it has not two."""
    if rate.status is RateStatus.LOSES_ALWAYS and rate.floor is not None:
        return units.beside(rate.floor.loss_ratio, rate.floor.lower, rate.floor.upper, unit="share")
    known = rate.interval if rate.status is RateStatus.FOUND else None
    return units.beside(known.value, known.low, known.high, unit="fps", step=step) if known else ""


def band(rate: Rate, step: units.Step | None = None) -> str:
    """Loads at which 10 % and 90 % of the trials lose, in the unit of the number; empty if not known."""
    if not rate.quoted_fps or not rate.band:
        return ""
    return units.beside(rate.quoted_fps, rate.band.low_fps, rate.band.high_fps, unit="fps", step=step)


def rate_table(results: Sequence[ScenarioResult]) -> Table:
    """One row a scenario; the first rate, most often the NDR, has all that is known of it.

    A column in which nothing is known is left out. Those of further rates have the key "other".
    """
    names = words.rate_names(results) or ("NDR",)
    every = [rate for result in results for rate in result.rates]
    main = [words.rate_named(result, names[0]) for result in results]

    def of_rate(key: str, heading: str, text: Callable[[Rate], str | Cell], name: str = names[0]) -> Column:
        rates = (words.rate_named(result, name) for result in results)
        return column(key, heading, (text(rate) if rate else "" for rate in rates))

    columns = [
        column("scenario", "scenario", (result.scenario for result in results), is_number=False),
        of_rate("rate", headed(names[0], every), lambda rate: Cell(words.quoted(rate), mark=rate.status)),
        of_rate("interval", _interval_heading(main), ends),
        of_rate("band", "10 to 90 %\nlose", band),
        column("mrr", "MRR", (receive_rate(result.mrr) for result in results)),
        column("busy", "thread\nbusy", map(busy, results)),
        column("cycles", "cycles/\npacket", map(cycles, results)),
        *(of_rate("other", headed(name, every), words.quoted, name) for name in names[1:]),
        column("limit", "pinched by", map(words.pinched_by, results), is_number=False),
    ]
    always = ("scenario", "rate", "other")
    return Table(tuple(candidate for candidate in columns if candidate.key in always or candidate.is_known))


def _interval_heading(rates: Sequence[Rate | None]) -> str:
    sure = {rate.confidence for rate in rates if rate and rate.status is RateStatus.FOUND}
    confidence = sure.pop() if len(sure) == 1 else None
    return f"{units.percent(confidence)},\nthis time" if confidence else "interval"


def busy(result: ScenarioResult) -> str:
    """How busy the busiest thread that forwards was."""
    return units.share(max((load.busy_share for load in result.threads if load.busy_share is not None), default=None))


def cycles(result: ScenarioResult) -> str:
    """What a packet cost the threads that forward, where the rate was held; of an older run, the busiest one."""
    found = next((metric.value for metric in result.metrics if metric.name == CYCLES), None)
    if found is not None:
        return f"{found:,.0f}"
    busiest = max(result.threads, key=lambda load: load.busy_share or 0.0, default=None)
    if busiest is None or busiest.cycles_per_packet is None:
        return ABSENT
    return f"{busiest.cycles_per_packet:,.0f}"


def headed(name: str, rates: Sequence[Rate]) -> str:
    """A rate's name with the trial length that belongs to it, e.g. `NDR (0.2 s)`; without, where lengths differ."""
    lengths = {rate.trial_duration_s for rate in rates if rate.name == name}
    return f"{name} ({lengths.pop():g} s)" if len(lengths) == 1 else name


def receive_rate(mrr: ReceiveRate | None, step: units.Step | None = None) -> str:
    """The MRR, e.g. `10.0 Mpps`; `at least` where the engine could not overload the device; empty if not measured."""
    if mrr is None:
        return ""
    least = "at least " if mrr.estimate_fps >= LOADED * mrr.load_fps else ""
    return f"{least}{units.fps(mrr.estimate_fps, step)}"


def receive_rate_interval(mrr: ReceiveRate, step: units.Step | None = None) -> str:
    """How sharply the MRR is known, and at which load."""
    ends = units.quantity_range(mrr.lower_fps, mrr.upper_fps, "fps", step)
    interval = f"{units.percent(mrr.confidence)} interval {ends}"
    trials = f"median of {mrr.trials} trials of {mrr.trial_duration_s:g} s"
    return f"{interval}; forwarded at {units.fps(mrr.load_fps, step)} offered, {trials}"


def facts(result: ScenarioResult) -> Iterator[str]:
    """What is known beside the rates, a sentence each, without a full stop."""
    for ndr in result.rates[:1]:
        if (gap := result.gap) and result.mrr:
            yield (
                f"Loses from {units.fps(ndr.quoted_fps)} on: a ring of {units.frames(gap.ring)} frames absorbs a pause "
                f"of {units.seconds(gap.pause_s)} up to there; under overload the device forwards "
                f"{units.fps(result.mrr.estimate_fps)}. If pauses are the cause, a ring of "
                f"{units.frames(gap.longer_ring)} gives {units.fps(gap.longer_ring_fps)} "
                "(a prediction that pinchpoint explain can test)"
            )
        if (half := ndr.at_half) and 0 < half.share < words.BAND_SHARE:
            yield _losing_at_half(ndr, half).text
        if ndr.unusable_share:
            share = units.share(ndr.unusable_share)
            yield f"{share} of the trials were not usable: the engine's receiving core stood still"


def _losing_at_half(rate: Rate, half: LossShare) -> ResultWarning:
    return Warn.LOSES_AT_ANY_LOAD.of(
        losing_share=half.share, losing=half.losing, trials=half.trials, load_fps=half.load_fps, rate=rate.name
    )


def warnings(result: ScenarioResult) -> Iterator[ResultWarning]:
    """Where the rates need care: the counts contradict them, the load before matters, overload makes it slower."""
    ndr, mrr = next(iter(result.rates), None), result.mrr
    if ndr and (half := ndr.at_half) and half.share >= words.BAND_SHARE:
        yield _losing_at_half(ndr, half)
    for rate in result.rates:
        if rate.claim and not rate.claim.holds:
            below, above = rate.claim.below, rate.claim.above
            yield Warn.RATE_CONTRADICTED.of(
                rate=rate.name,
                losing_below=below.losing,
                below=below.trials,
                losing_above=above.losing,
                above=above.trials,
            )
        if memory := rate.memory:
            rested_fps, sustained_fps = memory.rested_fps, memory.sustained_fps
            yield Warn.LOAD_BEFORE_DECIDES.of(rested_fps=rested_fps, sustained_fps=sustained_fps, rate=rate.name)
        if rate.floor and rate.status is RateStatus.FOUND:
            ratio = rate.floor.loss_ratio  # a constant one, beside a literal rate
            useful = next((other for other in result.rates if other.loss_ratio > ratio and other.quoted_fps), None)
            told = f": the useful rate is {useful.name}, {units.fps(useful.quoted_fps)}" if useful else ""
            yield Warn.DEPENDS_ON_LENGTH.of(told, lost=units.loss(ratio), rate=rate.name)
    if ndr and mrr and ndr.status is RateStatus.FOUND and ndr.lower_fps and mrr.upper_fps < ndr.lower_fps:
        yield Warn.SLOWER_WHEN_OVERLOADED.of(load_fps=mrr.load_fps, forwarded_fps=mrr.estimate_fps)


@dataclass(frozen=True)
class MetricRow:
    """A metric as a row of a table, its value with its unit."""

    name: str
    value: str  # with its unit
    interval: str  # empty if none is known
    note: str  # what to mind about this one


@dataclass(frozen=True)
class MetricsView:
    """The metrics of a scenario: the main ones, all of them, and the note that they share."""

    main: tuple[MetricRow, ...]
    every: tuple[MetricRow, ...]
    about: str  # what is true of all of them, e.g. what their intervals are


def metrics_view(listed: Sequence[Metric], measure: str) -> MetricsView:
    """Everything that a scenario found; notes that all metrics share stand once."""
    notes = [metric.remarks for metric in listed]
    shared = [note for note in notes[0] if note and all(note in each for each in notes)] if len(notes) > 1 else []
    main = tuple(_row(metric, shared) for metric in main_metrics(measure, listed))
    return MetricsView(main, tuple(_row(metric, shared) for metric in listed), "; ".join(shared))


def _row(metric: Metric, shared: Sequence[str]) -> MetricRow:
    note = "; ".join(remark for remark in metric.remarks if remark not in shared)
    interval = Interval.of(metric).ends(metric.unit) if metric.low != metric.high else ""
    return MetricRow(metric.name, units.quantity(metric.value, metric.unit), interval, note)


def metric_table(result: ScenarioResult, view: MetricsView) -> Table:
    """One row a main metric."""
    values = [Cell(row.value, mark="" if place else "strong") for place, row in enumerate(view.main)]
    rows = [(row.name, value, row.interval, row.note) for row, value in zip(view.main, values, strict=True)]
    headings = {"metric": result.measure, "found": "found", "interval": "interval", "note": "note"}
    table = table_of(headings, rows, words=("metric", "note"))
    return replace(table, name=result.scenario, title=result.title)


def main_metrics(measure: str, metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    """The metrics that the measure is about, the most important first."""
    declared = registry.find(measure)
    wanted = declared.main if declared else ()
    return tuple(named(metrics, wanted) or metrics[:_FEW])


def named(metrics: Sequence[Metric], wanted: Sequence[str]) -> list[Metric]:
    """The metrics of these names; a name that ends in a space is of several."""
    return [metric for name in wanted for metric in metrics if _is_named(metric.name, name)]


def _is_named(name: str, wanted: str) -> bool:
    return name.startswith(wanted) if wanted.endswith(" ") else name == wanted


def main_columns(made: Sequence[Measurement]) -> tuple[str, ...]:
    """The names of the main figures of these measurements."""
    main = [metric.name for measurement in made for metric in main_metrics(measurement.kind, measurement.metrics)]
    return tuple(dict.fromkeys(main))[:_FEW]


def figure(measurement: Measurement, name: str) -> tuple[str, str]:
    """What a measurement found of a metric, and what to sort it by."""
    metric = {metric.name: metric for metric in measurement.metrics}.get(name)
    return (units.quantity(metric.value, metric.unit), f"{metric.value:.10g}") if metric else (ABSENT, "")


# Beside what was looked for, these say most about why it is what it is.
_TELLING: Final = (CYCLES, THREAD_BUSY, "datapath flows", "datapath masks")
_MOST_COLUMNS: Final = 5
_FEW_NAMED: Final = 3  # metrics named that are not in the table
UNSEEN: Final = "datapath flows unchanged"


@dataclass(frozen=True)
class Row:
    """One point of a curve."""

    levels: tuple[str, ...]
    cells: Mapping[str, Cell]  # by metric
    repeats: int
    published_way: str  # the mean without the lowest and the highest repeat; empty if there is none
    outcome: str  # an Outcome's word
    limit: str  # what pinched it, or how it ended without a number
    verdict: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class CurveView:
    """One curve with everything that is shown of it."""

    anchor: str
    curve: Curve
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    intervals: tuple[str, ...]
    panels: tuple[Panel, ...]
    all_columns: tuple[str, ...]  # empty: no more than `columns`
    unmeasured: tuple[tuple[str, str], ...]  # which points, why not
    unseen: str  # where the datapath saw a factor least; empty if it saw all
    definitions: tuple[str, ...] = ()  # what the rates in its columns mean, with the length of their trials

    @property
    def nothing(self) -> tuple[str, ...]:
        """Of a sweep of which no point was measured, a sentence for each reason: it needs no table. Empty of others."""
        if any(row.outcome == Outcome.MEASURED for row in self.rows):
            return ()
        return tuple(": ".join(filter(None, (places, reason.rstrip(".")))) for places, reason in self.unmeasured)


def curve_views(curves: Sequence[Curve], study: Study | None) -> tuple[CurveView, ...]:
    """One view a curve that has points, in their order."""
    published = study.published if study else ()
    numbered = enumerate(curves, 1)
    return tuple(_view(f"curve-{place}", curve, published) for place, curve in numbered if curve.points)


def _view(anchor: str, curve: Curve, published: Sequence[Published]) -> CurveView:
    columns, every = table_columns(curve), metric_names(curve)
    rows = tuple(_point_row(curve, point, columns) for point in curve.points)
    intervals, drawn = interval_words(curve, columns), panels(curve, published)
    all_columns, unmeasured = every if len(every) > len(columns) else (), tuple(_unmeasured(curve))
    return CurveView(anchor, curve, columns, rows, intervals, drawn, all_columns, unmeasured, _unseen(curve))


def table_columns(curve: Curve) -> tuple[str, ...]:
    """The metrics of the curve's table: what was looked for, then what explains it."""
    names, wanted = metric_names(curve), curve_figures.main_metrics(curve)
    refused = dict.fromkeys(name for point in curve.points for name in point.notes if name and name not in names)
    if registry.is_search(curve.measure):
        rates = set(filter(is_rate, (*wanted, *refused)))
        wanted = tuple(sorted(rates or {*wanted, *refused} - {MRR}, key=lambda name: (name != "NDR", name)))
        if RELATIVE in (*names, *refused):
            wanted = (RELATIVE, *filter(is_rate, sorted({*names, *wanted} - {RELATIVE})))
        wanted = (*wanted, *(name for name in names if name == MRR))
    else:
        declared = registry.find(curve.measure)
        own = (name for name in (declared.columns if declared else ()) if name in names)
        wanted = tuple(dict.fromkeys((*wanted, *refused, *own)))
    telling = [name for name in _TELLING if name in names and name not in wanted]
    rest = [name for name in names if name not in (*wanted, *telling) and not is_band(name)]
    return tuple([*wanted, *telling, *rest][: max(_MOST_COLUMNS, len(wanted))])


def _point_row(curve: Curve, point: CurvePoint, columns: Sequence[str]) -> Row:
    measured = point.outcome == Outcome.MEASURED
    main = next((point.estimates[name] for name in columns if name in point.estimates), None)
    trimmed = main.trimmed_mean if main else None
    levels = tuple(with_unit(point.levels.get(factor.name), factor.unit) for factor in curve.factors)
    cells = {name: cell_of(point, name) for name in (*columns, *metric_names(curve))}
    published_way = "" if main is None or trimmed is None else units.quantity(trimmed, main.unit)
    limit, verdict = Limit(point.limit).words if point.limit else "-", point.verdict
    if not measured:
        limit, verdict = Outcome(point.outcome).words, words.plain_reason(point.reason)
    notes = tuple(_notes(point, columns))
    return Row(levels, cells, main.n if main else 0, published_way, point.outcome, limit, verdict, notes)


def _notes(point: CurvePoint, columns: Sequence[str]) -> Iterator[str]:
    """What to mind about the point and its numbers; "at least" stands with its number, and why in the verdict."""
    if of_all := point.notes.get("", ""):
        yield of_all
    refusals = {name: [str(refusal)] for name, refusal in point.refusals.items() if name in columns}
    noted = ((name, (*refusals.get(name, ()), *point.to_mind(name))) for name in point.notes if name)
    for caution, names in grouped((caution, name) for name, cautions in noted for caution in cautions).items():
        if caution in point.to_mind(""):
            continue
        shown = [name for name in names if name in columns]
        if point.estimates and set(names) >= set(point.estimates):
            yield caution
        else:
            yield f"{', '.join(shown or names[:_FEW_NAMED])}: {caution}"
    if point.invisible:
        yield UNSEEN


def curve_table(view: CurveView) -> Table:
    """One row a point: levels, each number with its interval, the repeats, what pinched it and what to mind."""
    verdicts = ("" if row.outcome == Outcome.MEASURED else f": {row.verdict}" for row in view.rows)
    limits = [Cell(row.limit + why, notes=row.notes) for row, why in zip(view.rows, verdicts, strict=True)]
    columns = [column("level", factor.name, [row.levels[place] for row in view.rows])
               for place, factor in enumerate(view.curve.factors)]  # fmt: skip
    columns += [column("metric", name, [row.cells[name] for row in view.rows]) for name in view.columns]
    columns.append(column("repeats", "n", (str(row.repeats or ABSENT) for row in view.rows)))
    columns.append(column("limit", "pinched by", limits, is_number=False))
    return Table(tuple(columns), view.curve.group, view.curve.title)


def cell_of(point: CurvePoint, name: str) -> Cell:
    """The number of one metric with its interval; `refused`, or absent, where there is none."""
    estimate = point.estimates.get(name)
    if estimate is None:
        refused = name in point.refusals
        return Cell("refused", mark=Bound.REFUSED) if refused else Cell(ABSENT)
    return Cell(estimate.quoted, words.spread(estimate), estimate.bound, f"{estimate.value:.10g}")


def _unseen(curve: Curve) -> str:
    """The words of the last such point, which is the farthest, and how many there are."""
    words = [point.invisible for point in curve.points if point.invisible]
    if not words:
        return ""
    of = f" ({len(words)} of {len(curve.points)} points are like that)" if len(words) > 1 else ""
    return f"{words[-1].rstrip('.')}{of}"


def _unmeasured(curve: Curve) -> list[tuple[str, str]]:
    """Points without a number by outcome and reason: how many, which, why."""
    unmeasured = [point for point in curve.points if point.outcome != Outcome.MEASURED]
    outcomes = [(Outcome(point.outcome).words, words.plain_reason(point.reason)) for point in unmeasured]
    places = grouped(zip(outcomes, (levels_of(curve, point) for point in unmeasured), strict=True))
    if len(places) == 1 and len(unmeasured) == len(curve.points) > 1:
        return [(f"all {units.counted(len(unmeasured), 'point')}: {outcomes[0][0]}", outcomes[0][1])]
    return [(f"{'; '.join(at)}: {outcome}", reason) for (outcome, reason), at in places.items()]
