"""What each page shows, as text. Templates, views and figures are the report's wherever it has them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment
from jinja2.utils import htmlsafe_json_dumps

from pinchpoint.findings.trend import trends
from pinchpoint.model import former
from pinchpoint.model.errors import InputError
from pinchpoint.model.result import RunInfo, RunResult, ScenarioResult
from pinchpoint.model.trial import StreamCounts, Trial
from pinchpoint.report import bench_views, comparison_page, figures, page, rate_figures, sample_figures
from pinchpoint.report.figures import Figure
from pinchpoint.report.measure_figures import over_time_figure
from pinchpoint.report.path import path_of
from pinchpoint.report.trend import details, headline, trend_figure
from pinchpoint.report.view import ScenarioView, run_view
from pinchpoint.report.why import suspected_view
from pinchpoint.run.stored import StoredRun, compare_folders
from pinchpoint.serve import side_by_side
from pinchpoint.serve.index import Index, Wanted, number_of
from pinchpoint.serve.live import Live, live
from pinchpoint.serve.shelf import FILES, Shelf, Shown
from pinchpoint.store.codec import SCHEMA
from pinchpoint.store.folder import RunFolder, owner, tags_or_fault

MOST_COMPARED: Final = 12
MOST_OF_A_TREND: Final = 500  # the newest runs
MOST_AROUND: Final = 40  # trials before and after one, among which it is drawn


@dataclass(frozen=True)
class Viewer:
    """Who looks: `word` goes into every form that acts; it is empty for a browser that may only look."""

    word: str


@dataclass(frozen=True)
class Pages:
    """The pages over one shelf. Each raises InputError for what there is not."""

    shelf: Shelf
    index: Index

    def list(self, viewer: Viewer, wanted: Wanted) -> str:
        self.index.refresh()
        listed = self.index.list(wanted)
        running = {name for name in (row.id for row in listed.rows if row.state == "unfinished") if self._runs(name)}
        return self._filled("runs.html.j2", viewer, listed=listed, wanted=wanted, running=running, root=self.shelf.root)

    def run(self, viewer: Viewer, name: str) -> str:
        """A run: what it found, its curves, its scenarios; not its trials."""
        folder = self.shelf.run(name)
        info, result = folder.read_info(), folder.read_result()
        now = None if result and result.finished else live(folder, info, result)
        shown = result or RunResult(SCHEMA, name, False, ())
        view = run_view(shown, info)
        overview = rate_figures.rates_figure(
            [
                rate_figures.spread_of(section.name, section.result.rates[0])
                for section in view.plain
                if section.result and section.result.rates
            ],
            "rate",
            from_zero=True,
        )
        drawn = [
            {"id": f"{curve.anchor}-{panel.key}", **panel.figure} for curve in view.curves for panel in curve.panels
        ]
        drawn += [{"id": "rates", **overview}] if overview else []
        drawn += _live_figure(now)
        tags, tags_fault = tags_or_fault(folder)
        return self._filled(
            "run.html.j2", viewer, drawn, name=name, info=info, view=view, overview=overview, now=now,
            tags=tags, tags_fault=tags_fault,
            swept={curve.curve.group: [] for curve in view.curves}, number_of=number_of,
            files=[file for file in FILES if (folder.path / file).is_file()], compared=info.comparison is not None,
        )  # fmt: skip

    def live(self, viewer: Viewer, name: str) -> dict[str, object]:
        """The part of a run's page that changes while it runs, and its figure; whether it still does."""
        folder = self.shelf.run(name)
        info, result = folder.read_info(), folder.read_result()
        if result and result.finished:
            return {"finished": True}
        now = live(folder, info, result)
        html = self._environment.get_template("live.html.j2").render(name=name, now=now, viewer=viewer)
        return {"finished": False, "done": now.done, "html": html, "figures": _live_figure(now)}

    def scenario(self, viewer: Viewer, name: str, scenario: str) -> str:
        """A scenario of a run: the report's section of it, with the tree of its causes."""
        folder = self.shelf.run(name)
        info, result = folder.read_info(), folder.read_result()
        section, why = _section(folder, info, result, scenario)
        plots = page.plots_of(section)
        modes = section.result.modes if section.result else ()
        if over_time := sample_figures.trials_figure(section.trials, modes):
            plots["trials"] = over_time
        drawn = [{"id": f"{section.anchor}-{key}", **figure} for key, figure in plots.items()]
        return self._filled(
            "one_scenario.html.j2", viewer, drawn, name=name, section=section, plots_of={section.anchor: plots}, why=why
        )

    def trial(self, viewer: Viewer, name: str, trial_id: str) -> str:
        """A trial down to its ledger."""
        folder = self.shelf.run(name)
        trials = folder.read_trials()
        place = next((at for at, each in enumerate(trials) if each.id == trial_id), None)
        if place is None:
            raise InputError(f"{trial_id}: no such trial in {name}", "the trials stand on the scenarios' pages")
        trial = trials[place]
        siblings = [sibling for sibling in trials if sibling.scenario == trial.scenario]
        own = [sibling.id for sibling in siblings]
        at = own.index(trial_id)
        around = siblings[max(0, at - MOST_AROUND) : at + MOST_AROUND + 1]
        drawn, result = _of_trial(trial, around, folder.read_result())
        return self._filled(
            "trial.html.j2", viewer, drawn, name=name, trial=trial, result=result,
            path=path_of(trial, "What became of its frames"),
            before=own[at - 1] if at else None, after=own[at + 1] if at + 1 < len(own) else None, drawn_ids=_ids(drawn),
            witness=bench_views.witness_rows((trial,)), observed=sorted(trial.observed.items()),
            threads=bench_views.thread_views(trial.threads, _effective(folder.read_info(), trial.scenario)),
        )  # fmt: skip

    def compare(self, viewer: Viewer, names: Sequence[str]) -> str:
        """Two runs, or the two sides of one, as the report compares them; more runs side by side."""
        if not 1 <= len(names) <= MOST_COMPARED:
            raise InputError(
                f"expected 1 to {MOST_COMPARED} runs to compare, found {len(names)}", "choose them in the list"
            )
        folders = [self.shelf.run(name) for name in names]
        if len(folders) > 2:
            return self._side_by_side(viewer, names, folders)
        comparison = (
            compare_folders(folders[0], folders[1], (), None) if len(folders) == 2 else StoredRun(folders[0]).comparison
        )
        if comparison is None:
            raise InputError(f"{names[0]}: expected a second run", "choose two or more runs in the list")
        drawn, values = comparison_page.parts_of(comparison)
        return self._filled("compared.html.j2", viewer, drawn, names=names, **values)

    def _side_by_side(self, viewer: Viewer, names: Sequence[str], folders: Sequence[RunFolder]) -> str:
        results = {name: folder.read_result() for name, folder in zip(names, folders, strict=True)}
        scenarios, curves, drawn = side_by_side.parts(results)
        return self._filled(
            "side_by_side.html.j2",
            viewer,
            drawn,
            names=names,
            scenarios=scenarios,
            curves=curves,
            drawn_ids=_ids(drawn),
        )

    def ledger(self, name: str, trial_id: str) -> str:
        """The account of a trial: a row for each place and each reason, frames."""
        trial = next((trial for trial in self.shelf.run(name).read_trials() if trial.id == trial_id), None)
        if trial is None:
            raise InputError(f"{trial_id}: no such trial in {name}", "the trials stand on the scenarios' pages")
        return side_by_side.ledger_csv(trial.ledger)

    def source(self, name: str, file: str) -> str:
        """A scenario file as a run read it. Raises InputError."""
        sources = self.shelf.run(name).read_info().sources
        if file not in sources:
            raise InputError(f"{file}: no such file of {name}", f"there are {', '.join(sources)}")
        return sources[file]

    def studies(self, viewer: Viewer, shown: Sequence[Shown]) -> str:
        """The studies that ship."""
        return self._filled("studies.html.j2", viewer, studies=shown)

    def study(self, viewer: Viewer, shown: Shown, values: Mapping[str, object]) -> str:
        """One of them, to be started."""
        return self._filled("study.html.j2", viewer, (), study=shown, **values)

    def trend(self, viewer: Viewer, scenario: str, metric: str) -> str:
        """Where the level of a scenario's metric changed over the runs."""
        self.index.refresh()
        metric = former.metric(metric)
        names = self.index.having(scenario, MOST_OF_A_TREND) if scenario else ()
        stored = []
        for name in names:
            folder = self.shelf.run(name)
            if result := folder.read_result():
                own = tuple(point for point in result.scenarios if point.scenario == scenario)
                stored.append((folder.read_info(), replace(result, scenarios=own, curves=(), findings=())))
        measured = trends(stored, (scenario,), (metric,) if metric else ()) if scenario else ()
        drawn = [
            {"id": f"trend-{at}", **figure} for at, trend in enumerate(measured) if (figure := trend_figure(trend))
        ]
        return self._filled(
            "trend.html.j2", viewer, drawn, scenario=scenario, metric=metric, scenarios=self.index.scenarios(),
            metrics=self.index.metrics(scenario) if scenario else (), trends=measured, headline=headline,
            details=details,
        )  # fmt: skip

    def form(self, viewer: Viewer, values: Mapping[str, object]) -> str:
        """A scenario to be written."""
        return self._filled("new.html.j2", viewer, (), **values)

    def started(self, viewer: Viewer, name: str, pid: int | None, log: str) -> str:
        """What became of a scenario that was started from here."""
        self.index.refresh()
        runs = [row for row in self.index.list(Wanted(text=name)).rows if row.id.startswith(f"{name}-")]
        return self._filled("started.html.j2", viewer, name=name, pid=pid, log=log, runs=runs)

    def error(self, viewer: Viewer, title: str, advice: str) -> str:
        """What went wrong, and what to do."""
        return self._filled("error.html.j2", viewer, title=title, advice=advice)

    def _runs(self, name: str) -> bool:
        return owner(self.shelf.root / name) is not None

    @property
    def _environment(self) -> Environment:
        environment = page.environment("pinchpoint.serve")
        environment.globals |= {
            "trial_address": lambda trial_id: f"../trial/{segment(trial_id)}",
            "segment": segment,
            "query": query,
        }
        return environment

    def _filled(self, template: str, viewer: Viewer, drawn: Sequence[Mapping[str, Any]] = (), **values: object) -> str:
        shown = htmlsafe_json_dumps(list(drawn), allow_nan=False, separators=(",", ":"))
        return self._environment.get_template(template).render(**values, viewer=viewer, figures=shown)


def segment(text: str) -> str:
    """One part of an address."""
    return quote(text, safe="")


def query(**values: object) -> str:
    """What follows the question mark; a list gives its name for each element."""
    return urlencode({name: value for name, value in values.items() if value}, doseq=True)


def _ids(drawn: Sequence[Mapping[str, Any]]) -> set[str]:
    return {figure["id"] for figure in drawn}


def _live_figure(now: Live | None) -> list[dict[str, Any]]:
    return [{"id": "live-search", **now.figure}] if now and now.figure else []


def _section(
    folder: RunFolder, info: RunInfo, result: RunResult | None, scenario: str
) -> tuple[ScenarioView, tuple[Any, ...]]:
    """The view of one scenario as if the run were of it alone, and its tree of causes."""
    asked = tuple(plain for plain in info.scenarios if str(plain.get("name", "")) == scenario)
    done = tuple(point for point in result.scenarios if point.scenario == scenario) if result else ()
    if not asked and not done:
        names = ", ".join(str(scenario.get("name", "")) for scenario in info.scenarios[:20])
        raise InputError(f"{scenario}: no such scenario in {folder.run_id}", f"there are {names}")
    why = (
        tuple(explanation for explanation in result.explanations if explanation.scenario == scenario) if result else ()
    )
    alone = RunResult(
        1,
        folder.run_id,
        bool(result and result.finished),
        done,
        explanations=why,
        profiles=result.profiles if result else (),
    )
    trials = [trial for trial in folder.read_trials() if trial.scenario == scenario]
    measured = [measurement for measurement in folder.read_measurements() if measurement.scenario == scenario]
    view = run_view(alone, replace(info, scenarios=asked), trials, measured)
    verdict = done[0].verdict if done else None
    if not view.why and verdict and verdict.suspicions:
        return view.scenarios[0], (suspected_view(scenario, verdict.suspicions),)
    return view.scenarios[0], view.why


def _effective(info: RunInfo, scenario: str) -> Mapping[str, object]:
    """A scenario of the run as it was in effect; empty if the run does not tell."""
    return next((plain for plain in info.scenarios if plain.get("name") == scenario), {})


def _of_trial(
    trial: Trial, around: Sequence[Trial], result: RunResult | None
) -> tuple[list[dict[str, Any]], ScenarioResult | None]:
    """The plots of a trial, and its scenario's result."""
    own = (
        next((scenario for scenario in result.scenarios if scenario.scenario == trial.scenario), None)
        if result
        else None
    )
    timed = [(_stream(stream), stream.latency) for stream in trial.streams if stream.latency]
    drawn: dict[str, Figure | None] = {
        "samples": sample_figures.samples_figure(trial),
        "time": over_time_figure((trial,), ()),
        "latency": figures.percentile_figure(timed),
        "around": sample_figures.trials_figure(around, own.modes if own else (), trial.id),
    }
    return [{"id": name, **figure} for name, figure in drawn.items() if figure], own


def _stream(stream: StreamCounts) -> str:
    return f"stream {stream.stream}: {stream.tx_port} to {stream.rx_port or 'nobody'}"
