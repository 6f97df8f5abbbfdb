"""What each page shows, as text. Templates, views and figures are the report's wherever it has them."""

import csv
import io
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment

from pinchpoint.findings.trend import FEWEST_RUNS, trends
from pinchpoint.model import former
from pinchpoint.model.campaign import Progress
from pinchpoint.model.causes import Experiment
from pinchpoint.model.effective import by_name, table_in
from pinchpoint.model.errors import InputError, PinchpointError
from pinchpoint.model.groups import grouped
from pinchpoint.model.measurement import Interval
from pinchpoint.model.result import RunInfo, RunResult, ScenarioResult
from pinchpoint.model.trial import Ledger, StreamCounts, Trial
from pinchpoint.report import page, rate_figures, trial_figures, trial_views, words
from pinchpoint.report.comparison import parts_of
from pinchpoint.report.curve_figures import Panel, overlaid
from pinchpoint.report.number_views import main_metrics, metrics_view
from pinchpoint.report.plot import Figure
from pinchpoint.report.trend import details, headline, trend_figure
from pinchpoint.report.view import ScenarioView, WhyView, run_view, suspected_view
from pinchpoint.run.budget import Forecast
from pinchpoint.run.explaining import allowed
from pinchpoint.run.stored import NothingInCommonError, StoredRun, compare_folders
from pinchpoint.scenario.plain import from_plain
from pinchpoint.serve.index import Index, Wanted
from pinchpoint.serve.shelf import FILES, Shelf
from pinchpoint.store.campaign import CampaignFolder, is_campaign
from pinchpoint.store.codec import SCHEMA
from pinchpoint.store.folder import RunFolder, owner, tags_or_fault

MOST_COMPARED: Final = 12
MOST_PAIRS: Final = 6  # that one form offers to choose
MOST_OF_A_TREND: Final = 500  # the newest runs
MOST_AROUND: Final = 40  # trials before and after one, among which it is drawn
MOST_NEWEST: Final = 12  # trials of a run in progress


@dataclass(frozen=True)
class Live:
    """The state of a run that has not finished."""

    pid: int | None  # of the process that measures; None: none does
    done: int
    units: int
    left_s: float | None  # None: not known
    current: str = ""  # the scenario being measured
    trials: tuple[Trial, ...] = ()  # the newest first
    made: int = 0
    bounds: Interval | None = None  # of its search's rate, as it stands; None: it says nothing yet
    figure: Figure | None = None  # loads tried by the current scenario
    campaign: Progress | None = None  # of a campaign: its machines; its trials lie with its attempts


@dataclass(frozen=True)
class Pages:
    """The pages over one shelf, as text. Each raises InputError for what there is not.

    `word` goes into every form that acts; it is empty for a browser that may only look.
    """

    shelf: Shelf
    index: Index

    def list(self, word: str, wanted: Wanted) -> str:
        self.index.refresh()
        listed = self.index.list(wanted)
        unfinished = [row.id for row in listed.rows if row.state == "unfinished"]
        running = {name for name in unfinished if owner(self.shelf.root / name) is not None}
        return self.filled("runs.html.j2", word, listed=listed, wanted=wanted, running=running, root=self.shelf.root)

    def run(self, word: str, name: str) -> str:
        """A run: what it found, its curves, its scenarios; not its trials."""
        folder = self.shelf.run(name)
        info, result = folder.read_info(), folder.read_result()
        now = None if result and result.finished else live(folder, info, result)
        view = run_view(result or RunResult(SCHEMA, name, False, ()), info)
        drawn = [*page.plots_of_run(view, "rate"), *_live_figure(now)]
        tags, tags_fault = tags_or_fault(folder)
        return self.filled(
            "run.html.j2", word, drawn, name=name, info=info, view=view, overview=page.has_overview(drawn), now=now,
            tags=tags, tags_fault=tags_fault, swept={}, before=self._before(name, result),
            files=[file for file in FILES if (folder.path / file).is_file()], compared=info.comparison is not None,
        )  # fmt: skip

    def _before(self, name: str, result: RunResult | None) -> str:
        """The run before this one that measured its first scenario, its baseline; empty if there is none."""
        if result is None or not result.scenarios:
            return ""
        self.index.refresh()
        runs = self.index.having(result.scenarios[0].scenario, MOST_OF_A_TREND)
        return next(iter(runs[runs.index(name) + 1 :]), "") if name in runs else ""

    def live(self, word: str, name: str) -> dict[str, object]:
        """The part of a run's page that changes while it runs, and its figure; whether it still does."""
        folder = self.shelf.run(name)
        info, result = folder.read_info(), folder.read_result()
        if result and result.finished:
            return {"finished": True}
        now = live(folder, info, result)
        html = self._environment.get_template("live.html.j2").render(name=name, now=now, word=word)
        return {"finished": False, "done": now.done, "html": html, "figures": _live_figure(now)}

    def scenario(self, word: str, name: str, scenario: str) -> str:
        """A scenario of a run: the report's section of it, with the tree of its causes."""
        folder = self.shelf.run(name)
        section, why = _section(folder, folder.read_info(), folder.read_result(), scenario)
        plots = page.plots_of(section)
        modes = section.result.modes if section.result else ()
        if over_time := trial_figures.trials_figure(section.trials, modes):
            plots["trials"] = over_time
        drawn = page.with_ids(plots.items(), f"{section.anchor}-")
        plots_of = {section.anchor: plots}
        return self.filled("one_scenario.html.j2", word, drawn, name=name, section=section, plots_of=plots_of, why=why)

    def trial(self, word: str, name: str, trial_id: str) -> str:
        """A trial down to its ledger."""
        folder = self.shelf.run(name)
        trials, result, plains = folder.read_trials(), folder.read_result(), by_name(folder.read_info().scenarios)
        trial = _trial(name, trials, trial_id)
        siblings = [sibling for sibling in trials if sibling.scenario == trial.scenario]
        own = [sibling.id for sibling in siblings]
        at = own.index(trial_id)
        results = result.scenarios if result else ()
        modes = next((scenario.modes for scenario in results if scenario.scenario == trial.scenario), ())
        around = siblings[max(0, at - MOST_AROUND) : at + MOST_AROUND + 1]
        timed = [(_stream(stream), stream.latency) for stream in trial.streams if stream.latency]
        drawn = page.with_ids([
            ("samples", trial_figures.samples_figure(trial)),
            ("time", trial_figures.over_time_figure((trial,), ())),
            ("latency", trial_figures.percentile_figure(timed)),
            ("around", trial_figures.trials_figure(around, modes, trial.id)),
        ])  # fmt: skip
        return self.filled(
            "trial.html.j2", word, drawn, name=name, trial=trial, observed=sorted(trial.observed.items()),
            before=own[at - 1] if at else None, after=own[at + 1] if at + 1 < len(own) else None, drawn_ids=_ids(drawn),
            path=trial_views.path_of(trial, "What became of its frames"), witness=trial_views.witness_rows((trial,)),
            threads=trial_views.thread_views(trial.threads, plains.get(trial.scenario, {})),
        )  # fmt: skip

    def compare(self, word: str, names: Sequence[str], pairs: Sequence[tuple[str, str]] = ()) -> str:
        """Two runs, or the two sides of one, as the report compares them; more runs side by side.

        `pairs`: a scenario of each of two runs, chosen by hand. Without a common scenario the page lets one choose.
        """
        if not 1 <= len(names) <= MOST_COMPARED:
            expected = f"expected 1 to {MOST_COMPARED} runs to compare, found {len(names)}"
            raise InputError(expected, "choose them in the list")
        folders = [self.shelf.run(name) for name in names]
        if len(folders) > 2:
            scenarios, curves, drawn = side_by_side({folder.path.name: folder.read_result() for folder in folders})
            beside: dict[str, object] = {"names": names, "scenarios": scenarios, "curves": curves}
            return self.filled("side_by_side.html.j2", word, drawn, drawn_ids=_ids(drawn), **beside)
        if len(folders) == 2:
            try:
                comparison = compare_folders(folders[0], folders[1], (), None, pairs)
            except NothingInCommonError as error:
                return self.filled("pairs.html.j2", word, names=names, a=error.a, b=error.b, most=MOST_PAIRS)
        elif (own := StoredRun(folders[0]).comparison) is not None:
            comparison = own
        else:
            raise InputError(f"{names[0]}: expected a second run", "choose two or more runs in the list")
        drawn, values = parts_of(comparison)
        return self.filled("compared.html.j2", word, drawn, names=names, **values)

    def ledger(self, name: str, trial_id: str) -> str:
        """The account of a trial: a row for each place and each reason, frames."""
        return ledger_csv(_trial(name, self.shelf.run(name).read_trials(), trial_id).ledger)

    def source(self, name: str, file: str) -> str:
        """A scenario file as a run read it. Raises InputError."""
        sources = self.shelf.run(name).read_info().sources
        if file not in sources:
            raise InputError(f"{file}: no such file of {name}", f"there are {', '.join(sources)}")
        return sources[file]

    def trend(self, word: str, scenario: str, metric: str) -> str:
        """Where the level of a scenario's metric changed over the runs."""
        self.index.refresh()
        metric = former.metric(metric)
        stored = []
        for name in self.index.having(scenario, MOST_OF_A_TREND) if scenario else ():
            folder = self.shelf.run(name)
            if result := folder.read_result():
                own = tuple(point for point in result.scenarios if point.scenario == scenario)
                stored.append((folder.read_info(), replace(result, scenarios=own, curves=(), findings=())))
        measured = trends(stored, (scenario,), (metric,) if metric else ()) if scenario else ()
        drawn = page.with_ids((f"trend-{at}", trend_figure(trend)) for at, trend in enumerate(measured))
        runs = self.index.scenarios()
        offered = {name: count for name, count in runs.items() if count >= FEWEST_RUNS or name == scenario}
        return self.filled(
            "trend.html.j2", word, drawn, scenario=scenario, metric=metric, scenarios=offered, fewest=FEWEST_RUNS,
            few={name: count for name, count in runs.items() if name not in offered},
            metrics=self.index.metrics(scenario) if scenario else (), trends=measured, headline=headline,
            details=details,
        )  # fmt: skip

    def started(self, word: str, name: str, pid: int | None, log: str) -> str:
        """What became of a scenario that was started from here."""
        self.index.refresh()
        runs = [row for row in self.index.list(Wanted(text=name)).rows if row.id.startswith(f"{name}-")]
        return self.filled("started.html.j2", word, name=name, pid=pid, log=log, runs=runs)

    @property
    def _environment(self) -> Environment:
        environment = page.environment("pinchpoint.serve")
        address = {"trial_address": lambda trial_id: f"../trial/{segment(trial_id)}"}
        environment.globals |= {**address, "segment": segment, "query": query}
        return environment

    def filled(self, template: str, word: str, drawn: Sequence[Figure] = (), **values: object) -> str:
        """A page from one of the templates; `drawn` are its plots, each with the id of its element."""
        return self._environment.get_template(template).render(**values, word=word, figures=page.as_json(drawn))


def segment(text: str) -> str:
    """One part of an address."""
    return quote(text, safe="")


def query(**values: object) -> str:
    """What follows the question mark; a list gives its name for each element."""
    return urlencode({name: value for name, value in values.items() if value}, doseq=True)


def _ids(drawn: Sequence[Figure]) -> set[str]:
    return {figure["id"] for figure in drawn}


def _live_figure(now: Live | None) -> list[Figure]:
    return page.with_ids([("live-search", now.figure if now else None)])


def _trial(run: str, trials: Sequence[Trial], trial_id: str) -> Trial:
    trial = next((trial for trial in trials if trial.id == trial_id), None)
    if trial is None:
        raise InputError(f"{trial_id}: no such trial in {run}", "the trials stand on the scenarios' pages")
    return trial


def _section(
    folder: RunFolder, info: RunInfo, result: RunResult | None, scenario: str
) -> tuple[ScenarioView, tuple[WhyView, ...]]:
    """The view of one scenario as if the run were of it alone, and its tree of causes."""
    plains = by_name(info.scenarios)
    asked = (plains[scenario],) if scenario in plains else ()
    result = result or RunResult(1, folder.run_id, False, ())
    done = tuple(point for point in result.scenarios if point.scenario == scenario)
    if not asked and not done:
        raise InputError(f"{scenario}: no such scenario in {folder.run_id}", f"there are {', '.join([*plains][:20])}")
    explained = tuple(explanation for explanation in result.explanations if explanation.scenario == scenario)
    alone = replace(result, scenarios=done, curves=(), findings=(), explanations=explained)
    trials = [trial for trial in folder.read_trials() if trial.scenario == scenario]
    measured = [measurement for measurement in folder.read_measurements() if measurement.scenario == scenario]
    view = run_view(alone, replace(info, scenarios=asked), trials, measured)
    verdict = done[0].verdict if done else None
    if not view.why and verdict and verdict.suspicions:
        return view.scenarios[0], (suspected_view(scenario, verdict.suspicions, _experiments(asked)),)
    return view.scenarios[0], view.why


def _experiments(asked: Sequence[Mapping[str, Any]]) -> Collection[Experiment] | None:
    """The counter-experiments of an effective scenario; None where this version cannot read it."""
    try:
        return frozenset(kind for plain in asked for kind in allowed(from_plain(plain)))
    except PinchpointError:
        return None


def _stream(stream: StreamCounts) -> str:
    return f"stream {stream.stream}: {stream.tx_port} to {stream.rx_port or 'nobody'}"


def live(folder: RunFolder, info: RunInfo, result: RunResult | None) -> Live:
    """What the files say now."""
    if is_campaign(folder.path):
        return _campaign(folder, info, result)
    done = {scenario.scenario: scenario.wall_s for scenario in result.scenarios} if result else {}
    names = [*by_name(info.scenarios)]
    trials = folder.read_trials()
    current = trials[-1].scenario if trials and trials[-1].scenario not in done else ""
    current = current or next((name for name in names if name not in done), "")
    own = [trial for trial in trials if trial.scenario == current]
    allowed = _allowed(info, current)
    bounds = rate_figures.narrowing(own, allowed)
    figure = rate_figures.search_figure(None, own, bounds, allowed) if own else None
    known, newest = bounds[-1][1] if bounds else None, tuple(reversed(trials[-MOST_NEWEST:]))
    measured, left_s = sum(name in done for name in names), _left_s(info, done, own)
    return Live(owner(folder.path), measured, len(names), left_s, current, newest, len(trials), known, figure)


def _campaign(folder: RunFolder, info: RunInfo, result: RunResult | None) -> Live:
    """Many machines measure at once, so that there is no current scenario."""
    progress = CampaignFolder(folder).read_progress()
    done, left_s = len(result.scenarios) if result else 0, progress.left_s if progress else None
    return Live(owner(folder.path), done, len(info.scenarios), left_s, campaign=progress)


def _allowed(info: RunInfo, scenario: str) -> float:
    """The lowest loss ratio that a scenario's search asks for; 0 where it does not say."""
    ratios = table_in(by_name(info.scenarios).get(scenario, {}), "search").get("loss_ratios")
    asked = ratios if isinstance(ratios, list | tuple) else ()
    return min((float(ratio) for ratio in asked if isinstance(ratio, int | float)), default=0.0)


def _left_s(info: RunInfo, done: dict[str, float], own: Sequence[Trial]) -> float | None:
    """Estimated time of what is not done, less what its trials have taken; as the run itself corrects it."""
    try:
        units = [from_plain(plain) for plain in info.scenarios]
    except PinchpointError:
        return None
    forecast = Forecast()
    for unit in units:
        if unit.name in done:
            forecast.finished(unit, done[unit.name])
    left = forecast.left_s(unit for unit in units if unit.name not in done)
    return max(0.0, left - math.fsum(trial.duration_s for trial in own))


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


def side_by_side(results: Mapping[str, RunResult | None]) -> tuple[list[Beside], list[tuple[str, Panel]], list[Figure]]:
    """The scenarios and the curves of several runs, and their plots with their ids."""
    points_of = {run: result.scenarios if result else () for run, result in results.items()}
    done = {run: {point.scenario: point for point in points} for run, points in points_of.items()}
    curves = list(_curves(results))
    swept = {panel.key for _, panel in curves}
    names = dict.fromkeys(name for own in done.values() for name in own)
    scenarios = sorted((_compared(name, done, swept) for name in names), key=lambda section: section.swept)
    plots: list[tuple[str, Figure | None]] = [(name, panel.figure) for name, panel in curves]
    for number, section in enumerate([section for section in scenarios if not section.swept][:MOST_PLOTS]):
        own = [(run, of_run[section.name]) for run, of_run in done.items() if section.name in of_run]
        rates = [(run, result.rates[0]) for run, result in own if result.rates]
        plots.append((f"beside-{number}", rate_figures.overview_figure(rates, "rate")))
    return scenarios, curves, page.with_ids(plots)


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
