"""Markdown for issue trackers: findings, tables, a sentence a scenario, and how it was measured."""

import re
from collections.abc import Mapping, Sequence

from pinchpoint.model import units
from pinchpoint.model.result import RunInfo, RunResult, ScenarioResult
from pinchpoint.model.trial import Trial
from pinchpoint.report import rate_words, words
from pinchpoint.report.curve_views import CurveView, curve_table
from pinchpoint.report.metric_views import metric_table
from pinchpoint.report.rate_views import rate_table
from pinchpoint.report.tables import Cell, Table
from pinchpoint.report.view import RunView, ScenarioView, run_view

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#&~])")


def render_markdown(info: RunInfo, result: RunResult, trials: Sequence[Trial]) -> str:
    """The run in a few lines; texts from outside cannot break the table or become markup."""
    view = run_view(result, info, trials)
    parts = [f"### Pinchpoint: {plain(view.run_id)}"]
    if not view.finished:
        parts.append("**Unfinished:** the run was interrupted; these are the scenarios that were measured.")
    parts += _study(view)
    measured = [(one, one.result) for one in view.plain if one.result]
    if rates := [found for _, found in measured if found.measure == "rates"]:
        parts.append(_table(rate_table(rates)))
    parts += [_metrics(one, found) for one, found in measured if found.measure != "rates" and found.metrics]
    if measured:
        parts.append("\n".join(_sentence(one, found) for one, found in measured))
    if view.unmeasured:
        parts.append("Not measured: " + ", ".join(map(plain, view.unmeasured)))
    lines = [
        f"Method: {view.method}.",
        *(f"{line}." for line in words.definitions(rate for one in result.scenarios for rate in one.rates)),
        *(
            [f"{rate_words.INTERVALS}."]
            if any(rate.confidence for one in result.scenarios for rate in one.rates)
            else []
        ),
        f"Versions: {_facts(view.versions)}.",
        f"Host: {_facts(view.host)}.",
    ]
    return "\n\n".join([*parts, "  \n".join(lines)]) + "\n"


def _study(view: RunView) -> list[str]:
    """Findings, then a table for each curve."""
    parts = []
    if view.study:
        parts.append(f"**{plain(view.study.title)}**{' (short form)' if view.study.quick else ''}")
    if view.findings:
        parts.append("\n".join(f"- {'**Mind:** ' if one.warning else ''}{plain(one.text)}" for one in view.findings))
    for why in view.why:
        branches = (f"- {plain(one.sentence)}" for one in why.branches)
        parts.append("\n".join((f"**Why {plain(why.scenario)} is no faster**\n", *branches)))
        if why.profile.table.columns:
            parts.append(_table(why.profile.table))
        parts += [f"{plain(one)}." for one in why.profile.sentences]
    return parts + list(map(_curve, view.curves))


def _curve(view: CurveView) -> str:
    unseen = [f"Mind: {plain(view.unseen)}."] if view.unseen else []
    return "\n\n".join([_table(curve_table(view)), *unseen])


def _metrics(view: ScenarioView, found: ScenarioResult) -> str:
    """One row a main metric, then what is true of all of them."""
    about = "; ".join(text for text in (view.metrics.about, words.judged(found)) if text)
    return "\n\n".join([_table(metric_table(found, view.metrics)), *([f"{plain(about)}."] if about else [])])


def _table(table: Table) -> str:
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


def _sentence(view: ScenarioView, found: ScenarioResult) -> str:
    verdict = view.sentence or f"{found.measure} measured."
    modes = words.mode_lines(found)
    parts = [
        plain(verdict) + ("" if verdict.endswith(".") else "."),
        *(f"{plain(line)}." for line in (*view.others, *view.facts)),
        *(f"Path of {plain(path.trial.id)}: {plain(path.line)}." for path in view.paths if path.trial.lost > 0),
        *_latency(found),
        *([f"Modes: {plain('; '.join(modes))}."] if modes else []),
        *([f"Mind: {plain('; '.join(view.cautions))}."] if view.cautions else []),
    ]
    return f"- **{plain(view.name)}**: {' '.join(parts)}"


def _latency(one: ScenarioResult) -> list[str]:
    measured = [(point, point.latency) for point in one.latency if point.latency]
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
