"""Markdown for issue trackers: findings, tables, a sentence a scenario, and how it was measured."""

import re
from collections.abc import Mapping, Sequence

from pinchpoint.model import units
from pinchpoint.model.result import RunInfo, RunResult, ScenarioResult
from pinchpoint.model.study import Study
from pinchpoint.model.trial import Trial
from pinchpoint.report import number_views, words
from pinchpoint.report.number_views import CurveView, curve_table, metric_table, rate_table
from pinchpoint.report.original import FigureView
from pinchpoint.report.tables import Cell, Table
from pinchpoint.report.view import RunView, ScenarioView, run_view

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#&~])")


def render_markdown(info: RunInfo, result: RunResult, trials: Sequence[Trial]) -> str:
    """The run in a few lines; texts from outside cannot break the table or become markup."""
    view = run_view(result, info, trials)
    parts = [f"### Pinchpoint: {plain(view.run_id)}"]
    if not view.finished:
        parts.append("**Unfinished:** the run was interrupted; these are the scenarios that were measured.")
    parts += _study(view, info.study)
    measured = [(section, section.result) for section in view.plain if section.result]
    if searched := [result for section, result in measured if section.is_search]:
        parts.append(table_text(rate_table(searched)))
    parts += [_metrics(section, result) for section, result in measured if not section.is_search and result.metrics]
    if measured:
        parts.append("\n".join(_sentence(section, result) for section, result in measured))
    if view.unmeasured:
        parts.append("Not measured: " + ", ".join(map(plain, view.unmeasured)))
    rates = [rate for scenario in result.scenarios for rate in scenario.rates]
    lines = [
        f"Method: {view.method}.",
        *(f"{line}." for line in words.definitions(rates)),
        *([f"{number_views.INTERVALS}."] if any(rate.confidence for rate in rates) else []),
        f"Versions: {_facts(info.versions)}.",
        f"Host: {_facts(info.host)}.",
    ]
    return "\n\n".join([*parts, "  \n".join(lines)]) + "\n"


def _study(view: RunView, study: Study | None) -> list[str]:
    """The original's conclusions, findings, a table for each curve, and the original's figures beside ours."""
    parts = [f"**{plain(study.title)}**{' (short form)' if study.quick else ''}"] if study else []
    parts += [table_text(view.original.conclusions)] if view.original.conclusions.columns else []
    lines = [f"- {'**Warning:** ' if finding.warning else ''}{plain(finding.text)}" for finding in view.findings]
    parts += ["\n".join(lines)] if lines else []
    for why in view.why:
        branches = (f"- {plain(branch.sentence)}" for branch in why.branches)
        parts.append("\n".join((f"**Why {plain(why.scenario)} is no faster**\n", *branches)))
        if why.profile.table.columns:
            parts.append(table_text(why.profile.table))
        parts += [f"{plain(sentence)}." for sentence in why.profile.sentences]
    return [*parts, *map(_curve, view.curves), *map(_figure, view.original.figures)]


def _figure(view: FigureView) -> str:
    heading = f"#### {plain(view.table.name)}: {plain(view.table.title)}"
    return "\n\n".join(
        [table_text(view.table) if view.has_rows else heading, *(f"{plain(line)}." for line in view.without)]
    )


def _curve(view: CurveView) -> str:
    if view.nothing:
        lines = "\n".join(f"- {plain(line)}." for line in view.nothing)
        return f"#### {plain(view.curve.group)}: {plain(view.curve.title)}\n\n{lines}"
    unseen = [f"Warning: {plain(view.unseen)}."] if view.unseen else []
    return "\n\n".join([table_text(curve_table(view)), *unseen])


def _metrics(view: ScenarioView, result: ScenarioResult) -> str:
    """One row a main metric, then what is true of all of them."""
    about = "; ".join(text for text in (view.metrics.about, words.judged(result)) if text)
    return "\n\n".join([table_text(metric_table(result, view.metrics)), *([f"{plain(about)}."] if about else [])])


def table_text(table: Table) -> str:
    """A table under its title, if it has one."""
    heading = f"#### {plain(table.name)}: {plain(table.title)}\n\n" if table.name else ""
    rows = [
        [plain(column.heading.replace("/\n", "/")) for column in table.columns],
        ["---:" if column.is_number else "---" for column in table.columns],
        *zip(*(map(_cell, column.cells) for column in table.columns), strict=True),
    ]
    return heading + "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(cell: Cell) -> str:
    return plain("; ".join([cell.text + (f" ({cell.spread})" if cell.spread else ""), *cell.notes]))


def _sentence(view: ScenarioView, result: ScenarioResult) -> str:
    verdict = view.sentence or f"{result.measure} measured."
    modes = words.mode_lines(result)
    parts = [
        plain(verdict) + ("" if verdict.endswith(".") else "."),
        *(f"{plain(line)}." for line in (*words.other_verdicts(result), *view.facts)),
        *(f"Path of {plain(path.trial.id)}: {plain(path.line)}." for path in view.paths if path.trial.lost > 0),
        *_latency(result),
        *([f"Modes: {plain('; '.join(modes))}."] if modes else []),
        *([f"Warning: {plain('; '.join(view.cautions))}."] if view.cautions else []),
    ]
    return f"- **{plain(view.name)}**: {' '.join(parts)}"


def _latency(result: ScenarioResult) -> list[str]:
    measured = [(point, point.latency) for point in result.latency if point.latency]
    if not measured:
        return []
    point, latency = measured[-1]
    times = f"p50 {units.nanoseconds(latency.p50_ns)}, p99 {units.nanoseconds(latency.p99_ns)}"
    if latency.clock_error_ns is not None:
        times += f" (± {units.nanoseconds(latency.clock_error_ns)}: clocks of two hosts)"
    own = f", of which the engine's own loop: {words.engine_times(point.loopback)}" if point.loopback else ""
    return [f"Latency at {units.share(point.share)} of the NDR: {times}{own}."]


def _facts(facts: Mapping[str, str]) -> str:
    return ", ".join(f"{plain(name)} {plain(value)}" for name, value in facts.items()) or "not recorded"


def plain(text: str) -> str:
    """Text on one line that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
