"""One page: its image next to its text."""

import re

from playwright.sync_api import expect

from steps import choose, go, is_now, tile


def test_a_page_shows_its_image_and_text(tab, calm):
    page = tab(calm).open()
    job = choose(page, 10)
    is_now(page, "Done")
    tile(page, 4).click()
    image = page.get_by_alt_text("Image of page 4")
    expect(image).to_be_visible()
    assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") > 400
    text = page.get_by_label("Text of page 4")
    expect(text).to_contain_text("Traffic by quarter")
    expect(text).to_contain_text("[read by gpt-5.4]")
    page.get_by_role("button", name="MuPDF").click()
    expect(text).not_to_contain_text("[read by")
    expect(page.get_by_label("Model calls")).to_contain_text("Answered")

    page.keyboard.press("ArrowRight")
    page.wait_for_url(f"**/#/jobs/{job}/pages/5")
    expect(page.get_by_role("heading", level=1)).to_have_text("Page 5")
    page.keyboard.press("k")
    page.wait_for_url(f"**/#/jobs/{job}/pages/4")

    # A text-only page was not sent to a model; its image is rendered for the view.
    go(page, f"/jobs/{job}/pages/2")
    expect(page.get_by_alt_text("Image of page 2")).to_be_visible()
    expect(page.get_by_text("No model calls for this page.")).to_be_visible()
    page.keyboard.press("Escape")
    page.wait_for_url(f"**/#/jobs/{job}")


def test_paging_stays_within_the_pages_of_the_job(tab, calm):
    page = tab(calm).open()
    page.locator("summary", has_text="Options").click()
    page.locator("input[name=pages]").fill("4,9-10")
    job = choose(page, 11)
    is_now(page, "Done")
    tile(page, 4).click()
    title = page.get_by_role("heading", level=1)
    expect(title).to_have_text("Page 4")
    expect(page.get_by_role("link", name="Previous page")).to_have_attribute("aria-disabled", "true")
    page.keyboard.press("k")
    page.keyboard.press("ArrowRight")
    page.wait_for_url(f"**/#/jobs/{job}/pages/9")
    expect(title).to_have_text("Page 9")
    page.keyboard.press("k")
    page.wait_for_url(f"**/#/jobs/{job}/pages/4")


def test_text_is_copied_without_the_clipboard_api(tab, calm):
    # Over plain HTTP, browsers have no clipboard API.
    page = tab(calm).open()
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    choose(page, 12)
    is_now(page, "Done")
    tile(page, 4).click()
    page.get_by_role("button", name="Copy").click()
    expect(page.locator("#notices")).to_contain_text("Copied")


def test_a_missing_page_shows_an_error(tab, calm):
    page = tab(calm, "404").open("/jobs/missing/pages/7")
    expect(page.get_by_role("heading", level=1)).to_have_text("Something went wrong")
    expect(page.get_by_text(re.compile("job.*missing"))).to_be_visible()
