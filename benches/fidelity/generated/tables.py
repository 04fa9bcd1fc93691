"""Tables of all kinds, drawn cell by cell, with their truth as a pipe table, or as HTML where cells span."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from generated.page import Font, Pages, lines
from generated.words import unmarked

PADDING = 4


@dataclass(frozen=True)
class Cell:
    text: str
    columns: int = 1
    rows: int = 1


@dataclass(frozen=True)
class Look:
    """Which lines a table has, how its columns are aligned and how wide they are."""

    # all, rows, book (above and below the header and at the end), none
    rules: str = "all"
    font: Font = field(default_factory=lambda: Font("Helvetica", 8.5))
    align: tuple[str, ...] = ()
    widths: tuple[float, ...] = ()
    stripes: bool = False
    bold_header: bool = True
    repeat_header: bool = False
    padding: float = PADDING


def draw(pages: Pages, rows: list[list[str | Cell]], look: Look = Look()) -> None:
    """Draws the table from where the page is, and adds its truth. Spans are for tables that fit on the page."""
    cells = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in rows]
    pages.truth.append(truth(cells))
    count = sum(cell.columns for cell in cells[0])
    total = pages.frame.width
    shares = look.widths or (1,) * count
    widths = [total * share / sum(shares) for share in shares]
    header = replace(look.font, name=_bold(look.font.name)) if look.bold_header else look.font
    placed = _placed(cells)
    heights = _heights(placed, len(cells), widths, look, header)
    if any(cell.rows > 1 for row in cells for cell in row):
        pages.need(sum(heights))
    _rule(pages, look, top=True)
    for index in range(len(cells)):
        before = pages.page
        pages.need(heights[index])
        if pages.page != before:
            _rule(pages, look, top=True)
            if look.repeat_header and index:
                _row(pages, placed, 0, heights, widths, look, header)
        _row(pages, placed, index, heights, widths, look, header)
    _rule(pages, look, top=False)
    pages.move(8)


def truth(cells: list[list[Cell]]) -> str:
    if any(cell.columns > 1 or cell.rows > 1 for row in cells for cell in row):
        spans = lambda cell: f' colspan="{cell.columns}" rowspan="{cell.rows}"'
        body = "\n".join("<tr>" + "".join(f"<td{spans(c)}>{unmarked(c.text)}</td>" for c in row) + "</tr>" for row in cells)
        return f"<table>\n{body}\n</table>"
    rows = [f"| {' | '.join(unmarked(cell.text) for cell in row)} |" for row in cells]
    return "\n".join([rows[0], "|" + " --- |" * len(cells[0]), *rows[1:]])


def _placed(cells: list[list[Cell]]) -> dict[tuple[int, int], Cell]:
    """Where each cell begins; what it covers is left out."""
    placed: dict[tuple[int, int], Cell] = {}
    covered: set[tuple[int, int]] = set()
    for y, row in enumerate(cells):
        x = 0
        for cell in row:
            while (y, x) in covered:
                x += 1
            placed[y, x] = cell
            covered |= {(y + dy, x + dx) for dy in range(cell.rows) for dx in range(cell.columns)}
            x += cell.columns
    return placed


def _heights(placed: dict, count: int, widths: list[float], look: Look, header: Font) -> list[float]:
    heights = [look.font.line + 2 * look.padding] * count
    for (y, x), cell in placed.items():
        font = header if y == 0 else look.font
        width = sum(widths[x:x + cell.columns]) - 2 * look.padding
        if cell.rows == 1:
            needed = len(lines(cell.text, font, width, hyphenate=False)) * font.line + 2 * look.padding
            heights[y] = max(heights[y], needed)
    return heights


def _row(
    pages: Pages, placed: dict, index: int, heights: list[float], widths: list[float], look: Look, header: Font
) -> None:
    top, left = pages.y, pages.frame.left
    if look.stripes and index % 2 == 0:
        pages.canvas.setFillGray(0.88)
        pages.canvas.rect(left, top - heights[index], sum(widths), heights[index], stroke=0, fill=1)
        pages.canvas.setFillGray(0)
    font = header if index == 0 else look.font
    for (y, x), cell in placed.items():
        if y != index:
            continue
        begin, width = left + sum(widths[:x]), sum(widths[x:x + cell.columns])
        height = sum(heights[y:y + cell.rows])
        align = look.align[x] if look.align else "left"
        _text(pages, cell, begin, top, width, font, align, look.padding)
        if look.rules == "all":
            pages.canvas.rect(begin, top - height, width, height)
    pages.move(heights[index])
    if look.rules == "rows" or (look.rules == "book" and index == 0):
        pages.canvas.line(left, pages.y, left + sum(widths), pages.y)


def _text(pages: Pages, cell: Cell, left: float, top: float, width: float, font: Font, align: str, padding: float) -> None:
    x = {"left": left + padding, "right": left + width - padding, "center": left + width / 2}[align]
    baseline = top - padding
    for words, _ in lines(cell.text, font, width - 2 * padding, hyphenate=False):
        baseline -= font.line
        pages.text(x, baseline + font.size * 0.3, " ".join(words), font, align)


def _rule(pages: Pages, look: Look, top: bool) -> None:
    if look.rules in ("book", "rows") and (top or look.rules == "book"):
        pages.canvas.setLineWidth(1 if look.rules == "book" else 0.5)
        pages.canvas.line(pages.frame.left, pages.y, pages.frame.left + pages.frame.width, pages.y)
        pages.canvas.setLineWidth(0.5)


def _bold(name: str) -> str:
    return {"Times-Roman": "Times-Bold"}.get(name, f"{name}-Bold")
