"""Figures of bursts and loss curves: every point where it belongs, and no point where nothing was offered."""

from dataclasses import replace

import pytest
import trials
from sample import sample_run

from pinchpoint.measure.loss_curve.run import unknown
from pinchpoint.model.measurement import BurstResult, BurstTest
from pinchpoint.model.trial import TrialValidity
from pinchpoint.report.loss_figures import burst_figure, loss_curve_figure
from pinchpoint.report.page import render_html
from pinchpoint.report.terminal import render_table


def point(share, loss, forwarded, *, low=None, lossless=None):
    base = unknown(share, share * 4e6, share * 4e6 - 1e3, "")
    return replace(base, loss=loss, loss_low=loss if low is None else low, loss_high=loss * 1.1, trials=6,
                   forwarded_fps=forwarded, forwarded_low=forwarded * 0.99, forwarded_high=forwarded * 1.01,
                   lossless=loss == 0 if lossless is None else lossless, interval="median of 6")  # fmt: skip


LIMITED = unknown(1.0, 4e6, 3.7e6, "generator-limited: <reached> 3.7", generator_limited=True)
POINTS = (LIMITED, point(0.9, 0.4, 2e6), point(0.8, 1e-4, 2e6, low=0.0), point(0.7, 0.0, 2.8e6, lossless=False),
          point(0.6, 0.0, 2.4e6))  # fmt: skip


def traces(figure):
    return {(trace["name"], trace["yaxis"]): trace for trace in figure["data"]}


def test_loss_and_forwarded_rate_stand_over_the_load_that_was_offered():
    by_name = traces(loss_curve_figure(POINTS))
    assert by_name["forwarded", "y"]["x"] == pytest.approx([2.399, 2.799, 3.199, 3.599])
    assert by_name["forwarded", "y"]["y"] == pytest.approx([2.4, 2.8, 2.0, 2.0])
    assert by_name["loss", "y2"]["y"] == [1e-4, 0.4]
    assert by_name["no loss", "y3"]["marker"]["symbol"] == ["circle", "circle-open"]


def test_an_interval_that_reaches_zero_ends_with_the_logarithmic_axis():
    figure = loss_curve_figure(POINTS)
    bars = traces(figure)["loss", "y2"]["error_y"]
    ends = [value - down for value, down in zip([1e-4, 0.4], bars["arrayminus"], strict=True)]
    assert min(ends) >= 1e-5
    assert figure["layout"]["yaxis2"]["range"][0] < -4
    for axis, words in (("xaxis", "offered load, Mpps"), ("yaxis", "forwarded, Mpps"), ("yaxis2", "loss ratio")):
        assert figure["layout"][axis]["title"]["text"] == words


def test_a_load_that_was_not_offered_is_a_shaded_range_and_no_point():
    figure = loss_curve_figure(POINTS)
    assert all(4.0 not in trace["x"] for trace in figure["data"])
    (shape,), (note,) = figure["layout"]["shapes"], figure["layout"]["annotations"]
    assert (shape["x0"], shape["x1"]) == (3.7, 4.0)
    assert "not offered" in note["text"]
    assert "shapes" not in loss_curve_figure(POINTS[1:])["layout"]


def test_a_curve_of_nothing_judged_is_drawn_without_points():
    assert loss_curve_figure((LIMITED,))["data"] == []


def bursts():
    lossless = replace(trials.trial(), id="a", burst_frames=2000)
    lossy = replace(lossless, id="b", burst_frames=2010, received=lossless.offered - 1)
    aside = replace(lossless, id="c", burst_frames=2005, validity=TrialValidity.NOISY_HOST)
    tests = (BurstTest(2000, 2010, 8e6, ("a", "c", "b")), BurstTest(2100, None, 8e6, ("gone",)))
    return BurstResult(tests, 8e6, "", 4e6, "", 2050 / 8e6, 1025 / 8e6), [lossless, lossy, aside]


def test_every_burst_stands_at_its_test_and_length():
    result, sent = bursts()
    figure = burst_figure(result, sent)
    assert {trace["name"]: (trace["x"], trace["y"]) for trace in figure["data"]} == {
        "lost nothing": ([1], [2000]),
        "lost frames": ([1], [2010]),
        "discarded": ([1], [2005]),
        "longest without loss": ([1, 2], [2000, 2100]),
    }
    (line,) = figure["layout"]["shapes"]
    assert line["y0"] == line["y1"] == 2050


def test_the_page_and_the_terminal_show_both_and_escape_what_came_from_outside():
    info, result, made = sample_run()
    first, second, *rest = result.scenarios
    tested, sent = bursts()
    sent = [replace(trial, scenario=second.scenario) for trial in sent]
    curved = replace(first, measure="loss_curve", rates=(), loss_curve=POINTS)
    burst = replace(second, measure="burst", rates=(), burst=tested)
    changed = replace(result, scenarios=(curved, burst, *rest))
    page = render_html(info, changed, [*made, *sent])
    assert 'id="scenario-1-curve"' in page
    assert 'id="scenario-2-bursts"' in page
    assert "not offered" in page
    assert "<reached>" not in page
    assert render_table(changed) is not None
