"""Fixtures: one browser for all tests, and tabs that fail their test on any console error."""

import os
import pathlib
import sys

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from everypage import Everypage  # noqa: E402

# Generous, for busy machines: a passing test does not wait for it.
expect.set_options(timeout=30_000)

# Records what the content security policy blocked, and every state of each tile.
WATCH = """
window.violations = [];
document.addEventListener('securitypolicyviolation', (event) => violations.push(`${event.violatedDirective} ${event.blockedURI}`));
window.seen = {};
const record = (tile) => (seen[tile.querySelector('.tile-number').textContent] ??= []).push(tile.dataset.state);
new MutationObserver((changes) => {
  for (const { type, target, addedNodes } of changes) {
    if (type === 'attributes' && target.matches('.tile')) record(target);
    for (const added of addedNodes) if (added.matches?.('.tiles li')) record(added.firstChild);
  }
}).observe(document, { subtree: true, attributes: true, attributeFilter: ['data-state'], childList: true });
"""


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ["CHROMIUM"], args=["--no-sandbox"])
        yield browser
        browser.close()


class Tab:
    """A browser tab with the console. Collects errors that must not occur."""

    def __init__(self, browser: Browser, server: Everypage, expected: list[str], **options):
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce"} | options)
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(30_000)
        self.page.add_init_script(WATCH)
        self.server, self.expected = server, expected
        self.errors: list[str] = []
        # Origins that may be requested besides the server's own.
        self.allowed_origins: list[str] = []
        self.page.on("console", lambda message: message.type in ("error", "warning") and self.record_error(message.text))
        self.page.on("pageerror", lambda error: self.record_error(str(error)))
        self.page.on("dialog", lambda dialog: (self.record_error(f"dialog {dialog.message}"), dialog.dismiss()))
        # With a listener from the start, a test does not miss a file chooser that a key press opens.
        self.page.on("filechooser", lambda _: None)
        self.page.on("request", lambda request: self.check_origin(request.url))

    def record_error(self, text: str) -> None:
        if not any(known in text for known in self.expected):
            self.errors.append(text)

    def check_origin(self, url: str) -> None:
        if not url.startswith((self.server.url + "/", "blob:" + self.server.url, "data:", *self.allowed_origins)):
            self.record_error(f"a request to {url}")

    def open(self, path: str = "/jobs", visible: str = "main h1") -> Page:
        self.page.goto(f"{self.server.url}/#{path}")
        expect(self.page.locator(visible).first).to_be_visible()
        return self.page

    def close(self) -> None:
        violations = self.page.evaluate("window.violations")
        self.context.close()
        assert not violations, violations
        assert not self.errors, self.errors


@pytest.fixture
def everypage():
    """Starts servers that stop with the test."""
    servers = []

    def make(*rules, **options):
        servers.append(Everypage(*rules, **options))
        return servers[-1]

    yield make
    for server in servers:
        server.stop()


@pytest.fixture
def tab(browser, everypage):
    """Opens tabs on servers: tab(server, *expected errors, **browser options). They are closed before the
    servers of the test stop, which would break their streams."""
    tabs = []

    def make(server, *expected, **options):
        tabs.append(Tab(browser, server, list(expected), **options))
        return tabs[-1]

    yield make
    for opened in tabs:
        opened.close()


@pytest.fixture(scope="session")
def calm():
    """A shared server without failures, for tests that only need a job."""
    server = Everypage()
    yield server
    server.stop()
