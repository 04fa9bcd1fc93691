"""One browser for all tests, and for each a tab that must end without a complaint."""

import os
import pathlib
import sys

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from everypage import Everypage  # noqa: E402

# Far more than anything takes: a busy machine is slow, and waiting costs nothing when nothing is wrong.
expect.set_options(timeout=30_000)

# Notes what the policy blocked, and every state that each tile was in.
WATCH = """
window.violations = [];
document.addEventListener('securitypolicyviolation', (event) => violations.push(`${event.violatedDirective} ${event.blockedURI}`));
window.seen = {};
const note = (tile) => (seen[tile.querySelector('.tile-number').textContent] ??= []).push(tile.dataset.state);
new MutationObserver((changes) => {
  for (const { type, target, addedNodes } of changes) {
    if (type === 'attributes' && target.matches('.tile')) note(target);
    for (const added of addedNodes) if (added.matches?.('.tiles li')) note(added.firstChild);
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
    """A page of the console, and what must not happen in it."""

    def __init__(self, browser: Browser, server: Everypage, expected: list[str], **options):
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce"} | options)
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(30_000)
        self.page.add_init_script(WATCH)
        self.server, self.expected = server, expected
        self.complaints: list[str] = []
        # Origins that may be asked besides the server's own.
        self.others: list[str] = []
        self.page.on("console", lambda message: message.type in ("error", "warning") and self.complain(message.text))
        self.page.on("pageerror", lambda error: self.complain(str(error)))
        self.page.on("dialog", lambda dialog: (self.complain(f"dialog {dialog.message}"), dialog.dismiss()))
        # Whoever listens from the start need not be quicker than a key to hear of a file chooser.
        self.page.on("filechooser", lambda _: None)
        self.page.on("request", lambda request: self.check_origin(request.url))

    def complain(self, text: str) -> None:
        if not any(known in text for known in self.expected):
            self.complaints.append(text)

    def check_origin(self, url: str) -> None:
        if not url.startswith((self.server.url + "/", "blob:" + self.server.url, "data:", *self.others)):
            self.complain(f"a request to {url}")

    def open(self, place: str = "/jobs", there: str = "main h1") -> Page:
        self.page.goto(f"{self.server.url}/#{place}")
        expect(self.page.locator(there).first).to_be_visible()
        return self.page

    def close(self) -> None:
        violations = self.page.evaluate("window.violations")
        self.context.close()
        assert not violations, violations
        assert not self.complaints, self.complaints


@pytest.fixture
def everypage():
    """Starts servers that end with the test."""
    servers = []

    def make(*rules, **options):
        servers.append(Everypage(*rules, **options))
        return servers[-1]

    yield make
    for server in servers:
        server.stop()


@pytest.fixture
def tab(browser, everypage):
    """Opens tabs on servers: tab(server, *expected complaints, **options of the browser). They are closed
    before the test's servers end, which would cut off their streams."""
    tabs = []

    def make(server, *expected, **options):
        tabs.append(Tab(browser, server, list(expected), **options))
        return tabs[-1]

    yield make
    for made in tabs:
        made.close()


@pytest.fixture(scope="session")
def calm():
    """A server whose models all answer at once, for tests that need a job and no trouble."""
    server = Everypage()
    yield server
    server.stop()
