"""Documents of everyday work that are easily taken for something else: forms, code, contents, references, letters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from generated.page import Font, Pages
from generated.words import Words, unmarked

BODY = Font("Times-Roman", 10)
CODE = Font("Courier", 8.5)
H1, H2 = Font("Helvetica-Bold", 18), Font("Helvetica-Bold", 13)


def form(path: Path, words: Words) -> Pages:
    """Labels with values on a line, and boxes of which some are crossed."""
    pages = Pages(path)
    label, value = Font("Helvetica", 9), Font("Courier", 10)
    for _ in range(4):
        pages.heading(2, words.title(3), H2)
        for _ in range(4):
            name, entry = f"{words.label()} {words.label().lower()}:", f"{words.name()} {words.number()}"
            pages.truth.append(f"{name} {entry}")
            pages.need(20)
            pages.move(20)
            left = pages.frame.left
            pages.text(left, pages.y, name, label)
            pages.text(left + 130, pages.y, entry, value)
            pages.canvas.line(left + 125, pages.y - 3, left + 380, pages.y - 3)
        for _ in range(3):
            text, is_crossed = words.title(3), words.random.random() < 0.5
            pages.truth.append(f"- [{'x' if is_crossed else ' '}] {text}")
            pages.need(18)
            pages.move(18)
            left, y = pages.frame.left, pages.y
            pages.canvas.rect(left, y - 1, 9, 9)
            if is_crossed:
                pages.canvas.line(left, y - 1, left + 9, y + 8)
                pages.canvas.line(left, y + 8, left + 9, y - 1)
            pages.text(left + 16, y, text, label)
        pages.move(10)
    return pages


def code(path: Path, words: Words) -> Pages:
    """Listings in fixed-width type, with indents, between paragraphs."""
    pages = Pages(path)
    for _ in range(5):
        pages.heading(2, words.title(3), H2)
        pages.paragraph(words.paragraph(4))
        name, other = words.label().lower(), words.label().lower()
        listing = [
            f"def {name}({other}):", f"    # {words.title(3).lower()}", f"    for item in {other}:",
            f"        if item > {words.random.randint(1, 99)}:", f"            yield item * {words.random.randint(2, 9)}",
            "    return None",
        ]
        pages.truth.append("\n".join(["```", *listing, "```"]))
        pages.need(len(listing) * CODE.line + 10)
        for line in listing:
            pages.move(CODE.line)
            pages.text(pages.frame.left + 12, pages.y, line, CODE)
        pages.move(10)
        pages.paragraph(words.paragraph(3))
    return pages


def contents(path: Path, words: Words) -> Pages:
    """A list of contents with numbers at the right edge: no table, and its entries are no headings."""
    pages = Pages(path)
    titles = [f"{index} {words.title(4)}" for index in range(1, 9)]
    pages.heading(1, "Contents", H1)
    for index, title in enumerate(titles):
        page = str(2 + index // 2)
        pages.truth.append(f"{title} {page}")
        pages.move(16)
        left, right = pages.frame.left, pages.frame.left + pages.frame.width
        pages.text(left, pages.y, title, BODY)
        pages.text(right, pages.y, page, BODY, "right")
        pages.canvas.setDash(1, 3)
        pages.canvas.line(left + BODY.width(title) + 6, pages.y, right - 14, pages.y)
        pages.canvas.setDash()
    for index, title in enumerate(titles):
        if index % 2 == 0:
            pages.new_page()
        pages.heading(2, title, H2)
        for _ in range(3):
            pages.paragraph(words.paragraph(8))
    return pages


def references(path: Path, words: Words) -> Pages:
    """Two columns that end with numbered references in smaller type."""
    pages = Pages(path, columns=2)
    for _ in range(3):
        pages.heading(2, words.title(3), H2)
        pages.paragraph(words.paragraph(8), hyphenate=True)
    pages.heading(2, "References", H2)
    for number in range(1, 25):
        text = (
            f"{words.name()}, {words.name()[0]}., {words.name()}, {words.name()[0]}.: {words.sentence()} "
            f"{words.title(2)} {number}({number % 4 + 1}), {words.number(3)}-{words.number(4)} ({1980 + number})"
        )
        pages.truth.append(f"[{number}] {unmarked(text)}")
        pages.block(f"[{number}] {text}", Font("Times-Roman", 8), hyphenate=True, after=2)
    return pages


def letter(path: Path, words: Words) -> Pages:
    """Short lines that stay lines, a date at the right, a subject in bold."""
    pages = Pages(path)
    address = [f"{words.name()} & {words.name()} Ltd", f"{words.random.randint(1, 99)} {words.label()} Road", "Harbour Town"]
    pages.truth.append("\n".join(address))
    for line in address:
        pages.block(line, align="left", after=0)
    pages.move(20)
    pages.paragraph("4 March 2024", align="right")
    pages.move(10)
    pages.heading(2, words.title(5), Font("Times-Bold", 10))
    pages.paragraph(f"Dear {words.name()},", align="left")
    for _ in range(4):
        pages.paragraph(words.paragraph(5), align="left")
    pages.paragraph("Yours sincerely,", align="left")
    pages.move(30)
    pages.paragraph(f"{words.name()} {words.name()}", align="left")
    return pages


def documents() -> Iterator[tuple[str, Callable[[Path, Words], Pages]]]:
    yield "everyday-form", form
    yield "everyday-code", code
    yield "everyday-contents", contents
    yield "everyday-references", references
    yield "everyday-letter", letter
