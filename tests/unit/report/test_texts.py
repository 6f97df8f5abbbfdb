"""Markdown and the terminal's table, compared with golden files; rewrite them with UPDATE_GOLDEN=1."""

import io
import os
from dataclasses import replace
from pathlib import Path
from typing import Literal

from rich.console import Console
from sample import rate, sample_run

from pinchpoint.model.result import RateStatus, RunResult
from pinchpoint.report import render_markdown, render_table

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
