"""The terminal's tables: curves, findings, rates, and what pinched each scenario."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pinchpoint.model import units
from pinchpoint.model.result import RateStatus, RunResult, ScenarioResult
from pinchpoint.model.study import Finding
from pinchpoint.report import words
from pinchpoint.report.curve_views import CurveView, curve_views
from pinchpoint.report.metric_views import metrics_view
from pinchpoint.report.rate_views import ABSENT, RateTable, rate_table

STYLES = {RateStatus.FOUND: "bold", RateStatus.AT_LEAST: "yellow", RateStatus.BELOW_MINIMUM: "yellow"}

_BOUNDS = {"found": "bold", "at_least": "yellow", "below": "yellow", "between": "yellow", "refused": "red"}
_MOST_COLUMNS = 3  # of metrics, so that a line fits a terminal
_LEAST_FIRST = ("best", "limit", "busy", "cycles", "interval")  # columns that a narrow terminal does without
_UNBOUNDED = 10_000  # columns
_MOST_WARNINGS = 2  # of a scenario; all are in the report


def render_table(result: RunResult) -> Group:
    """What a run found, for the terminal; the caller prints it, plain or in colour."""
    parts: list[RenderableType] = []
    for view in curve_views(result.curves, None):
        parts.append(_points(view))
        if view.unseen:
            parts.append(Padding(Text.assemble(("! ", "yellow bold"), f"{view.unseen}."), (0, 0, 1, 1), expand=False))
    if result.findings:
        parts.append(Padding(Group(*(_finding(one) for one in result.findings)), (0, 0, 1, 1), expand=False))
    alone = replace(result, scenarios=words.without_curve(result))
    if alone.scenarios or not result.curves:
        parts += _alone(alone)
    if not result.finished:
        parts.append(Text("\nunfinished: the run was interrupted; continue it with --resume"))
    return Group(*parts)


def _alone(result: RunResult) -> list[RenderableType]:
    """Scenarios that are no points of a sweep."""
    others = [one for one in result.scenarios if one.measure != "rates"]
    rates = [one for one in result.scenarios if one.measure == "rates"]
    if not others:
        return _searched(result)
    parts = _searched(replace(result, scenarios=tuple(rates))) if rates else []
    for one in others:
        parts += _found(one)
    return parts


def _searched(result: RunResult) -> list[RenderableType]:
    """Scenarios of the measure `rates`: a table with a row each, one line a figure beside it, and their verdicts."""
    table = rate_table(result)
    dim = [f"{column.heading}: {_of_each(table.results, column.cells)}" for column in table.others]
    dim += _latency(table.results)
    dim += words.definitions(rate for one in table.results for rate in one.rates[:1])
    return [_Rates(table, tuple(dim))]


@dataclass(frozen=True)
class _Rates:
    """Leaves out columns where the terminal is narrow: what pinched a rate then stands with its verdict."""

    table: RateTable
    dim: tuple[str, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        drawn = [(self._drawn(_LEAST_FIRST[:left_out]), left_out > 1) for left_out in range(len(_LEAST_FIRST) + 1)]
        unbounded = options.update(max_width=_UNBOUNDED)
        fits = (one for one in drawn if Measurement.get(console, unbounded, one[0]).maximum <= options.max_width)
        table, with_limit = next(fits, drawn[-1])
        yield table
        if self.dim:
            yield Padding(Group(*(Text(line, style="dim") for line in self.dim)), (0, 0, 1, 1), expand=False)
        for one in self.table.results:
            yield from (
                Padding(line, (0, 0, 0, 1), expand=False) for line in (_verdict(one, with_limit), *_warnings(one))
            )

    def _drawn(self, left_out: Sequence[str]) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        columns = [column for column in self.table.columns if column.key not in left_out]
        for column in columns:
            table.add_column(Text(column.heading), justify="right" if column.is_number else "left", overflow="fold")
        for place, one in enumerate(self.table.results):
            style = STYLES.get(one.rates[0].status, "red") if one.rates else ""
            table.add_row(*(Text(column.cells[place], style if column.key == "rate" else "") for column in columns))
        return table


def _of_each(results: Sequence[ScenarioResult], cells: Sequence[str]) -> str:
    known = (f"{one.scenario} {cell}" for one, cell in zip(results, cells, strict=True) if cell != ABSENT)
    return ", ".join(known)


def _latency(results: Sequence[ScenarioResult]) -> list[str]:
    """One line a share of the NDR; more percentiles, and the engine's own part, are in the report."""
    shares = dict.fromkeys(point.share for one in results for point in one.latency)
    lines = []
    for share in shares:
        found = [{point.share: point.latency for point in one.latency}.get(share) for one in results]
        cells = [units.nanoseconds(one.p99_ns) if one else ABSENT for one in found]
        if latencies := _of_each(results, cells):
            lines.append(f"latency p99 at {units.percent(share)} of the NDR: {latencies}")
    return lines


def _warnings(one: ScenarioResult) -> list[Text]:
    """The gravest, which the result names first."""
    shown = one.warnings[:_MOST_WARNINGS]
    lines = [Text.assemble(("! ", "yellow bold"), f"{warning.rstrip('.')}.") for warning in shown]
    if more := len(one.warnings) - len(shown):
        lines.append(Text(f"  {units.counted(more, 'more warning')} in the report", style="dim"))
    return lines


def _found(one: ScenarioResult) -> list[RenderableType]:
    """A scenario of another measure: a row for each of its main metrics, then what to mind and what pinched it."""
    view = metrics_view(one)
    parts: list[RenderableType] = []
    if view.main:
        title = Text.assemble((one.scenario, "bold"), f": {one.title}")
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left", title_style="")
        table.add_column(Text(one.measure), no_wrap=True)
        table.add_column("found", justify="right", no_wrap=True)
        table.add_column("interval", no_wrap=True)
        table.add_column("note", overflow="fold")
        for place, row in enumerate(view.main):
            value = Text(row.value, style="" if place else "bold")
            table.add_row(Text(row.name), value, Text(row.interval or "-"), Text(row.note))
        parts.append(table)
    cores = words.core_distance(one.cache_line) if one.cache_line else ""
    lines = [Text(text, style="dim") for text in (view.about, words.judged(one), cores) if text]
    lines += _warnings(one)
    if words.pinched_by(one):
        lines.append(_verdict(one))
    return [*parts, *([Padding(Group(*lines), (0, 0, 1, 1), expand=False)] if lines else [])]


def _points(view: CurveView) -> Table:
    """A curve: one row a point, each number with its interval below it."""
    title = Text.assemble((view.curve.group, "bold"), f": {view.curve.title}")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left", title_style="")
    columns = view.columns[:_MOST_COLUMNS]
    for name in (*view.factors, *columns):
        table.add_column(Text(name), justify="right", overflow="fold")
    table.add_column("pinched by", overflow="fold", min_width=12)
    for row in view.rows:
        numbers = [
            Text(one.text + (f"\n{one.spread}" if one.spread else ""), style=_BOUNDS.get(one.bound, ""))
            for one in row.cells[: len(columns)]
        ]
        why = row.limit if row.outcome == "measured" else f"{row.limit}: {row.verdict}"
        table.add_row(*(Text(level) for level in row.levels), *numbers, Text("\n".join([why, *row.notes])))
    return table


def _finding(one: Finding) -> Text:
    return Text.assemble(("! ", "yellow bold") if one.warning else ("- ", "dim"), one.text)


def _verdict(one: ScenarioResult, with_limit: bool = True) -> Text:
    """`scenario: pinched by X: sentence`, the scenario in bold."""
    limit = f"pinched by {words.pinched_by(one)}: " if with_limit else ""
    return Text.assemble((one.scenario, "bold"), f": {limit}{words.verdict_sentence(one)}")
