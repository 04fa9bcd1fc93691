"""Credits: balance, ledger and purchases."""

import re

import pytest
from playwright.sync_api import Page, expect

from everypage import GRAPHICS_PAGES
from payments import FakePaymentServer
from steps import choose, go, is_now


@pytest.fixture
def payments():
    service = FakePaymentServer()
    yield service
    service.stop()


@pytest.fixture
def shop(everypage, payments):
    """Starts servers that require credits and sell them."""
    return lambda **options: everypage(
        **{"CREDITS": "prepaid", "CREDIT_PRICE_USD": "0.05", "PAYMENT_URL": payments.url} | options
    )


def total(page: Page, name: str):
    return page.locator(".totals .fact", has=page.get_by_text(name, exact=True)).locator("dd")


def rows(page: Page, table: str):
    return page.get_by_role("region", name=table).locator("tbody tr")


def open_dialog(page: Page, credits: int, method: str = ""):
    page.get_by_role("button", name="Buy credits").click()
    dialog = page.get_by_role("dialog", name="Buy credits")
    dialog.get_by_label("Credits", exact=True).fill(str(credits))
    dialog.get_by_label("Payment method").fill(method)
    return dialog


def press_buy(dialog) -> None:
    dialog.get_by_role("button", name="Buy", exact=True).click()


def enter_key(page: Page, key: str) -> None:
    page.get_by_role("dialog").get_by_label("API key").fill(key)
    page.get_by_role("dialog").get_by_role("button", name="Continue").click()


def test_credits_are_bought_and_pay_for_pages(tab, shop, payments):
    page = tab(shop()).open()
    job = choose(page, 1)
    is_now(page, "Rejected")
    expect(page.locator(".message")).to_contain_text("Not enough credits: 4 are needed and 0 are available")
    page.get_by_role("link", name="Go to account").click()
    expect(total(page, "Balance")).to_have_text("0")
    expect(page.get_by_text("No purchases yet.")).to_be_visible()
    expect(page.get_by_text("No entries yet.")).to_be_visible()

    dialog = open_dialog(page, 1250, "card of ann")
    expect(dialog).to_contain_text("1,250 credits for $62.50")
    press_buy(dialog)
    expect(page.locator("#notices")).to_contain_text("1,250 credits: added to the balance")
    expect(dialog).to_have_count(0)
    expect(total(page, "Balance")).to_have_text("1,250")
    assert [(charge["amount"]["value"], charge["method"]) for charge in payments.charges] == [("62.50", "card of ann")]
    purchase = rows(page, "Purchases")
    expect(purchase).to_contain_text(["Completed"])
    expect(purchase).to_contain_text("$62.50")
    expect(page.locator("main")).not_to_contain_text("card of ann")
    purchase.get_by_text("Steps").click()
    expect(purchase).to_contain_text("Take payment✓ done")
    expect(rows(page, "Ledger")).to_contain_text("+1,250")

    go(page, "/jobs")
    expect(page.locator("tbody tr")).to_have_count(1)
    paid = choose(page, 2)
    is_now(page, "Done")
    expect(page.get_by_role("link", name="Go to account")).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("a")
    left = 1250 - len(GRAPHICS_PAGES)
    expect(total(page, "Available")).to_have_text(f"{left:,}")
    expect(total(page, "Reserved by jobs")).to_have_text("0")
    newest = rows(page, "Ledger").first
    expect(newest).to_contain_text(f"-{len(GRAPHICS_PAGES)}{left:,}")
    newest.get_by_role("link", name=paid).click()
    is_now(page, "Done")
    assert job != paid


def test_jobs_reserve_what_they_may_need(tab, everypage, payments):
    server = everypage("hang", CREDITS="prepaid", CREDIT_PRICE_USD="0.0525", PAYMENT_URL=payments.url)
    page = tab(server).open("/account")
    dialog = open_dialog(page, 7)
    # The price is rounded up to a whole cent.
    expect(dialog).to_contain_text("$0.0525 each")
    expect(dialog).to_contain_text("7 credits for $0.37")
    press_buy(dialog)
    expect(total(page, "Available")).to_have_text("7")
    assert payments.charges[0]["amount"]["value"] == "0.37"
    go(page, "/jobs")
    choose(page)
    expect(page.locator(".tile.working").first).to_be_visible()
    go(page, "/account")
    expect(total(page, "Reserved by jobs")).to_have_text(str(len(GRAPHICS_PAGES)))
    expect(total(page, "Available")).to_have_text(str(7 - len(GRAPHICS_PAGES)))
    expect(total(page, "Balance")).to_have_text("7")


def test_a_declined_card_shows_the_reason_and_another_can_be_used(tab, shop, payments):
    page = tab(shop(), "402").open("/account")
    dialog = open_dialog(page, 10, "empty-card")
    press_buy(dialog)
    expect(dialog.get_by_role("alert")).to_contain_text("insufficient funds")
    dialog.get_by_label("Payment method").fill("another-card")
    press_buy(dialog)
    expect(total(page, "Balance")).to_have_text("10")
    expect(rows(page, "Purchases")).to_contain_text(["Completed", "Rolled back"])
    declined = rows(page, "Purchases").nth(1)
    expect(declined.locator(".reason")).to_contain_text("insufficient funds")
    declined.get_by_text("Steps").click()
    expect(declined).to_contain_text("⊘ refused: insufficient funds")
    assert len(payments.charges) == 1


def test_a_repeated_request_makes_one_purchase(tab, shop, payments):
    page = tab(shop(), "net::ERR").open("/account")
    keys = []

    def lose_the_first(route):
        """The server handles the first request, and its response is lost."""
        keys.append(route.request.headers["idempotency-key"])
        response = route.fetch()
        route.abort() if len(keys) == 1 else route.fulfill(response=response)

    page.route("**/v1/account/credits", lose_the_first)
    dialog = open_dialog(page, 10)
    press_buy(dialog)
    expect(dialog.get_by_role("alert")).to_contain_text("the credits are bought only once")
    expect(dialog.get_by_label("Credits", exact=True)).to_have_attribute("readonly", "")
    dialog.get_by_role("button", name="Buy", exact=True).dblclick()
    expect(dialog).to_have_count(0)
    expect(total(page, "Balance")).to_have_text("10")
    expect(rows(page, "Purchases")).to_have_count(1)
    assert len(keys) == 2 and len(set(keys)) == 1 and len(payments.charges) == 1

    press_buy(open_dialog(page, 5))
    expect(total(page, "Balance")).to_have_text("15")
    assert len(set(keys)) == 2


def test_invalid_and_rejected_purchases_show_the_reason(tab, shop):
    page = tab(shop(), "409").open("/account")
    dialog = open_dialog(page, 0)
    expect(dialog.locator("output")).to_contain_text("Enter a whole number from 1")
    press_buy(dialog)
    expect(dialog.get_by_label("Credits", exact=True)).to_be_focused()
    problem = {"code": "purchases_not_available", "detail": "credits can't be bought here"}
    page.route(
        "**/v1/account/credits",
        lambda route: route.fulfill(status=409, json=problem, content_type="application/problem+json"),
    )
    dialog.get_by_label("Credits", exact=True).fill("3")
    press_buy(dialog)
    expect(dialog.get_by_role("alert")).to_have_text("credits can't be bought here")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(total(page, "Balance")).to_have_text("0")


def test_a_slow_payment_is_followed_until_it_completes(tab, shop, payments):
    # The server retries after the time that a request waits for a purchase.
    payments.failures = 1
    page = tab(shop(RETRY_INTERVALS="16s")).open("/account")
    press_buy(open_dialog(page, 10))
    expect(page.locator("#notices")).to_contain_text("10 credits: payment pending; it continues in the background")
    expect(total(page, "Pending purchases")).to_have_text("10")
    purchase = rows(page, "Purchases")
    expect(purchase.locator(".badge")).to_contain_text("Payment pending")
    purchase.get_by_text("Steps").click()
    expect(purchase).to_contain_text("503")
    expect(purchase.locator(".badge")).to_contain_text("Completed", timeout=60_000)
    expect(purchase.locator("details")).to_have_attribute("open", "")
    expect(total(page, "Pending purchases")).to_have_text("0")
    expect(total(page, "Balance")).to_have_text("10")


def test_the_ledger_is_loaded_in_batches(tab, shop):
    server = shop()
    opened = tab(server)
    page = opened.page
    for credits in range(1, 53):
        page.request.post(f"{server.url}/v1/account/credits", data={"credits": credits})
    opened.open("/account")
    ledger = rows(page, "Ledger")
    expect(ledger).to_have_count(50)
    expect(ledger.first).to_contain_text("+52")
    page.get_by_role("region", name="Ledger").get_by_role("button", name="Show more").click()
    expect(ledger).to_have_count(52)
    expect(ledger.last).to_contain_text("+11")
    expect(page.get_by_role("region", name="Ledger").get_by_role("button", name="Show more")).to_be_hidden()


def test_only_operators_buy(tab, shop):
    server = shop(keys=["operator", "user"])
    operator, user = server.keys
    page = tab(server, "401").open("/account", visible="dialog")
    enter_key(page, user)
    expect(total(page, "Balance")).to_have_text("0")
    expect(page.get_by_text("Operators can buy more.")).to_be_visible()
    expect(page.get_by_role("button", name="Buy credits")).to_have_count(0)
    page = tab(server, "401").open("/account", visible="dialog")
    enter_key(page, operator)
    expect(page.get_by_role("button", name="Buy credits")).to_be_visible()


def test_without_a_payment_service_credits_can_t_be_bought(tab, everypage):
    page = tab(everypage(CREDITS="prepaid")).open("/account")
    expect(page.get_by_text("Credits can't be bought here")).to_be_visible()
    expect(total(page, "Balance")).to_have_text("0")
    expect(page.get_by_role("button", name="Buy credits")).to_have_count(0)
    expect(page.get_by_role("region", name="Purchases")).to_have_count(0)
    expect(page.get_by_role("region", name="Ledger")).to_be_visible()


def test_without_credits_the_account_shows_only_that(tab, calm):
    page = tab(calm).open()
    page.get_by_role("link", name="Account").click()
    expect(page.get_by_text("This server does not require credits.")).to_be_visible()
    expect(page.locator(".totals")).to_be_hidden()
    expect(page.get_by_role("button", name="Buy credits")).to_have_count(0)
    expect(page.get_by_role("region", name=re.compile("Ledger|Purchases"))).to_have_count(0)


def test_buying_works_by_keyboard_and_on_a_narrow_screen(tab, shop):
    page = tab(shop()).open()
    page.keyboard.press("g")
    page.keyboard.press("a")
    expect(page.get_by_role("button", name="Buy credits")).to_be_visible()
    page.keyboard.press("b")
    dialog = page.get_by_role("dialog", name="Buy credits")
    expect(dialog.get_by_label("Credits", exact=True)).to_be_focused()
    page.keyboard.press("Control+a")
    page.keyboard.type("20")
    expect(dialog.get_by_role("status")).to_have_text("20 credits for $1.00")
    page.keyboard.press("Enter")
    expect(total(page, "Balance")).to_have_text("20")
    expect(dialog).to_have_count(0)
    rows(page, "Purchases").get_by_text("Steps").focus()
    page.keyboard.press("Enter")
    expect(rows(page, "Purchases").get_by_text("Add to balance")).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
