"""Dead letters, models, statistics and API keys."""

from playwright.sync_api import expect

from everypage import GRAPHICS_PAGES
from steps import choose, go, is_now, tile


def test_a_redriven_page_makes_version_2_and_a_purged_one_is_gone(tab, everypage):
    # A response that no provider documents: the page falls back and becomes a dead letter.
    server = everypage("page=9,10;first=8=418", BREAKER_FAILURE_THRESHOLD="10", PATIENCE="0")
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
    expect(page.locator("#estimate")).to_contain_text("1 page for AI, about $0.0")
    redrive.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 page for AI, about $0.0")
    dialog.get_by_label("Dead letters per second").fill("50")
    dialog.get_by_role("button", name="Redrive").click()
    expect(page.locator("#notices")).to_contain_text("1 dead letter redriven")
    expect(rows).to_have_count(1)

    page.get_by_label("Select all matching dead letters").check()
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
    expect(page.get_by_label("Model calls").locator("tbody")).to_have_count(2)


def test_models_show_open_breakers_with_cooldown_and_cause(tab, everypage):
    page = tab(everypage("openai:gpt-5.4=503", BREAKER_BASE_BACKOFF="4m")).open()
    choose(page)
    is_now(page, "Done")
    page.get_by_role("link", name="Models").click()
    failing = page.locator(".model[data-target='openai:gpt-5.4']")
    expect(failing).to_contain_text("Open")
    expect(failing).to_contain_text("Cooldown: ")
    expect(failing).to_contain_text("HTTP 503")
    assert failing.locator(".model-cause").evaluate("cause => getComputedStyle(cause).fontWeight") == "540"
    healthy = page.locator(".model[data-target='openai:gpt-5.4-mini']")
    expect(healthy).to_contain_text("Closed")
    expect(healthy).to_contain_text("slots in use")


def test_statistics_count_jobs_pages_and_cost(tab, everypage):
    page = tab(everypage()).open()
    choose(page)
    is_now(page, "Done")
    page.get_by_role("link", name="Statistics").click()
    pages = page.get_by_label("Pages", exact=True)
    expect(pages.locator(".chart-total")).to_have_text("12 pages")
    expect(pages.locator("rect.bar.good")).to_have_count(1)
    expect(page.get_by_label("Jobs", exact=True).locator(".chart-total")).to_have_text("1 job")
    expect(page.get_by_label("Cost", exact=True).locator(".chart-total")).to_contain_text("$0.0")
    pages.get_by_text("Show as table").click()
    read = pages.locator("tbody tr td:nth-child(2)").all_text_contents()
    assert sum(map(int, read)) == len(GRAPHICS_PAGES)
    # Row labels are unique in every range.
    for name, buckets in (("Hour", 12), ("Week", 28), ("Month", 30), ("Day", 24)):
        page.get_by_role("button", name=name).click()
        table = page.get_by_label("Pages", exact=True).locator("tbody tr th")
        expect(table).to_have_count(buckets)
        names = table.all_text_contents()
        assert len(set(names)) == buckets, names
    expect(page.get_by_label("Pages", exact=True).locator(".chart-total")).to_have_text("12 pages")

    # A late response does not replace that of a newer request.
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


def test_a_key_is_requested_and_stored_in_the_tab_only(tab, everypage):
    server = everypage(keys=["operator", "user"])
    operator, user = server.keys
    page = tab(server, "401").open(visible="dialog")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("API key").fill("ep_wrong")
    dialog.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("This API key is not valid.")).to_be_visible()
    dialog.get_by_label("API key").fill(operator)
    dialog.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("No documents yet.")).to_be_visible()
    assert operator not in page.evaluate("JSON.stringify(localStorage) + document.cookie")
    choose(page)
    is_now(page, "Done")
    tile(page, 4).click()
    expect(page.get_by_alt_text("Image of page 4")).to_be_visible()
    page.get_by_role("button", name="Remove API key").click()
    expect(page.get_by_role("dialog").get_by_label("API key")).to_be_visible()

    page = tab(server, "401").open(visible="dialog")
    page.get_by_role("dialog").get_by_label("API key").fill(user)
    page.get_by_role("dialog").get_by_role("button", name="Continue").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.get_by_role("link", name="Dead letters")).to_have_count(0)


def test_another_key_switches_the_user(tab, everypage):
    server = everypage(keys=["operator", "user"])
    operator, user = server.keys
    # The operator's last request is sent again with the user's key, and rejected.
    page = tab(server, "401", "403").open(visible="dialog")

    def enter(key):
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("API key").fill(key)
        dialog.get_by_role("button", name="Continue").click()

    enter(operator)
    expect(page.locator(".identity")).to_contain_text("operator")
    expect(page.get_by_role("link", name="Dead letters")).to_be_visible()
    # The key is revoked while the tab is open: the next request asks for another one.
    page.evaluate("sessionStorage.setItem('everypage.key', 'ep_revoked')")
    enter(user)
    expect(page.locator(".identity")).to_contain_text("user")
    expect(page.get_by_role("link", name="Dead letters")).to_have_count(0)
    expect(page.locator("#nav [aria-current]")).to_have_text("Jobs")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Statistics")
    expect(page.get_by_role("dialog")).not_to_contain_text("Dead letters")
    page.keyboard.press("Escape")
    choose(page)
    is_now(page, "Done")
    page.evaluate("sessionStorage.setItem('everypage.key', 'ep_revoked')")
    enter(operator)
    expect(page.get_by_role("link", name="Models")).to_be_visible()
    is_now(page, "Done")
