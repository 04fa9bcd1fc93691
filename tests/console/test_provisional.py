"""The result at any time: the document as it stands while the job runs, and pages that wait."""

import re

from playwright.sync_api import expect

from steps import choose, go, is_now, legend, tile

# Page 4 is read; the other pages for AI hang until the test ends.
HALFWAY = ("page=4=answer", "hang")


def test_the_grid_fills_with_the_best_text_so_far(tab, everypage):
    page = tab(everypage(*HALFWAY, REQUEST_TIMEOUT="1m", MAX_INFLIGHT_PER_MODEL="8")).open()
    choose(page)
    expect(tile(page, 4)).to_have_attribute("data-state", "ai")
    opening = lambda number: tile(page, number).locator(".tile-text")  # noqa: E731
    expect(opening(1)).to_contain_text("Harbour report")
    expect(opening(4)).to_contain_text("Traffic by quarter")
    # Its text is MuPDF's for now; page 9, a scan, has none.
    expect(tile(page, 5)).to_have_attribute("data-state", re.compile("planned|working"))
    expect(opening(5)).not_to_be_empty()
    expect(opening(9)).to_be_empty()


def test_the_result_is_provisional_until_it_is_published(tab, everypage):
    page = tab(everypage(*HALFWAY, REQUEST_TIMEOUT="1m", MAX_INFLIGHT_PER_MODEL="8")).open()
    job = choose(page)
    expect(tile(page, 4)).to_have_attribute("data-state", "ai")
    page.get_by_role("tab", name="Result").click()
    panel = page.locator("#panel-result")
    expect(panel.locator(".provisional")).to_be_visible()
    expect(panel.get_by_label("Version")).to_have_text("Provisional")
    text = panel.locator("pre")
    expect(text).to_contain_text("[read by gpt-5.4]")
    expect(text).to_contain_text("[Page 9 - text not available]")
    page.get_by_label("Format").select_option("json")
    expect(text).to_contain_text('"provisional": true')
    with page.expect_download() as download:
        panel.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "report.provisional.json"

    page.get_by_role("button", name="Cancel job").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel job").click()
    is_now(page, "Cancelled")
    expect(panel.get_by_label("Version")).to_have_value("1")
    expect(panel.locator(".provisional")).to_be_hidden()
    expect(text).not_to_contain_text('"provisional": true')
    go(page, f"/jobs/{job}")
    expect(tile(page, 4).locator(".tile-text")).not_to_be_empty()


def test_waiting_pages_show_why_and_until_when(tab, everypage):
    opened = tab(everypage("hang", REQUEST_TIMEOUT="1m"), timezone_id="UTC")
    page = opened.open()
    waiting = {"reason": "rate_limited", "until": "2031-02-03T10:00:00Z", "provider": "openai", "model": "gpt-5.4", "rounds": 2}
    call = {
        "provider": "openai", "model": "gpt-5.4", "result": "exhausted", "detail": "429", "started_at": "2031-02-03T09:59:00Z",
        "latency_ms": 120, "input_tokens": 0, "output_tokens": 0, "cost_micro_usd": 0,
    }

    def wait(shown):
        if shown["page"] in (5, 9):
            reason = "rate_limited" if shown["page"] == 9 else "call_failed"
            shown |= {"status": "waiting", "waiting": waiting | {"reason": reason}, "calls": [call]}

    def list_waits(route):
        response = route.fetch()
        pages = response.json()
        for shown in pages["items"]:
            wait(shown)
        route.fulfill(response=response, json=pages)

    def page_waits(route):
        response = route.fetch()
        shown = response.json()
        wait(shown)
        route.fulfill(response=response, json=shown)

    page.route(re.compile(r"/v1/jobs/\w+/pages\?"), list_waits)
    page.route(re.compile(r"/v1/jobs/\w+/pages/9$"), page_waits)
    job = choose(page)
    expect(tile(page, 9)).to_have_attribute("data-state", "waiting")
    expect(tile(page, 9)).to_contain_text("until 10:00:00")
    expect(tile(page, 9)).to_have_attribute("title", re.compile("rate limited, openai gpt-5.4 until 10:00:00, 2 rounds so far"))
    expect(tile(page, 5)).to_have_attribute("title", re.compile("calls failed"))
    assert legend(page)["waiting"] == 2
    line = page.locator(".waiting-line")
    expect(line).to_contain_text("2 pages are waiting for a model")
    expect(line).to_contain_text("1 rate limited")
    expect(line).to_contain_text("The next continues at 10:00:00")

    go(page, f"/jobs/{job}/pages/9")
    expect(page.locator(".swatch.waiting")).to_be_visible()
    expect(page.locator(".message")).to_contain_text("Waiting for a model: rate limited")
    expect(page.get_by_label("Model calls")).to_contain_text("429")
