"""The forms of RFC 2544 and RFC 9411: figures in their sections, and what was not measured by name."""

from dataclasses import replace

import pytest
from sample import sample_run
from sample_measures import measures_run

from pinchpoint.measure.recovery.run import Recovered, metrics
from pinchpoint.model.measurement import Metric
from pinchpoint.report.page import SECTIONS, Form, render_form

INFO, RESULT, TRIALS = sample_run()
CALM = [Recovered("t-0001", 0.1, 1e-3, 1e6, 9, 3, still=False), Recovered("t-0002", 0.0, 1e-3, 1e6, 0, 0, still=False)]
HOSTILE = "</td><script>alert(1)</script>"


def section(page, number):
    """The text of one section of a page."""
    return page.partition(f'id="s{number.replace(".", "-")}"')[2].partition("</section>")[0]


def test_throughput_and_latency_stand_in_their_sections_with_the_frame_size():
    page = render_form(Form.RFC2544, INFO, RESULT, TRIALS)
    assert "64 B" in section(page, "26.1") and "3.10 Mpps" in section(page, "26.1")
    assert "at 50.0 % of the throughput" in section(page, "26.2") and "p99" in section(page, "26.2")
    assert "Trials took 1 s; RFC 2544, section 24, asks for at least 60 s" in page


def test_each_section_without_a_figure_says_what_would_measure_it_or_that_nothing_does():
    page = render_form(Form.RFC2544, INFO, RESULT, TRIALS)
    assert "measure = &#34;burst&#34; measures it" in section(page, "26.4")
    assert "blocked.action = &#34;restart&#34; measures it" in section(page, "26.6")


def test_a_median_and_the_throughput_of_rfc_1242_are_told_apart():
    first = RESULT.scenarios[0]
    assert "at most half of the 1 s trials exceed" in section(render_form(Form.RFC2544, INFO, RESULT, ()), "26.1")
    literal = replace(first.rates[0], exceed_ratio=0.0, trial_duration_s=60.0, duration_sum_s=60.0)
    told = replace(RESULT, scenarios=(replace(first, rates=(literal,)),))
    page = section(render_form(Form.RFC2544, INFO, told, ()), "26.1")
    assert "no 60 s trial exceeds the loss ratio, by MLRsearch over 60 s" in page


@pytest.mark.parametrize(("action", "is_told"), [("restart", True), ("flows", False)])
def test_reset_is_the_restart_and_no_other_change(action, is_told):
    info = replace(INFO, scenarios=({"name": "forward", "measure": "blocked", "blocked": {"action": action}},))
    made = (Metric("blocked time", "s", 1.25), Metric("lost frames", "count", 25_000.0))
    result = replace(RESULT.scenarios[0], measure="blocked", metrics=made, rates=())
    page = section(render_form(Form.RFC2544, info, replace(RESULT, scenarios=(result,)), ()), "26.6")
    assert ("1.25 s" in page) is is_told
    assert ("Not measured" in page) is not is_told


def test_an_overload_that_was_none_stands_beside_the_recovery_time():
    info = replace(INFO, scenarios=())
    result = replace(RESULT.scenarios[0], measure="recovery", rates=(), metrics=tuple(metrics(CALM, 1e6)))
    page = section(render_form(Form.RFC2544, info, replace(RESULT, scenarios=(result,)), ()), "26.5")
    assert "1 of 2 overloads lost nothing: raise recovery.overload_share" in page


def test_goodput_and_requests_stand_in_the_sections_of_rfc_9411_with_what_departs():
    info, result, _ = measures_run()
    page = render_form(Form.RFC9411, info, result, ())
    assert "1.61 Gbit/s" in section(page, "7.3") and "not objects over HTTP" in section(page, "7.3")
    assert "latency p99.9" in section(page, "7.4")
    assert "no TLS" in section(page, "7.7")


def test_a_scenario_that_gave_no_figure_is_named_with_its_reason():
    failed = replace(RESULT.scenarios[0], outcome="failed", reason="the switch died", metrics=(), latency=())
    page = render_form(Form.RFC2544, INFO, replace(RESULT, scenarios=(failed,)), ())
    assert "No figure of forward: failed: the switch died" in section(page, "26.1")


@pytest.mark.parametrize("form", list(Form))
def test_no_text_of_a_run_becomes_markup(form):
    hostile = tuple(replace(scenario, scenario=HOSTILE, title=HOSTILE) for scenario in RESULT.scenarios)
    page = render_form(form, replace(INFO, host={HOSTILE: HOSTILE}), replace(RESULT, scenarios=hostile), TRIALS)
    assert "<script" not in page


@pytest.mark.parametrize("form", list(Form))
def test_section_numbers_rise_and_occur_once(form):
    numbers = [tuple(map(int, section.number.split("."))) for section in SECTIONS[form]]
    assert numbers == sorted(set(numbers))
