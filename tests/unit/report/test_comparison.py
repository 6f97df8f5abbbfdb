"""A comparison as a page and as a table: what differs first, every text from outside escaped."""

import json
import re
from dataclasses import replace

import pytest
from comparisons import NAME, paired_run
from rich.console import Console
from sweeps import base

from pinchpoint.findings.comparing import of_run
from pinchpoint.findings.stored_runs import of_runs
from pinchpoint.model.comparison import Side
from pinchpoint.report import render_comparison, render_comparison_table
from pinchpoint.report.comparison import pairs_figure, ratios_figure

A = [500.0, 501.0, 499.0, 500.5, 499.5, 500.2, 500.8, 499.9]
HOSTILE = "<script>alert('x')</script>"


def paired(factor=1.02, title="Forward", **changes):
    other = replace(base(), title=title, dut=replace(base().dut, tuning=replace(base().dut.tuning, smc=True)))
    return replace(of_run(*paired_run(A, [value * factor for value in A], other=other)), **changes)


def text(comparison):
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(render_comparison_table(comparison))
    return console.export_text()


def figures(page):
    return {
        figure["id"]: figure
        for figure in json.loads(
            re.search(r'<script type="application/json" id="figures">(.*?)</script>', page, re.S)[1]
        )
    }


@pytest.mark.parametrize("render", [text, render_comparison])
def test_what_differs_between_the_benches_comes_before_the_numbers(render):
    shown = render(paired())
    assert shown.index("dut.smc") < shown.index("500 cycles")
    assert "B is 2.0 % [2.0 .. 2.0 %] higher" in shown


def test_the_page_has_a_dot_for_each_pair_and_the_interval_as_a_band():
    comparison = paired()
    drawn = figures(render_comparison(comparison))
    figure = drawn["pairs-1-0"]
    assert sum(len(trace["x"]) for trace in figure["data"]) == 8
    assert {trace["name"] for trace in figure["data"]} == {"A first", "B first"}
    band = next(shape for shape in figure["layout"]["shapes"] if shape["type"] == "rect")
    metric = comparison.scenarios[0].metrics[0]
    assert (band["y0"], band["y1"]) == pytest.approx(((metric.low - 1) * 100, (metric.high - 1) * 100))
    assert "%" in figure["layout"]["yaxis"]["title"]["text"]
    assert "ratios" not in drawn, "one ratio needs no overview"


def test_pairs_that_are_left_out_are_listed_but_not_drawn():
    comparison = of_run(*paired_run([None, *A], [510.0, *A]))
    metric = comparison.scenarios[0].metrics[0]
    assert sum(len(trace["x"]) for trace in pairs_figure(metric)["data"]) == 8
    page = render_comparison(comparison)
    assert "A failed" in page
    assert "1 of 9 pairs (11%) left out" in page


def test_several_ratios_are_drawn_together_with_their_intervals():
    metric = paired().scenarios[0].metrics[0]
    figure = ratios_figure([(f"a: {NAME}", metric.interval), (f"b: {NAME}", metric.interval)])
    (trace,) = figure["data"]
    assert trace["y"] == [f"a: {NAME}", f"b: {NAME}"]
    assert min(trace["error_x"]["array"]) >= 0
    assert min(trace["error_x"]["arrayminus"]) >= 0


def test_a_start_is_told_without_the_fractions_of_its_second():
    begun = paired(a=Side("one", "2026-01-02T03:04:05.678901+00:00"))
    assert "one, started 2026-01-02 03:04" in text(begun) and ":05" not in text(begun)
    assert "one, started 2026-01-02 03:04:05 UTC." in render_comparison(begun)


def test_an_unfinished_comparison_says_so():
    unfinished = paired(finished=False)
    assert 'id="unfinished"' in render_comparison(unfinished)
    assert "--resume" in text(unfinished)


def test_benches_without_a_known_difference_are_said_to_have_none():
    same = of_run(*paired_run(A, A))
    assert "no known difference" in text(same)
    assert "No known difference" in render_comparison(same)


def test_texts_from_outside_are_escaped():
    info, result = paired_run(A, A, other=replace(base(), dut=replace(base().dut, other_config={"x": HOSTILE})))
    page = render_comparison(replace(of_run(info, result), only_a=(HOSTILE,)))
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page


def test_stored_runs_say_that_they_are_unpaired_and_name_what_only_one_has():
    run = paired_run(A, [value * 1.1 for value in A])
    comparison = replace(of_runs(run, run), only_b=("lonely",))
    shown = text(comparison)
    assert "unpaired" in shown
    assert "only in B: lonely" in shown
    assert "ratios" in figures(render_comparison(comparison)), "two scenarios have an overview"
