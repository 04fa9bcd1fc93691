"""Dead letters, models and figures: what operators look after."""

from playwright.sync_api import expect

from everypage import EYES
from steps import choose, go, is_now, tile


def test_a_redriven_letter_makes_version_2_and_a_purged_one_is_gone(tab, everypage):
    # An answer that no vendor documents: the page falls back, and a person is to look at it.
    server = everypage("page=9,10;first=8=418", BREAKER_FAILURE_THRESHOLD="10")
    page = tab(server).open()
    job = choose(page)
    is_now(page, "Done")
    page.get_by_role("link", name="Dead letters").click()
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.filter(has_text="Page 9")).to_contain_text("HTTP 418")
    redrive = page.locator("#redrive")
    expect(redrive).to_be_disabled()

    rows.filter(has_text="Page 9").get_by_role("checkbox").check()
    expect(page.locator("#estimate")).to_contain_text("1 page to AI, about $0.0")
    redrive.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 page to AI, about $0.0")
    dialog.get_by_label("Letters a second").fill("50")
    dialog.get_by_role("button", name="Redrive").click()
    expect(page.locator("#notices")).to_contain_text("1 letter sent back to work")
    expect(rows).to_have_count(1)

    page.get_by_label("Select all that are shown").check()
    page.locator("#purge").click()
    dialog.get_by_label("Type 1 to confirm").fill("2")
    dialog.get_by_role("button", name="Purge").click()
    expect(dialog.get_by_role("alert")).to_contain_text("type 1")
    dialog.get_by_label("Type 1 to confirm").fill("1")
    dialog.get_by_role("button", name="Purge").click()
    expect(page.get_by_text("No dead letters.")).to_be_visible()

    go(page, f"/jobs/{job}")
    expect(page.locator(".message")).to_contain_text("version 2")
    expect(tile(page, 9)).to_have_attribute("data-state", "ai")
    expect(tile(page, 10)).to_have_attribute("data-state", "mupdf_fallback")
    go(page, f"/jobs/{job}/pages/9")
    expect(page.get_by_label("Attempts").locator("tbody")).to_have_count(2)


def test_models_show_which_rest_and_why(tab, everypage):
    page = tab(everypage("openai:gpt-5.4=503", BREAKER_BASE_BACKOFF="4m")).open()
    choose(page)
    is_now(page, "Done")
    page.get_by_role("link", name="Models").click()
    resting = page.locator(".model[data-target='openai:gpt-5.4']")
    expect(resting).to_contain_text("Open")
    expect(resting).to_contain_text("Rests for")
    expect(resting).to_contain_text("HTTP 503")
    assert resting.locator(".model-cause").evaluate("cause => getComputedStyle(cause).fontWeight") == "540"
    well = page.locator(".model[data-target='openai:gpt-5.4-mini']")
    expect(well).to_contain_text("Closed")
    expect(well).to_contain_text("0 of 2 slots in use")


def test_figures_count_what_was_done(tab, everypage):
    page = tab(everypage()).open()
    choose(page)
    is_now(page, "Done")
    page.get_by_role("link", name="Figures").click()
    pages = page.get_by_label("Pages", exact=True)
    expect(pages.locator(".chart-total")).to_have_text("12 pages")
    expect(pages.locator("rect.bar.good")).to_have_count(1)
    expect(page.get_by_label("Jobs", exact=True).locator(".chart-total")).to_have_text("1 job")
    expect(page.get_by_label("Cost", exact=True).locator(".chart-total")).to_contain_text("$0.0")
    pages.get_by_text("As a table").click()
    read = pages.locator("tbody tr td:nth-child(2)").all_text_contents()
    assert sum(map(int, read)) == len(EYES)
    # No two rows have the same name, however long they are.
    for name, spans in (("Hour", 12), ("Week", 28), ("Month", 30), ("Day", 24)):
        page.get_by_role("button", name=name).click()
        table = page.get_by_label("Pages", exact=True).locator("tbody tr th")
        expect(table).to_have_count(spans)
        names = table.all_text_contents()
        assert len(set(names)) == spans, names
    expect(page.get_by_label("Pages", exact=True).locator(".chart-total")).to_have_text("12 pages")

    # An answer that comes late does not replace what was asked for after it.
    held = []
    page.route("**/v1/stats?window=720h*", lambda route: held.append(route))
    page.get_by_role("button", name="Month").click()
    page.get_by_role("button", name="Hour").click()
    expect(table).to_have_count(12)
    while not held:
        page.wait_for_timeout(20)
    with page.expect_response("**/v1/stats?window=720h*") as late:
        held[0].continue_()
    late.value.finished()
    page.wait_for_timeout(200)
    expect(table).to_have_count(12)


def test_a_key_is_asked_for_and_kept_in_the_tab_only(tab, everypage):
    server = everypage(keys=["operator", "user"])
    operator, user = server.keys
    page = tab(server, "401").open(there="dialog")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("API key").fill("ep_wrong")
    dialog.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("This key is not in force here.")).to_be_visible()
    dialog.get_by_label("API key").fill(operator)
    dialog.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("No documents yet.")).to_be_visible()
    assert operator not in page.evaluate("JSON.stringify(localStorage) + document.cookie")
    choose(page)
    is_now(page, "Done")
    tile(page, 4).click()
    expect(page.get_by_alt_text("Page 4 as it looks")).to_be_visible()
    page.get_by_role("button", name="Forget the API key").click()
    expect(page.get_by_role("dialog").get_by_label("API key")).to_be_visible()

    page = tab(server, "401").open(there="dialog")
    page.get_by_role("dialog").get_by_label("API key").fill(user)
    page.get_by_role("dialog").get_by_role("button", name="Continue").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.get_by_role("link", name="Dead letters")).to_have_count(0)


def test_another_key_is_another_person(tab, everypage):
    server = everypage(keys=["operator", "user"])
    operator, user = server.keys
    # What the operator asked for last is asked again with the user's key, and refused.
    page = tab(server, "401", "403").open(there="dialog")

    def give(key):
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("API key").fill(key)
        dialog.get_by_role("button", name="Continue").click()

    give(operator)
    expect(page.locator(".who")).to_contain_text("operator")
    expect(page.get_by_role("link", name="Dead letters")).to_be_visible()
    # The key is taken back while the tab is open: the next request asks for another one.
    page.evaluate("sessionStorage.setItem('everypage.key', 'ep_revoked')")
    give(user)
    expect(page.locator(".who")).to_contain_text("user")
    expect(page.get_by_role("link", name="Dead letters")).to_have_count(0)
    expect(page.locator("#nav [aria-current]")).to_have_text("Jobs")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Figures")
    expect(page.get_by_role("dialog")).not_to_contain_text("Dead letters")
    page.keyboard.press("Escape")
    choose(page)
    is_now(page, "Done")
    page.evaluate("sessionStorage.setItem('everypage.key', 'ep_revoked')")
    give(operator)
    expect(page.get_by_role("link", name="Models")).to_be_visible()
    is_now(page, "Done")
