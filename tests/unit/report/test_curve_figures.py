"""Curves as plots: every point where it belongs, with what is known of it and no more."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from typing import Any

import pytest
from points import curve, number, point, published, refusals
from sample_study import study_run

from pinchpoint.model.measurement import Bound, lookup_share
from pinchpoint.model.scenario import Factor, Level
from pinchpoint.model.study import Curve, Published
from pinchpoint.report.curve_figures import Panel, metric_names, panels
from pinchpoint.report.plot import level_axis, value_axis

INFO, RESULT, _ = study_run()
BY_GROUP = {curve.group: curve for curve in RESULT.curves}
EMC, CLASSIFIER = lookup_share("EMC"), lookup_share("megaflow classifier")
HOSTILE = "<img src=x onerror=alert(1)>"


def _panels(drawn: Curve, figures: Sequence[Published] = ()) -> dict[str, Panel]:
    return {panel.key: panel for panel in panels(drawn, figures)}


def _traces(drawn: Curve, key: str = "main", figures: Sequence[Published] = ()) -> list[dict[str, Any]]:
    return list(_panels(drawn, figures)[key].figure["data"])


def test_every_measured_point_is_drawn_at_its_level_and_value() -> None:
    ndr, pdr = _traces(BY_GROUP["base"])
    estimated = [point.estimates["NDR"].value / 1e6 for point in BY_GROUP["base"].points]
    assert (ndr["name"], pdr["name"]) == ("NDR", "PDR 0.5 %")
    assert ndr["x"] == [1, 512, 1024, 5120, 32768, 65536, 262144]
    assert ndr["y"] == estimated


def test_error_bars_reach_from_low_to_high() -> None:
    low_high = curve({1: {"NDR": replace(number(3e6), low=2.9e6, high=3.3e6)}, 2: {"NDR": number(3e6, None)}})
    (trace,) = _traces(low_high)
    assert trace["error_y"]["array"] == pytest.approx([0.3, 0.0])
    assert trace["error_y"]["arrayminus"] == pytest.approx([0.1, 0.0])


def test_what_is_only_a_bound_is_marked_as_one() -> None:
    bounds = {1: number(7e6, bound=Bound.AT_LEAST), 2: number(3e6), 4: number(1e4, bound=Bound.BELOW)}
    panel = _panels(curve({level: {"NDR": bound} for level, bound in bounds.items()}))["main"]
    (trace,) = panel.figure["data"]
    assert trace["marker"]["symbol"] == ["triangle-up-open", "circle", "triangle-down-open"]
    assert trace["error_y"]["array"][0] == 0 and trace["error_y"]["arrayminus"][2] == 0
    assert "“at least”" in panel.about and "“below”" in panel.about
    assert "at least 7.00 Mpps" in trace["text"][0] and "below 10.0 kpps" in trace["text"][2]


def test_no_line_runs_through_a_range_in_which_no_number_was_found() -> None:
    within = replace(number(2e6, bound=Bound.BETWEEN), low=1e6, high=4e6)
    panel = _panels(curve({1: {"NDR": number(7e6)}, 2: {"NDR": within}, 4: {"NDR": number(3e6)}}))["main"]
    line, ranges = panel.figure["data"]
    assert (line["mode"], line["y"]) == ("lines+markers", [7.0, None, 3.0])
    assert (ranges["mode"], ranges["y"], ranges["showlegend"]) == ("markers", [2.0], False)
    assert ranges["error_y"]["array"] == [2.0] and ranges["error_y"]["arrayminus"] == [1.0]
    assert "it lies within the bar" in panel.about


def test_a_refused_point_without_a_range_breaks_the_line_and_is_marked_with_its_reason() -> None:
    both = curve({1: {"NDR": number(7e6)}, 4: {"NDR": number(3e6)}})
    why = refusals("NDR", reason="no quiet <trial>")
    refused = point({"five-tuples": 2}, {}, **why)
    factor = replace(both.factors[0], levels=(1, 2, 4))
    one = replace(both, factors=(factor,), points=(both.points[0], refused, both.points[1]))
    panel = _panels(one)["main"]
    (trace,) = panel.figure["data"]
    assert (trace["x"], trace["y"], trace["mode"]) == ([1, 2, 4], [7.0, None, 3.0], "lines+markers")
    assert len(trace["text"]) == len(trace["marker"]["size"]) == len(trace["error_y"]["array"]) == 3
    (cross,) = panel.figure["layout"]["annotations"]
    assert (cross["x"], cross["text"]) == (2, "×")
    assert "refused: no quiet &lt;trial&gt;" in cross["hovertext"] and "Crosses at the bottom" in panel.about
    ours = _traces(one, "shape", [published({1: 2.0, 4: 1.0})])[0]
    assert ours["y"] == [1.0, None, pytest.approx(3 / 7)]


def test_a_point_that_failed_is_marked_and_one_that_was_left_out_is_not() -> None:
    both = curve({1: {"NDR": number(7e6)}, 1000: {"NDR": number(3e6)}})
    lost = [point({"five-tuples": level}, {}, outcome=outcome, reason="because", limit="")
            for level, outcome in ((10, "failed"), (100, "skipped"))]  # fmt: skip
    panel = _panels(replace(both, points=(both.points[0], *lost, both.points[1])))["main"]
    assert panel.figure["data"][0]["x"] == [1, 10, 1000]
    (cross,) = panel.figure["layout"]["annotations"]
    assert cross["x"] == pytest.approx(1.0), "an annotation stands at the logarithm of its level"


def test_no_axis_has_more_than_four_quantities() -> None:
    shares = {f"share {place}": number(0.1, unit="share") for place in range(9)}
    rates = {name: number(1e6) for name in ("NDR", *(f"PDR {ratio} %" for ratio in range(1, 6)))}
    drawn = panels(curve({1: {**rates, **shares}, 2: {**rates, **shares}}), ())
    assert len({panel.key for panel in drawn}) == len(drawn)
    assert max(len(panel.figure["data"]) for panel in drawn) == 4
    names = [trace["name"] for panel in drawn for trace in panel.figure["data"]]
    assert sorted(names) == sorted({**rates, **shares})
    assert [panel.title for panel in drawn if panel.key.startswith("share")] == [
        f"Shares ({n} of 3)" for n in (1, 2, 3)
    ]


def test_points_without_a_number_are_not_drawn() -> None:
    both = curve({1: {"NDR": number(3e6)}, 2: {"NDR": number(2e6)}})
    lost = point({"five-tuples": 4}, {}, outcome="impossible", reason="one NUMA node")
    (trace,) = _traces(replace(both, points=(*both.points, lost)))
    assert trace["x"] == [1, 2]


def test_each_series_has_a_line_of_its_own_colour() -> None:
    traces = _traces(BY_GROUP["rules"])
    assert [trace["name"] for trace in traces] == ["connections 1", "connections 32", "connections 64"]
    assert (
        len({trace["line"]["color"] for trace in traces})
        == len({trace["marker"]["symbol"][0] for trace in traces})
        == 3
    )


@pytest.mark.parametrize(
    ("levels", "kind", "log"),
    [
        ((1, 512, 65536), "log", True),
        ((0, 1, 500_000), "log", True),
        ((2, 4, 10), "linear", False),
        (("any", "same"), "linear", False),
        ((True, False), "linear", False),
        ((0,), "linear", False),
    ],
)
def test_levels_that_span_decades_are_logarithmic(levels: tuple[Level, ...], kind: str, log: bool) -> None:
    axis = level_axis(Factor("rules", "", levels, falling=True), levels)
    assert (axis.log, axis.figure()["type"]) == (log, kind)
    assert list(axis.places) == sorted(axis.places)
    assert all(place > 0 for place in axis.places) or not log
    low, high = axis.figure()["range"]
    assert low < high


def test_zero_has_a_place_of_its_own_on_a_logarithmic_axis() -> None:
    axis = level_axis(Factor("rules", "", (0, 1, 500_000), falling=True), (0, 1, 500_000))
    assert axis.place(0) < axis.place(1)
    assert axis.figure()["ticktext"] == ["0", "1", "500,000"]


def test_words_stand_one_beside_the_other() -> None:
    axis = level_axis(Factor("numa", "", ("any", "same"), falling=False), ("any", "same"))
    assert (axis.places, axis.figure()["ticktext"]) == ((0, 1), ["any", "same"])


def test_no_line_joins_levels_that_are_words() -> None:
    path = Factor("path", "", ("af_packet", "dpdk"), falling=False)
    shares = {
        EMC: number(0.9, unit="share"),
        CLASSIFIER: number(0.1, unit="share"),
    }
    points = {level: {"NDR": number(3e6), **shares} for level in path.levels}
    drawn = _panels(curve(points, factor=path), [published({"af_packet": 1e6, "dpdk": 2e6}, factor="path")])
    traces = [trace for panel in drawn.values() for trace in panel.figure["data"]]
    assert {"main", "shape", "caches-0"} <= set(drawn)
    assert all(trace["type"] == "bar" or trace["mode"] == "markers" for trace in traces)
    assert all("stackgroup" not in trace for trace in traces)


def test_series_at_one_word_stand_beside_each_other() -> None:
    numa, ports = Factor("numa", "", ("any", "same"), falling=False), Factor("port", "", ("a", "b"), falling=False)
    points = tuple(
        point({"numa": where, "port": name}, {"NDR": number(3e6)}) for where in numa.levels for name in ports.levels
    )
    changed = replace(curve({"any": {"NDR": number(3e6)}}, factor=numa), factors=(numa, ports), points=points)
    places = [tuple(trace["x"]) for trace in _traces(changed)]
    assert len(places) == len(set(places)) == 2


def test_the_band_of_a_rate_is_a_light_bar_and_no_curve_of_its_own() -> None:
    estimates = {"NDR": number(2.2e6), "NDR band low": number(1.5e6, None), "NDR band high": number(3.6e6, None),
             "NDR best sustained": number(3.4e6, None)}  # fmt: skip
    drawn = _panels(curve({1: estimates, 2: estimates}))
    band, line = drawn["main"].figure["data"]
    assert band["error_y"]["array"] == pytest.approx([1.4, 1.4])
    assert band["error_y"]["arrayminus"] == pytest.approx([0.7, 0.7])
    assert line["mode"] == "lines+markers" and set(drawn) == {"main"}
    assert "Light bars" in drawn["main"].about


def test_ticks_keep_their_distance_and_name_the_last_level() -> None:
    levels = tuple(range(1, 65))
    axis = level_axis(Factor("streams", "", levels, falling=False), levels).figure(narrow=True)
    assert 3 < len(axis["ticktext"]) < 13 and axis["ticktext"][-1] == "64"


def test_values_are_drawn_in_the_unit_of_the_largest() -> None:
    assert value_axis("fps", [3e6, 1e3]).label == "Mpps"
    assert (value_axis("share", [0.999]).divisor, value_axis("share", [0.999]).label) == (0.01, "%")
    assert value_axis("count", []).label == ""


def test_the_published_shape_starts_with_ours_at_the_first_common_level() -> None:
    figures = (published({512: 1.1e6, 65536: 0.8e6, 262144: 0.6e6}),)
    ours, theirs = _traces(BY_GROUP["base"], "shape", figures)
    assert dict(zip(ours["x"], ours["y"], strict=True))[512] == 1.0
    assert dict(zip(theirs["x"], theirs["y"], strict=True)) == pytest.approx({512: 1.0, 65536: 8 / 11, 262144: 6 / 11})
    assert "published" in theirs["name"] and theirs["line"]["dash"] == "dash"


def test_a_published_curve_of_another_group_metric_or_level_is_not_drawn() -> None:
    others = (
        published({512: 1.0, 65536: 2.0}, group="mac"),
        published({512: 1.0, 65536: 2.0}, metric="PDR 1 %"),
        published({512: 1.0}),
    )
    assert "shape" not in _panels(BY_GROUP["base"], others)


def test_a_published_curve_that_several_series_share_is_drawn_once() -> None:
    names = [trace["name"] for trace in _traces(BY_GROUP["build"], "shape", INFO.study.published if INFO.study else ())]
    assert len([name for name in names if name.startswith("here")]) == 3
    assert len([name for name in names if name.startswith("published")]) == 1


def test_cache_shares_are_layers_of_one_whole() -> None:
    layers = _traces(BY_GROUP["base"], "caches-0")
    assert [layer["name"] for layer in layers] == ["EMC", "megaflow classifier", "upcalls"]
    sums = [sum(values) for values in zip(*(layer["y"] for layer in layers), strict=True)]
    assert sums == pytest.approx([100.0] * 7)


def test_everything_that_was_measured_is_on_some_panel_but_counts_that_never_change() -> None:
    def changes(plotted, name):
        estimates = [point.estimates[name] for point in plotted.points if name in point.estimates]
        return estimates[0].unit != "count" or len({estimate.value for estimate in estimates}) > 1

    for plotted in RESULT.curves:
        drawn = sum(len(panel.figure["data"]) for panel in panels(plotted, ()))
        assert drawn >= sum(changes(plotted, name) for name in metric_names(plotted))
    flows = {
        level: {"NDR": number(1e6), "flows": number(1, unit="count"), "masks": number(level, unit="count")}
        for level in (1, 2)
    }
    names = {trace["name"] for panel in panels(curve(flows), ()) for trace in panel.figure["data"]}
    assert "masks" in names and "flows" not in names


def test_a_curve_without_factor_or_numbers_draws_nothing() -> None:
    alone = Curve("a", "", "rates", (), (point({}, {"NDR": number(1e6)}),))
    nothing = curve({1: {}, 2: {}})
    assert panels(alone, ()) == panels(nothing, ()) == panels(replace(nothing, points=()), ()) == ()


def test_text_from_outside_is_escaped_in_every_plot() -> None:
    factor = Factor(HOSTILE, HOSTILE, (HOSTILE, "b"), falling=False)
    second = Factor("other", HOSTILE, (HOSTILE,), falling=False)
    points = tuple(
        point({HOSTILE: level, "other": HOSTILE},
              {HOSTILE: number(2.0, unit=HOSTILE), lookup_share(HOSTILE): number(0.5)},
              verdict=HOSTILE, invisible=HOSTILE)
        for level in (HOSTILE, "b")
    )  # fmt: skip
    figures = (published({HOSTILE: 1.0, "b": 2.0}, metric=HOSTILE, factor=HOSTILE),)
    for panel in panels(Curve("base", "", "rates", (factor, second), points), figures):
        for trace in panel.figure["data"]:
            assert "<img" not in json.dumps([trace["name"], trace["text"]])
        layout = panel.figure["layout"]
        assert "<img" not in json.dumps([layout["xaxis"], layout["yaxis"]])


def test_every_colour_word_is_a_colour_of_the_theme() -> None:
    css = resources.files("pinchpoint.report").joinpath("assets/report.css").read_text()
    for drawn in RESULT.curves:
        text = json.dumps([panel.figure for panel in panels(drawn, INFO.study.published if INFO.study else ())])
        for word in set(re.findall(r'"@([a-z0-9_]+)"', text)):
            assert len(re.findall(rf"--{word}:", css)) >= (1 if word == "font" else 2), word


def test_the_x_axis_is_the_factor_that_spans_most() -> None:
    few = Factor("connections", "", (1, 32), falling=False)
    many = Factor("rules", "", (0, 500_000), falling=True)
    points = tuple(
        point({"connections": a, "rules": b}, {"goodput": number(1e9, unit="bit/s")})
        for a in few.levels
        for b in many.levels
    )
    (main, *_) = panels(Curve("rules", "", "bandwidth", (few, many), points), ())
    assert main.title == "goodput by rules"


def test_several_published_curves_have_their_series_colours_and_zeros_are_left_out() -> None:
    rules = Factor("rules", "", (1, 1000), falling=True)
    numa = Factor("numa", "", ("any", "same"), falling=False)
    points = tuple(
        point({"numa": a, "rules": b}, {"goodput": number(1e9, unit="bit/s")})
        for a in numa.levels
        for b in rules.levels
    )
    figures = [
        published({0: 0.0, 1: 4e9, 1000: 3e9}, metric="goodput", factor="rules", others={"numa": place})
        for place in numa.levels
    ]
    data = {p.key: p for p in panels(Curve("base", "", "bandwidth", (rules, numa), points), figures)}["shape"].figure[
        "data"
    ]
    assert [trace["name"] for trace in data] == [
        "here, numa any",
        "published, numa any",
        "here, numa same",
        "published, numa same",
    ]
    assert data[0]["line"]["color"] == data[1]["line"]["color"] != data[2]["line"]["color"] == data[3]["line"]["color"]
    assert len(data[1]["x"]) == 2


def test_a_cache_that_was_not_counted_is_not_drawn_as_zero() -> None:
    share = number(0.5, unit="share")
    seen = curve(
        {
            1: {EMC: share, CLASSIFIER: share},
            2: {CLASSIFIER: share},
        }
    )
    emc, megaflow = _traces(seen, "caches-0")
    assert (emc["y"], megaflow["y"]) == ([50.0, None], [50.0, 50.0])
    assert emc["text"][1] == "EMC not counted at 2"


def test_an_error_bar_may_reach_to_zero() -> None:
    down = curve({1: {"NDR": replace(number(3e6), low=0.0)}, 2: {"NDR": number(3e6)}})
    assert _traces(down)[0]["error_y"]["arrayminus"][0] == 3.0
    (ours, _) = _traces(down, "shape", (published({1: 1.0, 2: 2.0}),))
    assert ours["error_y"]["arrayminus"][0] == 1.0


def test_numbers_with_a_caution_have_an_open_marker_and_say_why() -> None:
    doubt = "every window was disturbed by the host"
    both = curve({1: {"NDR": number(3e6)}, 2: {"NDR": number(3e6)}})
    marked = replace(
        both, points=(replace(both.points[0], notes={"NDR": doubt}, cautions={"NDR": (doubt,)}), both.points[1])
    )
    (trace,) = _traces(marked)
    assert trace["marker"]["symbol"] == ["circle-open", "circle"]
    assert doubt in trace["text"][0] and doubt not in trace["text"][1]
