"""The report as one self-contained HTML file: no network, light and dark, printable."""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from typing import Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from pinchpoint.model import units
from pinchpoint.model.groups import grouped
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.result import RunInfo, RunResult
from pinchpoint.model.trial import LatencySummary, Trial
from pinchpoint.report import loss_figures, number_views, rate_figures, trial_figures, words
from pinchpoint.report.plot import Figure
from pinchpoint.report.trial_views import SIZE
from pinchpoint.report.view import RunView, ScenarioView, run_view

_LATENCIES: Final = (
    ("p50", "p50_ns"), ("p90", "p90_ns"), ("p99", "p99_ns"),
    ("p99.9", "p999_ns"), ("p99.99", "p9999_ns"), ("max", "max_ns"),
)  # fmt: skip


def render_html(
    info: RunInfo, result: RunResult, trials: Sequence[Trial], measurements: Sequence[Measurement] = ()
) -> str:
    """The whole page as text. Every text from outside is escaped; scripts run only by their hash."""
    view = run_view(result, info, trials, measurements)
    drawn = plots_of_run(view, view.rated[0][1].name if view.rated else "")
    plots = {section.anchor: plots_of(section) for section in view.scenarios}
    for anchor, own in plots.items():
        drawn += with_ids(own.items(), f"{anchor}-")
    return filled(
        "report.html.j2",
        drawn,
        info=info,
        view=view,
        plots_of=plots,
        overview=has_overview(drawn),
        bands=any(number_views.band(rate) for section in view.plain for rate in section.rates),
        swept=grouped((section.group, section) for section in view.scenarios if section.swept),
        rate_names=words.rate_names(result.scenarios),
        rates=[rate for scenario in result.scenarios for rate in scenario.rates],
        has_mrr=any(scenario.mrr for scenario in result.scenarios),
    )


def plots_of_run(view: RunView, title: str) -> list[Figure]:
    """The plots of a run but for those of single scenarios: its rates, called `title`, if there are any; its curves."""
    drawn = with_ids([("rates", rate_figures.overview_figure(view.rated, title))])
    for curve in view.curves:
        drawn += with_ids(((panel.key, panel.figure) for panel in curve.panels), f"{curve.anchor}-")
    return drawn


def has_overview(drawn: Sequence[Figure]) -> bool:
    """Whether there is a plot of the rates of a run."""
    return any(figure["id"] == "rates" for figure in drawn)


def with_ids(plots: Iterable[tuple[str, Figure | None]], lead: str = "") -> list[Figure]:
    """Named plots with the ids of their elements, `lead` and the name; what there is not is left out."""
    return [{"id": f"{lead}{name}", **figure} for name, figure in plots if figure]


def filled(template: str, drawn: Sequence[Figure], **values: object) -> str:
    """A page from one of the templates; `drawn` are its plots, each with the id of its element."""
    scripts = (asset("plotly-basic.min.js"), asset("report.js"))
    made = environment().get_template(template)
    return made.render(
        **values,
        policy=_policy(scripts),
        css=Markup(asset("report.css")),
        scripts=[Markup(script) for script in scripts],
        figures=as_json(drawn),
    )


def as_json(drawn: Sequence[Figure]) -> Markup:
    """Plots as a page holds them, in a script element of its own."""
    return htmlsafe_json_dumps(list(drawn), allow_nan=False, separators=(",", ":"))


def plots_of(view: ScenarioView) -> dict[str, Figure]:
    """The plots of one scenario by name; `data_of` names a plot with the same data."""
    result, trials = view.result, view.trials
    drawn: dict[str, Figure | None] = {}
    if not view.brief:
        drawn["spread"] = rate_figures.rates_figure(rate_figures.scenario_spreads(result)) if result else None
        drawn["search"] = rate_figures.search_figure(result, trials)
    drawn["time"] = trial_figures.over_time_figure(trials, view.measurements)
    if trials:
        loss = loss_figures.loss_figure(result, [trial for trial in trials if trial.burst_frames is None])
        near = loss_figures.close_up(loss["layout"], result.rates) if result else None
        drawn |= {
            "losing": loss_figures.losing_figure(result, trials),
            "loss": loss,
            "near": near and {"data_of": f"{view.anchor}-loss", "layout": near},
        }
    drawn |= dict(loss_figures.figures_of(result, trials))
    drawn["latency"] = trial_figures.latency_figure(result.latency) if result else None
    drawn["cores"] = trial_figures.cache_line_figure(trials)
    return {name: figure for name, figure in drawn.items() if figure}


def _latency_cells(latency: LatencySummary) -> list[str]:
    return [units.nanoseconds(getattr(latency, name)) for _, name in _LATENCIES]


def _policy(scripts: Sequence[str]) -> str:
    """A Content-Security-Policy (W3C CSP3) that allows these scripts and no network at all."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


@cache
def asset(name: str, package: str = "pinchpoint.report") -> str:
    """The text of one of the files that pages are made of."""
    return resources.files(package).joinpath("assets", name).read_text("utf-8")


@cache
def environment(package: str = "pinchpoint.report") -> Environment:
    """The templates of a package, and after them the report's own."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, "pinchpoint.report"))]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "units": units,
        "words": words,
        "number_views": number_views,
        "search_words": rate_figures.search_words,
        "latency_cells": _latency_cells,
        "path_size": SIZE,
        "latency_names": [name for name, _ in _LATENCIES],
        "trial_address": None,  # where trials have pages of their own: their address by their id
    }
    return environment
