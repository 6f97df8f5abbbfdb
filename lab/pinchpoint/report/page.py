"""Runs as HTML: the report, one self-contained file without network, light and dark, printable; and forms of RFCs.

Report forms of RFC 2544 and RFC 9411 have every section of their RFC. What the run did not measure is named in its
place, and so is where a measurement departs from the RFC.
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from pinchpoint.model import units
from pinchpoint.model.effective import by_name, table_in
from pinchpoint.model.groups import grouped
from pinchpoint.model.measurement import Interval, Measurement
from pinchpoint.model.result import Outcome, RunInfo, RunResult, ScenarioResult
from pinchpoint.model.scenario import Sizes
from pinchpoint.model.trial import Trial
from pinchpoint.report import loss_figures, number_views, rate_figures, trial_figures, words
from pinchpoint.report.number_views import MetricRow, named
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
        folds=len(view.plain) > 1,  # several scenarios have a card each, and the rest below it folded
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
    css, code = Markup(asset("report.css")), [Markup(script) for script in scripts]
    page = environment().get_template(template)
    return page.render(**values, policy=_policy(scripts), css=css, scripts=code, figures=as_json(drawn))


def as_json(drawn: Sequence[Figure]) -> Markup:
    """Plots as a page holds them, in a script element of its own."""
    return htmlsafe_json_dumps(list(drawn), allow_nan=False, separators=(",", ":"))


def plots_of(view: ScenarioView) -> dict[str, Figure]:
    """The plots of one scenario by name; `data_of` names a plot with the same data."""
    result, trials, step = view.result, view.trials, view.step
    drawn: dict[str, Figure | None] = {}
    if not view.brief:
        spreads = rate_figures.scenario_spreads(result) if result else ()
        drawn["spread"] = rate_figures.rates_figure(spreads, step=step)
        drawn["search"] = rate_figures.search_figure(result, trials, step=step)
    drawn["time"] = trial_figures.over_time_figure(trials, view.measurements)
    if trials:
        steady = [trial for trial in trials if trial.burst_frames is None]
        loss = loss_figures.loss_figure(result, steady, step)
        near = loss_figures.close_up(loss["layout"], result.rates, steady, step) if result else None
        drawn |= {
            "losing": loss_figures.losing_figure(result, trials, step),
            "loss": loss,
            "near": near and {"data_of": f"{view.anchor}-loss", "layout": near},
        }
    if result and result.burst and result.burst.tests:
        drawn["bursts"] = loss_figures.burst_figure(result.burst, trials)
    if result and result.loss_curve:
        drawn["curve"] = loss_figures.loss_curve_figure(result.loss_curve, step)
    drawn["latency"] = trial_figures.latency_figure(result.latency) if result else None
    drawn["cores"] = trial_figures.cache_line_figure(trials)
    return {name: figure for name, figure in drawn.items() if figure}


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
    loader = ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, "pinchpoint.report"))])
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.globals |= {
        "units": units,
        "words": words,
        "number_views": number_views,
        "search_words": rate_figures.search_words,
        "latencies": _LATENCIES,
        "path_size": SIZE,
        "trial_address": None,  # where trials have pages of their own: their address by their id
    }
    return made


LEAST_TRIAL_S: Final = 60.0  # RFC 2544, 24


class Form(units.Worded):
    """The document whose report form is filled in, with its title."""

    RFC2544 = "rfc2544", "Benchmarking Methodology for Network Interconnect Devices"
    RFC9411 = "rfc9411", "Benchmarking Methodology for Network Security Device Performance"


@dataclass(frozen=True)
class Section:
    """One test of an RFC, and the measures and metrics that answer it; a name that ends in a space is of several."""

    number: str
    title: str
    measures: tuple[str, ...]  # none: the lab has none
    metrics: tuple[str, ...]
    otherwise: str  # what is said where the run has none of these
    departs: str = ""  # from the RFC, whenever it was measured
    action: str = ""  # of its measure, that the test is about; empty: the measure has none
    is_latency: bool = False


SECTIONS: Final[Mapping[Form, tuple[Section, ...]]] = {
    Form.RFC2544: (
        Section(
            "26.1", "Throughput", ("rates",), ("NDR", "NDR throughput"), 'measure = "rates" measures it',
            "By RFC 1242 no frame of a trial of 60 s is lost: search.method = \"mlrsearch\" with exceed_ratio = 0 and "
            "trials of 60 s. An NDR at which half of the trials lose nothing is a median.",
        ),
        Section(
            "26.2", "Latency", ("rates",), (), 'measure = "rates" measures it at shares of the throughput',
            "The RFC asks for latency at the throughput itself (latency.at = [1]), as a mean of 20 trials; here it is "
            "the distribution over all frames of one trial at the given share.", is_latency=True,
        ),
        Section("26.3", "Frame loss rate", ("loss_curve",), ("loss at ",), 'measure = "loss_curve" measures it'),
        Section(
            "26.4", "Back-to-back frames", ("burst",),
            ("longest burst", "average burst", "shortest of the tests", "longest of the tests", "burst rate",
             "implied buffer time", "corrected buffer time", "corrected buffer", "ring"),
            'measure = "burst" measures it (with the corrections of RFC 9004)',
        ),
        Section("26.5", "System recovery", ("recovery",), ("recovery time", "lost after the overload", "throughput"),
                'measure = "recovery" measures it'),
        Section(
            "26.6", "Reset", ("blocked",), ("blocked time", "longest silence", "lost frames"),
            'measure = "blocked" with blocked.action = "restart" measures it',
            "The device's program is restarted; the RFC resets hardware and cuts its power.", action="restart",
        ),
    ),
    Form.RFC9411: (
        Section("7.1", "Throughput performance with application traffic mix", (), (),
                "no measure sends a mix of applications"),
        Section(
            "7.2", "TCP connections per second with HTTP traffic", ("connections", "crr"),
            ("burst rate", "burst rate, ", "completed rate", "sustained rate", "transactions", "failed share"),
            'measure = "connections" or "crr" measures TCP connections a second',
            'Connections carry no HTTP: measure = "connections" opens and closes them, "crr" sends one request of '
            "fixed size on each.",
        ),
        Section("7.3", "HTTP throughput", ("bandwidth",), ("goodput", "retransmits"),
                'measure = "bandwidth" measures goodput',
                "Streams of bytes over TCP, not objects over HTTP."),
        Section(
            "7.4", "HTTP transaction latency", ("rr", "crr", "connections"),
            ("latency ", "connect p50", "connect p99"), 'measure = "rr" or "crr" measures the latency of requests',
            "Requests and answers of fixed size, not HTTP; time to first and to last byte are the same.",
        ),
        Section("7.5", "Concurrent TCP connection capacity with HTTP traffic", ("capacity",),
                ("capacity", "tear-down rate", "aging time"), 'measure = "capacity" measures it',
                "Connections stay open without HTTP transactions on them."),
        *(Section(number, title, (), (), "the lab makes no TLS or QUIC traffic") for number, title in (
            ("7.6", "TCP or QUIC connections per second with HTTPS traffic"), ("7.7", "HTTPS throughput"),
            ("7.8", "HTTPS transaction latency"),
            ("7.9", "Concurrent TCP or QUIC connection capacity with HTTPS traffic"),
        )),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Filled:
    """A section with what the run has for it."""

    section: Section
    rows: tuple[tuple[str, str, MetricRow], ...]  # scenario, frame sizes (empty: of no given size), and a figure
    missing: tuple[str, ...]  # scenarios of its measures without a figure, each with the reason


def render_form(form: Form, info: RunInfo, result: RunResult, trials: Sequence[Trial]) -> str:
    """The page as text: no scripts, no network; every text from outside is escaped."""
    template, rfc = environment().get_template("form.html.j2"), form.value.removeprefix("rfc")
    sections = [_filled(section, info, result) for section in SECTIONS[form]]
    setup, remarks = tuple(_setup(info)), tuple(_remarks(form, result, trials))
    return template.render(rfc=rfc, title=form.words, info=info, sections=sections, setup=setup, remarks=remarks)


def _filled(section: Section, info: RunInfo, result: RunResult) -> Filled:
    rows_of = _latency if section.is_latency else _figures
    own = [scenario for scenario in result.scenarios if _is_about(section, info, scenario)]
    filled = [(scenario, tuple(rows_of(section, scenario))) for scenario in own]
    missing = tuple(f"{scenario.scenario}: {_why(scenario)}" for scenario, rows in filled if not rows)
    told = [(scenario.scenario, _frames(info, scenario.scenario), row) for scenario, rows in filled for row in rows]
    return Filled(section, tuple(told), missing)


def _is_about(section: Section, info: RunInfo, result: ScenarioResult) -> bool:
    asked = table_in(by_name(info.scenarios).get(result.scenario, {}), result.measure)
    return result.measure in section.measures and section.action in ("", asked.get("action"))


def _why(result: ScenarioResult) -> str:
    if result.outcome is not Outcome.MEASURED:
        return f"{result.outcome}: {result.reason}"
    return "; ".join(rate.reason for rate in result.rates[:1] if rate.reason) or "no such figure was found"


def _figures(section: Section, result: ScenarioResult) -> Iterator[MetricRow]:
    for metric in named(result.metrics, section.metrics):
        interval, remarks = Interval.of(metric).ends(metric.unit), (*metric.remarks, result.definition_of(metric.name))
        value = units.quantity(metric.value, metric.unit)
        yield MetricRow(metric.name, value, interval, "; ".join(filter(None, remarks)))


def _latency(section: Section, result: ScenarioResult) -> Iterator[MetricRow]:
    for point in result.latency:
        name = f"at {units.share(point.share)} of the throughput"
        histogram = point.latency
        if histogram is None:
            yield MetricRow(name, "not measured", "", point.note)
            continue
        value = f"mean {units.nanoseconds(histogram.mean_ns)}, p50 {units.nanoseconds(histogram.p50_ns)}"
        ends = (("min", histogram.min_ns), ("p99", histogram.p99_ns), ("max", histogram.max_ns))
        spread = ", ".join(f"{end} {units.nanoseconds(length)}" for end, length in ends)
        yield MetricRow(name, value, spread, point.note)


def _frames(info: RunInfo, scenario: str) -> str:
    """The frame sizes of a scenario's streams, in bytes with the check sequence (RFC 2544, 9)."""
    streams = by_name(info.scenarios).get(scenario, {}).get("streams", ())
    return ", ".join(dict.fromkeys(f"{_sizes(stream)} B" for stream in streams))


def _sizes(stream: Mapping[str, Any]) -> object:
    sizes = stream.get("sizes")  # older runs have none
    return Sizes(**sizes).words if sizes else stream.get("frame_bytes")


def _setup(info: RunInfo) -> Iterator[tuple[str, str]]:
    """What an RFC wants to be known of the setup, as it was recorded."""
    devices = (table_in(scenario, "dut") for scenario in info.scenarios)
    kinds = dict.fromkeys(str(dut.get("kind")) for dut in devices if dut)
    yield "Device under test", ", ".join(kinds) or "not recorded"
    yield "Run", f"{info.run_id}, started {info.started}"
    yield "Command", " ".join(info.argv)
    yield from ((f"Version of {name}", value) for name, value in info.versions.items())
    yield from ((f"Host: {name}", value) for name, value in info.host.items())


def _remarks(form: Form, result: RunResult, trials: Sequence[Trial]) -> Iterator[str]:
    if not result.finished:
        yield "The run was interrupted: these are the scenarios that were measured."
    if form is Form.RFC2544:
        judged = (trial for trial in trials if trial.phase != "warm-up" and trial.burst_frames is None)
        lengths = sorted({trial.duration_s for trial in judged})
        if lengths and lengths[0] < LEAST_TRIAL_S:
            ends = f"{lengths[0]:g}" + (f" to {lengths[-1]:g}" if len(lengths) > 1 else "")
            yield f"Trials took {ends} s; RFC 2544, section 24, asks for at least {LEAST_TRIAL_S:g} s."
        yield (
            "Frames that the tester itself lost are counted apart from those of the device; trials that the host "
            "disturbed are discarded and repeated."
        )
