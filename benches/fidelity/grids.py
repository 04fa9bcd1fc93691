"""Finds tables in Markdown: pipe tables, HTML tables, and LaTeX tables (READoc's truth of arXiv has these).

A table is a grid of cells, all rows equally long. A cell that spans columns or rows has its text in the first place
and leaves the others empty: that is what a pipe table can say, so that all three kinds compare equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

Grid = list[list[str]]

DELIMITER = re.compile(r"^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$")
FENCE = re.compile(r"^\s*(```|~~~)")
BLOCK = re.compile(
    r"<table\b.*?</table>|\\begin\{table\*?\}.*?\\end\{table\*?\}|\\begin\{tabular\}.*?\\end\{tabular\}", re.S | re.I
)


def split(markdown: str) -> Iterator[tuple[str, list]]:
    """The document in order: ("table", grid) and ("lines", lines)."""
    position = 0
    for found in BLOCK.finditer(markdown):
        yield from _pipe_tables(markdown[position:found.start()].split("\n"))
        block = found[0]
        if block.lower().startswith("<table"):
            for grid in _html(block):
                yield "table", grid
        else:
            yield from _latex(block)
        position = found.end()
    yield from _pipe_tables(markdown[position:].split("\n"))


def cleaned(grid: Grid) -> Grid:
    """Rows made equally long; rows and columns without any text removed."""
    rows = [row for row in grid if any(row)]
    width = max((len(row) for row in rows), default=0)
    rows = [row + [""] * (width - len(row)) for row in rows]
    columns = [index for index in range(width) if any(row[index] for row in rows)]
    return [[row[index] for index in columns] for row in rows]


# ---- Pipe tables ------------------------------------------------------------------------------------


def _pipe_tables(lines: list[str]) -> Iterator[tuple[str, list]]:
    other: list[str] = []
    index, in_code = 0, False
    while index < len(lines):
        line = lines[index]
        if FENCE.match(line):
            in_code = not in_code
        following = lines[index + 1] if index + 1 < len(lines) else ""
        is_table = not in_code and "|" in line and "|" in following and DELIMITER.match(following)
        if not is_table:
            other.append(line)
            index += 1
            continue
        yield "lines", other
        other, rows = [], [_cells(line)]
        index += 2
        while index < len(lines) and "|" in lines[index] and lines[index].strip():
            rows.append(_cells(lines[index]))
            index += 1
        yield "table", rows
    yield "lines", other


def _cells(line: str) -> list[str]:
    text = line.strip()
    text = text.removeprefix("|")
    if text.endswith("|") and not text.endswith("\\|"):
        text = text[:-1]
    return [cell.replace("\\|", "|").strip() for cell in re.split(r"(?<!\\)\|", text)]


# ---- HTML tables ------------------------------------------------------------------------------------


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[tuple[str, int, int]]] = []
        self._cell: list[str] | None = None
        self._spans = (1, 1)

    def handle_starttag(self, tag: str, attributes: list) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self._end_cell()
            given = dict(attributes)
            self._spans = tuple(int(re.sub(r"\D", "", given.get(name) or "") or 1) for name in ("colspan", "rowspan"))
            self._cell = []
        elif self._cell is not None:
            self._cell.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "tr", "table"):
            self._end_cell()

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)

    def _end_cell(self) -> None:
        if self._cell is not None:
            if not self.rows:
                self.rows.append([])
            self.rows[-1].append((" ".join("".join(self._cell).split()), *self._spans))
            self._cell = None


def _html(block: str) -> list[Grid]:
    reader = _Reader()
    reader.feed(block)
    return [_expanded(reader.rows)] if reader.rows else []


def _expanded(rows: list[list[tuple[str, int, int]]]) -> Grid:
    """The spans as empty cells."""
    taken: dict[tuple[int, int], str] = {}
    for y, row in enumerate(rows):
        x = 0
        for text, columns, height in row:
            while (y, x) in taken:
                x += 1
            for dy in range(min(height, len(rows) - y)):
                for dx in range(min(columns, 100)):
                    taken[y + dy, x + dx] = text if (dx, dy) == (0, 0) else ""
            x += columns
    width = max((x for _, x in taken), default=-1) + 1
    return [[taken.get((y, x), "") for x in range(width)] for y in range(len(rows))]


# ---- LaTeX tables -----------------------------------------------------------------------------------

TABULAR = re.compile(r"\\begin\{tabular\*?\}(.*?)\\end\{tabular\*?\}", re.S)
RULES = re.compile(r"\\(?:hline|toprule|midrule|bottomrule|cline\{[^}]*\}|cmidrule(?:\([^)]*\))?\{[^}]*\})")


def _latex(block: str) -> Iterator[tuple[str, list]]:
    position = 0
    for found in TABULAR.finditer(block):
        yield "lines", _latex_text(block[position:found.start()])
        yield "table", [_latex_row(row) for row in re.split(r"\\\\", RULES.sub("", _without_columns(found[1])))]
        position = found.end()
    yield "lines", _latex_text(block[position:])


def _without_columns(body: str) -> str:
    """Without the first group in braces, which may contain groups."""
    start = body.find("{")
    if start < 0 or body[:start].strip():
        return body
    depth = 0
    for index in range(start, len(body)):
        depth += {"{": 1, "}": -1}.get(body[index], 0)
        if depth == 0:
            return body[index + 1:]
    return body


def _latex_row(row: str) -> list[str]:
    cells: list[str] = []
    for cell in re.split(r"(?<!\\)&", row):
        found = re.match(r"\s*\\multicolumn\{(\d+)\}\{[^}]*\}\{(.*)\}\s*$", cell, re.S)
        text, columns = (found[2], int(found[1])) if found else (cell, 1)
        text = re.sub(r"\\multirow\{[^}]*\}\{[^}]*\}\{(.*)\}", r"\1", text, flags=re.S)
        cells += [" ".join(text.split())] + [""] * (columns - 1)
    return cells


def _latex_text(text: str) -> list[str]:
    return [re.sub(r"\\(?:begin|end)\{table\*?\}|\\(?:centering|label\{[^}]*\})|\\caption\{|\}\s*$", " ", text)]
