"""Credits: what there is, where it went, and buying more."""

import re

import pytest
from playwright.sync_api import Page, expect

from everypage import EYES
from payments import Payments
from steps import choose, go, is_now


@pytest.fixture
def payments():
    service = Payments()
    yield service
    service.stop()


@pytest.fixture
def shop(everypage, payments):
    """Starts servers where credits are needed and sold."""
    return lambda **options: everypage(
        **{"CREDITS": "prepaid", "CREDIT_PRICE_USD": "0.05", "PAYMENT_URL": payments.url} | options
    )


def figure(page: Page, name: str):
    return page.locator(".sums .fact", has=page.get_by_text(name, exact=True)).locator("dd")


def rows(page: Page, part: str):
    return page.get_by_role("region", name=part).locator("tbody tr")


def open_dialog(page: Page, credits: int, method: str = ""):
    page.get_by_role("button", name="Buy credits").click()
    dialog = page.get_by_role("dialog", name="Buy credits")
    dialog.get_by_label("Credits", exact=True).fill(str(credits))
    dialog.get_by_label("Payment method").fill(method)
    return dialog


def press_buy(dialog) -> None:
    dialog.get_by_role("button", name="Buy", exact=True).click()


def give_key(page: Page, key: str) -> None:
    page.get_by_role("dialog").get_by_label("API key").fill(key)
    page.get_by_role("dialog").get_by_role("button", name="Continue").click()


def test_credits_are_bought_and_pages_paid_with_them(tab, shop, payments):
    page = tab(shop()).open()
    job = choose(page, 1)
    is_now(page, "Rejected")
    expect(page.locator(".message")).to_contain_text("Not enough credits: 4 are needed and 0 are available")
    page.get_by_role("link", name="To the account").click()
    expect(figure(page, "Balance")).to_have_text("0")
    expect(page.get_by_text("Nothing was bought yet.")).to_be_visible()
    expect(page.get_by_text("The balance has never changed.")).to_be_visible()

    dialog = open_dialog(page, 1250, "card of ann")
    expect(dialog).to_contain_text("1,250 credits for $62.50")
    press_buy(dialog)
    expect(page.locator("#notices")).to_contain_text("1,250 credits: bought, and in the balance")
    expect(dialog).to_have_count(0)
    expect(figure(page, "Balance")).to_have_text("1,250")
    assert [(charge["amount"]["value"], charge["method"]) for charge in payments.charges] == [("62.50", "card of ann")]
    purchase = rows(page, "Purchases")
    expect(purchase).to_contain_text(["Bought"])
    expect(purchase).to_contain_text("$62.50")
    expect(page.locator("main")).not_to_contain_text("card of ann")
    purchase.get_by_text("Steps").click()
    expect(purchase).to_contain_text("Payment✓ done")
    expect(rows(page, "Ledger")).to_contain_text("+1,250")

    go(page, "/jobs")
    expect(page.locator("tbody tr")).to_have_count(1)
    paid = choose(page, 2)
    is_now(page, "Done")
    expect(page.get_by_role("link", name="To the account")).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("a")
    left = 1250 - len(EYES)
    expect(figure(page, "Available")).to_have_text(f"{left:,}")
    expect(figure(page, "Held by jobs")).to_have_text("0")
    newest = rows(page, "Ledger").first
    expect(newest).to_contain_text(f"-{len(EYES)}{left:,}")
    newest.get_by_role("link", name=paid).click()
    is_now(page, "Done")
    assert job != paid


def test_jobs_hold_what_they_may_need(tab, everypage, payments):
    server = everypage("hang", CREDITS="prepaid", CREDIT_PRICE_USD="0.0525", PAYMENT_URL=payments.url)
    page = tab(server).open("/account")
    dialog = open_dialog(page, 7)
    # What is not a whole cent is rounded up.
    expect(dialog).to_contain_text("$0.0525 each")
    expect(dialog).to_contain_text("7 credits for $0.37")
    press_buy(dialog)
    expect(figure(page, "Available")).to_have_text("7")
    assert payments.charges[0]["amount"]["value"] == "0.37"
    go(page, "/jobs")
    choose(page)
    expect(page.locator(".tile.working").first).to_be_visible()
    go(page, "/account")
    expect(figure(page, "Held by jobs")).to_have_text(str(len(EYES)))
    expect(figure(page, "Available")).to_have_text(str(7 - len(EYES)))
    expect(figure(page, "Balance")).to_have_text("7")


def test_a_declined_card_says_why_and_another_one_can_be_tried(tab, shop, payments):
    page = tab(shop(), "402").open("/account")
    dialog = open_dialog(page, 10, "empty-card")
    press_buy(dialog)
    expect(dialog.get_by_role("alert")).to_contain_text("the card has no money on it")
    dialog.get_by_label("Payment method").fill("another-card")
    press_buy(dialog)
    expect(figure(page, "Balance")).to_have_text("10")
    expect(rows(page, "Purchases")).to_contain_text(["Bought", "Undone"])
    declined = rows(page, "Purchases").nth(1)
    expect(declined.locator(".reason")).to_contain_text("the card has no money on it")
    declined.get_by_text("Steps").click()
    expect(declined).to_contain_text("⊘ refused: the card has no money on it")
    assert len(payments.charges) == 1


def test_what_is_asked_for_twice_is_bought_once(tab, shop, payments):
    page = tab(shop(), "net::ERR").open("/account")
    asked = []

    def lose_the_first(route):
        """The server does it, and its answer is lost."""
        asked.append(route.request.headers["idempotency-key"])
        answer = route.fetch()
        route.abort() if len(asked) == 1 else route.fulfill(response=answer)

    page.route("**/v1/account/credits", lose_the_first)
    dialog = open_dialog(page, 10)
    press_buy(dialog)
    expect(dialog.get_by_role("alert")).to_contain_text("it is bought once, however often you ask")
    expect(dialog.get_by_label("Credits", exact=True)).to_have_attribute("readonly", "")
    dialog.get_by_role("button", name="Buy", exact=True).dblclick()
    expect(dialog).to_have_count(0)
    expect(figure(page, "Balance")).to_have_text("10")
    expect(rows(page, "Purchases")).to_have_count(1)
    assert len(asked) == 2 and len(set(asked)) == 1 and len(payments.charges) == 1

    press_buy(open_dialog(page, 5))
    expect(figure(page, "Balance")).to_have_text("15")
    assert len(set(asked)) == 2


def test_what_can_t_be_bought_is_not_asked_for_or_says_why(tab, shop):
    page = tab(shop(), "409").open("/account")
    dialog = open_dialog(page, 0)
    expect(dialog.locator("output")).to_contain_text("A whole number, from 1")
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
    expect(figure(page, "Balance")).to_have_text("0")


def test_a_slow_payment_goes_on_and_is_seen_to_end(tab, shop, payments):
    # The next try comes after the time that a caller waits.
    payments.away = 1
    page = tab(shop(RETRY_INTERVALS="16s")).open("/account")
    press_buy(open_dialog(page, 10))
    expect(page.locator("#notices")).to_contain_text("10 credits: the payment takes its time and goes on by itself")
    expect(figure(page, "Being bought")).to_have_text("10")
    purchase = rows(page, "Purchases")
    expect(purchase.locator(".badge")).to_contain_text("Being paid")
    purchase.get_by_text("Steps").click()
    expect(purchase).to_contain_text("503")
    expect(purchase.locator(".badge")).to_contain_text("Bought", timeout=60_000)
    expect(purchase.locator("details")).to_have_attribute("open", "")
    expect(figure(page, "Being bought")).to_have_text("0")
    expect(figure(page, "Balance")).to_have_text("10")


def test_the_ledger_is_read_piece_by_piece(tab, shop):
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
    page = tab(server, "401").open("/account", there="dialog")
    give_key(page, user)
    expect(figure(page, "Balance")).to_have_text("0")
    expect(page.get_by_text("An operator buys them.")).to_be_visible()
    expect(page.get_by_role("button", name="Buy credits")).to_have_count(0)
    page = tab(server, "401").open("/account", there="dialog")
    give_key(page, operator)
    expect(page.get_by_role("button", name="Buy credits")).to_be_visible()


def test_without_a_shop_nothing_is_sold(tab, everypage):
    page = tab(everypage(CREDITS="prepaid")).open("/account")
    expect(page.get_by_text("None can be bought here")).to_be_visible()
    expect(figure(page, "Balance")).to_have_text("0")
    expect(page.get_by_role("button", name="Buy credits")).to_have_count(0)
    expect(page.get_by_role("region", name="Purchases")).to_have_count(0)
    expect(page.get_by_role("region", name="Ledger")).to_be_visible()


def test_where_no_credits_are_needed_it_says_so_and_no_more(tab, calm):
    page = tab(calm).open()
    page.get_by_role("link", name="Account").click()
    expect(page.get_by_text("No credits are needed here")).to_be_visible()
    expect(page.locator(".sums")).to_be_hidden()
    expect(page.get_by_role("button", name="Buy credits")).to_have_count(0)
    expect(page.get_by_role("region", name=re.compile("Ledger|Purchases"))).to_have_count(0)


def test_buying_needs_neither_mouse_nor_wide_screen(tab, shop):
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
    expect(figure(page, "Balance")).to_have_text("20")
    expect(dialog).to_have_count(0)
    rows(page, "Purchases").get_by_text("Steps").focus()
    page.keyboard.press("Enter")
    expect(rows(page, "Purchases").get_by_text("Into the balance")).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
