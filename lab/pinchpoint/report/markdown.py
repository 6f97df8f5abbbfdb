"""Markdown for issue trackers: findings, tables, a sentence a scenario, and how it was measured."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pinchpoint.model import units
from pinchpoint.model.result import RunInfo, RunResult, ScenarioResult
from pinchpoint.model.trial import Trial
from pinchpoint.report import words
from pinchpoint.report.curve_views import CurveView, curve_views
from pinchpoint.report.metric_views import metrics_view
from pinchpoint.report.path import paths
from pinchpoint.report.rate_views import rate_table

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#&~])")


def render_markdown(info: RunInfo, result: RunResult, trials: Sequence[Trial]) -> str:
    """The run in a few lines; texts from outside cannot break the table or become markup."""
    parts = [f"### Pinchpoint: {_plain(result.run_id)}"]
    if not result.finished:
        parts.append("**Unfinished:** the run was interrupted; these are the scenarios that were measured.")
    parts += _study(info, result)
    if alone := words.without_curve(result):
        if rates := tuple(one for one in alone if one.measure == "rates"):
            parts.append(_table(replace(result, scenarios=rates)))
        parts += [_metrics(one) for one in alone if one.measure != "rates" and one.metrics]
        parts.append("\n".join(_sentence(one, trials) for one in alone))
    if missing := words.unmeasured(info, result):
        parts.append("Not measured: " + ", ".join(_plain(name) for name in missing))
    return "\n\n".join([*parts, _method(info, result)]) + "\n"


def _study(info: RunInfo, result: RunResult) -> list[str]:
    """Findings, then a table for each curve."""
    parts = []
    if info.study:
        parts.append(f"**{_plain(info.study.title)}**{' (short form)' if info.study.quick else ''}")
    if result.findings:
        parts.append("\n".join(f"- {'**Mind:** ' if one.warning else ''}{_plain(one.text)}" for one in result.findings))
    for view in curve_views(result.curves, None):
        parts.append(f"#### {_plain(view.curve.group)}: {_plain(view.curve.title)}\n\n{_points(view)}")
    return parts


def _points(view: CurveView) -> str:
    """One row a point: levels, each number with its interval, what pinched it."""
    heads = [*view.factors, *view.columns, "n", "pinched by"]
    rows = [[_plain(head) for head in heads], [*("---:" for _ in heads[:-1]), "---"]]
    for row in view.rows:
        numbers = [_plain(one.text) + (f" ({_plain(one.spread)})" if one.spread else "") for one in row.cells]
        why = [row.limit] if row.outcome == "measured" else [f"{row.limit}: {row.verdict}"]
        cells = [*(_plain(level) for level in row.levels), *numbers, str(row.repeats or "-")]
        rows.append([*cells, _plain("; ".join([*why, *row.notes]))])
    unseen = f"\n\nMind: {_plain(view.unseen)}." if view.unseen else ""
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + unseen


def _table(result: RunResult) -> str:
    found = rate_table(result)
    columns = [*found.columns[:-1], *found.others, found.columns[-1]]
    rows = [
        [column.heading.replace("/\n", "/").replace("\n", " ") for column in columns],
        ["---:" if column.is_number else "---" for column in columns],
        *([_plain(cell) for cell in cells] for cells in zip(*(column.cells for column in columns), strict=True)),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _metrics(one: ScenarioResult) -> str:
    """One row a main metric, then what is true of all of them."""
    view = metrics_view(one)
    rows = [[_plain(one.measure), "found", "interval", "note"], ["---", "---:", "---", "---"]]
    rows += [[_plain(text) for text in (row.name, row.value, row.interval or "-", row.note)] for row in view.main]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    about = "; ".join(text for text in (view.about, words.judged(one)) if text)
    heading = f"#### {_plain(one.scenario)}: {_plain(one.title)}"
    return "\n\n".join([heading, table, *([f"{_plain(about)}."] if about else [])])


def _sentence(one: ScenarioResult, trials: Sequence[Trial]) -> str:
    own = [trial for trial in trials if trial.scenario == one.scenario]
    doubts = [check.text for check in words.checks(one, own) if not check.good] + list(one.warnings)
    mind = f" Mind: {_plain('; '.join(doubts))}." if doubts else ""
    latency = _latency(one)
    verdict = words.verdict_sentence(one) or f"{one.measure} measured."
    ended = "" if verdict.endswith(".") else "."
    modes = f" Modes: {_plain('; '.join(lines))}." if (lines := words.mode_lines(one)) else ""
    return f"- **{_plain(one.scenario)}**: {_plain(verdict)}{ended}{_path(own)}{latency}{modes}{mind}"


def _path(trials: Sequence[Trial]) -> str:
    """Where the frames of the lowest losing load were lost."""
    losing = [path for path in paths(trials) if path.trial.lost > 0]
    return "".join(f" Path of {_plain(path.trial.id)}: {_plain(path.line)}." for path in losing)


def _latency(one: ScenarioResult) -> str:
    measured = [(point, point.latency) for point in one.latency if point.latency]
    if not measured:
        return ""
    point, latency = measured[-1]
    times = f"p50 {units.nanoseconds(latency.p50_ns)}, p99 {units.nanoseconds(latency.p99_ns)}"
    own = f", of which the engine's own loop: {words.engine_times(point.loopback)}" if point.loopback else ""
    return f" Latency at {units.share(point.share)} of the NDR: {times}{own}."


def _method(info: RunInfo, result: RunResult) -> str:
    rates = [rate for one in result.scenarios for rate in one.rates]
    lines = [
        f"Method: {words.method(info, result)}.",
        *(f"{line}." for line in words.definitions(rates)),
        f"Versions: {_facts(info.versions)}.",
        f"Host: {_facts(info.host)}.",
    ]
    return "  \n".join(lines)


def _facts(facts: Mapping[str, str]) -> str:
    return ", ".join(f"{_plain(name)} {_plain(value)}" for name, value in facts.items()) or "not recorded"


def _plain(text: str) -> str:
    """Text on one line that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
