"""Long lists: what is fetched, what is rendered, and what is fetched again."""

import json
import re
import urllib.parse

from playwright.sync_api import Page, expect

from steps import go


class Listing:
    """Serves a list of the API in batches, and records the requests."""

    def __init__(self, page: Page, path: str, items: list[dict]):
        self.items, self.requests = items, []
        page.route(re.compile(re.escape(path) + r"(\?|$)"), self.respond)

    def respond(self, route) -> None:
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(route.request.url).query))
        if route.request.method != "GET" or "limit" not in query:
            return route.fallback()
        self.requests.append(query)
        # A cursor is the id of the last item before the batch, as in the API.
        ids = [item["id"] for item in self.items]
        start = ids.index(query["cursor"]) + 1 if "cursor" in query else 0
        items = self.items[start : start + int(query["limit"])]
        more = {"next": items[-1]["id"]} if start + len(items) < len(self.items) else {}
        return route.fulfill(json={"items": items} | more)


def job(number: int) -> dict:
    document = {"name": f"report-{number}.pdf", "bytes": 1000}
    return {"id": f"job{number:05}", "status": "success", "document": document, "created_at": "2026-11-16T10:00:00Z", "links": {}}


def dead_letter(number: int) -> dict:
    at = "2026-11-16T10:00:00Z"
    subject = {"kind": "page", "job": f"job{number // 100:05}", "page": number % 100 + 1}
    named = {"document": f"report-{number // 100}.pdf"} if number >= 100 else {}
    about = {"reason": "HTTP 418", "receive_count": 1, "first_at": at, "last_at": at, "correlation_id": "c", "priority": "normal"}
    return {"id": f"dlq{number:05}", "subject": subject} | about | named


def test_the_list_of_jobs_loads_to_its_end(tab, calm):
    opened = tab(calm)
    jobs = Listing(opened.page, "/v1/jobs", [job(number) for number in range(2120, 0, -1)])
    page = opened.open()
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(50)
    more = page.get_by_role("button", name="Show more")
    for number in range(100, 2120, 50):
        more.click()
        expect(rows).to_have_count(number)
    more.click()
    expect(rows).to_have_count(2120)
    expect(more).to_be_hidden()
    expect(rows.last).to_contain_text("report-1.pdf")
    assert len(jobs.requests) == 43, "each batch is fetched once"

    # New jobs are added, deleted ones removed; only the first batch is fetched.
    jobs.items.insert(0, job(2121))
    jobs.items.remove(job(2119))
    page.evaluate("dispatchEvent(new Event('everypage:uploaded'))")
    expect(rows.first).to_contain_text("report-2121.pdf")
    expect(rows).to_have_count(2120)
    expect(page.get_by_text("report-2119.pdf")).to_have_count(0)
    assert len(jobs.requests) == 44

    # The first batch holds only new jobs: the list is loaded from its start.
    jobs.items[:0] = [job(number) for number in range(2250, 2121, -1)]
    page.evaluate("dispatchEvent(new Event('everypage:uploaded'))")
    expect(rows.first).to_contain_text("report-2250.pdf")
    expect(rows).to_have_count(50)
    more.click()
    expect(rows).to_have_count(100)
    expect(rows.last).to_contain_text("report-2151.pdf")


def test_jobs_are_filtered_by_status(tab, calm):
    opened = tab(calm)
    jobs = Listing(opened.page, "/v1/jobs", [])
    page = opened.open()
    for name, status in (("Queued", "queued"), ("Waiting for upload", "awaiting_upload")):
        page.get_by_role("button", name=name).click()
        expect(page.get_by_text("No matching jobs.")).to_be_visible()
        page.wait_for_url(f"**status={status}")
        assert jobs.requests[-1]["status"] == status


def test_of_many_dead_letters_few_are_rendered_and_all_can_be_selected(tab, calm):
    opened = tab(calm)
    dead_letters = Listing(opened.page, "/v1/dlq", [dead_letter(number) for number in range(1200)])
    estimated = []

    def estimate(route):
        """Estimates 700 dead letters of a request and leaves the others."""
        ids = json.loads(route.request.post_data)["ids"]
        estimated.append(ids)
        done = min(700, len(ids))
        cost = {"pages": done, "cost_micro_usd": done * 10_000, "unknown": 0}
        route.fulfill(json=cost | {"dead_letters": done, "remaining": len(ids) - done})

    opened.page.route("**/v1/dlq/estimate", estimate)
    page = opened.open("/dead-letters")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(100)
    expect(rows.first).to_contain_text("Page 1job00000")
    assert len(dead_letters.requests) == 1
    more = page.get_by_role("button", name="Show more")
    for number in range(200, 700, 100):
        more.click()
        expect(rows).to_have_count(number)
    expect(rows.nth(100)).to_contain_text("Page 1report-1.pdfjob00001")
    assert [query.get("cursor") for query in dead_letters.requests if query != dead_letters.requests[0]] == ["dlq00499"]

    page.get_by_label("Select all matching dead letters").check()
    expect(page.get_by_text("1,200 of 1,200 dead letters selected")).to_be_visible()
    expect(page.locator("#estimate")).to_contain_text("1,200 pages for AI, about $12.00")
    assert [len(ids) for ids in estimated] == [1000, 500] and estimated[1][0] == "dlq00700"
    page.get_by_label("Select all matching dead letters").uncheck()

    page.get_by_label("Filter by reason, document or job").fill("report-11")
    expect(rows).to_have_count(100)
    expect(more).to_be_hidden()
    page.get_by_label("Filter by reason, document or job").fill("")

    # The oldest is redriven elsewhere and a new one is added at the end: two requests find both.
    before = len(dead_letters.requests)
    dead_letters.items = dead_letters.items[1:] + [dead_letter(1200)]
    expect(page.get_by_text("1,200 dead letters; select")).to_be_visible()
    expect(page.get_by_label("Select Page 1 of job00000")).to_have_count(0)
    page.get_by_label("Filter by reason, document or job").fill("report-12")
    expect(rows).to_have_count(1)
    assert len(dead_letters.requests) - before <= 4 and {query.get("cursor") for query in dead_letters.requests[before:]} == {None, "dlq00999"}


def test_a_cost_that_can_t_be_estimated_is_not_shown_as_zero(tab, calm):
    opened = tab(calm)
    Listing(opened.page, "/v1/dlq", [dead_letter(number) for number in range(3)])
    nothing = {"dead_letters": 0, "pages": 0, "cost_micro_usd": 0, "unknown": 0, "remaining": 3}
    opened.page.route("**/v1/dlq/estimate", lambda route: route.fulfill(json=nothing))
    page = opened.open("/dead-letters")
    with page.expect_response("**/v1/dlq/estimate"):
        page.get_by_label("Select all matching dead letters").check()
    page.locator("#redrive").click()
    expect(page.get_by_role("dialog")).to_contain_text("Cost not known.")


def test_of_twenty_thousand_tiles_only_changed_ones_are_updated(tab, calm):
    opened = tab(calm)
    pages = [{"id": str(number), "page": number, "status": "planned", "calls": [], "cost_micro_usd": 0} for number in range(1, 20_001)]
    running = job(1) | {"status": "processing", "state": "EXECUTED", "message": "reading", "options": {}, "progress": 1}
    running["pages"] = {"document": 20_000, "selected": 20_000}
    Listing(opened.page, "/v1/jobs/job00001/pages", pages)
    opened.page.route("**/v1/jobs/job00001", lambda route: route.fulfill(json=running))
    settled = {"source": "ai", "target": {"provider": "openai", "model": "gpt-5.4"}, "calls": []}
    event = {"id": "e1", "type": "page.settled", "aggregate": "job/job00001/page/7", "data": settled}
    held = []
    opened.page.route("**/v1/jobs/job00001/events", lambda route: held.append(route))
    page = opened.open("/jobs/job00001")
    expect(page.locator(".tile")).to_have_count(20_000)
    while not held:
        page.wait_for_timeout(20)
    page.evaluate(
        "() => { window.updated = new Set(); new MutationObserver((changes) =>"
        " changes.forEach(({ target }) => updated.add(target.closest?.('li') ?? target.parentElement.closest('li'))))"
        ".observe(document.querySelector('.tiles'), { subtree: true, attributes: true, childList: true, characterData: true }) }"
    )
    # A poll meanwhile finds what the event reports.
    pages[6] |= {"status": "settled", "source": "ai", "provider": "openai", "model": "gpt-5.4"}
    body = f"event: page.settled\nid: 1\ndata: {json.dumps(event)}\n\n"
    held[0].fulfill(body=body, headers={"content-type": "text/event-stream"})
    seventh = page.locator(".tiles li:nth-child(7) .tile")
    expect(seventh).to_have_attribute("data-state", "ai")
    assert page.evaluate("updated.size") == 1
    # Tiles outside the viewport are not rendered.
    assert page.locator(".tiles li").last.evaluate("tile => getComputedStyle(tile).contentVisibility") == "auto"
    first = page.locator(".tiles li:first-child a")
    first.focus()
    page.keyboard.press("End")
    expect(page.locator(".tiles li:last-child a")).to_be_focused()
    go(page, "/jobs")
