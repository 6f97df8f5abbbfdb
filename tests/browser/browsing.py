"""Pages as headless Chromium shows them. A busy machine has the time that it needs: nothing here is about speed."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, expect

PATIENCE_MS = 120_000
expect.set_options(timeout=PATIENCE_MS)


@dataclass
class Seen:
    """A page and everything it said or asked for while it was open."""

    page: Page
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


def page_in(context: BrowserContext) -> Seen:
    """A new page of the context, which is listened to."""
    context.set_default_timeout(PATIENCE_MS)
    seen = Seen(context.new_page())
    seen.page.on("console", lambda message: seen.errors.append(message.text))
    seen.page.on("pageerror", lambda error: seen.errors.append(str(error)))
    seen.page.on("request", lambda request: seen.requests.append(request.url))
    return seen


def open_file(browser: Browser, path: Path, undrawn: str, scheme: Any = "light", width: int = 1280) -> Seen:
    """A report, once nothing in it matches `undrawn`."""
    seen = page_in(browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 1400}))
    seen.page.goto(path.as_uri())
    expect(seen.page.locator(undrawn)).to_have_count(0)
    return seen
