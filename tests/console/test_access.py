"""Accessibility: keyboard, contrast, labels, light and dark theme."""

import pathlib

import axe_playwright_python
import pytest
from playwright.sync_api import expect

from everypage import Everypage
from payments import FakePaymentServer
from steps import choose, go, is_now, tile

AXE = (pathlib.Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()


@pytest.fixture(scope="module")
def populated():
    """A server with data for every view: a fallback, a dead letter, an open breaker, purchases."""
    payments = FakePaymentServer()
    shop = {"CREDITS": "prepaid", "CREDIT_PRICE_USD": "0.05", "PAYMENT_URL": payments.url}
    server = Everypage("openai:gpt-5.4=503", "page=9;first=3=418", BREAKER_BASE_BACKOFF="4m", PATIENCE="0", **shop)
    yield server
    server.stop()
    payments.stop()


def violations(page, rules: list[str]) -> list[str]:
    """Violations of these axe rules, or of all."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    options = {"resultTypes": ["violations"]} | ({"runOnly": rules} if rules else {})
    found = page.evaluate("options => axe.run(document, options).then((all) => all.violations)", options)
    return [f"{rule['id']}: {node['target']} {node['failureSummary']}" for rule in found for node in rule["nodes"]]


# The themes differ only in colour.
@pytest.mark.parametrize(("theme", "rules"), [("light", []), ("dark", ["color-contrast"])])
def test_every_page_passes_axe(tab, populated, theme, rules):
    page = tab(populated, color_scheme=theme).open()
    for order in ({"credits": 1000}, {"credits": 1, "method": "empty-card"}):
        page.request.post(f"{populated.url}/v1/account/credits", data=order)
    job = choose(page, len(rules), name=f"{theme}.pdf")
    is_now(page, "Done")
    views = {
        "/jobs": "tbody tr", "/dead-letters": "tbody tr", "/models": ".model", "/stats": ".chart svg", "/account": "tbody tr",
        f"/jobs/{job}": ".tile", f"/jobs/{job}/result": "#panel-result pre:not(:empty)", f"/jobs/{job}/calls": ".timeline svg",
        f"/jobs/{job}/trail": "#panel-trail tbody tr", f"/jobs/{job}/details": "#panel-details .fact", f"/jobs/{job}/pages/4": ".page-image img",
    }
    found = {}
    for path, visible in views.items():
        go(page, path)
        expect(page.locator(visible).first).to_be_visible()
        found[path] = violations(page, rules)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    found["shortcuts"] = violations(page, rules)
    page.keyboard.press("Escape")
    go(page, "/account")
    page.get_by_text("Steps").first.click()
    found["steps"] = violations(page, rules)
    page.locator("#buy").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    found["buying"] = violations(page, rules)
    assert not any(found.values()), {view: each for view, each in found.items() if each}


def test_everything_is_reachable_by_keyboard(tab, calm):
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
    # The address changes before the view does; until then, Escape belongs to the previous view.
    expect(page.get_by_role("heading", level=1)).to_have_text("Page 12")
    page.keyboard.press("Escape")
    expect(tile(page, 12)).to_be_visible()
    page.keyboard.press("3")
    expect(page.get_by_role("tab", name="Model calls")).to_have_attribute("aria-selected", "true")
    page.get_by_role("tab", name="Model calls").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Audit trail")).to_be_focused()

    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page.locator("tbody tr").first).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_label("Search jobs by name or ID")).to_be_focused()
    page.keyboard.type("keys")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="keys.pdf")).to_be_focused()

    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Upload documents")
    page.get_by_label("Enable shortcuts").uncheck()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_theme_follows_the_system_until_the_user_chooses(tab, calm):
    page = tab(calm, color_scheme="dark").open()
    background = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(background)
    page.emulate_media(color_scheme="light")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    assert page.evaluate(background) != dark
    page.get_by_role("button", name="Switch to dark theme").click()
    assert page.evaluate(background) == dark
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate(background) == dark


def test_a_narrow_screen_does_not_scroll_horizontally(tab, calm):
    page = tab(calm, viewport={"width": 390, "height": 800}).open()
    job = choose(page, 30)
    is_now(page, "Done")
    for path in ("/jobs", f"/jobs/{job}", f"/jobs/{job}/pages/4", "/dead-letters", "/models", "/stats", "/account"):
        go(page, path)
        expect(page.locator("main h1")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
