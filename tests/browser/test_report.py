"""The report as a browser shows it, in headless Chromium."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api")

from browsing import Seen, open_file  # noqa: E402
from playwright.sync_api import Browser, Page, expect  # noqa: E402
from sample import rate, sample_run  # noqa: E402
from sample_measures import measures_run  # noqa: E402
from sample_shared import every_status, shared_run  # noqa: E402

from pinchpoint.model.result import RateStatus  # noqa: E402
from pinchpoint.model.warning import Warn  # noqa: E402
from pinchpoint.report import render_html  # noqa: E402

SHORT, RESULT, TRIALS = sample_run()
INFO = replace(SHORT, versions={**SHORT.versions, "switch program": "0123456789abcdef" * 8})  # as hashes are
OWN = [trial for trial in TRIALS if trial.scenario == "snat-255"]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_html(INFO, RESULT, TRIALS))
    return path


def _open(browser: Browser, path: Path, scheme: Any = "light", width: int = 1280) -> Seen:
    """With all that stands folded below the cards."""
    seen = open_file(browser, path, ".plot:visible:not(:has(.main-svg))", scheme, width)
    seen.page.evaluate("document.querySelectorAll('details.rest').forEach((rest) => { rest.open = true; })")
    expect(seen.page.locator(".plot:not(:has(.main-svg))")).to_have_count(0)
    return seen


@pytest.fixture(scope="module")
def shown(browser: Browser, report: Path) -> Seen:
    return _open(browser, report)


def test_the_headline_numbers_are_visible_with_unit_and_qualifier(shown: Seen) -> None:
    rows = shown.page.locator("table.study tbody tr").all_inner_texts()
    plain = [" ".join(row.split()) for row in rows]
    assert "at least 7.10 Mpps at least 7.10 Mpps 84.5 % 310 cycles/packet traffic generator" in plain[0]
    assert "3.10 Mpps 3.100 .. 3.115 3.12 Mpps" in plain[1]
    assert "1.55 Mpps 1.550 .. 1.558 1.56 Mpps" in plain[2]
    assert shown.page.get_by_text("bounds 3.100 to 3.115 Mpps (0.48 % wide)").is_visible()
    assert shown.page.get_by_text("PMD core 1 is saturated: 99.9 % busy at 839 cycles").is_visible()


def test_the_overview_fits_the_first_screen(shown: Seen) -> None:
    box = shown.page.locator("table.study").bounding_box()
    assert box is not None and box["y"] + box["height"] < 800


def test_three_scenarios_are_a_card_each_and_fit_a_few_screens(browser: Browser, report: Path) -> None:
    seen = open_file(browser, report, ".plot:visible:not(:has(.main-svg))")
    card = seen.page.locator("#scenario-2")
    for text in ("3.10", "bounds 3.100 to 3.115 Mpps", "PMD core 1 is saturated", "EMC serves 93.0 % of the lookups"):
        expect(card.get_by_text(text).first).to_be_visible()
    expect(card.locator(".plot").first).not_to_be_visible()
    assert seen.page.evaluate("document.documentElement.scrollHeight") < 6000
    card.locator("details.rest > summary").click()
    expect(card.locator("#scenario-2-loss .main-svg").first).to_be_visible()
    assert seen.errors == []
    seen.page.close()


def test_on_a_narrow_screen_the_number_and_what_pinched_it_come_before_other_rates(
    browser: Browser, report: Path
) -> None:
    seen = open_file(browser, report, ".plot:visible:not(:has(.main-svg))", width=400)
    parts = "['.rate.first', '.verdict', '.rate:not(.first)']"
    tops = seen.page.locator("#scenario-2 .headline").evaluate(
        f"e => {parts}.map((part) => e.querySelector(part).getBoundingClientRect().top)"
    )
    assert tops == sorted(tops) and len(set(tops)) == 3
    assert seen.errors == []
    seen.page.close()


def test_bands_and_their_axis_are_on_the_first_screen(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "shared.html"
    path.write_text(render_html(*shared_run()))
    seen = _open(browser, path)
    box = seen.page.locator("#rates").bounding_box()
    assert box is not None and box["y"] + box["height"] < 900
    expect(seen.page.locator("#rates .xtitle")).to_have_text("NDR, Mpps")
    expect(seen.page.locator("#rates .barlayer path")).to_have_count(6)  # a band and an interval for each scenario
    assert seen.errors == []
    seen.page.close()


def test_every_status_of_a_rate_is_a_page_without_complaints(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "statuses.html"
    path.write_text(render_html(shared_run()[0], every_status(), ()))
    seen = _open(browser, path)
    rows = [" ".join(row.split()) for row in seen.page.locator("table.study tbody tr").all_inner_texts()]
    for row, quoted in zip(rows, ("2.20 Mpps", "at least 7.10 Mpps", "below 10.0 kpps", "loses 0.12 %", "no number"),
                           strict=False):  # fmt: skip
        assert quoted in row
    assert seen.errors == []
    seen.page.close()


def test_every_trial_is_a_marker_of_its_validity(shown: Seen) -> None:
    drawn = shown.page.evaluate(
        """() => {
            const plot = document.getElementById("scenario-2-loss");
            const groups = [...plot.querySelectorAll(".scatterlayer .trace")];
            return groups.map((group) => {
                const trace = group.__data__[0].trace;
                return [trace.meta, group.querySelectorAll("path.point").length];
            });
        }"""
    )
    counted = Counter[str]()
    for validity, markers in drawn:
        counted[validity] += markers
    assert counted == Counter(trial.validity.value for trial in OWN)


def test_plots_over_one_quantity_are_zoomed_and_pointed_at_together(browser: Browser, report: Path) -> None:
    seen = _open(browser, report)
    ranges = """() => ["2-loss", "1-loss", "3-loss", "2-near"].map((name) =>
        document.getElementById(`scenario-${name}`).layout.xaxis.range.join(" "))"""
    close = seen.page.evaluate(ranges)[3]
    seen.page.evaluate("() => Plotly.relayout('scenario-2-loss', {'xaxis.range[0]': 3, 'xaxis.range[1]': 4})")
    seen.page.wait_for_function(f"() => ({ranges})()[2] === '3 4'")
    assert seen.page.evaluate(ranges) == ["3 4", "3 4", "3 4", close], "a close-up is of another range"
    seen.page.evaluate("() => Plotly.relayout('scenario-1-loss', {'xaxis.autorange': true})")
    seen.page.wait_for_function(f"() => ({ranges})()[2] !== '3 4'")
    seen.page.evaluate("""() => {
        const [x] = document.getElementById("scenario-3-loss").data[0].x;
        document.getElementById("scenario-2-loss").emit("plotly_hover", { points: [{ x }] });
    }""")
    expect(seen.page.locator("#scenario-3-loss .hovertext")).to_have_count(1)
    assert seen.errors == []
    seen.page.close()


def test_pointing_at_a_marker_shows_its_account(shown: Seen) -> None:
    plot = shown.page.locator("#scenario-2-near")
    plot.scroll_into_view_if_needed()
    traces = plot.evaluate("e => [...e.querySelectorAll('.trace')].map(g => g.__data__[0].trace.meta)")
    noisy = plot.locator(".trace").nth(traces.index("noisy_host")).locator("path.point").bounding_box()
    assert noisy is not None
    shown.page.mouse.move(noisy["x"] + noisy["width"] / 2, noisy["y"] + noisy["height"] / 2)
    label = plot.locator(".hoverlayer .hovertext")
    expect(label).to_contain_text("snat-255-0006, search, noisy host")
    expect(label).to_contain_text("lost 8,121 (0.26 %)")
    expect(label).to_contain_text("took the CPU (steal 4.10 ms)")


def test_the_path_shows_its_counts_and_what_was_dropped_where(shown: Seen) -> None:
    clean, losing = shown.page.locator("#scenario-2 .path").all()
    assert "3,100,000 offered, 3,100,000 received, 0 unexplained" in clean.inner_text()
    texts = losing.locator("svg").evaluate("e => [...e.querySelectorAll('tspan')].map((line) => line.textContent)")
    assert {"70 receive ring of left full", "in 3,115,000 frames", "out unknown"} <= set(texts)
    green = clean.locator(".unexplained").evaluate("e => getComputedStyle(e).color")
    assert green == "rgb(35, 119, 74)"


def test_a_loss_stands_beside_its_place_within_the_picture(shown: Seen) -> None:
    picture = shown.page.locator("#scenario-2 .path svg").last
    place, loss = picture.locator(".box").first.bounding_box(), picture.locator("g.loss.dut .symbol").bounding_box()
    whole = picture.bounding_box()
    assert place is not None and loss is not None and whole is not None
    assert place["x"] + place["width"] < loss["x"] and place["y"] < loss["y"] < place["y"] + place["height"]
    for text in picture.locator("tspan").all():
        box = text.bounding_box()
        assert box is not None and box["x"] + box["width"] <= whole["x"] + whole["width"] + 1


def test_nothing_is_fetched_and_nothing_complains(shown: Seen, report: Path) -> None:
    assert shown.requests == [report.as_uri()]
    assert shown.errors == []


def test_trials_are_listed_on_demand_and_sorted_by_a_click(shown: Seen) -> None:
    section = shown.page.locator("#scenario-2 details.trials")
    assert not section.locator("table").is_visible()
    section.locator("summary").click()
    assert section.locator("tbody tr").count() == len(OWN)
    assert section.get_by_text("1,204 frames unexplained").is_visible()
    section.get_by_role("columnheader", name="Lost frames").click()
    cells = section.locator("tbody td:nth-child(6)").all_inner_texts()
    assert [int(cell.replace(",", "")) for cell in cells] == sorted(trial.lost for trial in OWN)
    section.get_by_role("columnheader", name="Lost frames").click()
    assert section.locator("tbody td:nth-child(6)").first.inner_text() == "4,000,013"


def test_the_scenario_in_effect_marks_its_defaults(shown: Seen) -> None:
    settings = shown.page.locator("#scenario-1 details.settings")
    settings.locator("summary").click()
    rows = [" ".join(text.split()) for text in settings.locator("tr").all_inner_texts()]
    assert "dut.memory_mb 512 default" in rows and "stream[1].from left" in rows


_CONTRAST = """() => {
    const channel = (c) => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
    const light = (text) => {
        const [r, g, b] = text.match(/[\\d.]+/g).map(Number);
        return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
    };
    const paper = light(getComputedStyle(document.body).backgroundColor);
    const ratio = (text) => {
        const ink = light(text);
        return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    };
    const kinds = "h1, h2, h3, p, td, th, li, small, dt, dd, .unexplained";
    const texts = [...document.querySelectorAll(kinds)];
    const drawn = document.querySelectorAll(".plot svg text, .path svg tspan");
    const plots = [...drawn].filter((text) => text.textContent.trim());
    return {
        paper,
        text: Math.min(...texts.map((element) => ratio(getComputedStyle(element).color))),
        plot: Math.min(...plots.map((element) => ratio(getComputedStyle(element).fill))),
    };
}"""


def assert_readable(page: Page, light: bool) -> None:
    """WCAG 2.2, 1.4.3 and 1.4.11, on paper of this theme, without a horizontal scroll bar."""
    contrast = page.evaluate(_CONTRAST)
    assert (contrast["paper"] > 0.5) == light
    assert contrast["text"] > 4.5 and contrast["plot"] > 3.0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_wide_light_paper_is_readable(shown: Seen) -> None:
    assert_readable(shown.page, light=True)


def test_a_narrow_page_is_readable_and_its_policy_stops_what_it_might_try(browser: Browser, report: Path) -> None:
    page = _open(browser, report, "light", 390).page
    assert_readable(page, light=True)
    outcome = page.evaluate(
        """async () => {
            const image = new Image();
            const blocked = new Promise((resolve) => {
                const told = (event) => resolve(event.violatedDirective);
                document.addEventListener("securitypolicyviolation", told);
            });
            image.src = "http://127.0.0.1:9/x.png";
            return blocked;
        }"""
    )
    assert outcome == "img-src"
    page.close()


def test_dark_paper_is_readable_prints_white_and_its_plots_follow_a_change_of_theme(
    browser: Browser, report: Path, tmp_path: Path
) -> None:
    page = _open(browser, report, "dark").page
    assert_readable(page, light=False)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("document.querySelector('.plot .main-svg').clientWidth") == 680
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert (tmp_path / "report.pdf").stat().st_size > 50_000
    tick = page.locator("#scenario-1-loss .xtick text").first
    dark = tick.evaluate("e => getComputedStyle(e).fill")
    page.emulate_media(color_scheme="light")
    expect(tick).not_to_have_css("fill", dark)
    page.close()


def test_troubled_results_look_like_trouble(browser: Browser, tmp_path: Path) -> None:
    scenario = RESULT.scenarios[1]
    refused = rate(0.0, None, None, RateStatus.REFUSED, "no quiet trial in 3 tries")
    broken = replace(scenario, rates=(refused,), latency=(), threads=(), verdict=None, cache_line=None)
    path = tmp_path / "report.html"
    early = replace(RESULT, finished=False, scenarios=(RESULT.scenarios[0], broken))
    path.write_text(render_html(INFO, early, TRIALS[:33]))
    seen = _open(browser, path)
    page = seen.page
    assert page.locator("#unfinished").is_visible()
    number = page.locator("#scenario-2 .rate.first strong")
    assert number.inner_text() == "no number"
    assert number.evaluate("e => getComputedStyle(e).color") == "rgb(174, 59, 23)"
    assert page.get_by_text("refused (no quiet trial in 3 tries)").first.is_visible()
    at_least = page.locator("#scenario-1 .rate.first")
    assert "at least" in at_least.inner_text()
    assert "≥" in at_least.locator("strong").evaluate("e => getComputedStyle(e, '::before').content")
    assert page.locator("#scenario-3").get_by_text("Not finished: no rate was found").is_visible()
    assert seen.errors == []
    seen.page.close()


def test_hostile_titles_are_shown_and_not_run(browser: Browser, tmp_path: Path) -> None:
    title = "</script><script>document.title='owned'</script>"
    warning = Warn.OTHER.of("<img src=x onerror=\"document.title='owned'\">")
    hostile = replace(RESULT.scenarios[1], title=title, warnings=(warning,))
    trials = [replace(trial, reason=title) for trial in OWN]
    path = tmp_path / "report.html"
    path.write_text(render_html(INFO, replace(RESULT, scenarios=(hostile,)), trials))
    seen = _open(browser, path)
    assert seen.page.title() == f"{RESULT.run_id} · Pinchpoint"
    assert seen.page.locator("#scenario-1 h2").inner_text() == title
    assert seen.errors == []
    seen.page.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_measures_other_than_rates_show_their_figures_and_measurements(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    info, result, made = measures_run()
    path = tmp_path / "report.html"
    path.write_text(render_html(info, result, (), made))
    seen = _open(browser, path, width=width)
    first = seen.page.locator("#scenario-1")
    expect(first.locator(".rate.first")).to_contain_text("1.61 Gbit/s")
    expect(first.locator("table.all-metrics tbody tr")).to_have_count(6)
    head = first.locator("table.measurements th", has_text="goodput")
    head.click()
    expect(first.locator("table.measurements tbody tr").first).to_contain_text("noisy host")
    expect(seen.page.locator("table.study")).to_contain_text("1.61 Gbit/s goodput")
    assert seen.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert seen.errors == []
    seen.page.close()
