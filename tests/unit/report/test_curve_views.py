"""Tables of curves: what is not a found number never looks like one."""

import io
from dataclasses import replace

from points import curve, number, point, refusals, within
from rich.console import Console
from sample_study import study_run

from pinchpoint.measure.sockets.windows import LATENCIES
from pinchpoint.model.measurement import Bound
from pinchpoint.model.scenario import Factor
from pinchpoint.model.study import Curve
from pinchpoint.report import render_html, render_markdown, render_table
from pinchpoint.report.number_views import UNSEEN, curve_views, table_columns
from pinchpoint.report.view import run_view

INFO, RESULT, _ = study_run()
VIEWS = {view.curve.group: view for view in curve_views(RESULT.curves, INFO.study)}


def test_each_point_has_its_row_with_interval_and_verdict() -> None:
    row = VIEWS["base"].rows[5]
    assert row.levels == ("65,536",)
    assert (row.cells["NDR"].text, row.cells["NDR"].spread, row.cells["NDR"].mark) == (
        "1.57 Mpps",
        "1.566 to 1.573 Mpps",
        "found",
    )
    assert (row.limit, row.repeats) == ("forwarding core", 1)


def test_the_length_of_the_trials_stands_beside_the_rates_of_a_curve() -> None:
    views = {view.curve.group: view for view in run_view(RESULT, INFO).curves}
    assert any(line.startswith("NDR") and " s trials" in line for line in views["raw"].definitions)
    assert views["rules"].definitions == (), "goodput has no trials"


def test_columns_are_what_was_looked_for_and_what_explains_it() -> None:
    assert table_columns(VIEWS["base"].curve)[:4] == ("NDR", "PDR 0.5 %", "cycles per packet", "thread busy")
    assert table_columns(VIEWS["rules"].curve)[0] == "goodput"


def test_a_table_of_requests_has_all_latencies_of_the_published_ones() -> None:
    numbers = {"transactions": number(8e3, unit="1/s"), "client busy": number(0.4, unit="share")}
    numbers |= {name: number(5e4, unit="ns") for name in LATENCIES}
    drawn = replace(curve({1: numbers, 32: numbers}), measure="crr")
    assert table_columns(drawn) == ("transactions", *LATENCIES)


def test_a_bound_is_said_to_be_one() -> None:
    cell = VIEWS["raw"].rows[0].cells["NDR"]
    assert (cell.text, cell.spread, cell.mark) == ("at least 7.10 Mpps", "", "at_least")


def test_a_number_that_was_refused_stands_as_its_ends() -> None:
    drawn = curve({1: {"NDR": number(3e6)}, 2: {"NDR": within(1e6, 4e6)}}, **refusals("NDR", reason="two modes"))
    (view,) = curve_views([drawn], None)
    cell = view.rows[1].cells["NDR"]
    assert (cell.text, cell.spread, cell.mark) == ("1.00 to 4.00 Mpps", "no number", "between")
    assert "line-ew-open" in str(view.panels[0].figure) and "no number was published" in view.panels[0].about


def test_a_refused_number_is_a_word_with_its_reason() -> None:
    drawn = curve({1: {"NDR": number(3e6)}, 2: {}}, **refusals("NDR", reason="no quiet trial"))
    (view,) = curve_views([drawn], None)
    assert (view.rows[1].cells["NDR"].text, view.rows[1].cells["NDR"].mark) == ("refused", "refused")
    assert view.rows[1].notes == ("NDR: refused: no quiet trial",)


def test_points_that_could_not_run_keep_their_row_and_are_listed() -> None:
    row = VIEWS["numa"].rows[1]
    assert (row.outcome, row.limit, row.verdict) == (
        "impossible",
        "impossible here",
        "this machine has only one NUMA node",
    )
    assert VIEWS["numa"].unmeasured == (("numa different: impossible here", "this machine has only one NUMA node"),)
    assert VIEWS["build"].unmeasured[0][0] == "items 500,000, method process: skipped"


def test_a_sweep_of_which_nothing_could_run_is_one_line_in_every_rendering() -> None:
    lost = curve({1: {}, 64: {}, 512: {}}, outcome="impossible", reason="this machine has one NUMA node.", limit="")
    (view,) = curve_views([lost], None)
    line = "all 3 points: impossible here: this machine has one NUMA node"
    assert view.nothing == (line,)
    result = replace(RESULT, curves=(lost,), scenarios=(), findings=())
    page, text = render_html(INFO, result, ()), render_markdown(INFO, result, ())
    assert "all 3 points: impossible here" in page and "All points" not in page
    assert f"- {line}." in text
    headings = [row for row in text.splitlines() if row.startswith("| five-tuples |")]
    assert all("theirs" in heading for heading in headings)
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(render_table(result))
    assert f"! {line}." in console.export_text()
    assert VIEWS["numa"].nothing == ()


def test_the_published_way_of_averaging_stands_beside_from_five_repeats() -> None:
    assert VIEWS["rules"].rows[0].published_way.endswith("Gbit/s")
    assert VIEWS["base"].rows[0].published_way == ""


def test_what_the_datapath_did_not_see_is_marked_and_explained_once() -> None:
    view = VIEWS["rules"]
    assert UNSEEN in view.rows[-1].notes and view.rows[0].notes == ()
    assert view.unseen.startswith("500,000 rules, but 2 datapath flows and 1 mask carried the traffic")
    assert view.unseen.endswith("(12 of 18 points are like that)")
    assert VIEWS["base"].unseen == ""


def test_levels_have_their_unit() -> None:
    factor = Factor("frame size", "B", (64, 1518), falling=True)
    (view,) = curve_views([curve({64: {"NDR": number(3e6)}, 1518: {"NDR": number(2e6)}}, factor=factor)], None)
    assert [row.levels for row in view.rows] == [("64 B",), ("1,518 B",)]


def test_a_curve_without_points_is_not_shown_and_one_without_factor_is() -> None:
    empty = replace(VIEWS["base"].curve, points=())
    alone = Curve("a", "", "rates", (), (point({}, {"NDR": number(1e6, bound=Bound.BELOW)}),))
    (view,) = curve_views([empty, alone], None)
    assert (view.curve.group, view.panels, view.rows[0].cells["NDR"].text) == ("a", (), "below 1.00 Mpps")


def test_a_curve_of_which_every_number_was_refused_says_so_in_its_own_columns() -> None:
    refused = refusals("NDR", "PDR 0.5 %", reason="noisy host")
    drawn = curve({512: {}, 1024: {}}, **refused, limit="host", verdict="The host was disturbed.")
    (view,) = curve_views([drawn], None)
    assert (view.columns, view.panels) == (("NDR", "PDR 0.5 %"), ())
    assert {cell.text for row in view.rows for cell in row.cells.values()} == {"refused"}
    assert view.rows[0].limit == "measuring host" and view.rows[0].notes == ("NDR, PDR 0.5 %: refused: noisy host",)


def test_a_column_stands_once_though_every_rate_was_refused() -> None:
    cycles = {"cycles per packet": number(900, unit="cycles")}
    drawn = curve({1: cycles, 2: cycles}, **refusals("NDR", reason="noisy host"))
    assert table_columns(drawn) == ("NDR", "cycles per packet")


def test_cautions_about_a_number_are_shown_once_and_harmless_notes_are_not() -> None:
    said = {"NDR": "bounds of the search; every window was disturbed by the host", "thread busy": "PMD core 1"}
    cautions = {"NDR": ("every window was disturbed by the host",)}
    both = {"NDR": number(3e6), "thread busy": number(0.9, unit="share")}
    (view,) = curve_views([curve({1: both, 2: both}, notes=said, cautions=cautions)], None)
    assert view.rows[0].notes == ("NDR: every window was disturbed by the host",)
    cautions |= {"thread busy": cautions["NDR"]}
    (view,) = curve_views([curve({1: both, 2: both}, notes=said, cautions=cautions)], None)
    assert view.rows[0].notes == ("every window was disturbed by the host",)
