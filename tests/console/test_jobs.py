"""Documents come in, their pages settle, and people decide on them."""

import re

from playwright.sync_api import expect

from everypage import EYES, variant
from steps import choose, drop, go, is_now, legend, states, tile

PLANNED = [page for page in range(1, 13) if page not in EYES]


def test_pages_turn_from_grey_to_green_though_a_provider_hangs(tab, everypage):
    page = tab(everypage("openai:*=hang", REQUEST_TIMEOUT="1500ms")).open()
    choose(page)
    # Nobody has read it before two models have hung, so a grey tile is there to be seen.
    expect(tile(page, 9)).to_have_attribute("data-state", re.compile("waiting|working"))
    is_now(page, "Done")
    expect(page.locator(".tile.ai")).to_have_count(4)
    assert states(page) == {number: "ai" if number in EYES else "mupdf" for number in range(1, 13)}
    assert legend(page) == {"ai": 4, "mupdf": 8}
    expect(tile(page, 9)).to_contain_text("claude")
    seen = page.evaluate("seen['9']")
    assert seen[0] in ("waiting", "working") and seen[-1] == "ai", seen

    page.get_by_role("tab", name="Attempts").click()
    expect(page.locator(".timeline g.call.warn")).not_to_have_count(0)
    expect(page.locator(".timeline g.call.good")).to_have_count(4)
    expect(page.locator("#panel-attempts .legend")).to_contain_text("Timed out")

    page.get_by_role("tab", name="Trail").click()
    trail = page.locator("#panel-trail tbody tr")
    expect(trail.first).to_contain_text("job.received")
    expect(trail.last).to_contain_text("job.audited")
    expect(trail.filter(has_text="page.settled")).to_have_count(4)
    page.get_by_label("Without pages").check()
    expect(trail.filter(has_text="page.settled")).to_have_count(0)


def test_dropped_documents_are_read_and_their_names_are_only_names(tab, calm):
    page = tab(calm).open()
    evil = "<img src=x onerror=alert(1)>.pdf"
    drop(page, {evil: variant(1), "second.pdf": variant(2)})
    for name in (evil, "second.pdf"):
        expect(page.locator("tbody tr").filter(has_text=name)).to_contain_text("Done")
    assert page.locator("main img").count() == 0

    page.get_by_label("Search jobs by name or id").fill("SECOND")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("button", name="Failed").click()
    expect(page.get_by_text("No job fits.")).to_be_visible()
    page.get_by_role("button", name="All").click()
    expect(page.locator("tbody tr")).to_have_count(1)


def test_the_same_document_again_is_the_same_job_unless_it_is_wanted_anew(tab, calm):
    page = tab(calm).open()
    first = choose(page, 3)
    is_now(page, "Done")
    go(page, "/jobs")
    assert choose(page, 3) == first
    page.get_by_role("button", name="Read it again").click()
    page.wait_for_url(lambda url: first not in url)
    is_now(page, "Done")


def test_what_is_no_pdf_fails_with_its_reason_and_can_be_started_again(tab, calm):
    page = tab(calm).open()
    drop(page, {"notes.pdf": b"Dear diary"})
    is_now(page, "Failed")
    expect(page.locator(".message")).to_contain_text("PDF")
    page.get_by_role("button", name="Start again").click()
    page.get_by_role("dialog").get_by_role("button", name="Start again").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    is_now(page, "Failed")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.wait_for_url(re.compile("#/jobs$"))
    expect(page.locator("tbody tr").filter(has_text="notes.pdf")).to_have_count(0)


def test_cancelling_publishes_what_is_there(tab, everypage):
    server = everypage("hang")
    page = tab(server).open()
    job = choose(page)
    expect(page.locator(".tile.working").first).to_be_visible()
    go(page, "/models")
    expect(page.locator(".model[data-target='openai:gpt-5.4']")).to_contain_text("2 of 2 slots in use")
    go(page, f"/jobs/{job}")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
    is_now(page, "Cancelled")
    expect(page.locator(".tile.waiting, .tile.working")).to_have_count(0)
    # Page 9 is a scan: MuPDF reads nothing there.
    assert legend(page) == {"mupdf": 8, "mupdf_fallback": 3, "missing": 1}
    # A cancelled job is asked for no more.
    expect(page.get_by_role("button", name="Delete")).to_be_visible()
    expect(page.get_by_role("button", name="Ask again")).to_have_count(0)
    page.get_by_role("tab", name="Result").click()
    expect(page.locator("#panel-result pre")).to_contain_text("=== Page 12 ===")


def test_a_dear_plan_waits_to_be_approved_modified_or_rejected(tab, everypage):
    page = tab(everypage(APPROVAL_THRESHOLD_USD="0.000001")).open()
    choose(page, 1)
    is_now(page, "Needs approval")
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
    dialog.get_by_role("button", name="Modify and approve").click()
    is_now(page, "Done")
    expect(page.locator(".tile.ai")).to_have_count(1)

    go(page, "/jobs")
    choose(page, 3)
    page.get_by_role("button", name="Reject").click()
    page.get_by_label("Reason").fill("too dear for a test")
    page.get_by_role("dialog").get_by_role("button", name="Reject").click()
    is_now(page, "Rejected")
    expect(page.locator(".message")).to_contain_text(re.compile("too dear for a test", re.I))


def test_pages_that_fell_back_are_asked_for_again(tab, everypage):
    # Four models decline page 9 once each; nothing is wrong with them otherwise.
    page = tab(everypage("page=9;first=4=refusal", BREAKER_FAILURE_THRESHOLD="10")).open()
    job = choose(page)
    is_now(page, "Done")
    expect(tile(page, 9)).to_have_attribute("data-state", "missing")
    # Its end is said to whoever listens; a page without text is no plain success, and is counted once.
    said = page.locator("main p.unseen[role=status]")
    expect(said).to_contain_text("report.pdf: Done.")
    expect(page.locator(".head .badge")).to_have_class("badge warn")
    expect(page.locator(".message")).to_contain_text("1 without text")
    go(page, "/jobs")
    listed = page.locator("tbody tr")
    expect(listed.locator(".badge")).to_have_class("badge warn")
    expect(listed.locator(".badge + .sub")).to_have_text("1 without text")
    go(page, f"/jobs/{job}")
    page.get_by_role("button", name="Ask again for 1").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("$")
    dialog.get_by_role("button", name="Ask again").click()
    expect(tile(page, 9)).to_have_attribute("data-state", "ai")
    expect(page.locator(".message")).to_contain_text("version 2")
    expect(said).to_have_text("Version 2 is there")
    expect(page.locator(".head .badge")).to_have_class("badge good")
    page.get_by_role("tab", name="Result").click()
    text = page.locator("#panel-result pre")
    page.get_by_label("Version").select_option("1")
    expect(text).to_contain_text("[Page 9 - text not available]")
    page.get_by_label("Version").select_option("2")
    expect(text).not_to_contain_text("[Page 9 - text not available]")


def test_a_password_may_have_any_letters(tab, calm):
    page = tab(calm).open()
    page.locator("summary", has_text="Options").click()
    page.locator("input[name=password]").fill(" пароль ü ")
    with page.expect_request(lambda request: request.method == "POST" and "/v1/jobs?" in request.url) as sent:
        choose(page, 5)
    assert sent.value.headers["content-type"].startswith("multipart/form-data")
    assert "password" not in sent.value.url
    is_now(page, "Done")


def test_a_hidden_tab_holds_no_stream_and_catches_up(tab, everypage):
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
    # One is opened again only after the one before was closed.
    with page.expect_request(lambda request: is_stream(request) and "last-event-id" in request.headers):
        show(hidden=False)
    is_now(page, "Done")
    expect(page.locator(".tile.ai")).to_have_count(4)


def test_a_server_without_streams_is_asked_again_and_again(tab, calm):
    opened = tab(calm)

    def without_streams(route):
        answer = route.fetch()
        route.fulfill(response=answer, json=answer.json() | {"streams": False})

    opened.page.route("**/v1/me", without_streams)
    asked = []
    opened.page.on("request", lambda request: asked.append(request.headers.get("accept", "")))
    page = opened.open()
    choose(page, 4)
    is_now(page, "Done")
    expect(page.locator(".tile.ai")).to_have_count(4)
    assert "text/event-stream" not in asked


def test_a_server_that_went_away_is_noticed_and_found_again(tab, everypage):
    server = everypage("hang")
    page = tab(server, "net::ERR").open()
    choose(page)
    expect(page.locator(".tile.working").first).to_be_visible()
    server.end_serving()
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    server.serve(server.url.removeprefix("http://"))
    expect(page.get_by_role("alert")).to_be_hidden()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
    is_now(page, "Cancelled")


def test_who_may_do_little_also_sees_that_the_server_is_gone(tab, everypage):
    server = everypage(keys=["user"])
    opened = tab(server, "net::ERR")
    opened.page.add_init_script(f"sessionStorage.setItem('everypage.key', '{server.keys[0]}')")
    page = opened.open()
    expect(page.get_by_text("No documents yet.")).to_be_visible()
    server.end_serving()
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    server.serve(server.url.removeprefix("http://"))
    expect(page.get_by_role("alert")).to_be_hidden()


def test_what_is_loading_says_so_and_what_failed_can_be_tried_again(tab, calm):
    opened = tab(calm, "500")
    page = opened.open()
    job = choose(page, 60)
    is_now(page, "Done")
    held = []
    page.route(re.compile(f"/v1/jobs/{job}/(pages|events)\\?"), lambda route: held.append(route))
    # Some events came by the stream; they are not all.
    page.get_by_role("tab", name="Trail").click()
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
    go(page, f"/jobs/{job}/attempts")
    expect(page.locator("#panel-attempts .empty")).to_have_text("Loading…")
    expect(page.locator("#panel-attempts .timeline")).to_be_hidden()
    go(page, f"/jobs/{job}/trail")
    expect(page.locator("#panel-trail .empty")).to_have_text("Loading…")
    expect(page.get_by_text("0 events")).to_be_hidden()
    while len(held) < 3:
        page.wait_for_timeout(20)
    for route in held:
        route.continue_() if "/pages" in route.request.url else route.fulfill(status=500, json={"detail": "a bad moment"})
    expect(page.locator("#panel-trail")).to_contain_text("It could not be read.a bad moment")
    page.unroute_all()
    page.locator("#panel-trail").get_by_role("button", name="Try again").click()
    expect(page.locator("#panel-trail tbody tr").last).to_contain_text("job.audited")
    go(page, f"/jobs/{job}/attempts")
    expect(page.locator(".timeline g.call.good")).to_have_count(4)
    go(page, f"/jobs/{job}")
    expect(page.locator(".tile")).to_have_count(12)


def test_times_of_another_day_have_their_date(tab, calm):
    page = tab(calm, timezone_id="Europe/Berlin", locale="en-GB").open()
    job = choose(page, 61)
    is_now(page, "Done")

    def a_day_later(route):
        answer = route.fetch()
        events = answer.json()
        for event in events["items"]:
            if event["type"] == "job.audited":
                event["timestamp"] = "2031-02-03T10:00:00Z"
        route.fulfill(response=answer, json=events)

    page.route(re.compile(f"/v1/jobs/{job}/events\\?"), a_day_later)
    page.goto(f"{calm.url}/#/jobs/{job}/trail")
    page.reload()
    times = page.locator("#panel-trail tbody time")
    expect(times.last).to_have_text("3 Feb 2031, 11:00:00")
    expect(times.first).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))


def test_long_silences_leave_room_for_the_calls(tab, calm):
    page = tab(calm).open()

    def stretches(*spans):
        spans = [{"from": start, "to": end} for start, end in spans]
        found = page.evaluate("spans => import('/js/job/attempts.js').then(({ stretches }) => stretches(spans))", spans)
        return [(part["from"], part["to"]) for part in found]

    # Two seconds of calls, eight of silence, two more.
    assert stretches((0, 2000), (10_000, 12_000)) == [(0, 2000), (10_000, 12_000)]
    # Calls at once are as long as the longest; a short pause is none.
    assert stretches((0, 30_000), (0, 20_000), (32_000, 60_000)) == [(0, 60_000)]
    # However many there are, few are beside each other: the longest silences are cut.
    many = stretches(*[(at * at * 10_000, at * at * 10_000 + 1000) for at in range(20)])
    assert len(many) == 8 and many[0] == (0, 1_441_000)
