"""The HTML page as text: nothing from outside becomes markup, nothing is fetched."""

import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from typing import Any

import pytest
from sample import sample_run

from pinchpoint.model.result import RunInfo, RunResult
from pinchpoint.model.trial import Trial
from pinchpoint.report import render_html
from pinchpoint.report.page import _policy

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
    one = RESULT.scenarios[1]
    assert one.verdict
    texts = (HOSTILE,)
    verdict = replace(one.verdict, headline=HOSTILE, evidence=texts, ruled_out=texts, trial_ids=texts)
    pmd = replace(one.pmds[0], name=HOSTILE)
    point = replace(one.latency[0], note=HOSTILE)
    broken = replace(
        one,
        scenario=HOSTILE,
        title=HOSTILE,
        verdict=verdict,
        warnings=(HOSTILE,),
        pmds=(pmd,),
        latency=(point,),
    )
    trials = tuple(
        replace(trial, id=f"{HOSTILE}{place}", scenario=HOSTILE, reason=HOSTILE, phase=HOSTILE)
        for place, trial in enumerate(TRIALS[10:27])
    )
    info = RunInfo(
        schema=1, run_id=HOSTILE, started=HOSTILE, argv=(HOSTILE,),
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
    assert "alert(1)" in json.loads(data)[0]["data"][0]["text"][0]


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
    assert len(page.figures) == 11


def test_places_for_plots_are_all_drawn(html: str) -> None:
    page = _Page(html)
    empty = {attributes["id"] for _, attributes in page.tags if attributes.get("class") == "plot"}
    assert empty == {figure["id"] for figure in page.figures}


def test_a_scenario_that_was_not_finished_shows_the_trials_it_has() -> None:
    early = replace(RESULT, finished=False, scenarios=RESULT.scenarios[:1])
    page = _Page(render_html(INFO, early, TRIALS[:20]))
    assert "Unfinished." in page.visible
    assert "Not finished: no rate was found for this scenario. 10 of its trials were made." in page.visible
    assert "Synthetic sample: source NAT, 255 five-tuples" in page.visible
    assert [figure["id"] for figure in page.figures if figure["id"].startswith("scenario-2")] == [
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
    one = RESULT.scenarios[1]
    first, second = one.latency
    half = replace(RESULT, scenarios=(replace(one, latency=(replace(first, loopback=None), second)),))
    page = _Page(render_html(INFO, half, TRIALS)).visible
    assert heading in page and "not measured" in page
    none = replace(one, latency=tuple(replace(point, loopback=None) for point in one.latency))
    assert heading not in _Page(render_html(INFO, replace(RESULT, scenarios=(none,)), TRIALS)).visible


def test_the_vendored_library_is_the_one_that_is_named() -> None:
    assets = resources.files("pinchpoint.report").joinpath("assets")
    digest = hashlib.sha256(assets.joinpath("plotly-basic.min.js").read_bytes()).hexdigest()
    assert digest in assets.joinpath("VENDORED.md").read_text()
    assert "MIT License" in assets.joinpath("plotly-basic.LICENSE.txt").read_text()
