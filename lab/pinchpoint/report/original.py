"""Theirs and ours: the conclusions and figures of a study's original beside what was measured, as plain values.

The page, Markdown and the terminal only place them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from pinchpoint.model import units
from pinchpoint.model.duet import RELATIVE
from pinchpoint.model.groups import grouped
from pinchpoint.model.measurement import is_rate
from pinchpoint.model.result import Limit, Outcome, RunResult
from pinchpoint.model.series import Series, fits, listed_levels, series, with_unit
from pinchpoint.model.study import (
    Conclusion,
    ConclusionOutcome,
    Curve,
    CurvePoint,
    JudgedConclusion,
    Need,
    Published,
    PublishedPoint,
    Study,
)
from pinchpoint.report import words
from pinchpoint.report.number_views import cell_of
from pinchpoint.report.tables import ABSENT, Cell, Table, table_of

TITLE: Final = "Theirs and ours"
_ONCE: Final = "one bench per number: variation between benches is not included"
_MARKS: Final = {
    ConclusionOutcome.CONFIRMED: "good",
    ConclusionOutcome.CONTRADICTED: "bad",
    ConclusionOutcome.NOT_DECIDABLE: "mind",
}


@dataclass(frozen=True)
class FigureView:
    """A published series beside ours: a row for each of its levels that has a point here."""

    table: Table  # without rows: no level has one
    without: tuple[str, ...]  # the levels that have none, with the reason

    @property
    def has_rows(self) -> bool:
        """Whether any of its levels was measured here."""
        return bool(self.table.columns[0].cells)


@dataclass(frozen=True)
class OriginalView:
    """All that a run shows of the original that its study repeats."""

    conclusions: Table  # without columns: the study states none
    figures: tuple[FigureView, ...]


def original_view(result: RunResult, study: Study | None) -> OriginalView:
    """The view; without a study it has no figures."""
    curves = {curve.group: curve for curve in result.curves}
    figures = [view for published in (study.published if study else ()) for view in _figures(published, curves, study)]
    return OriginalView(_conclusions(result.conclusions), tuple(figures))


def _conclusions(judged: Sequence[JudgedConclusion]) -> Table:
    if not judged:
        return Table(())
    headings = {"sentence": "conclusion", "theirs": "theirs", "ours": "ours", "outcome": "outcome"}
    table = table_of(headings, map(_conclusion, judged), words=("sentence", "outcome"))
    return replace(table, name=TITLE, title="the original's conclusions")


def _conclusion(judged: JudgedConclusion) -> tuple[Cell, Cell, Cell, Cell]:
    conclusion = judged.conclusion
    is_once = judged.repeats <= 1 and judged.outcome is not ConclusionOutcome.NOT_DECIDABLE
    notes = tuple(filter(None, (_needs(judged), *judged.reasons, _ONCE if is_once else "")))
    return (
        Cell(conclusion.says, notes=(_test(conclusion), f"source: {conclusion.source}")),
        _labelled({label: units.times(ratio) for label, ratio in judged.theirs.items()}),
        _labelled({label: ratio.interval.times for label, ratio in judged.ours.items()}),
        Cell(judged.outcome, mark=_MARKS[judged.outcome], notes=notes),
    )


def _labelled(texts: Mapping[str, str]) -> Cell:
    lines = [f"{label}: {text}" if label else text for label, text in texts.items()] or [ABSENT]
    return Cell(lines[0], notes=tuple(lines[1:]))


def _test(conclusion: Conclusion) -> str:
    """By what it is tested: `the goodput of group threads at numa any over numa same, expected 1.8 to 2.2 x`."""
    request, least, most = conclusion.request, conclusion.least, conclusion.most
    over, under = map(listed_levels, (request.over, request.under))
    other = f"group {request.against} at " if request.against else ""
    expected = f"{least:g} to {most:g}" if least is not None and most is not None else ""
    expected = expected or (f"at most {most:g}" if least is None else f"at least {least:g}")
    return (
        f"tested by the {request.metric} of group {request.group} at {over} over {other}{under}, expected {expected} x"
    )


def _needs(judged: JudgedConclusion) -> str:
    """What a bench must have to decide, and these lack."""
    if judged.outcome is not ConclusionOutcome.NOT_DECIDABLE:
        return ""
    needs = judged.conclusion.needs
    told = [f"{need.words(needs[need])}{_here(had, need)}" for need, had in judged.lacks.items()]
    return f"needs a bench with {', '.join(told)}" if told else ""


def _here(had: int | None, need: Need) -> str:
    if had is None:
        return ""
    return f" ({had} here)" if need.is_counted else " (not here)"


def _figures(published: Published, curves: Mapping[str, Curve], study: Study | None) -> Iterator[FigureView]:
    """One view for each of our series that the published one belongs to; one of its own if there is none."""
    curve = curves.get(published.group)
    parts = series(curve, published.factor) if curve else ()
    fitting = [part for part in parts if any(fits(point, part) for point in published.points)]
    form = "no such point in the short form" if study and study.quick else "no such point"
    for part in fitting:
        yield _figure(published, part, form)
    if not fitting:
        why = form if parts else words.NOT_MEASURED
        yield FigureView(_table(published, "", []), (_without(published, published.points, why),))


def _figure(published: Published, part: Series, form: str) -> FigureView:
    own = [point for point in published.points if fits(point, part)]
    at = [(point, part.at(point.levels[published.factor])) for point in own]
    rows = [_row(published, part, theirs, ours) for theirs, ours in at if ours is not None]
    lost = [theirs for theirs, ours in at if ours is None]
    reasons = grouped((_is_swept(published, part, theirs), theirs) for theirs in lost)
    without = [
        _without(published, points, words.NOT_MEASURED if swept else form, own) for swept, points in reasons.items()
    ]
    return FigureView(_table(published, part.label, rows), tuple(without))


def _is_swept(published: Published, part: Series, point: PublishedPoint) -> bool:
    """Whether the run is to measure this level, and has not yet."""
    return point.levels[published.factor] in part.factor.levels


def _table(published: Published, label: str, rows: Sequence[Sequence[str | Cell]]) -> Table:
    headings = {"level": published.factor, "theirs": "theirs", "ours": "ours", "source": "source", "remark": "remark"}
    table = table_of(headings, rows, words=("source", "remark"))
    columns = [column for column in table.columns if column.is_number or any(cell.text for cell in column.cells)]
    title = ", ".join(filter(None, (published.metric, "theirs and ours", label)))
    return Table(tuple(columns), published.group, f"{title} ({published.title})")


def _row(published: Published, part: Series, theirs: PublishedPoint, ours: CurvePoint) -> Sequence[str | Cell]:
    is_relative = is_rate(published.metric) and published.metric not in ours.estimates and RELATIVE in ours.estimates
    metric = RELATIVE if is_relative else published.metric
    remark = Limit(ours.limit).words if ours.limit else ""
    if is_relative:
        remark = "forwarded under overload, relative to the first point"
    elif metric not in ours.estimates:
        remark = _why_none(ours, metric)
    level = with_unit(theirs.levels[published.factor], part.factor.unit)
    return level, units.quantity(theirs.value, published.unit), cell_of(ours, metric), theirs.source, remark


def _why_none(point: CurvePoint, metric: str) -> str:
    if point.outcome != Outcome.MEASURED:
        return f"{Outcome(point.outcome).words}: {words.plain_reason(point.reason)}"
    if metric in point.refusals:
        return str(point.refusals[metric])
    return point.notes.get(metric, "") or f"{metric} is not known"


def _without(
    published: Published, points: Sequence[PublishedPoint], reason: str, every: Sequence[PublishedPoint] = ()
) -> str:
    """Levels without a point of ours, neighbours as `2 to 31`, and why."""
    lost = [point.levels[published.factor] for point in points]
    runs = groupby((point.levels[published.factor] for point in every or points), key=lambda level: level in lost)
    ends = [list(run) for is_lost, run in runs if is_lost]
    told = [" to ".join(map(units.level, run if len(run) == 1 else (run[0], run[-1]))) for run in ends]
    return f"{published.factor} {', '.join(told)}: {reason}"
