"""Runs side by side: their numbers, curves and rates; and an account as a table."""

import csv
import io
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pinchpoint.model.groups import grouped
from pinchpoint.model.result import RunResult, ScenarioResult
from pinchpoint.model.trial import Ledger
from pinchpoint.report import words
from pinchpoint.report.curve_figures import Panel, overlaid
from pinchpoint.report.number_views import main_metrics, metrics_view
from pinchpoint.report.page import with_ids
from pinchpoint.report.plot import Figure
from pinchpoint.report.rate_figures import overview_figure

MOST_PLOTS: Final = 40
MOST_METRICS: Final = 4


@dataclass(frozen=True)
class Cell:
    """What one run says of a scenario."""

    run: str
    there: bool = False  # whether the run has the scenario
    numbers: tuple[tuple[str, str, str], ...] = ()  # name, value and interval; the number to quote first
    against: str = ""  # the first number against that of the first run; empty where there are not two
    pinched_by: str = ""


@dataclass(frozen=True)
class Beside:
    """One scenario in several runs."""

    name: str
    cells: tuple[Cell, ...]
    swept: bool  # a curve of several runs shows it


def parts(
    results: Mapping[str, RunResult | None],
) -> tuple[list[Beside], list[tuple[str, Panel]], list[Figure]]:
    """The scenarios and the curves of several runs, and their plots with their ids."""
    done = {
        name: {point.scenario: point for point in result.scenarios} if result else {}
        for name, result in results.items()
    }
    curves = list(_curves(results))
    swept = {panel.key for _, panel in curves}
    names = dict.fromkeys(name for own in done.values() for name in own)
    scenarios = sorted((_compared(name, done, swept) for name in names), key=lambda section: section.swept)
    plots: list[tuple[str, Figure | None]] = [(name, panel.figure) for name, panel in curves]
    for number, section in enumerate([section for section in scenarios if not section.swept][:MOST_PLOTS]):
        own = [(run, of_run[section.name]) for run, of_run in done.items() if section.name in of_run]
        rates = [(run, result.rates[0]) for run, result in own if result.rates]
        plots.append((f"beside-{number}", overview_figure(rates, "rate")))
    return scenarios, curves, with_ids(plots)


def _curves(results: Mapping[str, RunResult | None]) -> Iterator[tuple[str, Panel]]:
    every = ((run, curve) for run, result in results.items() if result for curve in result.curves)
    for number, own in enumerate(grouped((curve.group, (run, curve)) for run, curve in every).values()):
        if len(own) > 1 and (panel := overlaid(own)):
            yield f"curve-{number}", panel


def _compared(scenario: str, done: Mapping[str, Mapping[str, ScenarioResult]], swept: Collection[str]) -> Beside:
    results = {run: own.get(scenario) for run, own in done.items()}
    first = next(filter(None, (_value(result) for result in results.values() if result)), None)
    cells = tuple(_cell_of(run, result, first) for run, result in results.items())
    return Beside(scenario, cells, any(result.group in swept for result in results.values() if result))


def _cell_of(run: str, result: ScenarioResult | None, first: float | None) -> Cell:
    if result is None:
        return Cell(run)
    value = _value(result)
    against = f"x {value / first:.3g}" if value and first else ""
    return Cell(run, True, _numbers(result), against, words.pinched_by(result))


def _value(result: ScenarioResult) -> float | None:
    """The number to quote, in its unit."""
    if result.rates:
        return result.rates[0].quoted_fps
    return next((metric.value for metric in main_metrics(result.measure, result.metrics)), None)


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
