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


def test_the_text_is_rendered_and_linked_with_its_outlines(tab, calm):
    page = tab(calm).open()
    job = choose(page, 13)
    is_now(page, "Done")
    go(page, f"/jobs/{job}/pages/3")
    rendered = page.get_by_label("Text of page 3")
    heading = rendered.locator(".heading").first
    expect(heading).to_be_visible()
    expect(page.locator(".confidence")).to_contain_text(re.compile(r"Confidence \d+ %"))
    expect(page.get_by_alt_text("Image of page 3")).to_be_visible()

    # Every block of the text has its outline on the image, where the image shows it.
    index = heading.get_attribute("data-block")
    outline = page.locator(f".outlines [data-block='{index}']")
    expect(outline).to_be_visible()
    box, image = outline.bounding_box(), page.get_by_alt_text("Image of page 3").bounding_box()
    assert image["x"] <= box["x"] and box["x"] + box["width"] <= image["x"] + image["width"] + 2
    assert image["y"] <= box["y"] and box["y"] + box["height"] <= image["y"] + image["height"] + 2

    # Pointing at either marks both.
    heading.hover()
    expect(outline).to_have_class(re.compile("marked"))
    outline.hover()
    expect(heading).to_have_class(re.compile("marked"))
    page.get_by_role("heading", level=1).hover()
    expect(outline).not_to_have_class(re.compile("marked"))

    page.get_by_role("button", name="Block outlines").click()
    expect(outline).to_be_hidden()
    page.keyboard.press("b")
    expect(outline).to_be_visible()
    page.get_by_role("button", name="Text", exact=True).click()
    expect(rendered.locator(".heading")).to_have_count(0)
    page.keyboard.press("v")
    expect(rendered.locator(".heading").first).to_be_visible()


def test_a_rebuilt_table_is_drawn_and_can_be_had_as_html(tab, calm):
    page = tab(calm).open()
    job = choose(page, 14)
    is_now(page, "Done")
    go(page, f"/jobs/{job}/pages/2")
    table = page.get_by_label("Text of page 2").locator("table")
    expect(table).to_be_visible()
    expect(table.locator("tr").filter(has_text="Traffic by quarter").locator("td").last).to_have_text("4")

    go(page, f"/jobs/{job}")
    page.get_by_role("tab", name="Result").click()
    result = page.locator("#panel-result pre")
    expect(page.get_by_label("Tables")).to_be_hidden()
    page.get_by_label("Format").select_option("markdown")
    expect(result).to_contain_text("| Traffic by quarter | 4 |")
    page.get_by_label("Tables").select_option("html")
    expect(result).to_contain_text("<td>Traffic by quarter</td>")
    expect(result).not_to_contain_text("| Traffic by quarter |")


HOSTILE = """# Title <img src=x onerror=alert(1)>

<script>alert(2)</script> **bold** and `code` and ~~gone~~ and [link](javascript:alert(3)) ![chart](https://example.org/a.png)

| a | b |
| --- | --- |
| 1 <b>x</b> | <svg onload=alert(4)> |

<table><tr><th colspan="2" onclick="alert(5)">Head</th></tr><tr><td>one</td><td><iframe src="https://example.org"></iframe>two</td></tr></table>

- [x] done
  - nested
1. first

```
<b>not bold</b>
```
"""


def test_markdown_is_never_parsed_as_html(tab, calm):
    page = tab(calm).open()
    shown = page.evaluate(
        """async (text) => {
          const { markdown } = await import('./js/page/markdown.js');
          const root = document.createElement('div');
          root.append(...markdown(text));
          document.querySelector('main').append(root);
          const names = [...root.querySelectorAll('*')].map((element) => element.localName);
          const attributes = [...root.querySelectorAll('*')].flatMap((element) => element.getAttributeNames());
          return { names: [...new Set(names)].sort(), attributes: [...new Set(attributes)].sort(), text: root.textContent };
        }""",
        HOSTILE,
    )
    assert shown["attributes"] == ["class", "colspan", "style", "title"]
    allowed = {"p", "span", "strong", "code", "del", "div", "table", "tbody", "tr", "th", "td", "pre"}
    assert set(shown["names"]) <= allowed, shown["names"]
    assert "<img src=x onerror=alert(1)>" in shown["text"] and "<script>alert(2)</script>" in shown["text"]
    assert "☒" in shown["text"] and "1.first" in shown["text"].replace(" ", "") and "<b>not bold</b>" in shown["text"]


def test_long_and_odd_markdown_is_rendered_quickly(tab, calm):
    page = tab(calm).open()
    took = page.evaluate(
        """async () => {
          const { markdown } = await import('./js/page/markdown.js');
          const odd = ['*'.repeat(20000), '['.repeat(20000), '<table>' + '<td>'.repeat(5000), '`'.repeat(20001), '|'.repeat(20000) + '\\n|-|',
            '> '.repeat(9000), ('- '.repeat(50) + '\\n').repeat(400), '~~'.repeat(9000), '<!--'.repeat(5000), '_'.repeat(20000)];
          const from = performance.now();
          for (const text of odd) markdown(text);
          return performance.now() - from;
        }"""
    )
    assert took < 5000, took


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
