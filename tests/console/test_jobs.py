"""Jobs: upload, progress, approval, cancellation, retries."""

import re

from playwright.sync_api import expect

from everypage import GRAPHICS_PAGES, variant
from steps import choose, drop, go, is_now, legend, states, tile

PLANNED = [page for page in range(1, 13) if page not in GRAPHICS_PAGES]


def test_pages_turn_green_while_a_provider_hangs(tab, everypage):
    page = tab(everypage("openai:*=hang", REQUEST_TIMEOUT="1500ms")).open()
    choose(page)
    # Two models hang before the page is read, so its tile is grey for a while.
    expect(tile(page, 9)).to_have_attribute("data-state", re.compile("planned|working"))
    is_now(page, "Done")
    expect(page.locator(".tile.ai")).to_have_count(4)
    assert states(page) == {number: "ai" if number in GRAPHICS_PAGES else "mupdf" for number in range(1, 13)}
    assert legend(page) == {"ai": 4, "mupdf": 8}
    expect(tile(page, 9)).to_contain_text("claude")
    seen = page.evaluate("seen['9']")
    assert seen[0] in ("planned", "working") and seen[-1] == "ai", seen

    page.get_by_role("tab", name="Model calls").click()
    expect(page.locator(".timeline g.call.warn")).not_to_have_count(0)
    expect(page.locator(".timeline g.call.good")).to_have_count(4)
    expect(page.locator("#panel-calls .legend")).to_contain_text("Timed out")

    page.get_by_role("tab", name="Audit trail").click()
    trail = page.locator("#panel-trail tbody tr")
    expect(trail.first).to_contain_text("job.received")
    expect(trail.last).to_contain_text("job.audited")
    expect(trail.filter(has_text="page.settled")).to_have_count(4)
    page.get_by_label("Hide page events").check()
    expect(trail.filter(has_text="page.settled")).to_have_count(0)


def test_dropped_documents_are_processed_and_names_are_not_parsed_as_html(tab, calm):
    page = tab(calm).open()
    evil = "<img src=x onerror=alert(1)>.pdf"
    drop(page, {evil: variant(1), "second.pdf": variant(2)})
    for name in (evil, "second.pdf"):
        expect(page.locator("tbody tr").filter(has_text=name)).to_contain_text("Done")
    assert page.locator("main img").count() == 0

    page.get_by_label("Search jobs by name or ID").fill("SECOND")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("button", name="Failed").click()
    expect(page.get_by_text("No matching jobs.")).to_be_visible()
    page.get_by_role("button", name="All").click()
    expect(page.locator("tbody tr")).to_have_count(1)


def test_the_same_document_is_the_same_job_unless_forced(tab, calm):
    page = tab(calm).open()
    first = choose(page, 3)
    is_now(page, "Done")
    go(page, "/jobs")
    assert choose(page, 3) == first
    page.get_by_role("button", name="Process again").click()
    page.wait_for_url(lambda url: first not in url)
    is_now(page, "Done")


def test_a_file_that_is_not_a_pdf_fails_with_a_reason_and_can_be_retried(tab, calm):
    page = tab(calm).open()
    drop(page, {"notes.pdf": b"Not a PDF"})
    is_now(page, "Failed")
    expect(page.locator(".message")).to_contain_text("PDF")
    page.get_by_role("button", name="Retry job").click()
    page.get_by_role("dialog").get_by_role("button", name="Retry").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    is_now(page, "Failed")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.wait_for_url(re.compile("#/jobs$"))
    expect(page.locator("tbody tr").filter(has_text="notes.pdf")).to_have_count(0)


def test_cancelling_publishes_the_pages_read_so_far(tab, everypage):
    server = everypage("hang", MAX_INFLIGHT_PER_MODEL="2")
    page = tab(server).open()
    job = choose(page)
    expect(page.locator(".tile.working").first).to_be_visible()
    go(page, "/models")
    expect(page.locator(".model[data-target='openai:gpt-5.4']")).to_contain_text("2 of 2 slots in use")
    go(page, f"/jobs/{job}")
    page.get_by_role("button", name="Cancel job").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel job").click()
    is_now(page, "Cancelled")
    expect(page.locator(".tile.planned, .tile.waiting, .tile.working")).to_have_count(0)
    # Page 9 is a scan: MuPDF finds no text on it.
    assert legend(page) == {"mupdf": 8, "mupdf_fallback": 3, "missing": 1}
    # The pages of a cancelled job can't be retried.
    expect(page.get_by_role("button", name="Delete")).to_be_visible()
    expect(page.get_by_role("button", name="Retry")).to_have_count(0)
    page.get_by_role("tab", name="Result").click()
    expect(page.locator("#panel-result pre")).to_contain_text("=== Page 12 ===")


def test_an_expensive_plan_is_approved_modified_or_rejected(tab, everypage):
    page = tab(everypage(APPROVAL_THRESHOLD_USD="0.000001")).open()
    choose(page, 1)
    is_now(page, "Waiting for approval")
    expect(page.locator(".plan")).to_contain_text("Estimated cost")
    page.get_by_role("button", name="Approve").click()
    is_now(page, "Done")
    assert legend(page)["ai"] == 4

    go(page, "/jobs")
    choose(page, 2)
    page.get_by_role("button", name="Modify").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Modify and approve").click()
    expect(dialog.get_by_role("alert")).to_contain_text("nothing was changed")
    dialog.get_by_label("Pages that may go to AI").fill("1-4")
    dialog.get_by_label("Order of models").fill("anthropic:claude-haiku-4-5")
    dialog.get_by_label("Patience").fill("30s")
    dialog.get_by_label("Price of calls").select_option("low")
    dialog.get_by_label("Budget in US dollars").fill("0.75")
    with page.expect_request("**/modify") as request:
        dialog.get_by_role("button", name="Modify and approve").click()
    assert request.value.post_data_json == {
        "pages": "1-4",
        "failover": "anthropic:claude-haiku-4-5",
        "patience": "30s",
        "cost": "low",
        "budget_usd": "0.75",
    }
    is_now(page, "Done")
    expect(page.locator(".tile.ai")).to_have_count(1)
    tile(page, 4).click()
    expect(page.get_by_label("Model calls")).to_contain_text("claude-haiku-4-5")

    go(page, "/jobs")
    choose(page, 3)
    page.get_by_role("button", name="Reject").click()
    page.get_by_label("Reason").fill("too expensive for a test")
    page.get_by_role("dialog").get_by_role("button", name="Reject").click()
    is_now(page, "Rejected")
    expect(page.locator(".message")).to_contain_text(re.compile("too expensive for a test", re.I))


def test_pages_that_fell_back_are_retried(tab, everypage):
    # Four models refuse page 9 once each and answer otherwise.
    page = tab(everypage("page=9;first=4=refusal", BREAKER_FAILURE_THRESHOLD="10")).open()
    job = choose(page)
    is_now(page, "Done")
    expect(tile(page, 9)).to_have_attribute("data-state", "missing")
    # The end is announced to screen readers; a page without text makes it a warning, and is counted once.
    announcement = page.locator("main p.visually-hidden[role=status]")
    expect(announcement).to_contain_text("report.pdf: Done.")
    expect(page.locator(".head .badge")).to_have_class("badge warn")
    expect(page.locator(".message")).to_contain_text("1 without text")
    go(page, "/jobs")
    listed = page.locator("tbody tr")
    expect(listed.locator(".badge")).to_have_class("badge warn")
    expect(listed.locator(".badge + .sub")).to_have_text("1 without text")
    go(page, f"/jobs/{job}")
    page.get_by_role("button", name="Retry 1 page").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("$")
    dialog.get_by_role("button", name="Retry").click()
    expect(tile(page, 9)).to_have_attribute("data-state", "ai")
    expect(page.locator(".message")).to_contain_text("version 2")
    expect(announcement).to_have_text("Version 2 is published")
    expect(page.locator(".head .badge")).to_have_class("badge good")
    page.get_by_role("tab", name="Result").click()
    text = page.locator("#panel-result pre")
    page.get_by_label("Version").select_option("1")
    expect(text).to_contain_text("[Page 9 - text not available]")
    page.get_by_label("Version").select_option("2")
    expect(text).not_to_contain_text("[Page 9 - text not available]")


def test_a_password_may_have_any_characters(tab, calm):
    page = tab(calm).open()
    page.locator("summary", has_text="Options").click()
    page.locator("input[name=password]").fill(" пароль ü ")
    with page.expect_request(lambda request: request.method == "POST" and "/v1/jobs?" in request.url) as sent:
        choose(page, 5)
    assert sent.value.headers["content-type"].startswith("multipart/form-data")
    assert "password" not in sent.value.url
    is_now(page, "Done")


def test_a_hidden_tab_closes_its_stream_and_catches_up(tab, everypage):
    page = tab(everypage("openai:*=hang", REQUEST_TIMEOUT="3s"), "net::ERR").open()

    def show(hidden: bool) -> None:
        page.evaluate(
            "hidden => { Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });"
            " document.dispatchEvent(new Event('visibilitychange')); }",
            hidden,
        )

    is_stream = lambda request: request.headers.get("accept") == "text/event-stream" and request.url.endswith("/events")  # noqa: E731
    with page.expect_request(lambda request: is_stream(request) and "/v1/jobs/" in request.url):
        choose(page)
    expect(page.locator(".tile.working").first).to_be_visible()
    show(hidden=True)
    # A new stream is opened only after the previous one was closed.
    with page.expect_request(lambda request: is_stream(request) and "last-event-id" in request.headers):
        show(hidden=False)
    is_now(page, "Done")
    expect(page.locator(".tile.ai")).to_have_count(4)


def test_a_server_without_streams_is_polled(tab, calm):
    opened = tab(calm)

    def without_streams(route):
        response = route.fetch()
        route.fulfill(response=response, json=response.json() | {"streams": False})

    opened.page.route("**/v1/me", without_streams)
    accepted = []
    opened.page.on("request", lambda request: accepted.append(request.headers.get("accept", "")))
    page = opened.open()
    choose(page, 4)
    is_now(page, "Done")
    expect(page.locator(".tile.ai")).to_have_count(4)
    assert "text/event-stream" not in accepted


def test_an_unreachable_server_is_reported_until_it_is_back(tab, everypage):
    server = everypage("hang")
    page = tab(server, "net::ERR").open()
    choose(page)
    expect(page.locator(".tile.working").first).to_be_visible()
    server.stop_serving()
    expect(page.get_by_role("alert")).to_contain_text("The server is not responding")
    server.serve(server.url.removeprefix("http://"))
    expect(page.get_by_role("alert")).to_be_hidden()
    page.get_by_role("button", name="Cancel job").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel job").click()
    is_now(page, "Cancelled")


def test_an_unreachable_server_is_reported_to_users_too(tab, everypage):
    server = everypage(keys=["user"])
    opened = tab(server, "net::ERR")
    opened.page.add_init_script(f"sessionStorage.setItem('everypage.key', '{server.keys[0]}')")
    page = opened.open()
    expect(page.get_by_text("No documents yet.")).to_be_visible()
    server.stop_serving()
    expect(page.get_by_role("alert")).to_contain_text("The server is not responding")
    server.serve(server.url.removeprefix("http://"))
    expect(page.get_by_role("alert")).to_be_hidden()


def test_loading_and_errors_are_shown_and_can_be_retried(tab, calm):
    opened = tab(calm, "500")
    page = opened.open()
    job = choose(page, 60)
    is_now(page, "Done")
    held = []
    page.route(re.compile(f"/v1/jobs/{job}/(pages|events)\\?"), lambda route: held.append(route))
    # The events that came by the stream are not shown, because they are not all.
    page.get_by_role("tab", name="Audit trail").click()
    expect(page.locator("#panel-trail .empty")).to_have_text("Loading…")
    expect(page.locator("#panel-trail table")).to_be_hidden()
    while not any("/events" in route.request.url for route in held):
        page.wait_for_timeout(20)
    for route in held:
        route.continue_()
    expect(page.locator("#panel-trail tbody tr").first).to_contain_text("job.received")
    held.clear()
    go(page, "/jobs")
    expect(page.locator("tbody tr").first).to_be_visible()
    go(page, f"/jobs/{job}")
    expect(page.locator("#panel-pages")).to_have_text("Loading…")
    go(page, f"/jobs/{job}/calls")
    expect(page.locator("#panel-calls .empty")).to_have_text("Loading…")
    expect(page.locator("#panel-calls .timeline")).to_be_hidden()
    go(page, f"/jobs/{job}/trail")
    expect(page.locator("#panel-trail .empty")).to_have_text("Loading…")
    expect(page.get_by_text("0 events")).to_be_hidden()
    while len(held) < 3:
        page.wait_for_timeout(20)
    for route in held:
        route.continue_() if "/pages" in route.request.url else route.fulfill(status=500, json={"detail": "internal error"})
    expect(page.locator("#panel-trail")).to_contain_text("Events could not be loaded.internal error")
    page.unroute_all()
    page.locator("#panel-trail").get_by_role("button", name="Retry").click()
    expect(page.locator("#panel-trail tbody tr").last).to_contain_text("job.audited")
    go(page, f"/jobs/{job}/calls")
    expect(page.locator(".timeline g.call.good")).to_have_count(4)
    go(page, f"/jobs/{job}")
    expect(page.locator(".tile")).to_have_count(12)


def test_times_of_another_day_include_the_date(tab, calm):
    page = tab(calm, timezone_id="Europe/Berlin", locale="en-GB").open()
    job = choose(page, 61)
    is_now(page, "Done")

    def a_day_later(route):
        response = route.fetch()
        events = response.json()
        for event in events["items"]:
            if event["type"] == "job.audited":
                event["timestamp"] = "2031-02-03T10:00:00Z"
        route.fulfill(response=response, json=events)

    page.route(re.compile(f"/v1/jobs/{job}/events\\?"), a_day_later)
    page.goto(f"{calm.url}/#/jobs/{job}/trail")
    page.reload()
    times = page.locator("#panel-trail tbody time")
    expect(times.last).to_have_text("3 Feb 2031, 11:00:00")
    expect(times.first).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))


def test_long_gaps_between_calls_are_cut_short(tab, calm):
    page = tab(calm).open()

    def periods(*calls):
        calls = [{"from": start, "to": end} for start, end in calls]
        found = page.evaluate("calls => import('/js/job/calls.js').then(({ busyPeriods }) => busyPeriods(calls))", calls)
        return [(period["from"], period["to"]) for period in found]

    # Two seconds of calls, a gap of eight, two more seconds.
    assert periods((0, 2000), (10_000, 12_000)) == [(0, 2000), (10_000, 12_000)]
    # Concurrent calls are one period; a short gap is not cut.
    assert periods((0, 30_000), (0, 20_000), (32_000, 60_000)) == [(0, 60_000)]
    # With many gaps, only the longest are cut.
    many = periods(*[(at * at * 10_000, at * at * 10_000 + 1000) for at in range(20)])
    assert len(many) == 8 and many[0] == (0, 1_441_000)
