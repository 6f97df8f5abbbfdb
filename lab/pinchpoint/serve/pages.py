"""What each page shows, as text. Templates, views and figures are the report's wherever it has them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote, urlencode

from jinja2 import Environment

from pinchpoint.findings.trend import trends
from pinchpoint.model import former
from pinchpoint.model.campaign import Progress
from pinchpoint.model.effective import by_name, table_in
from pinchpoint.model.errors import InputError, PinchpointError
from pinchpoint.model.result import RunInfo, RunResult
from pinchpoint.model.trial import StreamCounts, Trial
from pinchpoint.report import page, rate_figures, trial_figures, trial_views
from pinchpoint.report.comparison import parts_of
from pinchpoint.report.plot import Figure
from pinchpoint.report.trend import details, headline, trend_figure
from pinchpoint.report.trial_views import path_of
from pinchpoint.report.view import ScenarioView, run_view
from pinchpoint.report.why import WhyView, suspected_view
from pinchpoint.run.budget import Forecast
from pinchpoint.run.stored import StoredRun, compare_folders
from pinchpoint.scenario.plain import from_plain
from pinchpoint.serve import side_by_side
from pinchpoint.serve.index import Index, Wanted
from pinchpoint.serve.shelf import FILES, Shelf
from pinchpoint.store.campaign import CampaignFolder, is_campaign
from pinchpoint.store.codec import SCHEMA
from pinchpoint.store.folder import RunFolder, owner, tags_or_fault

MOST_COMPARED: Final = 12
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
    bounds: rate_figures.Bounds | None = None  # of its search, as it stands; None: it says nothing yet
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
            tags=tags, tags_fault=tags_fault, swept={},
            files=[file for file in FILES if (folder.path / file).is_file()], compared=info.comparison is not None,
        )  # fmt: skip

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
            "trial.html.j2", word, drawn, name=name, trial=trial, path=path_of(trial, "What became of its frames"),
            before=own[at - 1] if at else None, after=own[at + 1] if at + 1 < len(own) else None, drawn_ids=_ids(drawn),
            witness=trial_views.witness_rows((trial,)), observed=sorted(trial.observed.items()),
            threads=trial_views.thread_views(trial.threads, plains.get(trial.scenario, {})),
        )  # fmt: skip

    def compare(self, word: str, names: Sequence[str]) -> str:
        """Two runs, or the two sides of one, as the report compares them; more runs side by side."""
        if not 1 <= len(names) <= MOST_COMPARED:
            expected = f"expected 1 to {MOST_COMPARED} runs to compare, found {len(names)}"
            raise InputError(expected, "choose them in the list")
        folders = [self.shelf.run(name) for name in names]
        if len(folders) > 2:
            return self._side_by_side(word, names, folders)
        if len(folders) == 2:
            comparison = compare_folders(folders[0], folders[1], (), None)
        elif (own := StoredRun(folders[0]).comparison) is not None:
            comparison = own
        else:
            raise InputError(f"{names[0]}: expected a second run", "choose two or more runs in the list")
        drawn, values = parts_of(comparison)
        return self.filled("compared.html.j2", word, drawn, names=names, **values)

    def _side_by_side(self, word: str, names: Sequence[str], folders: Sequence[RunFolder]) -> str:
        results = {name: folder.read_result() for name, folder in zip(names, folders, strict=True)}
        scenarios, curves, drawn = side_by_side.parts(results)
        values = {"names": names, "scenarios": scenarios, "curves": curves, "drawn_ids": _ids(drawn)}
        return self.filled("side_by_side.html.j2", word, drawn, **values)

    def ledger(self, name: str, trial_id: str) -> str:
        """The account of a trial: a row for each place and each reason, frames."""
        return side_by_side.ledger_csv(_trial(name, self.shelf.run(name).read_trials(), trial_id).ledger)

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
        return self.filled(
            "trend.html.j2", word, drawn, scenario=scenario, metric=metric, scenarios=self.index.scenarios(),
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
        return view.scenarios[0], (suspected_view(scenario, verdict.suspicions),)
    return view.scenarios[0], view.why


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
    return Live(
        pid=owner(folder.path),
        done=sum(name in done for name in names),
        units=len(names),
        left_s=_left_s(info, done, own),
        current=current,
        trials=tuple(reversed(trials[-MOST_NEWEST:])),
        made=len(trials),
        bounds=bounds[-1] if bounds else None,
        figure=rate_figures.search_figure(None, own, bounds, allowed) if own else None,
    )


def _campaign(folder: RunFolder, info: RunInfo, result: RunResult | None) -> Live:
    """Many machines measure at once, so that there is no current scenario."""
    progress = CampaignFolder(folder).read_progress()
    return Live(
        pid=owner(folder.path),
        done=len(result.scenarios) if result else 0,
        units=len(info.scenarios),
        left_s=progress.left_s if progress else None,
        campaign=progress,
    )


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
