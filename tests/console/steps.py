"""User actions in the console."""

import base64
import re

from playwright.sync_api import Page, expect

from everypage import SAMPLE, variant


def choose(page: Page, number: int | None = None, name: str = "report.pdf", key: str | None = None) -> str:
    """Uploads the sample, or a variant of it, through the file chooser. Returns the job's id."""
    content = SAMPLE.read_bytes() if number is None else variant(number)
    with page.expect_file_chooser() as chooser:
        page.keyboard.press(key) if key else page.locator("#upload").click()
    chooser.value.set_files([{"name": name, "mimeType": "application/pdf", "buffer": content}])
    page.wait_for_url(re.compile(r"#/jobs/\w+$"))
    return page.url.rsplit("/", 1)[1]


def drop(page: Page, files: dict[str, bytes]) -> None:
    """Drops files on the window, with the events that a browser sends."""
    encoded = {name: base64.b64encode(content).decode() for name, content in files.items()}
    transfer = page.evaluate_handle(
        """(files) => {
          const transfer = new DataTransfer();
          for (const [name, content] of Object.entries(files)) {
            const bytes = Uint8Array.from(atob(content), (character) => character.charCodeAt(0));
            transfer.items.add(new File([bytes], name, { type: 'application/pdf' }));
          }
          return transfer;
        }""",
        encoded,
    )
    page.dispatch_event("main", "dragenter", {"dataTransfer": transfer})
    expect(page.get_by_text("Drop PDFs or images to upload")).to_be_visible()
    page.dispatch_event("main", "drop", {"dataTransfer": transfer})
    expect(page.get_by_text("Drop PDFs or images to upload")).to_be_hidden()


def is_now(page: Page, status: str) -> None:
    """Waits until the job's badge shows this status."""
    expect(page.locator(".head .badge")).to_contain_text(status)


def tile(page: Page, number: int):
    return page.locator(f".tile[aria-label^='Page {number} ']")


def states(page: Page) -> dict[int, str]:
    """The state of each page."""
    return dict(enumerate(page.locator(".tile").evaluate_all("tiles => tiles.map((tile) => tile.dataset.state)"), 1))


def legend(page: Page) -> dict[str, int]:
    items = page.locator(".tile-view .legend li").evaluate_all("list => list.map((item) => [item.dataset.state, item.lastChild.textContent])")
    return {state: int(number) for state, number in items}


def go(page: Page, path: str) -> None:
    """Changes the view as a link does, without reloading the page."""
    page.evaluate("path => { location.hash = path }", f"#{path}")
