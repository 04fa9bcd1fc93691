"""Documents with tables between paragraphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from reportlab.lib.pagesizes import A4, landscape

from generated import tables
from generated.page import Font, Pages
from generated.tables import Cell, Look
from generated.words import Words

H2 = Font("Helvetica-Bold", 13)
Rows = list[list[str | Cell]]


def plain_rows(words: Words, rows: int, columns: int, empty: float = 0.0) -> Rows:
    """Labels and numbers below a header; the share `empty` of the numbers is missing."""
    header = ["Name", *(f"{words.label()} {index}" for index in range(1, columns))]
    body = [
        [f"{words.label()} {words.label().lower()}", *(
            "" if words.random.random() < empty else words.decimal() if column % 2 else words.number()
            for column in range(columns - 1)
        )]
        for _ in range(rows)
    ]
    return [header, *body]


def draw_plain(pages: Pages, words: Words, rows: int, columns: int, look: Look = Look()) -> None:
    tables.draw(pages, plain_rows(words, rows, columns), look)


def document(
    look: Look, rows: Callable[[Words], Rows], count: int = 4, columns: int = 1, wide: bool = False
) -> Callable[[Path, Words], Pages]:
    """Paragraphs and so many tables of one kind."""
    def draw(path: Path, words: Words) -> Pages:
        pages = Pages(path, size=landscape(A4) if wide else A4, columns=columns)
        for _ in range(count):
            pages.heading(2, words.title(4), H2)
            pages.paragraph(words.paragraph(4))
            table = rows(words)
            if len(table) < 20:
                pages.need(30 * len(table))
            tables.draw(pages, table, look)
            pages.paragraph(words.paragraph(4))
        return pages

    return draw


def with_sentences(words: Words) -> Rows:
    """Cells of several lines."""
    return [["Step", "What is done", "Responsible"]] + [
        [str(index), words.paragraph(2), f"{words.name()} and {words.name()}"] for index in range(1, 7)
    ]


def with_spans(words: Words) -> Rows:
    """A header of two rows, and labels that cover two rows."""
    head = [[Cell("Region", rows=2), Cell("Summer", columns=2), Cell("Winter", columns=2)], ["Low", "High", "Low", "High"]]
    body: Rows = []
    for _ in range(3):
        body.append([Cell(words.label(), rows=2), *(words.decimal() for _ in range(4))])
        body.append([words.decimal() for _ in range(4)])
    return [*head, *body]


def with_long_header(words: Words) -> Rows:
    """Column titles of several lines, as titles are longer than numbers."""
    header = ["Name", *(f"{words.title(2)} in {words.label().lower()} per {words.label().lower()}" for _ in range(5))]
    return [header] + [[words.name(), *(words.decimal() for _ in range(5))] for _ in range(8)]


def with_groups(words: Words) -> Rows:
    """Rows that name a group of rows: a text in the first column only."""
    rows: Rows = [["Item", "First", "Second", "Third"]]
    for _ in range(3):
        rows.append([f"{words.label()} {words.label().lower()}", "", "", ""])
        rows += [[f"{words.name()} {words.label().lower()}", words.decimal(), words.number(), words.decimal()] for _ in range(3)]
    return rows


def with_words(words: Words) -> Rows:
    """Short texts in every column."""
    return [["Town", "Trade", "Owner", "Goods"]] + [
        [words.label(), f"{words.label()} and {words.label().lower()}", f"{words.name()} {words.name()}", words.title(2)]
        for _ in range(9)
    ]


def documents() -> Iterator[tuple[str, Callable[[Path, Words], Pages]]]:
    numbers = ("left", "right", "right", "right", "right")
    simple = lambda words: plain_rows(words, 7, 5)
    yield "tables-ruled", document(Look(), simple)
    yield "tables-rows-ruled", document(Look(rules="rows", align=numbers), simple)
    yield "tables-book", document(Look(rules="book", font=Font("Times-Roman", 9), align=numbers), simple)
    yield "tables-borderless", document(Look(rules="none", align=numbers), simple)
    yield "tables-borderless-left", document(Look(rules="none"), simple)
    yield "tables-borderless-plain-header", document(Look(rules="none", bold_header=False, align=numbers), simple)
    yield "tables-striped", document(Look(rules="none", stripes=True), simple)
    yield "tables-empty-cells", document(Look(rules="book", align=numbers), lambda words: plain_rows(words, 8, 5, 0.35))
    yield "tables-empty-cells-ruled", document(Look(), lambda words: plain_rows(words, 8, 5, 0.35))
    yield "tables-sentences", document(Look(widths=(1, 6, 3)), with_sentences, count=3)
    yield "tables-sentences-borderless", document(Look(rules="none", widths=(1, 6, 3), padding=6), with_sentences, count=3)
    yield "tables-spans", document(Look(), with_spans)
    yield "tables-spans-book", document(Look(rules="book"), with_spans)
    yield "tables-long-header", document(Look(rules="book", align=("left", *["right"] * 5)), with_long_header)
    yield "tables-long-header-borderless", document(Look(rules="none"), with_long_header)
    yield "tables-groups", document(Look(rules="book", align=numbers), with_groups)
    yield "tables-groups-borderless", document(Look(rules="none", align=numbers), with_groups)
    yield "tables-words", document(Look(rules="none", font=Font("Times-Roman", 10), bold_header=False, padding=2), with_words)
    yield "tables-narrow", document(Look(font=Font("Helvetica", 7), padding=2), lambda words: plain_rows(words, 6, 4), 8, 2)
    yield "tables-wide", document(Look(font=Font("Helvetica", 7)), lambda words: plain_rows(words, 14, 11), 2, wide=True)
    yield "tables-across-pages", document(Look(), lambda words: plain_rows(words, 70, 5), 2)
    yield "tables-across-pages-header", document(Look(repeat_header=True), lambda words: plain_rows(words, 70, 5), 2)
    yield "tables-across-pages-book", document(
        Look(rules="book", align=numbers, repeat_header=True), lambda words: plain_rows(words, 70, 5), 2
    )
