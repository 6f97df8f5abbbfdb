"""The terminal's tables: curves, findings, rates, and what pinched each scenario."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich import box
from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table as Drawn
from rich.text import Text

from pinchpoint.model import units
from pinchpoint.model.comparison import Compared, Comparison, Differences
from pinchpoint.model.result import RunInfo, RunResult, ScenarioResult
from pinchpoint.model.study import Finding
from pinchpoint.model.warning import ResultWarning, Warn
from pinchpoint.report import comparison as views
from pinchpoint.report import number_views, words
from pinchpoint.report.number_views import CurveView, curve_table, metric_table, rate_table
from pinchpoint.report.original import FigureView
from pinchpoint.report.tables import ABSENT, Cell, Column, Table
from pinchpoint.report.view import ProfileView, ScenarioView, WhyView, run_view

_STYLES: Final[Mapping[str, str]] = {
    "found": "bold", "at_least": "yellow", "below": "yellow", "below_minimum": "yellow", "between": "yellow",
    "refused": "red", "loses_always": "red", "good": "green", "bad": "red", "mind": "yellow", "dim": "dim",
    "strong": "bold",
}  # fmt: skip
"""By the mark of a cell."""
_MOST_COLUMNS: Final = 3  # of metrics, so that a line fits a terminal
_LEAST_FIRST: Final = ("limit", "busy", "cycles", "interval")  # columns that a narrow terminal does without
_LEAST: Final = {"limit": 12, "sentence": 24}  # characters of these columns
_UNBOUNDED: Final = 10_000  # columns
_MOST_WARNINGS: Final = 2  # of a scenario; all are in the report


def render_table(result: RunResult, info: RunInfo | None = None) -> Group:
    """What a run found, for the terminal; the caller prints it, plain or in colour.

    `info` says what was asked for, and has the original's figures.
    """
    view = run_view(result, info)
    parts: list[RenderableType] = []
    for curve in view.curves:
        parts += _curve(curve)
    parts += _figures(view.original.figures)
    if view.findings:
        parts.append(_below(map(_finding, view.findings)))
    if view.original.conclusions.columns:
        parts.append(draw(view.original.conclusions))
    for why in view.why:
        parts += [_why(why), *_profile(why.profile)]
    rates = [section for section in view.plain if section.is_search]
    others = [section for section in view.plain if section.result and not section.is_search]
    if rates or not (others or view.curves):
        parts.append(_Rates(rates))
    for section in others:
        parts += _measured(section)
    if not view.finished:
        parts.append(Text("\nunfinished: the run was interrupted; continue it with --resume"))
    return Group(*parts)


def _why(view: WhyView) -> RenderableType:
    """The tree of causes, a line a branch, what to do below a confirmed one."""
    lines = [Text(f"why {view.scenario} is no faster", style="bold")]
    for branch in view.branches:
        style = {"confirmed": "green bold", "excluded": "dim"}.get(branch.standing, "yellow")
        standing, rest = (f"{branch.standing}: ", style), f"{branch.explained}. {branch.tried}"
        lines.append(Text.assemble(standing, (branch.title, "bold"), rest))
        lines += [Text(f"  {sentence}", style="dim") for sentence in branch.evidence]
        lines += [Text(f"  what to do: {branch.mend}")] if branch.mend else []
    return _below([*lines, *map(Text, view.costs)])


def _profile(view: ProfileView) -> Iterator[RenderableType]:
    """Functions by their share of the time, then what to know of the samples."""
    if view.table.columns:
        yield Padding(draw(view.table), (0, 0, 0, 1), expand=False)
    if view.sentences:
        yield _below(Text(sentence, style="dim") for sentence in view.sentences)


def draw(table: Table, columns: Sequence[Column] | None = None, wraps: bool = True) -> Drawn:
    """A table, or some of its columns; `wraps`: numbers may go on the next line where there is no room."""
    columns = table.columns if columns is None else columns
    title = Text.assemble((table.name, "bold"), f": {table.title}") if table.name else None
    look: dict[str, Any] = {"box": box.SIMPLE_HEAD, "pad_edge": False, "padding": (0, 1, 0, 0), "title_style": ""}
    drawn = Drawn(title=title, title_justify="left", **look)
    for column in columns:
        justify: JustifyMethod = "right" if column.is_number else "left"
        no_wrap, least = column.is_number and not wraps, _LEAST.get(column.key)
        drawn.add_column(Text(column.heading), justify=justify, overflow="fold", min_width=least, no_wrap=no_wrap)
    for cells in zip(*(column.cells for column in columns), strict=True):
        drawn.add_row(*map(_cell, cells))
    return drawn


def caution(text: str) -> Text:
    """Something to mind, as a sentence."""
    return Text.assemble(("! ", "yellow bold"), f"{text.rstrip('.')}.")


def _cell(cell: Cell) -> Text:
    lines = (cell.text, cell.spread, *cell.notes)
    return Text("\n".join(filter(None, lines)), style=_STYLES.get(cell.mark, ""))


def _below(lines: Iterable[Text]) -> RenderableType:
    """Lines that belong to the table above them."""
    return Padding(Group(*lines), (0, 0, 1, 1), expand=False)


@dataclass(frozen=True)
class _Rates:
    """Scenarios that searched for rates: a table with a row each, one line a figure beside it, and their verdicts.

    Leaves out columns where the terminal is narrow: what pinched a rate then stands with its verdict.
    """

    scenarios: Sequence[ScenarioView]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        results = [scenario.result for scenario in self.scenarios if scenario.result]
        table, unbounded = rate_table(results), options.update(max_width=_UNBOUNDED)
        for count in range(len(_LEAST_FIRST) + 1):
            left_out = ("other", *_LEAST_FIRST[:count])
            drawn = draw(table, [column for column in table.columns if column.key not in left_out])
            if Measurement.get(console, unbounded, drawn).maximum <= options.max_width:
                break
        yield drawn
        others = [column for column in table.columns if column.key == "other"]
        dim = [f"{column.heading}: {_of_each(results, [cell.text for cell in column.cells])}" for column in others]
        dim += [*_latency(results), *words.definitions(rate for result in results for rate in result.rates[:1])]
        if any(rate.confidence and rate.lower_fps for result in results for rate in result.rates):
            dim.append(number_views.INTERVALS)
        if dim:
            yield _below(Text(line, style="dim") for line in dim)
        for scenario in self.scenarios:
            facts = (Text(f"  {line}", style="dim") for line in scenario.facts)
            lines = (_verdict(scenario, "limit" in left_out), *facts, *_warnings(scenario))
            yield from (Padding(line, (0, 0, 0, 1), expand=False) for line in lines)


def _of_each(results: Sequence[ScenarioResult], texts: Sequence[str]) -> str:
    known = (f"{result.scenario} {text}" for result, text in zip(results, texts, strict=True) if text != ABSENT)
    return ", ".join(known)


def _latency(results: Sequence[ScenarioResult]) -> list[str]:
    """One line a share of the NDR; more percentiles, and the engine's own part, are in the report."""
    lines = []
    for share in dict.fromkeys(point.share for result in results for point in result.latency):
        histograms = [{point.share: point.latency for point in result.latency}.get(share) for result in results]
        texts = [units.nanoseconds(latency.p99_ns) if latency else ABSENT for latency in histograms]
        if latencies := _of_each(results, texts):
            lines.append(f"latency p99 at {units.percent(share)} of the NDR: {latencies}")
    return lines


def _warnings(view: ScenarioView) -> list[Text]:
    """An interval that is too wide, then the gravest, which the result names first."""
    lines = [caution(view.too_wide)] if view.too_wide else []
    lines += [_warning(warning) for warning in view.warnings[:_MOST_WARNINGS]]
    if view.offload and all(warning.kind is not Warn.OFFLOAD_DOUBTFUL for warning in view.warnings):
        lines.append(Text(f"  {view.offload}", style="dim"))
    if more := len(view.warnings[_MOST_WARNINGS:]):
        lines.append(Text(f"  {units.counted(more, 'more warning')} in the report", style="dim"))
    return lines


def _warning(warning: ResultWarning) -> Text:
    """What it says, then what to try."""
    advice = f" Try: {warning.advice}." if warning.advice else ""
    return Text.assemble(caution(warning.text), (advice, "dim"))


def _measured(view: ScenarioView) -> list[RenderableType]:
    """A scenario of another measure: a row for each of its main metrics, then what to mind and what pinched it."""
    result = view.result
    if result is None:
        return []
    cores = words.core_distance(result) if result.cache_line else ""
    lines = [Text(text, style="dim") for text in (view.metrics.about, words.judged(result), cores) if text]
    lines += [*_warnings(view), *([_verdict(view)] if view.limit else [])]
    table = [draw(metric_table(result, view.metrics), wraps=False)] if view.metrics.main else []
    return [*table, *([_below(lines)] if lines else [])]


def _curve(view: CurveView) -> list[RenderableType]:
    """A curve: one row a point, each number with its interval below it; without any, why there is none."""
    if view.nothing:
        named = Text.assemble((view.curve.group, "bold"), f": {view.curve.title}")
        return [_below([named, *(caution(line) for line in view.nothing)])]
    table = curve_table(view)
    left_out = [column for column in table.columns if column.key == "metric"][_MOST_COLUMNS:]
    shown = [column for column in table.columns if column.key != "repeats" and column not in left_out]
    lines = [*([caution(view.unseen)] if view.unseen else []), *(Text(line, style="dim") for line in view.definitions)]
    return [draw(table, shown), *([_below(lines)] if lines else [])]


def _figures(views: Sequence[FigureView]) -> Iterator[RenderableType]:
    """The original's figures beside ours, a line for one of which no level was measured. Sources are in the report."""
    for view in views:
        if view.has_rows:
            yield draw(view.table, [column for column in view.table.columns if column.key != "source"])
            yield from [_below(Text(f"{line}.", style="dim") for line in view.without)] if view.without else []
    absent = [view for view in views if not view.has_rows]
    if absent:
        lines = (f"- {view.table.name}: {view.table.title}: {'; '.join(view.without)}." for view in absent)
        yield _below([Text("Published, and not measured", style="bold"), *(Text(line, style="dim") for line in lines)])


def _finding(finding: Finding) -> Text:
    return Text.assemble(("! ", "yellow bold") if finding.warning else ("- ", "dim"), finding.text)


def _verdict(view: ScenarioView, with_limit: bool = True) -> Text:
    """`scenario: pinched by X: sentence`, the scenario in bold."""
    limit = f"pinched by {view.limit}: " if with_limit else ""
    return Text.assemble((view.name, "bold"), f": {limit}{view.sentence}")


def render_comparison_table(comparison: Comparison) -> Group:
    """What a comparison found; the caller prints it, plain or in colour."""
    parts: list[RenderableType] = [
        *(Text(line, style="bold") for line in views.answers(comparison)),
        Text.assemble(("A", "bold"), f"  {comparison.a.name}, started {comparison.a.started[:16].replace('T', ' ')}"),
        Text.assemble(("B", "bold"), f"  {comparison.b.name}, started {comparison.b.started[:16].replace('T', ' ')}"),
        Text(f"{views.method(comparison)}.", style="dim"),
        _differences(comparison.differences, "What differs"),
    ]
    for part in comparison.scenarios:
        parts += _scenario(part, len(comparison.scenarios) > 1, comparison.differences)
    for label, only in (("A", comparison.only_a), ("B", comparison.only_b)):
        if only:
            parts.append(_indented(caution(f"only in {label}: {', '.join(only)}")))
    if not comparison.finished:
        parts.append(Text("\nunfinished: what was measured until now; continue it with --resume"))
    return Group(*parts)


def _differences(differences: Differences, title: str) -> RenderableType:
    if not views.places(differences):
        return Padding(Text(f"{title}: no known difference"), (1, 0, 0, 0))
    return draw(views.difference_table(differences, title))


def _scenario(part: Compared, named: bool, of_all: Differences) -> Iterator[RenderableType]:
    if named:
        yield Padding(Text.assemble((part.a, "bold"), f": {part.title}"), (1, 0, 0, 0))
        own = tuple(difference for difference in part.differences.scenario if difference not in of_all.scenario)
        if own:
            yield _differences(Differences(scenario=own), "What differs here")
    yield draw(views.metric_table(part.metrics))
    lines = views.duet_lines(part.duet) if part.duet is not None else ()
    yield from (_indented(Text(f"{line}.")) for line in lines)
    yield from (_indented(caution(note)) for note in part.notes)
    yield from (_indented(Text(f"{line}.", style="dim")) for line in part.definitions)


def _indented(text: Text) -> Padding:
    return Padding(text, (0, 0, 0, 1))
