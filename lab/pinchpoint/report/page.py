"""The report as one self-contained HTML file: no network, light and dark, printable."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from pinchpoint.model import units
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.result import RunInfo, RunResult, ScenarioResult
from pinchpoint.model.trial import LatencySummary, Trial
from pinchpoint.report import figures, rate_figures, rate_views, rfc2544_figures, views, words
from pinchpoint.report.curve_views import CurveView, curve_views
from pinchpoint.report.metric_views import MeasurementsView, MetricsView, measurements_view, metrics_view
from pinchpoint.report.over_time_figure import over_time_figure
from pinchpoint.report.path import SIZE, PathView, paths

_PLOTLY: Final = "plotly-basic.min.js"
_OWN_SCRIPT: Final = "report.js"
_LATENCIES: Final = (
    ("p50", "p50_ns"), ("p90", "p90_ns"), ("p99", "p99_ns"),
    ("p99.9", "p999_ns"), ("p99.99", "p9999_ns"), ("max", "max_ns"),
)  # fmt: skip


# From this many trials on, units of a sweep keep only the trials near their rates on the page.
MANY_TRIALS: Final = 1500
_NEAR: Final = 0.1  # relative to the rates' bounds


@dataclass(frozen=True)
class Section:
    """One scenario on the page; `result` is None when the run ended before it was finished."""

    anchor: str
    name: str
    title: str
    group: str
    result: ScenarioResult | None
    rates: tuple[rate_views.RateView, ...]
    limit: str
    sentence: str
    busy: str
    cycles: str
    unexplained: str  # share of the offered frames; empty without trials
    discarded: tuple[tuple[str, int, str, str], ...]
    checks: tuple[words.Check, ...]
    paths: tuple[PathView, ...]
    pmds: tuple[views.PmdView, ...]
    witness: tuple[tuple[str, str], ...]
    cores: str
    trials: tuple[Trial, ...]  # those shown
    made: int  # those there are
    metrics: MetricsView
    measurements: MeasurementsView
    swept: bool  # a curve shows it: its details are folded away
    like: str  # another unit of the same sweep, under which plan and settings stand; empty: here
    plan: tuple[str, ...]
    settings: tuple[views.Setting, ...]
    over_time: figures.Figure | None  # loss over time; None where nothing was seen so
    spread: figures.Figure | None  # each rate with its interval and band
    search: figures.Figure | None  # the loads tried over time
    search_words: str
    in_force: tuple[tuple[str, str], ...]  # read back from the switch; empty: as under `like`, or none was read

    @property
    def has_close_up(self) -> bool:
        """Whether some rate has two bounds to look at closely."""
        return bool(self.result and figures.bounds(self.result.rates))


def render_html(
    info: RunInfo, result: RunResult, trials: Sequence[Trial], measurements: Sequence[Measurement] = ()
) -> str:
    """The whole page as text. Every text from outside is escaped; scripts run only by their hash."""
    sections = _with_measurements(_sections(info, result, trials), measurements)
    curves = curve_views(result.curves, info.study)
    plain = [section for section in sections if not section.swept]
    overview = _overview(plain)
    drawn = [*_panels(curves), *_figures(sections)]
    return filled(
        "report.html.j2",
        [{"id": "rates", **overview}, *drawn] if overview else drawn,
        info=info,
        result=result,
        curves=curves,
        plain=plain,
        overview=overview,
        bands=any(rate.band for section in plain for rate in section.rates),
        swept={
            view.curve.group: [one for one in sections if one.swept and one.group == view.curve.group]
            for view in curves
        },
        sections=sections,
        rate_names=words.rate_names(result),
        method=words.method(info, result),
    )


def filled(template: str, drawn: Sequence[Mapping[str, Any]], **values: object) -> str:
    """A page from one of the templates; `drawn` are its plots, each with the id of its element."""
    scripts = (_asset(_PLOTLY), _asset(_OWN_SCRIPT))
    return (
        _environment()
        .get_template(template)
        .render(
            **values,
            policy=_policy(scripts),
            css=Markup(_asset("report.css")),
            scripts=[Markup(script) for script in scripts],
            figures=htmlsafe_json_dumps(list(drawn), allow_nan=False, separators=(",", ":")),
        )
    )


def _sections(info: RunInfo, result: RunResult, trials: Sequence[Trial]) -> tuple[Section, ...]:
    plain = {str(scenario.get("name", "")): scenario for scenario in info.scenarios}
    found: list[tuple[str, ScenarioResult | None]] = [(one.scenario, one) for one in result.scenarios]
    found += [(name, None) for name in words.unmeasured(info, result)]
    by_scenario: dict[str, list[Trial]] = {}
    for trial in trials:
        by_scenario.setdefault(trial.scenario, []).append(trial)
    drawn = {curve.group for curve in result.curves if curve.points}
    many = len(trials) > MANY_TRIALS
    first_of: dict[str, str] = {}
    in_force_of = {one.scenario: tuple(one.settings.items()) for one in result.scenarios}
    sections = []
    for place, (name, one) in enumerate(found, 1):
        group = one.group if one else _group(plain.get(name, {}))
        swept = group in drawn
        like = first_of.setdefault(group, name) if swept else name
        own = tuple(by_scenario.get(name, ()))
        shown = _near_rates(one, own) if swept and many else own
        made = _section(f"scenario-{place}", name, one, plain.get(name, {}), info, own)
        made = replace(made, search=None, spread=None, paths=made.paths[-1:]) if swept and many else made
        if like != name:
            same = made.in_force == in_force_of.get(like, ())
            made = replace(made, plan=(), settings=(), like=like, in_force=() if same else made.in_force)
        sections.append(replace(made, group=group, swept=swept, trials=shown))
    return tuple(sections)


def _with_measurements(sections: Sequence[Section], made: Sequence[Measurement]) -> tuple[Section, ...]:
    by_scenario: dict[str, list[Measurement]] = {}
    for one in made:
        by_scenario.setdefault(one.scenario, []).append(one)
    return tuple(
        replace(
            section,
            measurements=measurements_view(own) if own else section.measurements,
            over_time=over_time_figure(section.trials, own),
        )
        for section in sections
        for own in [by_scenario.get(section.name, [])]
    )


def _group(scenario: Mapping[str, object]) -> str:
    point = scenario.get("point")
    return str(point.get("group", "")) if isinstance(point, Mapping) else ""


def _near_rates(result: ScenarioResult | None, trials: tuple[Trial, ...]) -> tuple[Trial, ...]:
    """The trials within a tenth of the rates' bounds; all, where there are no bounds."""
    found = figures.bounds(result.rates) if result else []
    if not found:
        return trials
    low = min(lower for lower, _ in found) * (1 - _NEAR)
    high = max(upper for _, upper in found) * (1 + _NEAR)
    return tuple(trial for trial in trials if low <= trial.offered_fps <= high)


def _section(
    anchor: str,
    name: str,
    one: ScenarioResult | None,
    scenario: Mapping[str, object],
    info: RunInfo,
    own: tuple[Trial, ...],
) -> Section:
    return Section(
        anchor=anchor,
        name=name,
        title=one.title if one else str(scenario.get("title", name)),
        group="",
        result=one,
        rates=tuple(rate_views.rate_view(rate) for rate in one.rates) if one else (),
        limit=words.pinched_by(one) if one else words.NOT_MEASURED,
        sentence=words.verdict_sentence(one) if one else "",
        busy=rate_views.busy(one) if one else "",
        cycles=rate_views.cycles(one) if one else "",
        unexplained=words.unexplained(one, own),
        discarded=rate_figures.discarded(own),
        checks=words.checks(one, own) if one else (),
        paths=paths(own),
        pmds=tuple(views.pmd_view(pmd) for pmd in one.pmds) if one else (),
        witness=views.witness_rows(own),
        cores=words.core_distance(one.cache_line if one else None),
        trials=own,
        made=len(own),
        metrics=metrics_view(one) if one else MetricsView((), (), ""),
        measurements=MeasurementsView((), ()),
        swept=False,
        like="",
        plan=info.plans.get(name, ()),
        settings=views.settings(scenario),
        in_force=tuple(one.settings.items()) if one else (),
        over_time=None,
        spread=rate_figures.rates_figure(rate_figures.scenario_spreads(one)) if one else None,
        search=rate_figures.search_figure(one, own),
        search_words=rate_figures.search_words(one),
    )


def _overview(sections: Sequence[Section]) -> figures.Figure | None:
    """The first rate of every scenario on one axis."""
    found = [(one.name, one.result.rates[0]) for one in sections if one.result and one.result.rates]
    title = found[0][1].name if found else ""
    return rate_figures.rates_figure(
        [rate_figures.spread_of(name, rate) for name, rate in found], title, from_zero=True
    )


def _panels(curves: Sequence[CurveView]) -> list[dict[str, Any]]:
    return [{"id": f"{view.anchor}-{panel.key}", **panel.figure} for view in curves for panel in view.panels]


def _figures(sections: Sequence[Section]) -> list[dict[str, Any]]:
    """Every plot of the page with the id of its element; `data_of` names a plot with the same data."""
    drawn: list[dict[str, Any]] = []
    for section in sections:
        place, found = section.anchor, section.result
        if section.spread:
            drawn.append({"id": f"{place}-spread", **section.spread})
        if section.search:
            drawn.append({"id": f"{place}-search", **section.search})
        if section.over_time:
            drawn.append({"id": f"{place}-time", **section.over_time})
        if section.trials:
            loss = figures.loss_figure(found, [trial for trial in section.trials if trial.burst_frames is None])
            drawn.append({"id": f"{place}-loss", **loss})
            near = figures.close_up(loss["layout"], found.rates) if found else None
            if near:
                drawn.append({"id": f"{place}-near", "data_of": f"{place}-loss", "layout": near})
        named = rfc2544_figures.figures_of(found, section.trials)
        drawn += [{"id": f"{place}-{name}", **figure} for name, figure in named]
        if found and any(point.latency for point in found.latency):
            drawn.append({"id": f"{place}-latency", **figures.latency_figure(found.latency)})
        if has_probes(section.trials):
            drawn.append({"id": f"{place}-cores", **figures.cache_line_figure(section.trials)})
    return drawn


def has_probes(trials: Sequence[Trial]) -> bool:
    """Whether some trial measured the cache-line distance."""
    return any(
        value is not None
        for trial in trials
        for value in (trial.witness.cache_line_before_ns, trial.witness.cache_line_after_ns)
    )


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


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("pinchpoint.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "units": units,
        "words": words,
        "has_probes": has_probes,
        "latency_cells": _latency_cells,
        "path_size": SIZE,
        "latency_names": [name for name, _ in _LATENCIES],
    }
    return environment
