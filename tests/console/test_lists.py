"""Lists of any length: what is read, what is drawn, and what is read again."""

import json
import re
import urllib.parse

from playwright.sync_api import Page, expect

from steps import go


class Listing:
    """Answers for a listing of the server, piece by piece, and notes what was asked for."""

    def __init__(self, page: Page, path: str, items: list[dict]):
        self.items, self.asked = items, []
        page.route(re.compile(re.escape(path) + r"(\?|$)"), self.answer)

    def answer(self, route) -> None:
        asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(route.request.url).query))
        if route.request.method != "GET" or "limit" not in asked:
            return route.fallback()
        self.asked.append(asked)
        # A cursor names the item that it comes after, as the server's do.
        ids = [item["id"] for item in self.items]
        start = ids.index(asked["cursor"]) + 1 if "cursor" in asked else 0
        items = self.items[start : start + int(asked["limit"])]
        more = {"next": items[-1]["id"]} if start + len(items) < len(self.items) else {}
        return route.fulfill(json={"items": items} | more)


def job(number: int) -> dict:
    document = {"name": f"report-{number}.pdf", "bytes": 1000}
    return {"id": f"job{number:05}", "status": "success", "document": document, "created_at": "2026-11-16T10:00:00Z", "links": {}}


def letter(number: int) -> dict:
    at = "2026-11-16T10:00:00Z"
    subject = {"kind": "page", "job": f"job{number // 100:05}", "page": number % 100 + 1}
    named = {"document": f"report-{number // 100}.pdf"} if number >= 100 else {}
    about = {"reason": "HTTP 418", "attempts": 1, "first_at": at, "last_at": at, "correlation_id": "c", "priority": "normal"}
    return {"id": f"letter{number:05}", "subject": subject} | about | named


def test_the_list_of_jobs_goes_on_to_its_end(tab, calm):
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
    assert len(jobs.asked) == 43, "each piece is read once"

    # What is new comes in front; what was deleted goes; nothing but the first piece is read.
    jobs.items.insert(0, job(2121))
    jobs.items.remove(job(2119))
    page.evaluate("dispatchEvent(new Event('everypage:uploaded'))")
    expect(rows.first).to_contain_text("report-2121.pdf")
    expect(rows).to_have_count(2120)
    expect(page.get_by_text("report-2119.pdf")).to_have_count(0)
    assert len(jobs.asked) == 44

    # So many came that the first piece knows nothing of the old ones: the list begins anew.
    jobs.items[:0] = [job(number) for number in range(2250, 2121, -1)]
    page.evaluate("dispatchEvent(new Event('everypage:uploaded'))")
    expect(rows.first).to_contain_text("report-2250.pdf")
    expect(rows).to_have_count(50)
    more.click()
    expect(rows).to_have_count(100)
    expect(rows.last).to_contain_text("report-2151.pdf")


def test_jobs_of_every_status_can_be_chosen(tab, calm):
    opened = tab(calm)
    jobs = Listing(opened.page, "/v1/jobs", [])
    page = opened.open()
    for name, status in (("Queued", "queued"), ("Awaiting upload", "awaiting_upload")):
        page.get_by_role("button", name=name).click()
        expect(page.get_by_text("No job fits.")).to_be_visible()
        page.wait_for_url(f"**status={status}")
        assert jobs.asked[-1]["status"] == status


def test_of_many_letters_few_are_drawn_and_all_can_be_chosen(tab, calm):
    opened = tab(calm)
    letters = Listing(opened.page, "/v1/dlq", [letter(number) for number in range(1200)])
    weighed = []

    def weigh(route):
        """Looks at 700 letters of a request, and leaves the others."""
        ids = json.loads(route.request.post_data)["ids"]
        weighed.append(ids)
        done = min(700, len(ids))
        cost = {"letters": done, "pages": done, "cost_micro_usd": done * 10_000, "unknown": 0, "left": len(ids) - done}
        route.fulfill(json=cost)

    opened.page.route("**/v1/dlq/estimate", weigh)
    page = opened.open("/dead-letters")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(100)
    expect(rows.first).to_contain_text("Page 1job00000")
    assert len(letters.asked) == 1
    more = page.get_by_role("button", name="Show more")
    for number in range(200, 700, 100):
        more.click()
        expect(rows).to_have_count(number)
    expect(rows.nth(100)).to_contain_text("Page 1report-1.pdfjob00001")
    assert [asked.get("cursor") for asked in letters.asked if asked != letters.asked[0]] == ["letter00499"]

    page.get_by_label("Select all that are shown").check()
    expect(page.get_by_text("1,200 letters of 1,200 selected")).to_be_visible()
    expect(page.locator("#estimate")).to_contain_text("1,200 pages to AI, about $12.00")
    assert [len(ids) for ids in weighed] == [1000, 500] and weighed[1][0] == "letter00700"
    page.get_by_label("Select all that are shown").uncheck()

    page.get_by_label("Filter by reason, document or job").fill("report-11")
    expect(rows).to_have_count(100)
    expect(more).to_be_hidden()
    page.get_by_label("Filter by reason, document or job").fill("")

    # The oldest are sent back elsewhere, and a new one comes behind the last: both are seen, by two requests.
    before = len(letters.asked)
    letters.items = letters.items[1:] + [letter(1200)]
    expect(page.get_by_text("1,200 letters; select")).to_be_visible()
    expect(page.get_by_label("Select Page 1 of job00000")).to_have_count(0)
    page.get_by_label("Filter by reason, document or job").fill("report-12")
    expect(rows).to_have_count(1)
    assert len(letters.asked) - before <= 4 and {asked.get("cursor") for asked in letters.asked[before:]} == {None, "letter00999"}


def test_what_can_t_be_weighed_is_not_said_to_cost_nothing(tab, calm):
    opened = tab(calm)
    Listing(opened.page, "/v1/dlq", [letter(number) for number in range(3)])
    nothing = {"letters": 0, "pages": 0, "cost_micro_usd": 0, "unknown": 0, "left": 3}
    opened.page.route("**/v1/dlq/estimate", lambda route: route.fulfill(json=nothing))
    page = opened.open("/dead-letters")
    with page.expect_response("**/v1/dlq/estimate"):
        page.get_by_label("Select all that are shown").check()
    page.locator("#redrive").click()
    expect(page.get_by_role("dialog")).to_contain_text("What it costs is not known.")


def test_twenty_thousand_tiles_are_written_once(tab, calm):
    opened = tab(calm)
    pages = [{"id": str(number), "page": number, "status": "waiting", "attempts": [], "cost_micro_usd": 0} for number in range(1, 20_001)]
    running = job(1) | {"status": "processing", "state": "EXECUTED", "message": "reading", "options": {}, "progress": 1}
    running["pages"] = {"document": 20_000, "selected": 20_000}
    Listing(opened.page, "/v1/jobs/job00001/pages", pages)
    opened.page.route("**/v1/jobs/job00001", lambda route: route.fulfill(json=running))
    settled = {"source": "ai", "target": {"provider": "openai", "model": "gpt-5.4"}, "attempts": []}
    event = {"id": "e1", "type": "page.settled", "aggregate": "job/job00001/page/7", "data": settled}
    held = []
    opened.page.route("**/v1/jobs/job00001/events", lambda route: held.append(route))
    page = opened.open("/jobs/job00001")
    expect(page.locator(".tile")).to_have_count(20_000)
    while not held:
        page.wait_for_timeout(20)
    page.evaluate(
        "() => { window.written = new Set(); new MutationObserver((changes) =>"
        " changes.forEach(({ target }) => written.add(target.closest?.('li') ?? target.parentElement.closest('li'))))"
        ".observe(document.querySelector('.tiles'), { subtree: true, attributes: true, childList: true, characterData: true }) }"
    )
    body = f"event: page.settled\nid: 1\ndata: {json.dumps(event)}\n\n"
    held[0].fulfill(body=body, headers={"content-type": "text/event-stream"})
    seventh = page.locator(".tiles li:nth-child(7) .tile")
    expect(seventh).to_have_attribute("data-state", "ai")
    assert page.evaluate("written.size") == 1
    # Those that nobody sees are not drawn.
    assert page.locator(".tiles li").last.evaluate("tile => getComputedStyle(tile).contentVisibility") == "auto"
    first = page.locator(".tiles li:first-child a")
    first.focus()
    page.keyboard.press("End")
    expect(page.locator(".tiles li:last-child a")).to_be_focused()
    go(page, "/jobs")
