"""Markdown and the terminal's table, compared with golden files; rewrite them with UPDATE_GOLDEN=1."""

import io
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from rich.console import Console
from sample import rate, sample_run
from sample_measures import measures_run
from sample_shared import every_status, shared_run
from sample_study import study_run

from pinchpoint.model.result import RateStatus, RunInfo, RunResult
from pinchpoint.model.study import Finding
from pinchpoint.model.trial import Loopback
from pinchpoint.model.warning import Warn
from pinchpoint.report import number_views, render_html, render_markdown, render_table, words
from pinchpoint.store.folder import RunFolder

GOLDEN = Path(__file__).parents[2] / "golden"
INFO, RESULT, TRIALS = sample_run()
SHARED = shared_run()[1]


def _check(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert path.read_text() == text


def _printed(result: RunResult, terminal: bool = False, width: int = 100, info: RunInfo | None = None) -> str:
    file = io.StringIO()
    colours: Literal["standard"] | None = "standard" if terminal else None
    Console(file=file, width=width, force_terminal=terminal, color_system=colours).print(render_table(result, info))
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
    scenario = result.scenarios[0]
    broken = replace(
        scenario,
        title=hostile,
        metrics=(replace(scenario.metrics[0], note=hostile),),
        warnings=(Warn.OTHER.of(hostile),),
    )
    text = render_markdown(info, replace(result, scenarios=(broken,)), ())
    assert "\n# c" not in text and not re.search(r"(?<!\\)<script", text)
    assert "[red]a|b" in _printed(replace(result, scenarios=(broken,)))


def test_hostile_levels_and_findings_stay_in_their_cells() -> None:
    info, result, _ = study_run()
    hostile = "a | b\n# c `d` <script>"
    first = result.curves[0]
    points = (replace(first.points[0], levels={"five-tuples": hostile}, verdict=hostile),)
    broken = replace(result, curves=(replace(first, points=points),), findings=(Finding(hostile, warning=True),))
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
    rows = _printed(RESULT).split("PDR")[0].splitlines()
    assert len({row.index("Mpps") for row in rows if "Mpps" in row}) == 1


@pytest.mark.parametrize("width", [80, 100, 200])
def test_a_scenario_is_one_line_of_the_table_at_any_width(width: int) -> None:
    lines = _printed(SHARED, width=width).splitlines()
    for scenario in SHARED.scenarios:
        assert len([line for line in lines if line.startswith(f" {scenario.scenario}  ")]) == 1
    assert all(len(line) <= width for line in lines)


def test_a_narrow_terminal_has_what_pinched_a_rate_with_its_verdict() -> None:
    narrow, wide = _printed(SHARED, width=80), _printed(SHARED, width=120)
    assert "pinched by" in wide.splitlines()[2]
    assert "pinched by" not in narrow.splitlines()[2] and "1-forward: pinched by forwarding core: PMD core 1" in narrow


def test_the_terminal_has_the_two_gravest_warnings_and_says_that_there_are_more() -> None:
    text = _printed(every_status())
    assert "! the switch missed frames." in text and "! the engine's core stood still." in text
    assert "a neighbour" not in text and "2 more warnings in the report" in text


def test_the_terminal_says_which_interval_is_wider_than_was_asked_for() -> None:
    text = _printed(RESULT, info=INFO)
    assert text.count("was asked for") == 1 and "! NDR interval 0.51 % wide, 0.5 % was asked for." in text


def test_a_rate_is_the_same_number_in_every_rendering() -> None:
    info, result, trials = shared_run()
    for scenario in result.scenarios:
        for text in (_printed(result), render_markdown(info, result, trials)):
            assert words.quoted(scenario.rates[0]) in text
        number, unit = words.quoted(scenario.rates[0], number_views.common_step(result.scenarios)).split()
        assert f"<strong>{number}</strong> {unit}" in render_html(info, result, trials)


def test_a_page_has_its_rates_in_one_unit_unless_some_are_very_small() -> None:
    page = render_html(*shared_run())
    assert "<strong>0.685</strong> Mpps" in page and "<small>0.661 .. 0.713</small>" in page
    assert "95 % interval 0.661 to 0.713 Mpps" in page and "<strong>0.754 Mpps</strong>" in page
    assert "offered load, kpps" not in page and "<strong>685</strong>" not in page
    assert "<strong>10.0</strong> kpps" in render_html(shared_run()[0], every_status(), ())


def test_every_status_of_a_rate_on_the_terminal() -> None:
    _check("statuses.txt", _printed(every_status()))


def test_every_status_of_a_rate_in_markdown() -> None:
    _check("statuses.md", render_markdown(shared_run()[0], every_status(), ()))


def test_a_shared_machine_on_the_terminal() -> None:
    _check("shared.txt", _printed(SHARED))


def test_a_shared_machine_on_a_narrow_terminal() -> None:
    _check("shared-80.txt", _printed(SHARED, width=80))


def test_a_shared_machine_in_markdown() -> None:
    _check("shared.md", render_markdown(*shared_run()))


def _with_loopbacks(*p50_ns: int | None) -> RunResult:
    scenario = RESULT.scenarios[0]
    own = [None if p50 is None else Loopback(5000, 90, p50, 480, 2100) for p50 in p50_ns]
    points = tuple(replace(point, loopback=loopback) for point, loopback in zip(scenario.latency, own, strict=True))
    return replace(RESULT, scenarios=(replace(scenario, latency=points),))


def test_a_run_without_the_engines_own_share_does_not_mention_it() -> None:
    old = _with_loopbacks(None, None)
    assert "own loop" not in _printed(old) + render_markdown(INFO, old, TRIALS)


def test_a_run_folder_from_before_later_keys_is_still_a_report() -> None:
    folder = RunFolder.open(GOLDEN / "run-before-loopback")
    result = folder.read_result()
    assert result is not None
    written = render_markdown(folder.read_info(), result, folder.read_trials())
    assert "Latency at 90.0 % of the NDR: p50 7.96 us, p99 11.2 us.\n" in written
    assert "latency p99 at 90 % of the NDR" in _printed(result)
    assert "7.96 us" in render_html(folder.read_info(), result, folder.read_trials())


def test_foreign_text_cannot_break_markdown() -> None:
    hostile = replace(RESULT.scenarios[0], scenario="a|b\n# c<script>*x*", warnings=(Warn.OTHER.of("`|`"),))
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
