"""Theirs and ours: the original's conclusions and figures beside what was measured, in all three renderings."""

import io
from dataclasses import replace

from points import curve, number, point, published
from rich.console import Console
from sample_study import study_run

from pinchpoint.findings.conclusions import judged
from pinchpoint.model.result import RunInfo, RunResult
from pinchpoint.model.scenario import Factor
from pinchpoint.model.study import Conclusion, Curve, FindingRequest, Need, Published, Study
from pinchpoint.report import render_html, render_markdown, render_table
from pinchpoint.report.original import FigureView, original_view
from pinchpoint.store.codec import SCHEMA

INFO, RESULT, TRIALS = study_run()
NODES = {"cpus": 64, "numa_nodes": 2}


def _study(*figures: Published, quick: bool = False) -> Study:
    return Study("synthetic", "Synthetic", "About.", "Elsewhere.", figures, (), quick)


def _views(study: Study, *curves: Curve) -> tuple[FigureView, ...]:
    return original_view(RunResult(SCHEMA, "run", True, (), curves), study).figures


def _rows(view: FigureView) -> list[list[str]]:
    columns = view.table.columns
    return [[column.cells[place].text for column in columns] for place in range(len(columns[0].cells))]


def _concluded() -> tuple[RunInfo, RunResult]:
    """The sample with three conclusions: one of each outcome."""
    over, under = {"five-tuples": 262_144}, {"five-tuples": 512}
    request = FindingRequest("compare", "base", "NDR", "", "", over, under)
    needs = {Need(name): wanted for name, wanted in NODES.items()}
    conclusions = (
        Conclusion("The rate falls.", "base.csv", request, None, 0.8),
        Conclusion("The rate stays | the same.", "base.csv", request, 0.95, 1.05),
        Conclusion("The rate falls on two nodes.", "base.csv", request, None, 0.8, needs),
    )
    assert INFO.study
    study = replace(INFO.study, conclusions=conclusions)
    small = {Need.CPUS: 2, Need.NUMA_NODES: 1}
    base = RESULT.curves[0]
    recorded = replace(base, points=tuple(replace(point, bench=small) for point in base.points))
    curves = (recorded, *RESULT.curves[1:])
    return replace(INFO, study=study), replace(RESULT, curves=curves, conclusions=judged(study, curves))


def test_each_conclusion_stands_with_its_test_both_ratios_and_its_outcome() -> None:
    info, result = _concluded()
    table = original_view(result, info.study).conclusions
    says, theirs, ours, outcome = (column.cells for column in table.columns)
    assert [cell.text for cell in outcome] == ["confirmed", "contradicted", "not decidable here"]
    assert [cell.mark for cell in outcome] == ["good", "bad", "mind"]
    assert outcome[0].notes == ("one bench per number: variation between benches is not included",)
    assert outcome[2].notes == ("needs a bench with 64 CPUs (2 here), 2 physical NUMA nodes (1 here)",)
    assert {cell.text for cell in theirs} == {"0.545 x"}
    assert {cell.text for cell in ours} == {"0.33 x [0.329 .. 0.332]"}, "what was seen stands there in any case"
    assert says[0].notes == (
        "tested by the NDR of group base at five-tuples 262,144 over five-tuples 512, expected at most 0.8 x",
        "source: base.csv",
    )
    assert says[1].notes[0].endswith("expected 0.95 to 1.05 x")


def test_page_markdown_and_terminal_say_the_same_of_a_conclusion() -> None:
    info, result = _concluded()
    file = io.StringIO()
    Console(file=file, width=300).print(render_table(result, info))
    page, written, printed = render_html(info, result, TRIALS), render_markdown(info, result, TRIALS), file.getvalue()
    for text in (page, written.replace("\\", ""), printed):
        assert "The rate falls on two nodes." in text
        assert "0.545 x" in text and "0.33 x [0.329 .. 0.332]" in text
        assert "not decidable here" in text and "contradicted" in text
        assert "needs a bench with 64 CPUs (2 here)" in text
        assert "NDR, theirs and ours (highest rate that finished in time)" in text
    assert "The rate stays \\| the same." in written, "a text cannot break the table"


def test_a_conclusion_that_nothing_was_measured_of_says_what_would_decide_it() -> None:
    info, result = _concluded()
    assert info.study
    (*_, last) = original_view(replace(result, conclusions=judged(info.study, ())), info.study).conclusions.columns
    assert last.cells[2].notes[0] == "needs a bench with 64 CPUs, 2 physical NUMA nodes"
    assert last.cells[2].notes[1].startswith("no point of base at five-tuples 262,144")


def test_a_run_of_no_study_shows_nothing_of_an_original() -> None:
    view = original_view(RESULT, None)
    assert (view.conclusions.columns, view.figures) == ((), ())
    page = render_html(replace(INFO, study=None), RESULT, TRIALS)
    assert "Theirs and ours" not in page


def test_published_figures_stand_beside_ours_with_their_source() -> None:
    figures = published({255: 1.1e6, 65_536: 0.8e6})
    points = tuple(replace(point, source=f"flow-rules.csv:{line}") for line, point in enumerate(figures.points, 2))
    ours = curve({255: {"NDR": number(3.1e6)}, 65_536: {"NDR": number(1.55e6)}})
    (view,) = _views(_study(replace(figures, points=points)), ours)
    assert _rows(view) == [
        ["255", "1.10 Mpps", "3.10 Mpps", "flow-rules.csv:2", "forwarding core"],
        ["65,536", "800 kpps", "1.55 Mpps", "flow-rules.csv:3", "forwarding core"],
    ]
    assert [cell.spread for cell in view.table.columns[2].cells] == ["3.04 to 3.16 Mpps", "1.52 to 1.58 Mpps"]


def test_levels_without_a_point_are_told_with_the_reason() -> None:
    threads = Factor("connections", "", (1, 32, 64), falling=False)
    measured = {1: {"goodput": number(1e9, unit="bit/s")}, 32: {"goodput": number(2e9, unit="bit/s")}}
    ours = curve(measured, factor=threads)
    theirs = {level: 45e9 * level for level in (1, 2, 3, 4, 32, 33, 64)}
    figures = published(theirs, metric="goodput", factor="connections", unit="bit/s")
    (view,) = _views(_study(figures, quick=True), ours)
    assert [row[0] for row in _rows(view)] == ["1", "32"]
    assert view.without == (
        "connections 2 to 4, 33: no such point in the short form",
        "connections 64: not measured",
    )


def test_a_point_that_has_no_number_says_why() -> None:
    lost = point({"five-tuples": 512}, {}, outcome="impossible", reason="impossible here: no hugepages", limit="")
    silent = point({"five-tuples": 1024}, {"MRR": number(1e6)})
    whole = curve({1: {}, 512: {}, 1024: {}})
    (view,) = _views(_study(published({512: 1.1e6, 1024: 1e6})), replace(whole, points=(lost, silent)))
    assert [row[2:] for row in _rows(view)] == [["-", "impossible here: no hugepages"], ["-", "NDR is not known"]]


def test_a_relative_rate_stands_where_a_point_has_no_rate_of_its_own() -> None:
    ours = curve({512: {"relative rate": number(0.4, unit="x")}})
    (view,) = _views(_study(published({512: 1.1e6})), ours)
    assert _rows(view)[0][2:] == ["0.4 x", "forwarded under overload, relative to the first point"]


def test_a_group_that_was_not_measured_is_said_to_be_missing() -> None:
    (view,) = _views(_study(published({512: 1.1e6, 1024: 1e6})))
    assert (_rows(view), view.without) == ([], ("five-tuples 512 to 1,024: not measured",))


def test_a_figure_of_which_no_level_was_measured_takes_a_line_on_the_terminal_and_no_table() -> None:
    figures = published({9: 1e6})
    study = _study(figures, quick=True)
    result = RunResult(SCHEMA, "run", True, (), (curve({255: {"NDR": number(1e6)}}),))
    file = io.StringIO()
    Console(file=file, width=300).print(render_table(result, replace(INFO, study=study)))
    printed = file.getvalue()
    assert "Published, and not measured" in printed
    assert f"({figures.title}): five-tuples 9: no such point in the short form." in printed
    assert "theirs  ours" not in printed
