"""Documents with running headers, footers, page numbers and line numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from generated.page import Font, Pages
from generated.words import Words

SMALL = Font("Helvetica", 8)
H2 = Font("Helvetica-Bold", 13)
TITLE = "Annual report of the harbour committee"


def body(pages: Pages, words: Words, count: int = 12) -> Pages:
    for _ in range(count):
        pages.heading(2, words.title(4), H2)
        pages.paragraph(words.paragraph(9))
        pages.paragraph(words.paragraph(9))
    return pages


def _top(pages: Pages) -> float:
    return pages.size[1] - 36


def same(path: Path, words: Words) -> Pages:
    """The same header on each page, "Page N of M" below."""
    def draw(pages: Pages, page: int) -> None:
        pages.running(pages.margin, _top(pages), TITLE, SMALL)
        pages.running(pages.size[0] / 2, 30, f"Page {page} of 6", SMALL, "center")

    return body(Pages(path, furniture=draw), words)


def alternating(path: Path, words: Words) -> Pages:
    """Left and right pages differ; a page number at the outer edge; none on the first page."""
    def draw(pages: Pages, page: int) -> None:
        if page == 1:
            return
        left, right = pages.margin, pages.size[0] - pages.margin
        if page % 2:
            pages.running(right, _top(pages), TITLE, SMALL, "right")
            pages.text(left, _top(pages), str(page), SMALL)
        else:
            pages.running(left, _top(pages), "J. Norton and A. Keller", SMALL)
            pages.text(right, _top(pages), str(page), SMALL, "right")

    return body(Pages(path, furniture=draw), words, 18)


def chapters(path: Path, words: Words) -> Pages:
    """The header is the chapter's heading, which is also in the text once."""
    titles = [words.title(4) for _ in range(3)]

    def draw(pages: Pages, page: int) -> None:
        if page % 3 != 1:
            pages.running(pages.margin, _top(pages), titles[(page - 1) // 3], SMALL)
        pages.text(pages.size[0] / 2, 30, f"– {page} –", SMALL, "center")

    pages = Pages(path, furniture=draw)
    for index, title in enumerate(titles):
        for page in range(3):
            if index or page:
                pages.new_page()
            if page == 0:
                pages.heading(1, title, Font("Helvetica-Bold", 18))
            for _ in range(3):
                pages.paragraph(words.paragraph(9))
    return pages


def two_columns(path: Path, words: Words) -> Pages:
    """A journal: header over both columns, a footer with a date and a number, a line of copyright."""
    def draw(pages: Pages, page: int) -> None:
        pages.running(pages.size[0] / 2, _top(pages), "Journal of Canal Engineering 12 (2024) 101-109", SMALL, "center")
        pages.running(pages.margin, 30, "Downloaded on 4 March 2024 by the harbour library", SMALL)
        pages.text(pages.size[0] - pages.margin, 30, str(100 + page), SMALL, "right")

    return body(Pages(path, columns=2, furniture=draw), words, 14)


def line_numbers(path: Path, words: Words) -> Pages:
    """A manuscript: every line of the page has its number in the margin."""
    def draw(pages: Pages, page: int) -> None:
        for line in range(1, 57):
            pages.text(pages.margin - 18, pages.size[1] - pages.margin - 12 * line + 2.5, str(line), Font("Helvetica", 7), "right")
        pages.running(pages.size[0] / 2, 30, "Manuscript under review", SMALL, "center")

    pages = Pages(path, furniture=draw)
    for _ in range(14):
        pages.paragraph(words.paragraph(8), after=12)
    return pages


def documents() -> Iterator[tuple[str, Callable[[Path, Words], Pages]]]:
    yield "furniture-same", same
    yield "furniture-alternating", alternating
    yield "furniture-chapters", chapters
    yield "furniture-two-columns", two_columns
    yield "furniture-line-numbers", line_numbers
