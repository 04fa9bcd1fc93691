"""Documents that are difficult letter by letter."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pymupdf

from generated.page import Font, Pages, lines
from generated.words import COMPOUNDS, LATIN_1, Words, unmarked

BODY = Font("Times-Roman", 10)
# How base-14 fonts write an accent as a character of its own.
ACCENTS = {"\u0301": "´", "\u0308": "¨", "\u0302": "ˆ", "\u0303": "˜", "\u0300": "`", "\u0327": "¸"}


def hyphens(path: Path, words: Words) -> Pages:
    """Narrow columns: many words are broken at the end of a line."""
    pages = Pages(path, columns=3)
    for _ in range(18):
        pages.paragraph(words.paragraph(), hyphenate=True)
    return pages


def compounds(path: Path, words: Words) -> Pages:
    """Compounds, some broken after one of their hyphens; each is also there unbroken."""
    words.extra = COMPOUNDS * 4
    pages = Pages(path, columns=3)
    pages.paragraph(", ".join(COMPOUNDS) + ".", align="left")
    for _ in range(14):
        pages.paragraph(words.paragraph(), hyphenate=True)
    return pages


def no_spaces(path: Path, words: Words) -> Pages:
    """As TeX writes it: no space characters, only gaps, which justification makes narrow and wide."""
    pages = Pages(path, columns=2)
    for _ in range(14):
        pages.paragraph(words.paragraph(), hyphenate=True, words_apart=True)
    return pages


def separate_accents(path: Path, words: Words) -> Pages:
    """Accents drawn over their letters, as characters of their own."""
    names = [name for name in LATIN_1 if set(filter(unicodedata.combining, _decomposed(name))) <= set(ACCENTS)]
    pages = Pages(path)
    for _ in range(12):
        text = ", ".join(words.random.choice(names) for _ in range(8)) + "."
        pages.truth.append(text)
        pages.need(BODY.line)
        pages.move(BODY.line)
        x, width = pages.frame.left, 0.0
        for letter in _decomposed(text):
            if letter in ACCENTS:
                accent = ACCENTS[letter]
                pages.text(x - (width + BODY.width(accent)) / 2, pages.y, accent, BODY)
            else:
                pages.text(x, pages.y, letter, BODY)
                width = BODY.width(letter)
                x += width
        pages.move(6)
    return pages


def _decomposed(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def overprinted(path: Path, words: Words) -> Pages:
    """Headings made bold by drawing them three times, a little apart."""
    pages = Pages(path)
    for _ in range(6):
        title = words.title(4)
        pages.heading(2, title, Font("Times-Roman", 14))
        top = pages.y
        for shift in (0.3, 0.6):
            pages.text(pages.frame.left + shift, top + 6 + 14 * 0.25, title, Font("Times-Roman", 14))
        pages.paragraph(words.paragraph(6))
    return pages


def drop_caps(path: Path, words: Words) -> Pages:
    """The first letter of each section is three lines high."""
    pages = Pages(path)
    for _ in range(5):
        text = unmarked(words.paragraph(7))
        pages.need(120)
        pages.truth.append(text)
        large = Font("Times-Roman", 34)
        pages.text(pages.frame.left, pages.y - 2.75 * BODY.line, text[0], large)
        narrow = large.width(text[0]) + 3
        rest, first = text[1:].split(), []
        for _ in range(3):
            line: list[str] = []
            while rest and BODY.width(" ".join([*line, rest[0]])) <= pages.frame.width - narrow:
                line.append(rest.pop(0))
            first.append(" ".join(line))
        for line in first:
            pages.move(BODY.line)
            pages.text(pages.frame.left + narrow, pages.y + 2.5, line, BODY)
        pages.block(" ".join(rest), BODY, after=12)
    return pages


def turned_page(path: Path, words: Words) -> Pages:
    """Pages that a viewer turns by 90 degrees."""
    pages = Pages(path)
    for _ in range(6):
        pages.heading(2, words.title(4), Font("Helvetica-Bold", 13))
        pages.paragraph(words.paragraph(8))
    return pages


def rotate(path: Path, degrees: int) -> None:
    """Turns the content, with a rotation that turns it back in a viewer."""
    source, target = pymupdf.open(path), pymupdf.open()
    for page in source:
        size = page.rect
        turned = target.new_page(width=size.height, height=size.width)
        turned.show_pdf_page(turned.rect, source, page.number, rotate=degrees)
        turned.set_rotation((degrees) % 360)
    data = target.tobytes(garbage=3, deflate=True, no_new_id=True)
    source.close()
    path.write_bytes(data)


def with_raised_number(pages: Pages, text: str, number: int) -> None:
    """A paragraph whose last word has a raised number, as a footnote's mark."""
    pages.truth.append(f"{unmarked(text)}{number}")
    pages.block(text, BODY, after=0, align="left")
    last = " ".join(lines(text, BODY, pages.frame.width, False)[-1][0])
    pages.text(pages.frame.left + BODY.width(last), pages.y + BODY.size * 0.6, str(number), Font("Times-Roman", 6))
    pages.move(6)


def documents() -> Iterator[tuple[str, Callable[[Path, Words], Pages]]]:
    yield "letters-hyphens", hyphens
    yield "letters-compounds", compounds
    yield "letters-no-spaces", no_spaces
    yield "letters-separate-accents", separate_accents
    yield "letters-overprinted", overprinted
    yield "letters-drop-caps", drop_caps
    yield "letters-turned-page", turned_page
