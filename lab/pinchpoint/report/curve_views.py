"""What the tables about curves show, as plain values; the page, Markdown and the terminal only place them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pinchpoint.model import units
from pinchpoint.model.duet import RELATIVE
from pinchpoint.model.groups import grouped
from pinchpoint.model.result import Limit, Outcome
from pinchpoint.model.series import levels_of, with_unit
from pinchpoint.model.study import Bound, Curve, CurvePoint, Published, Study
from pinchpoint.model.terms import MRR, THREAD_BUSY, is_band, is_rate
from pinchpoint.report import words
from pinchpoint.report.curve_figures import Panel, interval_words, main_metrics, metric_names, panels
from pinchpoint.report.tables import ABSENT, Cell, Table, column

# Beside what was looked for, these say most about why it is what it is.
_TELLING: Final = ("cycles per packet", THREAD_BUSY, "datapath flows", "datapath masks")
_MOST_COLUMNS: Final = 5
_FEW: Final = 3  # metrics named that are not in the table
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


def curve_views(curves: Sequence[Curve], study: Study | None) -> tuple[CurveView, ...]:
    """One view a curve that has points, in their order."""
    published = study.published if study else ()
    numbered = enumerate(curves, 1)
    return tuple(_view(f"curve-{place}", curve, published) for place, curve in numbered if curve.points)


def _view(anchor: str, curve: Curve, published: Sequence[Published]) -> CurveView:
    columns = table_columns(curve)
    every = metric_names(curve)
    return CurveView(
        anchor=anchor,
        curve=curve,
        columns=columns,
        rows=tuple(_row(curve, point, columns) for point in curve.points),
        intervals=interval_words(curve, columns),
        panels=panels(curve, published),
        all_columns=every if len(every) > len(columns) else (),
        unmeasured=tuple(_unmeasured(curve)),
        unseen=_unseen(curve),
    )


def table_columns(curve: Curve) -> tuple[str, ...]:
    """The metrics of the curve's table: what was looked for, then what explains it."""
    names, wanted = metric_names(curve), main_metrics(curve)
    refused = dict.fromkeys(name for point in curve.points for name in point.notes if name and name not in names)
    if curve.measure == "rates":
        rates = set(filter(is_rate, (*wanted, *refused)))
        wanted = tuple(sorted(rates or {*wanted, *refused} - {MRR}, key=lambda name: (name != "NDR", name)))
        if RELATIVE in (*names, *refused):
            wanted = (RELATIVE, *filter(is_rate, sorted({*names, *wanted} - {RELATIVE})))
        wanted = (*wanted, *(name for name in names if name == MRR))
    else:
        wanted = tuple(dict.fromkeys((*wanted, *refused)))
    telling = [name for name in _TELLING if name in names and name not in wanted]
    rest = [name for name in names if name not in (*wanted, *telling) and not is_band(name)]
    return tuple([*wanted, *telling, *rest][: max(_MOST_COLUMNS, len(wanted))])


def _row(curve: Curve, point: CurvePoint, columns: Sequence[str]) -> Row:
    measured = point.outcome == Outcome.MEASURED
    main = next((point.estimates[name] for name in columns if name in point.estimates), None)
    trimmed = main.trimmed_mean if main else None
    limit = Limit(point.limit).words if point.limit else "-"
    return Row(
        levels=tuple(with_unit(point.levels.get(factor.name), factor.unit) for factor in curve.factors),
        cells={name: _cell(point, name) for name in (*columns, *metric_names(curve))},
        repeats=main.n if main else 0,
        published_way="" if main is None or trimmed is None else units.quantity(trimmed, main.unit),
        outcome=point.outcome,
        limit=limit if measured else words.OUTCOMES[Outcome(point.outcome)],
        verdict=point.verdict if measured else words.plain_reason(point.reason),
        notes=tuple(_notes(point, columns)),
    )


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
            yield f"{', '.join(shown or names[:_FEW])}: {caution}"
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


def _cell(point: CurvePoint, name: str) -> Cell:
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
    unmeasured = grouped(
        ((words.OUTCOMES[Outcome(point.outcome)], words.plain_reason(point.reason)), levels_of(curve, point))
        for point in curve.points
        if point.outcome != Outcome.MEASURED
    )
    return [(f"{'; '.join(at)}: {outcome}", reason) for (outcome, reason), at in unmeasured.items()]
