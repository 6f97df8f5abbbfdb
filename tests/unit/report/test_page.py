"""The HTML page as text: nothing from outside becomes markup, nothing is fetched."""

import hashlib
import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from importlib import resources
from typing import Any

import pytest
from sample import sample_run
from sample_measures import measures_run
from sample_study import study_run

from pinchpoint.model.result import RunInfo, RunResult
from pinchpoint.model.trial import Trial
from pinchpoint.model.warning import Warn
from pinchpoint.report import render_html
from pinchpoint.report.page import _policy
from pinchpoint.store.codec import SCHEMA

INFO, RESULT, TRIALS = sample_run()
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028\u2029'\"&"


class _Page(HTMLParser):
    """Collects what a browser would find: tags with attributes, scripts, visible text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.visible = ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.visible += data

    @property
    def figures(self) -> Any:
        return json.loads(self.scripts[0])


@pytest.fixture(scope="module")
def html() -> str:
    return render_html(INFO, RESULT, TRIALS)


def _hostile_run() -> tuple[RunInfo, RunResult, tuple[Trial, ...]]:
    scenario = RESULT.scenarios[1]
    assert scenario.verdict
    texts = (HOSTILE,)
    verdict = replace(scenario.verdict, headline=HOSTILE, evidence=texts, ruled_out=texts, trial_ids=texts)
    load = replace(scenario.threads[0], name=HOSTILE, detail={HOSTILE: 1})
    point = replace(scenario.latency[0], note=HOSTILE)
    broken = replace(
        scenario,
        scenario=HOSTILE,
        title=HOSTILE,
        verdict=verdict,
        warnings=(Warn.OTHER.of(HOSTILE, advice=HOSTILE),),
        threads=(load,),
        latency=(point,),
    )
    trials = tuple(
        replace(trial, id=f"{HOSTILE}{place}", scenario=HOSTILE, reason=HOSTILE, phase=HOSTILE)
        for place, trial in enumerate(TRIALS[10:27])
    )
    info = RunInfo(
        schema=SCHEMA, run_id=HOSTILE, started=HOSTILE, argv=(HOSTILE,),
        scenarios=({"name": HOSTILE, "dut": {HOSTILE: HOSTILE}},), sources={HOSTILE: HOSTILE},
        plans={HOSTILE: (HOSTILE,)}, versions={HOSTILE: HOSTILE}, host={HOSTILE: HOSTILE},
    )  # fmt: skip
    return info, replace(RESULT, run_id=HOSTILE, scenarios=(broken,)), trials


def test_hostile_text_stays_text_everywhere() -> None:
    page = _Page(render_html(*_hostile_run()))
    assert len(page.scripts) == 3
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert page.visible.count("<script>alert(1)</script>") > 20


def test_hostile_text_cannot_leave_the_embedded_data() -> None:
    html = render_html(*_hostile_run())
    start = html.index('id="figures">') + len('id="figures">')
    data = html[start : html.index("</script>", start)]
    assert not re.search("[<>&'\u2028\u2029]", data)
    assert "alert(1)" in json.loads(data)[0]["data"][0]["y"][0]


def test_the_policy_allows_only_the_scripts_that_are_there(html: str) -> None:
    page = _Page(html)
    policy = next(a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy == _policy(page.scripts[1:])
    assert policy is not None and policy.startswith("default-src 'none'; script-src 'sha256-")
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert "'unsafe" not in directives["script-src"] and "http" not in policy
    assert "connect-src" not in directives and "font-src" not in directives


def test_the_page_refers_to_nothing_outside_itself(html: str) -> None:
    for tag, attributes in _Page(html).tags:
        assert tag not in ("link", "iframe", "object", "base", "form")
        for name in ("src", "href", "action", "srcset"):
            assert (attributes.get(name) or "#").startswith("#")
    css = resources.files("pinchpoint.report").joinpath("assets/report.css").read_text()
    assert "url(" not in css and "@import" not in css


def test_the_page_is_small_enough_to_mail(html: str) -> None:
    assert len(html.encode()) < 1_500_000


def test_the_page_is_the_same_each_time(html: str) -> None:
    assert render_html(INFO, RESULT, TRIALS) == html


def test_every_plot_has_its_place(html: str) -> None:
    page = _Page(html)
    places = {attributes.get("id") for _, attributes in page.tags}
    assert {figure["id"] for figure in page.figures} <= places
    assert len(page.figures) == 19


def test_places_for_plots_are_all_drawn(html: str) -> None:
    page = _Page(html)
    empty = {attributes["id"] for _, attributes in page.tags if "plot" in (attributes.get("class") or "").split()}
    assert empty == {figure["id"] for figure in page.figures}


def test_several_scenarios_have_a_card_each_with_its_evidence_and_the_rest_folded(html: str) -> None:
    cards = html.split('<section class="scenario card"')[1:]
    assert len(cards) == len(RESULT.scenarios)
    for card, scenario in zip(cards, RESULT.scenarios, strict=True):
        shown, _, rest = card.partition('<details class="rest">')
        assert scenario.verdict and scenario.verdict.evidence[0] in unescape(shown)
        assert 'class="plot"' not in shown and 'class="plot"' in rest and "All " in rest


def test_a_scenario_alone_is_not_folded() -> None:
    alone = render_html(
        replace(INFO, scenarios=INFO.scenarios[1:2]), replace(RESULT, scenarios=RESULT.scenarios[1:2]), ()
    )
    assert '<details class="rest">' not in alone and "Evidence" in alone


def test_a_scenario_that_was_not_finished_shows_the_trials_it_has() -> None:
    early = replace(RESULT, finished=False, scenarios=RESULT.scenarios[:1])
    page = _Page(render_html(INFO, early, TRIALS[:20]))
    assert "Unfinished." in page.visible
    assert "Not finished: no rate was found for this scenario. 10 of its trials were made." in page.visible
    assert "Synthetic sample: source NAT, 255 five-tuples" in page.visible
    assert [figure["id"] for figure in page.figures if figure["id"].startswith("scenario-2")] == [
        "scenario-2-search",
        "scenario-2-loss",
        "scenario-2-cores",
    ]


def test_a_run_that_measured_nothing_is_still_a_page() -> None:
    page = _Page(render_html(replace(INFO, scenarios=()), replace(RESULT, scenarios=(), finished=False), ()))
    assert "Nothing was measured." in page.visible
    assert page.figures == []


def test_plan_settings_sources_versions_and_host_are_there(html: str) -> None:
    visible = _Page(html).visible
    for text in ("start ovs-vswitchd with PMD on CPU 1", "dut.memory_mb", "snat-255.toml, as it was read",
                 "22.11.11", "synthetic 2-core sample CPU", "pinchpoint run studies/synthetic-sample"):  # fmt: skip
        assert text in visible


def test_missing_latency_is_said() -> None:
    without = replace(RESULT.scenarios[1], latency=())
    assert (
        "Latency was not measured." in _Page(render_html(INFO, replace(RESULT, scenarios=(without,)), TRIALS)).visible
    )
    blind = replace(RESULT.scenarios[1].latency[0], latency=None, note="the NDR was refused")
    page = _Page(render_html(INFO, replace(RESULT, scenarios=(replace(without, latency=(blind,)),)), TRIALS))
    assert "the NDR was refused" in page.visible and "not measured" in page.visible
    assert not [figure for figure in page.figures if figure["id"].endswith("latency")]


def test_the_engines_own_share_stands_beside_the_latency_if_it_was_measured(html: str) -> None:
    heading = "Of which the engine's own loop"
    visible = _Page(html).visible
    assert heading in visible and "p50 210 ns, p99 480 ns" in visible
    scenario = RESULT.scenarios[1]
    first, second = scenario.latency
    half = replace(RESULT, scenarios=(replace(scenario, latency=(replace(first, loopback=None), second)),))
    page = _Page(render_html(INFO, half, TRIALS)).visible
    assert heading in page and "not measured" in page
    none = replace(scenario, latency=tuple(replace(point, loopback=None) for point in scenario.latency))
    assert heading not in _Page(render_html(INFO, replace(RESULT, scenarios=(none,)), TRIALS)).visible


def test_the_vendored_library_is_the_one_that_is_named() -> None:
    assets = resources.files("pinchpoint.report").joinpath("assets")
    digest = hashlib.sha256(assets.joinpath("plotly-basic.min.js").read_bytes()).hexdigest()
    assert digest in assets.joinpath("VENDORED.md").read_text()
    assert "MIT License" in assets.joinpath("plotly-basic.LICENSE.txt").read_text()


@pytest.fixture(scope="module")
def study_html() -> str:
    return render_html(*study_run())


def test_a_study_shows_findings_then_curves_then_details(study_html: str) -> None:
    _, result, _ = study_run()
    visible = _Page(study_html).visible
    places = [visible.index(text) for text in ("What it found", "One SNAT rule, by five-tuples", "All points")]
    assert places == sorted(places)
    for finding in result.findings:
        assert finding.text in visible
    assert "Warning: " in visible and "an invented 32-core server" in visible


def test_every_plot_of_a_study_has_its_place(study_html: str) -> None:
    page = _Page(study_html)
    places = [attributes.get("id") for _, attributes in page.tags if "plot" in (attributes.get("class") or "").split()]
    assert sorted(figure["id"] for figure in page.figures) == sorted(str(place) for place in places)
    assert len(places) == len(set(places)) > 20


def test_units_of_a_sweep_are_folded_away_and_share_their_plan(study_html: str) -> None:
    page = _Page(study_html)
    folded = [attributes for tag, attributes in page.tags if tag == "details" and attributes.get("class") == "unit"]
    assert len(folded) == len(study_run()[1].scenarios)
    assert page.visible.count("How the bench was built") == len(study_run()[1].curves)
    assert "as under base.five-tuples-1, except for the levels" in page.visible


def test_hostile_text_stays_text_in_a_study() -> None:
    info, result, _ = study_run()
    first = result.curves[0]
    assert info.study
    points = tuple(
        replace(point, verdict=HOSTILE, invisible=HOSTILE, notes={"": HOSTILE}, reason=HOSTILE)
        for point in first.points
    )
    lost = replace(first.points[0], outcome="impossible", reason=HOSTILE, levels={"five-tuples": HOSTILE})
    broken = replace(first, title=HOSTILE, group=HOSTILE, points=(*points, lost))
    study = replace(info.study, title=HOSTILE, about=HOSTILE, source=HOSTILE, name=HOSTILE)
    findings = tuple(replace(finding, text=HOSTILE) for finding in result.findings[:2])
    told = replace(info, study=study)
    page = _Page(render_html(told, replace(result, curves=(broken,), findings=findings, scenarios=()), ()))
    assert len(page.scripts) == 3
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert page.visible.count("<script>alert(1)</script>") > 20


def test_a_big_study_stays_small_enough_to_open() -> None:
    info, result, trials = study_run()
    units, many = [], []
    for copy in range(12):
        for scenario in result.scenarios[:14]:
            name = f"{scenario.scenario}.r{copy + 2}"
            units.append(replace(scenario, scenario=name, repeat=copy + 2))
            many += [replace(trial, scenario=name) for trial in trials if trial.scenario == scenario.scenario]
    html = render_html(info, replace(result, scenarios=(*result.scenarios, *units)), (*trials, *many))
    assert len(many) > 1800 and len(units) > 160
    assert len(html) < 1.9e6 + 20e3 * len(units)  # a thousand units and the library: 22 MB
    assert "trials, those within 10 % of the rates; all are in trials.jsonl" in html


def test_scenarios_without_a_curve_stand_beside_a_sweep() -> None:
    info, result, trials = study_run()
    both = replace(result, scenarios=(*result.scenarios[:7], *RESULT.scenarios), curves=result.curves[:1])
    visible = _Page(render_html(info, both, (*trials, *TRIALS))).visible
    assert "One SNAT rule, by five-tuples" in visible and "Synthetic sample: source NAT, 255 five-tuples" in visible


def test_what_is_no_rate_is_shown_with_its_metrics_and_no_empty_claims() -> None:
    _, result, _ = study_run()
    alone, lost = (scenario for scenario in result.scenarios if scenario.group == "numa")
    page = _Page(render_html(INFO, replace(RESULT, scenarios=(alone, lost)), ())).visible
    assert "goodput" in page and "2.41 Gbit/s" in page and "no rate was searched" not in page
    assert "Impossible here: this machine has only one NUMA node" in page


def test_measures_other_than_rates_have_all_their_metrics_and_measurements() -> None:
    info, result, made = measures_run()
    page = _Page(render_html(info, result, (), made)).visible
    for text in (
        "Main figure",
        "1.61 Gbit/s",
        "1.52 to 1.69 Gbit/s",
        "CPU 0: softirq",
        "lowest and highest of 3 windows",
    ):
        assert text in page
    assert "stream-0001" in page and "noisy host" in page and "took 15.0 % of one CPU" in page
    assert "3 of 4 windows valid" in page and "5 windows, " in page and "1 build" in page
    assert "build time" in page and "No verdict" not in page and "No thread of the device" not in page


def test_an_unfinished_scenario_shows_the_measurements_it_has() -> None:
    info, result, made = measures_run()
    page = _Page(render_html(info, replace(result, scenarios=(), finished=False), (), made[:2])).visible
    assert "2 of its measurements were made" in page and "stream-0002" in page


def test_foreign_text_in_measurements_is_no_markup() -> None:
    info, result, made = measures_run()
    hostile = replace(made[0], id=HOSTILE, reason=HOSTILE, metrics=(replace(made[0].metrics[0], note=HOSTILE),))
    scenario = result.scenarios[0]
    odd = replace(
        scenario, metrics=(replace(scenario.metrics[0], name=HOSTILE, unit=HOSTILE, note=HOSTILE), *scenario.metrics)
    )
    html = render_html(info, replace(result, scenarios=(odd,)), (), (hostile,))
    assert HOSTILE not in html


def test_settings_read_back_from_the_switch_are_shown_once() -> None:
    info, result, trials = study_run()
    first, second, *rest = result.scenarios
    read = {"conntrack limit": "3000001"}
    same = replace(result, scenarios=(replace(first, settings=read), replace(second, settings=read), *rest))
    page = _Page(render_html(info, same, trials))
    assert page.visible.count("Settings in force, as read back from the switch") == 1
    assert page.visible.count("3000001") == 1
    other = (replace(first, settings=read), replace(second, settings={"conntrack limit": "77"}), *rest)
    assert render_html(info, replace(result, scenarios=other), trials).count("as read back from the switch") == 2
