"""The workshop as a browser shows it, in headless Chromium, from a server on loopback."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python")

import uvicorn
from axe_playwright_python.sync_playwright import Axe
from browsing import page_in
from playwright.sync_api import Browser, BrowserContext, Page, expect
from sample import sample_run
from served import TOKEN, furnish, keep, keep_campaign, workshop

from pinchpoint.model.campaign import MachineProgress
from pinchpoint.serve.app import application
from pinchpoint.store.folder import RunFolder

PAGES = {
    "list": "/",
    "run": "/run/one",
    "live": "/run/going",
    "study": "/run/study",
    "scenario": "/run/one/scenario/snat-255",
    "shared": "/run/shared/scenario/2-snat-255",
    "explained": "/run/shared",
    "trial": "/run/shared/trial/2-snat-255-0012",
    "compare": "/compare?run=one&run=two",
    "beside": "/compare?run=one&run=study&run=study-again",
    "trend": "/trend?scenario=snat-255",
    "new": "/new",
    "sweep": "/new?study=bridge-scale&group=classifier-masks",
    "studies": "/studies",
    "study-form": "/studies/quickstart",
    "error": "/run/nope",
}


class Served:
    """A server on a port that the kernel chose, and the browsers' windows that are logged in there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.logged_in: dict[tuple[int, str], BrowserContext] = {}
        config = uvicorn.Config(lambda *_: None, host="127.0.0.1", port=0, log_level="warning", lifespan="off")
        self._listening = config.bind_socket()
        port = self._listening.getsockname()[1]
        self.home = f"http://127.0.0.1:{port}"
        config.app = application(workshop(root, port=port))
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._listening],), daemon=True)
        self._thread.start()
        deadline = time.monotonic() + 20
        while not self._server.started and time.monotonic() < deadline:
            time.sleep(0.02)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(20)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("serve") / "runs"
    furnish(root)
    server = Served(root)
    yield server
    server.close()


def opened(
    browser: Browser, served: Served, path: str, width: int = 1600, scheme: Any = "light"
) -> tuple[Page, list[str]]:
    """The page with all its plots, and the list of what it says on its console and raises."""
    context = served.logged_in.get((width, scheme)) or browser.new_context(
        viewport={"width": width, "height": 1000}, color_scheme=scheme
    )
    seen = page_in(context)
    page = seen.page
    if (width, scheme) not in served.logged_in:
        page.goto(f"{served.home}/?token={TOKEN}")
        served.logged_in[width, scheme] = context
    page.goto(served.home + path)
    expect(page.locator(".plot:visible:not(:has(.main-svg))")).to_have_count(0)
    return page, seen.errors


# Plotly's own drawings, and rows that are like the ones above them.
NOT_LOOKED_AT = [[".js-plotly-plot"], ["tbody tr:not([class]):nth-child(n+4)"]]
VIEWS: tuple[tuple[int, Any], ...] = ((1600, "light"), (400, "dark"))  # both widths, and the colours of both schemes


def in_each_view() -> Iterator[Any]:
    """Every page in one view and, by `make test-all`, in the other as well; the views take turns."""
    for number, name in enumerate(PAGES):
        for place, view in enumerate(VIEWS):
            marks = [] if place == number % 2 else [pytest.mark.thorough]
            yield pytest.param(name, *view, id=f"{name}-{view[0]}-{view[1]}", marks=marks)


@pytest.mark.parametrize(("name", "width", "scheme"), in_each_view())
def test_every_page_is_accessible_and_fits_wide_and_narrow_light_and_dark(
    browser: Browser, served: Served, name: str, width: int, scheme: str
) -> None:
    """By axe-core with its rules for WCAG 2.2, A and AA, and best practices: contrast, names, roles, order."""
    page, said = opened(browser, served, PAGES[name], width, scheme)
    page.wait_for_function("document.documentElement.scrollWidth <= innerWidth")
    seen = Axe().run(page, context={"exclude": NOT_LOOKED_AT}, options={"resultTypes": ["violations"]})
    page.close()
    assert [(line["id"], node["html"][:150]) for line in seen.response["violations"] for node in line["nodes"]] == []
    assert [line for line in said if name != "error" or "404" not in line] == []


def test_the_focus_of_the_keyboard_is_visible_and_begins_with_a_way_to_the_content(
    browser: Browser, served: Served
) -> None:
    page, _ = opened(browser, served, "/")
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("To the content")
    for _ in range(8):
        style = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert style != "none", page.evaluate("document.activeElement.outerHTML")
        page.keyboard.press("Tab")
    page.close()


@pytest.mark.tier1("command:serve")
def test_a_run_in_progress_is_followed_until_it_has_finished(browser: Browser, served: Served) -> None:
    info, result, trials = sample_run()
    folder: RunFolder = keep(served.root, "followed", (info, result, trials[:20]), done=1)
    page, said = opened(browser, served, "/run/followed")
    expect(page.locator("#live")).to_contain_text(trials[19].id)
    for trial in trials[20:25]:
        folder.append(trial)
    expect(page.locator("#live")).to_contain_text(trials[24].id)
    folder.write_result(result)
    expect(page.locator("#live")).to_have_count(0)
    page.close()
    assert said == []


def test_the_machines_of_a_campaign_are_followed_and_their_names_are_text(browser: Browser, served: Served) -> None:
    hostile = "<img src=x onerror=document.title='owned'>"
    folder = keep_campaign(served.root, "campaign", MachineProgress(hostile, "idle"))
    page, said = opened(browser, served, "/run/campaign")
    row = page.locator("#live table.machines tbody tr")
    expect(row).to_contain_text(hostile)
    expect(row).to_contain_text("idle")
    told = folder.read_progress()
    assert told is not None
    folder.write_progress(replace(told, machines=(MachineProgress(hostile, "measures", hostile, 1),)))
    expect(row).to_contain_text("measures")
    assert "owned" not in page.title()
    page.close()
    assert said == []


def test_the_data_of_a_plot_are_a_csv_file_and_its_picture_an_svg(browser: Browser, served: Served) -> None:
    page, _ = opened(browser, served, "/run/one")
    with page.expect_download() as data:
        page.get_by_role("button", name="CSV of Rates").click()
    rows = data.value.path().read_text().splitlines()
    assert rows[0].startswith("trace,") and any("snat-255" in row for row in rows)
    with page.expect_download() as picture:
        page.get_by_role("button", name="SVG of Rates").click()
    assert picture.value.suggested_filename.endswith(".svg")
    page.close()


def test_chosen_runs_are_compared(browser: Browser, served: Served) -> None:
    page, _ = opened(browser, served, "/")
    for name in ("one", "two"):
        page.get_by_label(f"Choose {name}", exact=True).check()
    expect(page.locator("#chosen")).to_have_text("2 chosen.")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("h1")).to_contain_text("one")
    page.close()


def test_a_tag_is_given_found_and_taken_away_with_the_keyboard(browser: Browser, served: Served) -> None:
    page, _ = opened(browser, served, "/run/two")
    page.get_by_label("New tag").focus()
    page.keyboard.type("mine")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="mine").press("Enter")
    expect(page.locator("table.runs tbody tr")).to_have_count(1)
    page.get_by_role("link", name="Synthetic").press("Enter")
    page.get_by_label("Remove the tag mine").press("Enter")
    expect(page.get_by_label("Remove the tag mine")).to_have_count(0)
    page.close()
