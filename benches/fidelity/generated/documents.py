"""The documents of the corpus: each function draws one, with one difficulty each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from generated import everyday, furniture, letters, table_documents
from generated.page import Font, Pages
from generated.words import LATIN_1, Words

BODY = Font("Times-Roman", 10)
H1, H2, H3 = Font("Helvetica-Bold", 18), Font("Helvetica-Bold", 13), Font("Helvetica-Bold", 10.5)


def sections(pages: Pages, words: Words, count: int = 4, paragraphs: int = 2, font: Font = BODY, **options: object) -> None:
    for _ in range(count):
        pages.heading(2, words.title(), H2)
        for _ in range(paragraphs):
            pages.paragraph(words.paragraph(), font=font, **options)


# ---- Columns ----------------------------------------------------------------------------------------


def columns(count: int, size: float = 10) -> Callable[[Path, Words], Pages]:
    def draw(path: Path, words: Words) -> Pages:
        pages = Pages(path)
        pages.heading(1, words.title(5), H1)
        pages.use_columns(count)
        sections(pages, words, 12, font=Font("Times-Roman", size), hyphenate=count > 1)
        return pages

    return draw


def columns_mixed(path: Path, words: Words) -> Pages:
    """Title and abstract over the whole width, two columns, a table over the whole width, two columns again."""
    pages = Pages(path)
    pages.heading(1, words.title(5), H1, align="center")
    pages.paragraph(words.paragraph(4), font=Font("Times-Italic", 10))
    pages.use_columns(2)
    sections_in_both(pages, words, paragraphs=5)
    pages.new_page()
    sections_in_both(pages, words, paragraphs=3)
    pages.use_columns(1)
    table_documents.draw_plain(pages, words, rows=6, columns=5)
    pages.use_columns(2)
    sections_in_both(pages, words, paragraphs=2)
    return pages


def sections_in_both(pages: Pages, words: Words, paragraphs: int) -> None:
    """A section in each of two columns, none of them full."""
    sections(pages, words, 1, paragraphs)
    pages.start_column(1)
    sections(pages, words, 1, paragraphs)


def columns_with_sidebar(path: Path, words: Words) -> Pages:
    """A narrow column in smaller type next to the main text, on one page."""
    pages = Pages(path)
    pages.heading(1, words.title(4), H1)
    pages.use_columns(1)
    main, side = pages.frame, Font("Helvetica", 8)
    pages.frames = [type(main)(main.left, 320, main.top, main.bottom), type(main)(main.left + 345, 130, main.top, main.bottom)]
    sections(pages, words, 2, paragraphs=3)
    pages.start_column(1)
    pages.heading(2, words.title(3), H3)
    for _ in range(3):
        pages.paragraph(words.paragraph(3), font=side, align="left")
    return pages


# ---- Headings and lists -----------------------------------------------------------------------------


def headings_numbered(path: Path, words: Words) -> Pages:
    pages = Pages(path)
    pages.heading(1, words.title(5), H1)
    for chapter in range(1, 5):
        pages.heading(2, f"{chapter} {words.title(3)}", H2)
        pages.paragraph(words.paragraph())
        for section in range(1, 4):
            pages.heading(3, f"{chapter}.{section} {words.title(3)}", H3)
            pages.paragraph(words.paragraph())
    return pages


def headings_by_weight(path: Path, words: Words) -> Pages:
    """Headings in the body's size, bold; and bold words within paragraphs, which are no headings."""
    pages = Pages(path)
    for _ in range(8):
        pages.heading(2, words.title(3), Font("Times-Bold", 10), before=10)
        pages.paragraph(words.paragraph())
        pages.paragraph(words.sentence(), font=Font("Times-Bold", 10), align="left")
        pages.paragraph(words.paragraph(3))
    return pages


def headings_by_case(path: Path, words: Words) -> Pages:
    """Upper case over centred text; nothing bold."""
    pages = Pages(path)
    pages.heading(1, words.title(4).upper(), Font("Times-Roman", 14), align="center")
    for _ in range(6):
        pages.heading(2, words.title(2).upper(), Font("Times-Roman", 10), before=12, align="center")
        pages.paragraph(words.paragraph(6))
    return pages


def headings_long(path: Path, words: Words) -> Pages:
    """Headings of two lines."""
    pages = Pages(path, columns=2)
    for _ in range(7):
        pages.heading(2, words.title(9), H2)
        pages.paragraph(words.paragraph(7), hyphenate=True)
    return pages


def lists(path: Path, words: Words) -> Pages:
    pages = Pages(path)
    pages.heading(1, words.title(4), H1)
    for marker in ("•", "–"):
        pages.paragraph(words.sentence(), align="left")
        for _ in range(5):
            text = words.paragraph(2)
            pages.truth.append(f"- {text.replace('·', '')}")
            pages.block(text, indent=20, marker=marker, after=2)
    pages.paragraph(words.sentence(), align="left")
    for number in range(1, 12):
        text = words.sentence()
        pages.truth.append(f"{number}. {text.replace('·', '')}")
        pages.block(text, indent=24, marker=f"{number}.", after=2)
        if number % 4 == 0:
            for letter in "abc":
                text = words.sentence()
                pages.truth.append(f"   - ({letter}) {text.replace('·', '')}")
                pages.block(f"({letter}) {text}", indent=40, after=1)
    return pages


def captions(path: Path, words: Words) -> Pages:
    """Drawings with captions below, tables with captions above."""
    pages = Pages(path)
    pages.heading(1, words.title(4), H1)
    small = Font("Times-Roman", 8.5)
    for number in range(1, 4):
        pages.paragraph(words.paragraph())
        pages.need(150)
        _chart(pages, words)
        pages.paragraph(f"Figure {number}: {words.sentence()}", font=small, align="center")
        pages.paragraph(words.paragraph())
        pages.need(120)
        pages.paragraph(f"Table {number}: {words.sentence()}", font=small, align="left")
        table_documents.draw_plain(pages, words, rows=4, columns=4)
    return pages


def _chart(pages: Pages, words: Words) -> None:
    """Bars without text."""
    canvas, left, bottom = pages.canvas, pages.frame.left + 80, pages.y - 120
    canvas.line(left, bottom, left + 300, bottom)
    canvas.line(left, bottom, left, bottom + 110)
    for index in range(10):
        canvas.setFillGray(0.3 + 0.05 * index)
        canvas.rect(left + 12 + 28 * index, bottom, 18, words.random.randint(10, 105), fill=1)
    canvas.setFillGray(0)
    pages.move(130)


def footnotes(path: Path, words: Words) -> Pages:
    """Two footnotes on each page, after the page's text; raised numbers in the text."""
    pages = Pages(path)
    number = 0
    for page in range(3):
        if page:
            pages.new_page()
        pages.reserve(60)
        pages.heading(2, words.title(), H2)
        pages.paragraph(words.paragraph(8))
        for _ in range(2):
            number += 1
            letters.with_raised_number(pages, words.paragraph(6), number)
            pages.note(f"{number} {words.paragraph(2)}")
        pages.paragraph(words.paragraph(4))
    return pages


def accents(path: Path, words: Words) -> Pages:
    words.extra = LATIN_1 * 2
    pages = Pages(path)
    pages.heading(1, "Neuchâtel, Zürich et Besançon", H1)
    sections(pages, words, 4, hyphenate=True)
    return pages


def documents() -> Iterator[tuple[str, Callable[[Path, Words], Pages]]]:
    """Names and the functions that draw them."""
    yield "columns-1", columns(1)
    yield "columns-2", columns(2)
    yield "columns-3", columns(3, size=9)
    yield "columns-mixed", columns_mixed
    yield "columns-sidebar", columns_with_sidebar
    yield "headings-numbered", headings_numbered
    yield "headings-by-weight", headings_by_weight
    yield "headings-by-case", headings_by_case
    yield "headings-long", headings_long
    yield "lists", lists
    yield "captions", captions
    yield "footnotes", footnotes
    yield "accents", accents
    yield from everyday.documents()
    yield from letters.documents()
    yield from furniture.documents()
    yield from table_documents.documents()
