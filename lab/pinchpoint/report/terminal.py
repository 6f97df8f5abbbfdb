"""The terminal's tables: curves, findings, rates and load, latency, and what pinched each scenario."""

from dataclasses import replace

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pinchpoint.model import units
from pinchpoint.model.result import CacheLine, LatencyPoint, RateStatus, RunResult, ScenarioResult
from pinchpoint.model.study import Finding
from pinchpoint.model.trial import PmdLoad
from pinchpoint.report import words
from pinchpoint.report.curve_views import CurveView, curve_views
from pinchpoint.report.metric_views import metrics_view

STYLES = {RateStatus.FOUND: "bold", RateStatus.AT_LEAST: "yellow", RateStatus.BELOW_MINIMUM: "yellow"}

_BOUNDS = {"found": "bold", "at_least": "yellow", "below": "yellow", "between": "yellow", "refused": "red"}
_MOST_COLUMNS = 3  # of metrics, so that a line fits a terminal


def render_table(result: RunResult) -> Group:
    """What a run found, for the terminal; the caller prints it, plain or in colour."""
    parts: list[RenderableType] = []
    for view in curve_views(result.curves, None):
        parts.append(_points(view))
        if view.unseen:
            parts.append(Padding(Text.assemble(("! ", "yellow bold"), f"{view.unseen}."), (0, 0, 1, 1)))
    if result.findings:
        parts.append(Padding(Group(*(_finding(one) for one in result.findings)), (0, 0, 1, 1)))
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
    """Scenarios of the measure `rates`: a row each."""
    parts: list[RenderableType] = [_rates(result)]
    if any(one.latency for one in result.scenarios):
        parts.append(_latency(result))
        if own := _engines_own(result):
            parts.append(Padding(Group(*own), (0, 0, 1, 1)))
    told = [Text(f"{one.scenario}, {line}") for one in result.scenarios for line in words.mode_lines(one)]
    told += [Text(line, style="dim") for line in words.definitions(r for one in result.scenarios for r in one.rates)]
    if told:
        parts.append(Padding(Group(*told), (0, 0, 1, 1)))
    for one in result.scenarios:
        parts += [Padding(line, (0, 0, 0, 1)) for line in (_verdict(one), *_warnings(one))]
    return parts


def _warnings(one: ScenarioResult) -> list[Text]:
    return [Text.assemble(("! ", "yellow bold"), f"{warning.rstrip('.')}.") for warning in one.warnings]


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
    return [*parts, *([Padding(Group(*lines), (0, 0, 1, 1))] if lines else [])]


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


def _rates(result: RunResult) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("scenario", no_wrap=True)
    names = words.rate_names(result)
    for name in (*names, "PMD\nbusy", "cycles/\npacket", "cores\napart", "valid\ntrials"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in result.scenarios:
        valid = one.trials - sum(one.invalid_trials.values())
        busiest = max(one.pmds, key=lambda load: load.busy_share or 0.0, default=None)
        table.add_row(
            Text(one.scenario),
            *(_rate(one, name) for name in names),
            *_load(busiest),
            _cores(one.cache_line),
            f"{valid}/{one.trials}",
        )
    return table


def _rate(one: ScenarioResult, name: str) -> Text:
    rate = words.rate_named(one, name)
    if rate is None:
        return Text("-")
    return Text(words.quoted(rate), style=STYLES.get(rate.status, "red"))


def _load(load: PmdLoad | None) -> tuple[str, str]:
    if load is None:
        return "-", "-"
    cycles = "-" if load.cycles_per_packet is None else f"{load.cycles_per_packet:.0f}"
    return units.share(load.busy_share), cycles


def _cores(cache_line: CacheLine | None) -> Text:
    """The median distance; the range where two modes were mixed, since their rates differ."""
    if cache_line is None:
        return Text("-")
    if cache_line.far_share:
        return Text(f"{cache_line.min_ns:.0f}-{cache_line.max_ns:.0f} ns", style="yellow")
    return Text(units.nanoseconds(cache_line.median_ns))


def _latency(result: RunResult) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("latency of", no_wrap=True)
    table.add_column("at load", no_wrap=True)
    for name in ("p50", "p99", "p99.9", "max"):
        table.add_column(name, justify="right")
    table.add_column("mind", overflow="fold")
    for one in result.scenarios:
        for point in one.latency:
            table.add_row(Text(one.scenario), *_latency_cells(point), Text(point.note))
    return table


def _engines_own(result: RunResult) -> list[Text]:
    """One line a scenario: how much of its latency is the engine's own loop, by load where that differs."""
    lines = []
    for one in result.scenarios:
        times = {f"{point.share:.0%}": words.engine_times(point.loopback) for point in one.latency if point.loopback}
        told = [f"{text} at {share}" for share, text in times.items()] if len(set(times.values())) > 1 else []
        told = told or list(times.values())[:1]
        if told:
            lines.append(Text(f"latency of {one.scenario}, of which the engine's own loop: {'; '.join(told)}"))
    return lines


def _latency_cells(point: LatencyPoint) -> tuple[str, ...]:
    load = f"{units.fps(point.load_fps) if point.load_fps else '-'} ({point.share:.0%})"
    found = point.latency
    if found is None:
        return load, "-", "-", "-", "-"
    times = (found.p50_ns, found.p99_ns, found.p999_ns, found.max_ns)
    return load, *(units.nanoseconds(value) for value in times)


def _verdict(one: ScenarioResult) -> Text:
    """`scenario: pinched by X: sentence`, the scenario in bold."""
    return Text.assemble((one.scenario, "bold"), f": pinched by {words.pinched_by(one)}: {words.verdict_sentence(one)}")
