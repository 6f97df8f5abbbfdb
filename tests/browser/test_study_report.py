"""The report of a study as a browser shows it: curves drawn, findings read, details unfolded on demand."""

from pathlib import Path
from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api")

from browsing import Seen, open_file  # noqa: E402
from playwright.sync_api import Browser, expect  # noqa: E402
from sample_study import study_run  # noqa: E402

from pinchpoint.report import render_html  # noqa: E402

INFO, RESULT, TRIALS = study_run()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "report.html"
    path.write_text(render_html(INFO, RESULT, TRIALS))
    return path


def _open(browser: Browser, path: Path, scheme: Any = "light", width: int = 1280) -> Seen:
    return open_file(browser, path, "section.curve > .plot:not(:has(.main-svg))", scheme, width)


@pytest.fixture(scope="module")
def shown(browser: Browser, report: Path) -> Seen:
    return _open(browser, report)


def test_the_title_and_the_findings_are_on_the_first_screen_and_the_published_figures_follow(shown: Seen) -> None:
    assert shown.page.locator("h1").inner_text().startswith("What connection tracking costs")
    box, last = (shown.page.locator("#findings li").nth(place).bounding_box() for place in (0, -1))
    figures = shown.page.locator("#published").bounding_box()
    assert box is not None and box["y"] < 500
    assert last is not None and figures is not None and last["y"] < figures["y"]
    assert shown.page.locator("#findings li").count() == len(RESULT.findings)
    for place, finding in enumerate(RESULT.findings):
        line = shown.page.locator("#findings li").nth(place)
        assert line.is_visible() and finding.text in line.inner_text()
        assert ("mind" in (line.get_attribute("class") or "")) == finding.warning


def test_every_curve_is_drawn_with_all_its_points(shown: Seen) -> None:
    for place, curve in enumerate(RESULT.curves, 1):
        drawn = shown.page.locator(f"#curve-{place}-main .scatterlayer path.point").count()
        names = {"base": ("NDR", "PDR 0.5 %"), "raw": ("NDR", "PDR 0.5 %"), "build": ("time per item",)}
        wanted = names.get(curve.group, ("goodput",))
        assert drawn == sum(name in point.estimates for point in curve.points for name in wanted)


def test_error_bars_are_seen_where_intervals_are_known(shown: Seen) -> None:
    assert shown.page.locator("#curve-3-main .errorbars path.yerror").count() == 18
    assert shown.page.locator("#curve-5-main .errorbars path.yerror").count() == 0


def test_pointing_at_a_point_shows_its_number_interval_and_verdict(shown: Seen) -> None:
    plot = shown.page.locator("#curve-1-main")
    plot.scroll_into_view_if_needed()
    marker = plot.locator(".trace").first.locator("path.point").nth(5).bounding_box()
    assert marker is not None
    shown.page.mouse.move(marker["x"] + marker["width"] / 2, marker["y"] + marker["height"] / 2)
    label = plot.locator(".hoverlayer .hovertext")
    expect(label.first).to_contain_text("five-tuples 65,536")
    expect(label.first).to_contain_text("bounds of the search")
    expect(label.first).to_contain_text("PMD core 1 is saturated")


def test_points_at_the_generators_ceiling_say_so_in_the_table(shown: Seen) -> None:
    cell = shown.page.locator("#curve-2 table.points tbody tr").first.locator("td").nth(1)
    assert "at least 7.10 Mpps" in " ".join(cell.inner_text().split())


def test_what_could_not_run_keeps_its_row(shown: Seen) -> None:
    row = shown.page.locator("#curve-4 tr.impossible")
    assert "this machine has only one NUMA node" in row.inner_text() and row.is_visible()


def test_tables_sort_by_value_and_by_level(shown: Seen) -> None:
    table = shown.page.locator("#curve-1 table.points").first
    table.get_by_role("columnheader", name="NDR").click()
    levels = table.locator("tbody td.level").all_inner_texts()
    assert levels[0] == "262,144" and levels[-1] == "1"
    table.get_by_role("columnheader", name="five-tuples").click()
    assert table.locator("tbody td.level").first.inner_text() == "1"


def test_details_are_folded_and_drawn_when_unfolded(browser: Browser, report: Path) -> None:
    seen = _open(browser, report)
    units = seen.page.locator("#curve-1 details.units")
    assert not units.locator("details.unit").first.is_visible()
    units.locator(":scope > summary").click()
    unit = units.locator("details.unit").nth(4)
    assert unit.locator(".main-svg").count() == 0
    unit.locator(":scope > summary").click()
    expect(unit.locator(".plot:not(:has(.main-svg))")).to_have_count(0)
    assert unit.locator(".main-svg").count() > 0
    assert unit.locator(".plots .main-svg").first.evaluate("e => e.clientWidth") > 300
    assert seen.errors == []


def test_nothing_is_fetched_and_nothing_complains(shown: Seen, report: Path) -> None:
    assert shown.requests == [report.as_uri()]
    assert shown.errors == []


@pytest.mark.parametrize(("scheme", "width"), [("dark", 1280), ("light", 390)])
def test_every_theme_and_width_shows_the_whole_study(browser: Browser, report: Path, scheme: str, width: int) -> None:
    seen = _open(browser, report, scheme, width)
    paper = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    ink = seen.page.locator("#curve-1-main .xtick text").first.evaluate("e => getComputedStyle(e).fill")
    assert ink != paper
    lines = {
        seen.page.locator("#curve-3-main .js-line").nth(place).evaluate("e => getComputedStyle(e).stroke")
        for place in range(3)
    }
    assert len(lines) == 3 and paper not in lines
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert seen.errors == []
    seen.page.close()
