"""Draws text in frames, page after page, and writes down what the document says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reportlab.lib.pagesizes import A4
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas

from generated.words import unmarked

for _name, _file in {"Vera": "Vera.ttf", "Vera-Bold": "VeraBd.ttf"}.items():
    pdfmetrics.registerFont(TTFont(_name, _file))


@dataclass(frozen=True)
class Font:
    name: str = "Times-Roman"
    size: float = 10
    leading: float = 1.2

    @property
    def line(self) -> float:
        return self.size * self.leading

    def width(self, text: str) -> float:
        return pdfmetrics.stringWidth(text, self.name, self.size)


@dataclass(frozen=True)
class Frame:
    left: float
    width: float
    top: float
    bottom: float


class Pages:
    """A document that is being drawn. `truth` is its Markdown so far, a block per entry."""

    def __init__(
        self, path: Path, size: tuple[float, float] = A4, columns: int = 1, gap: float = 18, margin: float = 60,
        furniture: Callable[[Pages, int], None] | None = None,
    ):
        self.canvas = Canvas(str(path), pagesize=size, invariant=True)
        self.path, self.size, self.gap, self.margin = path, size, gap, margin
        self.truth: list[str] = []
        self.furniture: dict[str, int] = {}
        self.page = 1
        self._draw_furniture = furniture
        self._notes: list[str] = []
        self.floor = margin
        self._set_columns(columns, size[1] - margin)
        self._start_page()

    # ---- Frames ----

    def _set_columns(self, columns: int, top: float) -> None:
        self.columns = columns
        width = (self.size[0] - 2 * self.margin - (columns - 1) * self.gap) / columns
        self.frames = [Frame(self.margin + i * (width + self.gap), width, top, self.floor) for i in range(columns)]
        self._column, self.y = 0, top

    @property
    def frame(self) -> Frame:
        return self.frames[self._column]

    def use_columns(self, columns: int) -> None:
        """From here down; the columns so far end at the lowest line drawn in them."""
        top = min(self.y, self._lowest) if self.columns > 1 else self.y
        self._set_columns(columns, top - 6)
        self._lowest = self.y

    def need(self, height: float) -> None:
        """Goes to the next column or page if the height is not left."""
        if self.y - height >= self.frame.bottom:
            return
        if self._column + 1 < len(self.frames):
            self._column += 1
            self.y = self.frame.top
        else:
            self.new_page()

    def new_page(self) -> None:
        self._end_page()
        self.page += 1
        self._set_columns(self.columns, self.size[1] - self.margin)
        self._start_page()

    def start_column(self, column: int) -> None:
        self._column, self.y = column, self.frames[column].top

    def _start_page(self) -> None:
        self._lowest = self.y
        if self._draw_furniture:
            self._draw_furniture(self, self.page)

    def _end_page(self) -> None:
        self._draw_notes()
        self.canvas.showPage()
        self.floor = self.margin

    def move(self, distance: float) -> None:
        self.y -= distance
        self._lowest = min(self._lowest, self.y)

    # ---- Text ----

    def text(self, x: float, y: float, text: str, font: Font, align: str = "left") -> None:
        self.canvas.setFont(font.name, font.size)
        draw = {
            "left": self.canvas.drawString, "right": self.canvas.drawRightString, "center": self.canvas.drawCentredString,
        }[align]
        draw(x, y, text)

    def running(self, x: float, y: float, text: str, font: Font, align: str = "left") -> None:
        """A running header or footer: drawn, but not in the truth."""
        self.text(x, y, text, font, align)
        self.furniture[text] = self.furniture.get(text, 0) + 1

    def block(
        self, text: str, font: Font = Font(), indent: float = 0, align: str = "justify", hyphenate: bool = False,
        after: float = 6, marker: str = "", words_apart: bool = False,
    ) -> None:
        """A paragraph, which continues in the next frame where this one is full."""
        for index, (words, is_last) in enumerate(lines(text, font, self.frame.width - indent, hyphenate)):
            self.need(font.line)
            self.move(font.line)
            if marker and index == 0:
                self.text(self.frame.left + indent - font.size * 1.2, self.y + font.size * 0.25, marker, font)
            self._line(words, font, indent, align if not is_last or align != "justify" else "left", words_apart)
        self.move(after)

    def _line(self, words: list[str], font: Font, indent: float, align: str, words_apart: bool) -> None:
        left, width, baseline = self.frame.left + indent, self.frame.width - indent, self.y + font.size * 0.25
        text = " ".join(words)
        free = width - font.width(text)
        if words_apart:
            # As TeX does: no space characters, only positions.
            space = font.width(" ") + (free / (len(words) - 1) if align == "justify" and len(words) > 1 else 0)
            for word in words:
                self.text(left, baseline, word, font)
                left += font.width(word) + space
        elif align == "justify" and len(words) > 1:
            line = self.canvas.beginText(left, baseline)
            line.setFont(font.name, font.size)
            line.setWordSpace(free / (len(words) - 1))
            line.textOut(text)
            line.setWordSpace(0)
            self.canvas.drawText(line)
        else:
            self.text(left + {"center": free / 2, "right": free}.get(align, 0), baseline, text, font)

    def paragraph(self, text: str, **options: object) -> None:
        self.truth.append(unmarked(text))
        self.block(text, **options)

    def heading(self, level: int, text: str, font: Font, before: float = 8, align: str = "left", **options: object) -> None:
        self.truth.append(f"{'#' * level} {text}")
        # A heading is not the last line of a column.
        self.need(before + 4 * font.line)
        if self.y < self.frame.top:
            self.move(before)
        self.block(text, font, align=align, **options)

    # ---- Footnotes ----

    def reserve(self, height: float) -> None:
        """Keeps the page's last part for footnotes."""
        self.floor = self.margin + height
        self.frames = [Frame(frame.left, frame.width, frame.top, self.floor) for frame in self.frames]

    def note(self, text: str) -> None:
        self._notes.append(text)

    def _draw_notes(self) -> None:
        if not self._notes:
            return
        font, width = Font(size=8), self.size[0] - 2 * self.margin
        y = self.floor - 12
        self.canvas.line(self.margin, y + 4, self.margin + 120, y + 4)
        for text in self._notes:
            self.truth.append(unmarked(text))
            for words, _ in lines(text, font, width, hyphenate=False):
                y -= font.line
                self.text(self.margin, y, " ".join(words), font)
        self._notes = []

    def close(self) -> None:
        self._end_page()
        self.canvas.save()


def lines(text: str, font: Font, width: float, hyphenate: bool) -> list[tuple[list[str], bool]]:
    """The words of each line, and whether it is the last; words are broken at their marks if `hyphenate`."""
    result: list[list[str]] = [[]]
    for marked in text.split():
        word = unmarked(marked)
        if font.width(" ".join([*result[-1], word])) <= width or not result[-1]:
            result[-1].append(word)
            continue
        start, rest = _broken(marked, font, width - font.width(" ".join([*result[-1], ""]))) if hyphenate else ("", marked)
        if start:
            result[-1].append(start)
        result.append([unmarked(rest)])
    return [(words, index == len(result) - 1) for index, words in enumerate(result)]


def _broken(marked: str, font: Font, width: float) -> tuple[str, str]:
    """The part of the word that fits, with its hyphen, and the rest."""
    # A compound is broken after a hyphen of its own.
    separator, joint = ("-", "-") if "-" in marked else ("·", "-")
    parts = marked.split(separator)
    for count in range(len(parts) - 1, 0, -1):
        start = (separator if separator == "-" else "").join(parts[:count]) + joint
        if font.width(start) <= width and len(start) > 2:
            return start, separator.join(parts[count:])
    return "", marked
