"""Uploads that run while the user continues to work."""

import re
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, expect

from everypage import variant
from steps import go, is_now


def send(page: Page, *numbers: int) -> None:
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("u")
    files = [{"name": f"report-{number}.pdf", "mimeType": "application/pdf", "buffer": variant(number)} for number in numbers]
    chooser.value.set_files(files)


def hold(page: Page) -> list:
    """Holds uploads back. Returns their routes, to be continued by the test."""
    held = []
    page.route(re.compile(r"/v1/jobs\?name="), lambda route: held.append(route))
    return held


def is_held(page: Page, held: list, number: int) -> None:
    expect(page.locator("#notices progress")).to_have_count(1)
    while len(held) < number:
        page.wait_for_timeout(20)


def asks_before_closing(page: Page) -> bool:
    return not page.evaluate("dispatchEvent(new Event('beforeunload', { cancelable: true }))")


def test_a_finished_upload_does_not_change_the_view(tab, calm):
    page = tab(calm).open()
    held = hold(page)
    assert not asks_before_closing(page)
    send(page, 50)
    is_held(page, held, 1)
    assert asks_before_closing(page)
    go(page, "/stats")
    expect(page.get_by_role("heading", level=1)).to_have_text("Statistics")
    held[0].continue_()
    expect(page.locator("#notices")).to_contain_text("report-50.pdf was accepted")
    assert page.url.endswith("#/stats") and not asks_before_closing(page)

    # An open dialog stays open, though the address has not changed.
    send(page, 51)
    is_held(page, held, 2)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    held[1].continue_()
    expect(page.locator("#notices")).to_contain_text("report-51.pdf was accepted")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert page.url.endswith("#/stats")
    page.keyboard.press("Escape")
    page.get_by_role("link", name="View job").last.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("report-51.pdf")

    send(page, 52, 53)
    is_held(page, held, 3)
    held[2].continue_()
    is_held(page, held, 4)
    go(page, "/stats")
    held[3].continue_()
    expect(page.locator("#notices")).to_contain_text("2 documents were accepted")


def test_an_upload_has_every_option(tab, calm):
    page = tab(calm).open()
    held = hold(page)
    page.get_by_text("Options", exact=True).click()
    typed = {
        "Pages": ("pages", "1-4"),
        "Order of models": ("failover", "anthropic:claude-haiku-4-5,openai:gpt-5.4"),
        "Deadline": ("deadline", "2m"),
        "Patience": ("patience", "30s"),
        "Budget in US dollars": ("budget_usd", "1.25"),
    }
    chosen = {
        "Pages for AI": ("ai_pages", "all"),
        "Model tier": ("tier", "fast"),
        "Provider": ("provider", "anthropic"),
        "Priority": ("priority", "high"),
        "Price of calls": ("cost", "low"),
    }
    for label, (_, value) in typed.items():
        page.get_by_label(label, exact=True).fill(value)
    for label, (_, value) in chosen.items():
        page.get_by_label(label, exact=True).select_option(value)
    page.get_by_label("Process again").check()
    send(page, 54)
    is_held(page, held, 1)
    sent = parse_qs(urlsplit(held[0].request.url).query)
    expected = dict([*typed.values(), *chosen.values()], name="report-54.pdf", force="true")
    assert {name: values[0] for name, values in sent.items()} == expected
    held[0].continue_()
    is_now(page, "Done")
    page.get_by_role("tab", name="Details").click()
    shown = page.locator("#panel-details .card", has=page.get_by_role("heading", name="Options"))
    for name, value in [*typed.values(), *chosen.values()]:
        expect(shown).to_contain_text(f"{name.replace('_', ' ')}{value}")

    # The options stay for the next upload, until they are changed.
    go(page, "/jobs")
    page.get_by_text("Options", exact=True).click()
    expect(page.get_by_label("Process again")).to_be_checked()
    page.get_by_label("Process again").uncheck()
    send(page, 54)
    is_held(page, held, 2)
    assert "force" not in parse_qs(urlsplit(held[1].request.url).query)
    held[1].continue_()
    is_now(page, "Done")


def test_an_upload_with_a_rejected_key_asks_for_another(tab, everypage):
    server = everypage(keys=["operator"])
    opened = tab(server, "401", "403")
    opened.page.add_init_script(f"sessionStorage.setItem('everypage.key', '{server.keys[0]}')")
    page = opened.open()
    rejected = []

    def gateway(route):
        """Acts as API Gateway, which rejects a wrong key itself, without a problem document."""
        if rejected:
            return route.continue_()
        rejected.append(route)
        return route.fulfill(status=403, json={"message": "Forbidden"})

    page.route(re.compile(r"/v1/jobs\?name="), gateway)
    send(page, 1)
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("API key").fill(server.keys[0])
    dialog.get_by_role("button", name="Continue").click()
    is_now(page, "Done")
