"""The report as one self-contained HTML file: no network, light and dark, printable."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from pinchpoint.model import units
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.result import RunInfo, RunResult
from pinchpoint.model.trial import LatencySummary, Trial
from pinchpoint.report import figures, measure_figures, rate_figures, rate_views, words
from pinchpoint.report.figures import Figure
from pinchpoint.report.losing_figure import losing_figure
from pinchpoint.report.measure_figures import over_time_figure
from pinchpoint.report.path import SIZE
from pinchpoint.report.view import ScenarioView, run_view

_PLOTLY: Final = "plotly-basic.min.js"
_OWN_SCRIPT: Final = "report.js"
_LATENCIES: Final = (
    ("p50", "p50_ns"), ("p90", "p90_ns"), ("p99", "p99_ns"),
    ("p99.9", "p999_ns"), ("p99.99", "p9999_ns"), ("max", "max_ns"),
)  # fmt: skip


def render_html(
    info: RunInfo, result: RunResult, trials: Sequence[Trial], measurements: Sequence[Measurement] = ()
) -> str:
    """The whole page as text. Every text from outside is escaped; scripts run only by their hash."""
    view = run_view(result, info, trials, measurements)
    overview = _overview(view.plain)
    plots = {section.anchor: plots_of(section) for section in view.scenarios}
    drawn = [{"id": "rates", **overview}] if overview else []
    drawn += [{"id": f"{curve.anchor}-{panel.key}", **panel.figure} for curve in view.curves for panel in curve.panels]
    drawn += [{"id": f"{anchor}-{name}", **figure} for anchor, own in plots.items() for name, figure in own.items()]
    return filled(
        "report.html.j2",
        drawn,
        info=info,
        view=view,
        plots_of=plots,
        overview=overview,
        bands=any(rate.band for section in view.plain for rate in section.rates),
        swept={
            curve.curve.group: [
                section for section in view.scenarios if section.swept and section.group == curve.curve.group
            ]
            for curve in view.curves
        },
        rate_names=words.rate_names(result.scenarios),
        rates=[rate for scenario in result.scenarios for rate in scenario.rates],
        has_mrr=any(scenario.mrr for scenario in result.scenarios),
    )


def filled(template: str, drawn: Sequence[Mapping[str, Any]], **values: object) -> str:
    """A page from one of the templates; `drawn` are its plots, each with the id of its element."""
    scripts = (_asset(_PLOTLY), _asset(_OWN_SCRIPT))
    return (
        environment()
        .get_template(template)
        .render(
            **values,
            policy=_policy(scripts),
            css=Markup(_asset("report.css")),
            scripts=[Markup(script) for script in scripts],
            figures=htmlsafe_json_dumps(list(drawn), allow_nan=False, separators=(",", ":")),
        )
    )


def _overview(sections: Sequence[ScenarioView]) -> Figure | None:
    """The first rate of every scenario on one axis."""
    rated = [(section.name, section.result.rates[0]) for section in sections if section.result and section.result.rates]
    title = rated[0][1].name if rated else ""
    return rate_figures.rates_figure(
        [rate_figures.spread_of(name, rate) for name, rate in rated], title, from_zero=True
    )


def plots_of(view: ScenarioView) -> dict[str, Figure]:
    """The plots of one scenario by name; `data_of` names a plot with the same data."""
    result, trials = view.result, view.trials
    drawn: dict[str, Figure | None] = {}
    if not view.brief:
        drawn["spread"] = rate_figures.rates_figure(rate_figures.scenario_spreads(result)) if result else None
        drawn["search"] = rate_figures.search_figure(result, trials)
    drawn["time"] = over_time_figure(trials, view.measurements.made)
    if trials:
        loss = figures.loss_figure(result, [trial for trial in trials if trial.burst_frames is None])
        near = figures.close_up(loss["layout"], result.rates) if result else None
        drawn |= {
            "losing": losing_figure(result, trials),
            "loss": loss,
            "near": near and {"data_of": f"{view.anchor}-loss", "layout": near},
        }
    drawn |= dict(measure_figures.figures_of(result, trials))
    drawn["latency"] = figures.latency_figure(result.latency) if result else None
    drawn["cores"] = figures.cache_line_figure(trials)
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
def _asset(name: str) -> str:
    return resources.files("pinchpoint.report").joinpath("assets", name).read_text("utf-8")


def asset(name: str) -> str:
    """The text of one of the page's own files."""
    return _asset(name)


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
        "rate_views": rate_views,
        "busy": rate_views.busy,
        "cycles": rate_views.cycles,
        "search_words": rate_figures.search_words,
        "latency_cells": _latency_cells,
        "path_size": SIZE,
        "latency_names": [name for name, _ in _LATENCIES],
        "trial_address": None,  # where trials have pages of their own: their address by their id
    }
    return environment
