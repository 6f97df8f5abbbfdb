"""The forms of RFC 2544 and RFC 9411: figures in their sections, and what was not measured by name."""

from dataclasses import replace

import pytest
from sample import sample_run
from sample_measures import measures_run

from pinchpoint.report.page import SECTIONS, Form, render_form

INFO, RESULT, TRIALS = sample_run()
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
    assert "no measure of the lab resets a device" in section(page, "26.6")


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
