"""Documents on their way while people go on working."""

import re

from playwright.sync_api import Page, expect

from everypage import variant
from steps import go, is_now


def send(page: Page, *numbers: int) -> None:
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("u")
    files = [{"name": f"report-{number}.pdf", "mimeType": "application/pdf", "buffer": variant(number)} for number in numbers]
    chooser.value.set_files(files)


def hold(page: Page) -> list:
    """Keeps documents on their way; gives those that came, to be let go."""
    held = []
    page.route(re.compile(r"/v1/jobs\?name="), lambda route: held.append(route))
    return held


def is_held(page: Page, held: list, number: int) -> None:
    expect(page.locator("#notices progress")).to_have_count(1)
    while len(held) < number:
        page.wait_for_timeout(20)


def is_asked_before_it_closes(page: Page) -> bool:
    return not page.evaluate("dispatchEvent(new Event('beforeunload', { cancelable: true }))")


def test_an_upload_that_ends_leads_nobody_away(tab, calm):
    page = tab(calm).open()
    held = hold(page)
    assert not is_asked_before_it_closes(page)
    send(page, 50)
    is_held(page, held, 1)
    assert is_asked_before_it_closes(page)
    go(page, "/figures")
    expect(page.get_by_role("heading", level=1)).to_have_text("Figures")
    held[0].continue_()
    expect(page.locator("#notices")).to_contain_text("report-50.pdf was taken in")
    assert page.url.endswith("#/figures") and not is_asked_before_it_closes(page)

    # Whoever is in the middle of something stays in it, though the address is the same.
    send(page, 51)
    is_held(page, held, 2)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    held[1].continue_()
    expect(page.locator("#notices")).to_contain_text("report-51.pdf was taken in")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert page.url.endswith("#/figures")
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Show the job").last.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("report-51.pdf")

    send(page, 52, 53)
    is_held(page, held, 3)
    held[2].continue_()
    is_held(page, held, 4)
    go(page, "/figures")
    held[3].continue_()
    expect(page.locator("#notices")).to_contain_text("2 documents were taken in")


def test_an_upload_that_nobody_stands_for_asks_for_a_key(tab, everypage):
    server = everypage(keys=["operator"])
    opened = tab(server, "401", "403")
    opened.page.add_init_script(f"sessionStorage.setItem('everypage.key', '{server.keys[0]}')")
    page = opened.open()
    refused = []

    def gateway(route):
        """API Gateway refuses a wrong key itself, in its own words."""
        if refused:
            return route.continue_()
        refused.append(route)
        return route.fulfill(status=403, json={"message": "Forbidden"})

    page.route(re.compile(r"/v1/jobs\?name="), gateway)
    send(page, 1)
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("API key").fill(server.keys[0])
    dialog.get_by_role("button", name="Continue").click()
    is_now(page, "Done")
