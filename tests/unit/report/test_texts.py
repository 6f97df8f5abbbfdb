"""Markdown and the terminal's table, compared with golden files; rewrite them with UPDATE_GOLDEN=1."""

import io
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Literal

from rich.console import Console
from sample import rate, sample_run
from sample_measures import measures_run
from sample_study import study_run

from pinchpoint.model.result import RateStatus, RunResult
from pinchpoint.model.study import Finding
from pinchpoint.model.trial import Loopback
from pinchpoint.report import render_html, render_markdown, render_table
from pinchpoint.store.folder import RunFolder

GOLDEN = Path(__file__).parents[2] / "golden"
INFO, RESULT, TRIALS = sample_run()


def _check(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert path.read_text() == text


def _printed(result: RunResult, terminal: bool = False) -> str:
    file = io.StringIO()
    colours: Literal["standard"] | None = "standard" if terminal else None
    Console(file=file, width=100, force_terminal=terminal, color_system=colours).print(render_table(result))
    return file.getvalue()


def _stripped(text: str) -> str:
    """With a line's end, wherever it was folded, as one space."""
    return " ".join(text.split())


def _troubled() -> RunResult:
    forward, snat, _ = RESULT.scenarios
    refused = rate(0.0, None, None, RateStatus.REFUSED, "no quiet trial in 3 tries")
    below = rate(0.005, None, 10e3, RateStatus.BELOW_MINIMUM)
    broken = replace(snat, rates=(refused, below), latency=(), verdict=None, cache_line=None)
    return replace(RESULT, finished=False, scenarios=(forward, broken))


def test_markdown_of_a_finished_run() -> None:
    _check("report.md", render_markdown(INFO, RESULT, TRIALS))


def test_markdown_of_an_unfinished_run_with_refused_rates() -> None:
    _check("report-troubled.md", render_markdown(INFO, _troubled(), TRIALS))


def test_markdown_of_a_study() -> None:
    info, result, trials = study_run()
    _check("study.md", render_markdown(info, result, trials))


def test_terminal_table_of_a_study() -> None:
    _check("study.txt", _printed(study_run()[1]))


def test_measures_other_than_rates_on_the_terminal() -> None:
    _check("measures.txt", _printed(measures_run()[1]))


def test_measures_other_than_rates_in_markdown() -> None:
    info, result, _ = measures_run()
    _check("measures.md", render_markdown(info, result, ()))


def test_rates_keep_their_table_beside_other_measures() -> None:
    both = replace(RESULT, scenarios=(*RESULT.scenarios, *measures_run()[1].scenarios))
    printed, written = _printed(both), render_markdown(INFO, both, TRIALS)
    assert "1.61 Gbit/s" in printed and "forward" in printed.split("stream:")[0]
    assert "| forward |" in written and "| goodput | 1.61 Gbit/s |" in written


def test_foreign_metrics_cannot_break_markdown_or_the_terminal() -> None:
    info, result, _ = measures_run()
    hostile = "[red]a|b\n# c<script>"
    one = result.scenarios[0]
    broken = replace(one, title=hostile, metrics=(replace(one.metrics[0], note=hostile),), warnings=(hostile,))
    text = render_markdown(info, replace(result, scenarios=(broken,)), ())
    assert "\n# c" not in text and not re.search(r"(?<!\\)<script", text)
    assert "[red]a|b" in _printed(replace(result, scenarios=(broken,)))


def test_hostile_levels_and_findings_stay_in_their_cells() -> None:
    info, result, _ = study_run()
    hostile = "a | b\n# c `d` <script>"
    one = result.curves[0]
    points = (replace(one.points[0], levels={"five-tuples": hostile}, verdict=hostile),)
    broken = replace(result, curves=(replace(one, points=points),), findings=(Finding(hostile, warning=True),))
    text = render_markdown(info, broken, ())
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert not re.search(r"(?<!\\)<script", text) and "\n# c" not in text
    assert len({row.replace("\\|", "").count("|") for row in rows[:3]}) == 1
    assert "a | b" in _printed(broken)


def test_terminal_table_when_piped() -> None:
    _check("table.txt", _printed(RESULT))


def test_terminal_table_of_an_unfinished_run() -> None:
    _check("table-troubled.txt", _printed(_troubled()))


def test_terminal_table_is_plain_when_piped_and_coloured_on_a_terminal() -> None:
    assert "\x1b" not in _printed(RESULT)
    assert "\x1b[33mat least" in _printed(RESULT, terminal=True)


def test_terminal_columns_line_up() -> None:
    lines = _printed(RESULT).split("latency of")[0].splitlines()
    ends = {line.index("Mpps") for line in lines if "Mpps" in line}
    assert len(ends) == 1


def _with_loopbacks(*p50_ns: int | None) -> RunResult:
    one = RESULT.scenarios[0]
    own = [None if p50 is None else Loopback(5000, 90, p50, 480, 2100) for p50 in p50_ns]
    points = tuple(replace(point, loopback=found) for point, found in zip(one.latency, own, strict=True))
    return replace(RESULT, scenarios=(replace(one, latency=points),))


def test_the_engines_own_share_is_told_by_load_where_it_differs() -> None:
    same, differing = _printed(_with_loopbacks(210, 210)), _printed(_with_loopbacks(210, 330))
    assert "latency of forward, of which the engine's own loop: p50 210 ns, p99 480 ns NDR and" in _stripped(same)
    assert "p50 210 ns, p99 480 ns at 50%; p50 330 ns, p99 480 ns at 90% NDR and" in _stripped(differing)


def test_a_run_without_the_engines_own_share_does_not_mention_it() -> None:
    old = _with_loopbacks(None, None)
    assert "own loop" not in _printed(old) + render_markdown(INFO, old, TRIALS)


def test_a_run_folder_from_before_later_keys_is_still_a_report() -> None:
    folder = RunFolder.open(GOLDEN / "run-before-loopback")
    result = folder.read_result()
    assert result is not None
    written = render_markdown(folder.read_info(), result, folder.read_trials())
    assert "Latency at 90.0 % of the NDR: p50 7.96 us, p99 11.2 us.\n" in written
    assert "7.96 us" in _printed(result)
    assert "7.96 us" in render_html(folder.read_info(), result, folder.read_trials())


def test_foreign_text_cannot_break_markdown() -> None:
    hostile = replace(RESULT.scenarios[0], scenario="a|b\n# c<script>*x*", warnings=("`|`",))
    text = render_markdown(INFO, replace(RESULT, scenarios=(hostile,)), ())
    assert "a\\|b \\# c\\<script\\>\\*x\\*" in text
    assert "\n# c" not in text and "\\`\\|\\`" in text


def test_foreign_text_is_no_markup_on_the_terminal() -> None:
    hostile = replace(RESULT.scenarios[0], scenario="[red]x[/red]")
    assert "[red]x[/red]" in _printed(replace(RESULT, scenarios=(hostile,)))


def test_a_run_without_results_is_still_a_report() -> None:
    empty = replace(RESULT, scenarios=(), finished=False)
    text = render_markdown(INFO, empty, ())
    assert "Not measured: forward, snat-255, snat-65536" in text and "Unfinished" in text
    assert "scenario" in _printed(empty)
