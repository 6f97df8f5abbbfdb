"""The report as one self-contained HTML file: no network, light and dark, printable."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from pinchpoint.model import units
from pinchpoint.model.result import RunInfo, RunResult, ScenarioResult
from pinchpoint.model.trial import LatencySummary, Trial
from pinchpoint.report import figures, views, words

_PLOTLY: Final = "plotly-basic.min.js"
_OWN_SCRIPT: Final = "report.js"
_LATENCIES: Final = (
    ("p50", "p50_ns"), ("p90", "p90_ns"), ("p99", "p99_ns"),
    ("p99.9", "p999_ns"), ("p99.99", "p9999_ns"), ("max", "max_ns"),
)  # fmt: skip


@dataclass(frozen=True)
class Section:
    """One scenario on the page; `result` is None when the run ended before it was finished."""

    anchor: str
    name: str
    title: str
    result: ScenarioResult | None
    rates: tuple[views.RateView, ...]
    limit: str
    sentence: str
    checks: tuple[words.Check, ...]
    ledgers: tuple[views.LedgerView, ...]
    pmds: tuple[views.PmdView, ...]
    witness: tuple[tuple[str, str], ...]
    cores: str
    trials: tuple[Trial, ...]
    plan: tuple[str, ...]
    settings: tuple[views.Setting, ...]

    @property
    def has_close_up(self) -> bool:
        """Whether some rate has two bounds to look at closely."""
        return bool(self.result and figures.bounds(self.result.rates))


def render_html(info: RunInfo, result: RunResult, trials: Sequence[Trial]) -> str:
    """The whole page as text. Every text from outside is escaped; scripts run only by their hash."""
    sections = _sections(info, result, trials)
    scripts = (_asset(_PLOTLY), _asset(_OWN_SCRIPT))
    page = _environment().get_template("report.html.j2")
    return page.render(
        info=info,
        result=result,
        trials=trials,
        sections=sections,
        rate_names=words.rate_names(result),
        method=words.method(info, result),
        policy=_policy(scripts),
        css=Markup(_asset("report.css")),
        scripts=[Markup(script) for script in scripts],
        figures=htmlsafe_json_dumps(_figures(sections), allow_nan=False, separators=(",", ":")),
    )


def _sections(info: RunInfo, result: RunResult, trials: Sequence[Trial]) -> tuple[Section, ...]:
    plain = {str(scenario.get("name", "")): scenario for scenario in info.scenarios}
    found: list[tuple[str, ScenarioResult | None]] = [(one.scenario, one) for one in result.scenarios]
    found += [(name, None) for name in words.unmeasured(info, result)]
    highest = views.highest(result)
    sections = []
    for place, (name, one) in enumerate(found, 1):
        own = tuple(trial for trial in trials if trial.scenario == name)
        scenario = plain.get(name, {})
        sections.append(
            Section(
                anchor=f"scenario-{place}",
                name=name,
                title=one.title if one else str(scenario.get("title", name)),
                result=one,
                rates=tuple(views.rate_view(rate, highest) for rate in one.rates) if one else (),
                limit=words.pinched_by(one) if one else words.NOT_MEASURED,
                sentence=words.verdict_sentence(one) if one else "",
                checks=words.checks(one, own) if one else (),
                ledgers=views.ledgers(own),
                pmds=tuple(views.pmd_view(pmd) for pmd in one.pmds) if one else (),
                witness=views.witness_rows(own),
                cores=words.core_distance(one.cache_line if one else None),
                trials=own,
                plan=info.plans.get(name, ()),
                settings=views.settings(scenario),
            )
        )
    return tuple(sections)


def _figures(sections: Sequence[Section]) -> list[dict[str, Any]]:
    """Every plot of the page with the id of its element; `data_of` names a plot with the same data."""
    drawn: list[dict[str, Any]] = []
    for section in sections:
        place, found = section.anchor, section.result
        if section.trials:
            loss = figures.loss_figure(found, section.trials)
            drawn.append({"id": f"{place}-loss", **loss})
            near = figures.close_up(loss["layout"], found.rates) if found else None
            if near:
                drawn.append({"id": f"{place}-near", "data_of": f"{place}-loss", "layout": near})
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
        "latency_names": [name for name, _ in _LATENCIES],
    }
    return environment
