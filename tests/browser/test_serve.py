"""The workshop as a browser shows it, in headless Chromium, from a server on loopback."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api")

import uvicorn  # noqa: E402
from playwright.sync_api import Browser, Page, expect, sync_playwright  # noqa: E402
from sample import sample_run  # noqa: E402
from sample_study import study_run  # noqa: E402
from served import TOKEN, keep, workshop  # noqa: E402

from pinchpoint.serve.app import application  # noqa: E402
from pinchpoint.store.folder import RunFolder  # noqa: E402

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
PAGES = {
    "list": "/",
    "run": "/run/one",
    "live": "/run/going",
    "study": "/run/study",
    "scenario": "/run/one/scenario/snat-255",
    "trial": "/run/one/trial/snat-255-0006",
    "compare": "/compare?run=one&run=two",
    "beside": "/compare?run=one&run=two&run=going",
    "trend": "/trend?scenario=snat-255",
    "new": "/new",
    "error": "/run/nope",
}
# WCAG 2.2, 1.4.3: the least ratio of any text that is shown, against what is painted behind it.
CONTRAST = """() => {
    const numbers = (text) => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
    const channel = (c) => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
    const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const found = numbers(getComputedStyle(at).backgroundColor);
            if (found.length < 4 || found[3] > 0) return found;
        }
        return numbers(getComputedStyle(document.body).backgroundColor);
    };
    const own = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const texts = [...document.querySelectorAll("main *, nav *, button, input, select")].filter(
        (element) => !element.closest("svg, .modebar, option") && element.checkVisibility() && !element.disabled &&
            (own(element) || element.matches("input, select")));
    let least = 99, place = "";
    for (const element of texts) {
        const [a, b] = [light(numbers(getComputedStyle(element).color)), light(behind(element))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < least) [least, place] = [ratio, element.outerHTML.slice(0, 120)];
    }
    return [least, place];
}"""

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="Chromium is not installed: apt install chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


class Served:
    """A server on a port that the kernel chose."""

    def __init__(self, root: Path) -> None:
        self.root = root
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
    for name in ("one", "two"):
        keep(root, name, sample_run())
    keep(root, "going", sample_run(), done=1)
    keep(root, "study", study_run())
    found = Served(root)
    yield found
    found.close()


def opened(
    browser: Browser, served: Served, path: str, width: int = 1600, scheme: Any = "light"
) -> tuple[Page, list[str]]:
    context = browser.new_context(viewport={"width": width, "height": 1000}, color_scheme=scheme)
    page, said = context.new_page(), []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(f"{served.home}/?token={TOKEN}")
    page.goto(served.home + path)
    expect(page.locator(".plot:visible:not(:has(.main-svg))")).to_have_count(0, timeout=20_000)
    return page, said


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (400, "dark"), (1600, "light"), (1600, "dark")])
@pytest.mark.parametrize("name", PAGES)
def test_every_page_fits_is_readable_and_complains_of_nothing(
    browser: Browser, served: Served, name: str, width: int, scheme: str, tmp_path: Path
) -> None:
    page, said = opened(browser, served, PAGES[name], width, scheme)
    page.wait_for_function("document.documentElement.scrollWidth <= innerWidth", timeout=20_000)
    least, place = page.evaluate(CONTRAST)
    page.screenshot(path=tmp_path / f"{name}-{width}-{scheme}.png", full_page=True)
    page.context.close()
    assert least >= 4.5, place
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
    page.context.close()


def test_a_run_in_progress_is_followed_until_it_has_finished(browser: Browser, served: Served) -> None:
    info, result, trials = sample_run()
    folder: RunFolder = keep(served.root, "followed", (info, result, trials[:20]), done=1)
    page, said = opened(browser, served, "/run/followed")
    expect(page.locator("#live")).to_contain_text(trials[19].id)
    for trial in trials[20:25]:
        folder.append_trial(trial)
    expect(page.locator("#live")).to_contain_text(trials[24].id, timeout=20_000)
    folder.write_result(result)
    expect(page.locator("#live")).to_have_count(0, timeout=20_000)
    page.context.close()
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
    page.context.close()


def test_chosen_runs_are_compared(browser: Browser, served: Served) -> None:
    page, _ = opened(browser, served, "/")
    for name in ("one", "two"):
        page.get_by_label(f"Choose {name}", exact=True).check()
    expect(page.locator("#chosen")).to_have_text("2 chosen.")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("h1")).to_contain_text("one")
    page.context.close()
