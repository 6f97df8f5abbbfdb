"""The plots as data: every trial is drawn, where and how it belongs."""

import json
import math
from collections import Counter
from dataclasses import replace
from importlib import resources
from typing import Any

import pytest
from sample import rate, sample_run

from pinchpoint.model.result import RateStatus
from pinchpoint.model.trial import TrialValidity
from pinchpoint.report import loss_figures, plot, trial_figures

_, RESULT, TRIALS = sample_run()
SNAT = RESULT.scenarios[1]
OWN = tuple(trial for trial in TRIALS if trial.scenario == "snat-255")


def _points(figure: plot.Figure, axis: str) -> list[tuple[float, float]]:
    traces = [trace for trace in figure["data"] if trace["yaxis"] == axis]
    return sorted(point for trace in traces for point in zip(trace["x"], trace["y"], strict=True))


def test_every_trial_is_drawn_once_under_its_validity() -> None:
    figure = loss_figures.loss_figure(SNAT, OWN)
    drawn = Counter[str]()
    for trace in figure["data"]:
        drawn[trace["meta"]] += len(trace["x"])
    assert drawn == Counter(trial.validity.value for trial in OWN)


def test_lossy_trials_stand_at_their_offered_load_and_loss_ratio() -> None:
    lossy = sorted((trial.offered_fps / 1e6, trial.loss_ratio) for trial in OWN if trial.lost)
    assert _points(loss_figures.loss_figure(SNAT, OWN), "y") == lossy


def test_trials_without_loss_stand_in_their_own_strip() -> None:
    clean = [trial for trial in OWN if not trial.lost]
    points = _points(loss_figures.loss_figure(SNAT, OWN), "y2")
    assert [x for x, _ in points] == sorted(trial.offered_fps / 1e6 for trial in clean)
    assert all(-1 < height < 1 for _, height in points)


def test_a_trial_that_received_more_than_it_offered_is_drawn_too() -> None:
    odd = replace(OWN[0], received=OWN[0].offered + 5)
    assert len(_points(loss_figures.loss_figure(SNAT, (odd,)), "y2")) == 1


def test_without_any_loss_there_is_only_the_strip() -> None:
    figure = loss_figures.loss_figure(None, [trial for trial in OWN if not trial.lost])
    assert figure["layout"]["yaxis2"]["domain"] == [0, 1]
    assert {trace["yaxis"] for trace in figure["data"]} == {"y2"}


def test_validities_differ_in_shape_and_colour() -> None:
    traces = loss_figures.loss_figure(SNAT, TRIALS)["data"]
    assert len({trace["marker"]["symbol"] for trace in traces}) == len({trace["meta"] for trace in traces}) == 5
    assert set(plot.SYMBOLS) == set(TrialValidity)
    assert all(trace["marker"]["color"] == f"@{trace['meta']}" for trace in traces)


def test_each_validity_is_in_the_legend_once() -> None:
    traces = loss_figures.loss_figure(SNAT, OWN)["data"]
    shown = [trace["name"] for trace in traces if trace["showlegend"]]
    assert sorted(shown) == ["counter mismatch", "noisy host", "valid"]


def test_a_found_rate_is_a_band_and_an_open_one_a_dashed_line() -> None:
    rates = (rate(0.0, 3.1e6, 3.115e6, RateStatus.FOUND), rate(0.005, 7e6, None, RateStatus.AT_LEAST))
    shapes = loss_figures.loss_figure(replace(SNAT, rates=rates), OWN)["layout"]["shapes"]
    spans = [(shape["type"], shape["x0"], shape["x1"], shape["line"].get("dash")) for shape in shapes]
    assert spans == [
        ("rect", 3.1, 3.115, None), ("line", 3.1, 3.1, "solid"),
        ("rect", 7.0, 7.0, None), ("line", 7.0, 7.0, "dash"),
    ]  # fmt: skip


def test_the_close_up_holds_all_rates_and_needs_two_bounds() -> None:
    layout = loss_figures.loss_figure(SNAT, OWN)["layout"]
    near = loss_figures.close_up(layout, SNAT.rates, OWN)
    assert near is not None
    low, high = near["xaxis"]["range"]
    assert low < 3.1 < 3.15 < high < 3.3
    assert "range" not in layout["xaxis"]
    assert loss_figures.close_up(layout, (rate(0.0, 7e6, None, RateStatus.AT_LEAST),), OWN) is None


def test_latency_is_drawn_over_nines_in_microseconds() -> None:
    figure = trial_figures.latency_figure(SNAT.latency)
    assert [trace["name"] for trace in figure["data"]] == [
        "50.0 % of NDR, 1.55 Mpps",
        "90.0 % of NDR, 2.79 Mpps",
    ]
    latency = SNAT.latency[0].latency
    assert latency is not None
    trace = figure["data"][0]
    assert (trace["x"][0], trace["y"][0]) == (0.0, latency.min_ns / 1e3)
    at_99 = trace["x"].index(pytest.approx(2.0))
    assert trace["y"][at_99] == latency.p99_ns / 1e3


def test_latency_shows_no_more_nines_than_frames_support() -> None:
    point = SNAT.latency[0]
    assert point.latency is not None
    few = replace(point, latency=replace(point.latency, count=1000))
    assert max(trial_figures.latency_figure([few])["data"][0]["x"]) <= 3.0


def test_a_load_without_latency_has_no_line() -> None:
    points = [replace(SNAT.latency[0], latency=None), SNAT.latency[1]]
    assert len(trial_figures.latency_figure(points)["data"]) == 1


@pytest.mark.parametrize(("quantile", "nines"), [(0, 0), (0.9, 1), (0.999, 3), (1.0, 7), (1 - 1e-9, 7)])
def test_nines(quantile: float, nines: float) -> None:
    assert trial_figures.nines(quantile) == pytest.approx(nines)


def test_cache_line_probes_that_failed_are_left_out() -> None:
    witness = replace(OWN[0].witness, cache_line_before_ns=None)
    traces = trial_figures.cache_line_figure([replace(OWN[0], witness=witness), OWN[1]])["data"]
    assert traces[0]["x"] == [2]
    assert traces[1]["x"] == [1, 2]


def test_hostile_names_are_escaped_wherever_they_hover() -> None:
    trial = replace(OWN[8], id="<a href='x'>", phase="<b>")
    assert "<a" not in plot.account(trial) and ", <b>," not in plot.account(trial)
    assert all("<a" not in trace["text"][0] for trace in trial_figures.cache_line_figure([trial])["data"])


def test_hover_text_is_the_trials_account_and_escapes_what_it_quotes() -> None:
    trial = replace(OWN[8], reason='<a href="javascript:1">x</a>')
    text = plot.account(trial)
    assert "offered 3,115,000, received 3,114,910 frames" in text
    assert "lost 90 (0.0029 %)" in text
    assert "70: receive ring of left full" in text
    assert "unexplained 0" in text
    assert "<a" not in text and "&lt;a" in text


def _all_figures() -> list[plot.Figure]:
    return [
        loss_figures.loss_figure(SNAT, TRIALS),
        trial_figures.latency_figure(SNAT.latency),
        trial_figures.cache_line_figure(OWN),
    ]


def _colours(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set().union(*(_colours(inner) for inner in value.values()))
    if isinstance(value, list):
        return set().union(*(_colours(inner) for inner in value), set())
    return {value} if isinstance(value, str) and value.startswith("@") else set()


def test_every_colour_word_is_a_variable_of_the_style_sheet() -> None:
    css = resources.files("pinchpoint.report").joinpath("assets/report.css").read_text()
    drawn = _all_figures()
    used = set().union(*(_colours(figure) for figure in drawn))
    assert used and all(f"--{word[1:]}:" in css for word in used)


def test_figures_are_plain_finite_data() -> None:
    drawn = _all_figures()
    text = json.dumps(drawn, allow_nan=False)
    assert json.loads(text) == drawn
    assert all(math.isfinite(x) for trace in drawn[0]["data"] for x in trace["x"])
