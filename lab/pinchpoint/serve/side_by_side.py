"""Runs side by side: their numbers, curves and rates; and an account as a table."""

import csv
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pinchpoint.model.result import RunResult, ScenarioResult
from pinchpoint.model.study import Curve
from pinchpoint.model.trial import Ledger
from pinchpoint.report import rate_figures, words
from pinchpoint.report.curve_figures import Panel, overlaid
from pinchpoint.report.metric_views import metrics_view

MOST_PLOTS: Final = 40
MOST_METRICS: Final = 4


@dataclass(frozen=True)
class Cell:
    """What one run says of a scenario."""

    run: str
    numbers: tuple[tuple[str, str, str], ...]  # name, value and interval; the number to quote first
    against: str  # the first number against that of the first run; empty where there are not two
    pinched_by: str
    there: bool  # whether the run has the scenario


@dataclass(frozen=True)
class Beside:
    """One scenario in several runs."""

    name: str
    cells: tuple[Cell, ...]
    swept: bool  # a curve of several runs shows it


def parts(
    results: Mapping[str, RunResult | None],
) -> tuple[list[Beside], list[tuple[str, Panel]], list[Mapping[str, Any]]]:
    """The scenarios and the curves of several runs, and their plots with their ids."""
    done = {
        name: {point.scenario: point for point in result.scenarios} if result else {}
        for name, result in results.items()
    }
    curves = list(_curves({name: result.curves if result else () for name, result in results.items()}))
    swept = {panel.key for _, panel in curves}
    names = dict.fromkeys(name for own in done.values() for name in own)
    scenarios = sorted((_compared(name, done, swept) for name in names), key=lambda section: section.swept)
    drawn: list[Mapping[str, Any]] = [{"id": name, **panel.figure} for name, panel in curves]
    for number, section in enumerate([section for section in scenarios if not section.swept][:MOST_PLOTS]):
        spreads = [
            rate_figures.spread_of(run, own[section.name].rates[0])
            for run, own in done.items()
            if section.name in own and own[section.name].rates
        ]
        if figure := rate_figures.rates_figure(spreads, "rate", from_zero=True):
            drawn.append({"id": f"beside-{number}", **figure})
    return scenarios, curves, drawn


def _curves(by_group: Mapping[str, Sequence[Curve]]) -> Iterator[tuple[str, Panel]]:
    groups = dict.fromkeys(curve.group for curves in by_group.values() for curve in curves)
    for number, group in enumerate(groups):
        own = [(run, curve) for run, curves in by_group.items() for curve in curves if curve.group == group]
        if len(own) > 1 and (panel := overlaid(own)):
            yield f"curve-{number}", panel


def _compared(scenario: str, done: Mapping[str, Mapping[str, ScenarioResult]], swept: Collection[str]) -> Beside:
    first = next((value for own in done.values() if scenario in own and (value := _value(own[scenario]))), None)
    cells = []
    for run, own in done.items():
        result = own.get(scenario)
        value = _value(result) if result else None
        against = f"x {value / first:.3g}" if value and first else ""
        cells.append(
            Cell(
                run,
                _numbers(result) if result else (),
                against,
                words.pinched_by(result) if result else "",
                result is not None,
            )
        )
    is_swept = any(own[scenario].group in swept for own in done.values() if scenario in own)
    return Beside(scenario, tuple(cells), is_swept)


def _value(result: ScenarioResult) -> float | None:
    """The number to quote, in its unit."""
    if result.rates:
        return result.rates[0].quoted_fps
    named = metrics_view(result.metrics, result.measure).main[:1]
    return next((metric.value for metric in result.metrics for row in named if metric.name == row.name), None)


def _numbers(result: ScenarioResult) -> tuple[tuple[str, str, str], ...]:
    if result.rates:
        return tuple((rate.name, words.quoted(rate), words.interval(rate)) for rate in result.rates)
    rows = metrics_view(result.metrics, result.measure).main[:MOST_METRICS]
    return tuple((row.name, row.value, row.interval) for row in rows)


def ledger_csv(ledger: Ledger) -> str:
    """A row for each place, each loss there and what no counter accounts for; counts are empty where unknown."""
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(("place", "frames in", "frames out", "lost", "frames", "limits", "counter"))
    table.writerow(("offered", "", ledger.offered, "", "", "", ""))
    for hop in ledger.hops:
        table.writerow((_cell(hop.name), hop.frames_in, hop.frames_out, "", "", "", ""))
        for drop in hop.drops:
            lost = (_cell(drop.name), drop.frames, _cell(drop.limits), _cell(drop.counter))
            table.writerow((_cell(hop.name), "", "", *lost))
    table.writerow(("received", ledger.received, "", "", "", "", ""))
    table.writerow(("", "", "", "unexplained", ledger.unexplained, "", ""))
    return text.getvalue()


def _cell(text: str) -> str:
    """A cell that begins like a formula would be run by a spreadsheet."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
