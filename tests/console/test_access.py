"""Keyboard, contrast, labels, light and dark."""

import pathlib

import axe_playwright_python
import pytest
from playwright.sync_api import expect

from everypage import Everypage
from payments import Payments
from steps import choose, go, is_now, tile

AXE = (pathlib.Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()


@pytest.fixture(scope="module")
def busy_day():
    """A server with something on every page: a page that fell back, a dead letter, an open breaker, purchases."""
    payments = Payments()
    shop = {"CREDITS": "prepaid", "CREDIT_PRICE_USD": "0.05", "PAYMENT_URL": payments.url}
    server = Everypage("openai:gpt-5.4=503", "page=9;first=3=418", BREAKER_BASE_BACKOFF="4m", **shop)
    yield server
    server.stop()
    payments.stop()


def faults(page, rules: list[str]) -> list[str]:
    """What is wrong by these rules, or by all."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    options = {"resultTypes": ["violations"]} | ({"runOnly": rules} if rules else {})
    found = page.evaluate("options => axe.run(document, options).then((all) => all.violations)", options)
    return [f"{fault['id']}: {node['target']} {node['failureSummary']}" for fault in found for node in fault["nodes"]]


# The themes differ in nothing but their colours.
@pytest.mark.parametrize(("theme", "rules"), [("light", []), ("dark", ["color-contrast"])])
def test_every_page_passes_axe(tab, busy_day, theme, rules):
    page = tab(busy_day, color_scheme=theme).open()
    for wish in ({"credits": 1000}, {"credits": 1, "method": "empty-card"}):
        page.request.post(f"{busy_day.url}/v1/account/credits", data=wish)
    job = choose(page, len(rules), name=f"{theme}.pdf")
    is_now(page, "Done")
    places = {
        "/jobs": "tbody tr", "/dead-letters": "tbody tr", "/models": ".model", "/figures": ".chart svg", "/account": "tbody tr",
        f"/jobs/{job}": ".tile", f"/jobs/{job}/result": "#panel-result pre:not(:empty)", f"/jobs/{job}/attempts": ".timeline svg",
        f"/jobs/{job}/trail": "#panel-trail tbody tr", f"/jobs/{job}/details": "#panel-details .fact", f"/jobs/{job}/pages/4": ".sheet img",
    }
    wrong = {}
    for place, there in places.items():
        go(page, place)
        expect(page.locator(there).first).to_be_visible()
        wrong[place] = faults(page, rules)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    wrong["shortcuts"] = faults(page, rules)
    page.keyboard.press("Escape")
    go(page, "/account")
    page.get_by_text("Steps").first.click()
    wrong["steps"] = faults(page, rules)
    page.locator("#buy").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    wrong["buying"] = faults(page, rules)
    assert not any(wrong.values()), {place: found for place, found in wrong.items() if found}


def test_everything_is_reached_without_a_mouse(tab, calm):
    page = tab(calm).open()
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    job = choose(page, 20, name="keys.pdf", key="u")
    is_now(page, "Done")

    tile(page, 1).focus()
    page.keyboard.press("ArrowRight")
    expect(tile(page, 2)).to_be_focused()
    page.keyboard.press("End")
    expect(tile(page, 12)).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/#/jobs/{job}/pages/12")
    # The address changes before the view does; until then Escape is the old one's.
    expect(page.get_by_role("heading", level=1)).to_have_text("Page 12")
    page.keyboard.press("Escape")
    expect(tile(page, 12)).to_be_visible()
    page.keyboard.press("3")
    expect(page.get_by_role("tab", name="Attempts")).to_have_attribute("aria-selected", "true")
    page.get_by_role("tab", name="Attempts").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Trail")).to_be_focused()

    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page.locator("tbody tr").first).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_label("Search jobs by name or id")).to_be_focused()
    page.keyboard.type("keys")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="keys.pdf")).to_be_focused()

    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Upload documents")
    page.get_by_label("Shortcuts are on").uncheck()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_light_and_dark_follow_the_system_until_somebody_chooses(tab, calm):
    page = tab(calm, color_scheme="dark").open()
    back = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(back)
    page.emulate_media(color_scheme="light")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    assert page.evaluate(back) != dark
    page.get_by_role("button", name="Switch to dark theme").click()
    assert page.evaluate(back) == dark
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate(back) == dark


def test_a_narrow_screen_needs_no_scrolling_sideways(tab, calm):
    page = tab(calm, viewport={"width": 390, "height": 800}).open()
    job = choose(page, 30)
    is_now(page, "Done")
    for place in ("/jobs", f"/jobs/{job}", f"/jobs/{job}/pages/4", "/dead-letters", "/models", "/figures", "/account"):
        go(page, place)
        expect(page.locator("main h1")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, place
