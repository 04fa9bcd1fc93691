"""What a Markdown document says: its plain text, its headings and its tables.

Truth and the output of every tool go through the same functions, so that only content and structure are compared,
not the choice between `*` and `_` or between a pipe table and an HTML table.
"""

from __future__ import annotations

import html
import re
import unicodedata
from dataclasses import dataclass

import grids
from grids import Grid

# Not content: comments (page anchors), front matter, code fences, what pymupdf4llm writes where a picture was and
# Everypage where a page has no text.
COMMENT = re.compile(r"<!--.*?-->", re.S)
FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.S)
FENCE = re.compile(r"^\s*(```|~~~)")
PICTURE = re.compile(r"\*{0,2}==> picture .*? <==\*{0,2}|\*{0,2}-{3,}\s*(?:Start|End) of picture text\s*-{3,}\*{0,2}")
NO_TEXT = re.compile(r"^\[Page \d+ - text not available\]$", re.M)
IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)|!\[[^\]]*\]\[[^\]]*\]")
LINK = re.compile(r"\[([^\]]*)\]\((?:[^()\s]|\([^()]*\))*(?:\s+\"[^\"]*\")?\)")
AUTOLINK = re.compile(r"<((?:https?|mailto|ftp)[^>\s]*)>")
TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
RULE = re.compile(r"^\s*([-*_=])(?:\s*\1){2,}\s*$")
BULLET = re.compile(r"^\s*(?:[-*+•‣▪■◦●○·\uf0b7\uf0a7]|\[[ xX]\])\s+")
EMPHASIS = re.compile(r"(\*{1,3}|~~|`+|(?<![^\W_])_{1,3}|_{1,3}(?![^\W_]))")
ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
# In a private area of Unicode.
ESCAPED = 0x100000
MATH = re.compile(r"\\[()\[\]]|\$\$?")
HEADING = re.compile(r"^\s{0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
HTML_HEADING = re.compile(r"<h([1-6])[^>]*>(.*?)</h\1>", re.S | re.I)
SETEXT = re.compile(r"^(=+|-+)\s*$")
# Different characters for the same thing.
SAME = str.maketrans({
    "‘": "'", "’": "'", "‚": "'", "“": '"', "”": '"', "„": '"', "–": "-", "—": "-", "−": "-", "‐": "-", "‑": "-",
    "…": "...", "\u00ad": "", "\u200b": "", "\ufeff": "",
})


@dataclass(frozen=True)
class Heading:
    level: int
    text: str


@dataclass(frozen=True)
class Parsed:
    text: str
    headings: list[Heading]
    tables: list[Grid]


def parse(markdown: str) -> Parsed:
    source = COMMENT.sub(" ", FRONT_MATTER.sub("", markdown.replace("\r\n", "\n").replace("\f", "\n")))
    source = HTML_HEADING.sub(lambda found: f"\n{'#' * int(found[1])} {' '.join(found[2].split())}\n", source)
    lines: list[str] = []
    headings: list[Heading] = []
    tables: list[Grid] = []
    in_code = False
    for kind, part in grids.split(NO_TEXT.sub("", PICTURE.sub(" ", source))):
        if kind == "table":
            grid = grids.cleaned([[plain(cell) for cell in row] for row in part])
            lines += [" ".join(cell for cell in row if cell) for row in grid]
            if len(grid) > 1 and len(grid[0]) > 1:
                tables.append(grid)
            continue
        for line in part:
            if FENCE.match(line):
                in_code = not in_code
            elif in_code:
                lines.append(line)
            elif SETEXT.match(line) and len(line.strip()) > 2 and lines and lines[-1].strip():
                headings.append(Heading(1 if "=" in line else 2, plain(lines[-1])))
            elif not RULE.match(line):
                found = HEADING.match(line)
                if found and plain(found[2]):
                    headings.append(Heading(len(found[1]), plain(found[2])))
                lines.append(plain(found[2] if found else BULLET.sub("", line.lstrip("> "))))
    return Parsed(normalised("\n".join(lines)), headings, tables)


def plain(text: str) -> str:
    """A line or a cell without Markdown's marks."""
    text = LINK.sub(r"\1", IMAGE.sub(" ", text))
    text = TAG.sub(" ", AUTOLINK.sub(r"\1", text))
    # An escaped mark is a character: it is kept out of reach while marks are removed.
    text = ESCAPE.sub(lambda found: chr(ESCAPED + ord(found[1])), MATH.sub("", text))
    text = re.sub(f"[{chr(ESCAPED)}-{chr(ESCAPED + 127)}]", lambda found: chr(ord(found[0]) - ESCAPED), EMPHASIS.sub("", text))
    return normalised(html.unescape(text))


def normalised(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).translate(SAME).split())


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())
