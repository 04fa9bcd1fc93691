"""Renders Markdown files as PDFs with Typst, in four styles: documents whose truth is the source they were made from.

Every second PDF loses its tags, as most PDFs have none.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pymupdf
import typst
from markdown_it import MarkdownIt
from markdown_it.token import Token

from environment import log

# Shorter files are no documents, longer ones are books.
MIN_LENGTH, MAX_LENGTH = 1_500, 60_000
# What Markdown shows as nothing, or the renderer does not know.
INVISIBLE = re.compile(r"\A---\n.*?\n---\n|<!--.*?-->|</?[a-zA-Z][^<>]*>", re.S)
MARKDOWN = MarkdownIt("commonmark").enable("table").enable("strikethrough")


@dataclass(frozen=True)
class Style:
    settings: str
    # Arguments of Typst's table: its lines and fills.
    table: str


STYLES = (
    Style('#set page(margin: 2.5cm, numbering: "1")\n#set text(size: 10.5pt)\n#set par(justify: true)\n', "stroke: 0.5pt"),
    Style(
        "#set page(columns: 2, margin: 1.8cm, header: align(center, text(8pt)[Proceedings of the canal conference 2024]), "
        "footer: context align(right, text(8pt)[#counter(page).display()]))\n"
        "#set text(size: 9.5pt)\n#set par(justify: true)\n",
        "stroke: none",
    ),
    Style(
        '#set page(paper: "us-letter", margin: 2.2cm, '
        "header: context if counter(page).get().first() > 1 [#text(8pt)[Operations handbook #h(1fr) Version 4.2]], "
        "footer: context align(center, text(8pt)[Page #counter(page).display() of #counter(page).final().first()]))\n"
        '#set text(font: "New Computer Modern", size: 11pt)\n',
        "stroke: (x, y) => if y == 0 {(bottom: 1pt, top: 1pt)} else {(bottom: 0.3pt)}",
    ),
    Style(
        '#set page(margin: (x: 3cm, y: 2cm), numbering: "— 1 —")\n#show heading: set text(size: 10pt)\n'
        '#set text(font: "New Computer Modern", size: 10pt)\n'
        "#set par(first-line-indent: 1.2em, spacing: 0.65em, justify: true)\n",
        "stroke: none, fill: (x, y) => if calc.even(y) {luma(235)}",
    ),
)


def corpus(sources: list[Path], folder: Path) -> Path:
    """The folder with NAME.pdf and NAME.md for each Markdown file below the sources."""
    shutil.rmtree(folder, ignore_errors=True)
    for source in sources:
        target = folder / f"rendered-{source.resolve().name}"
        target.mkdir(parents=True)
        for index, path in enumerate(sorted(source.rglob("*.md"))):
            markdown = INVISIBLE.sub("", path.read_text(errors="replace"))
            if MIN_LENGTH < len(markdown) < MAX_LENGTH:
                _render(markdown, target / re.sub(r"[^A-Za-z0-9]+", "-", path.stem), is_tagged=index % 2 == 0)
    return folder


def _render(markdown: str, target: Path, is_tagged: bool) -> None:
    number = int(hashlib.sha256(target.name.encode()).hexdigest(), 16) % len(STYLES)
    target = target.with_name(f"{target.name[:30]}-style-{number}{'' if is_tagged else '-untagged'}")
    style = STYLES[number]
    source = target.with_suffix(".typ")
    source.write_text(style.settings + "".join(_blocks(MARKDOWN.parse(markdown), style)))
    try:
        pdf = typst.compile(str(source))
    except typst.TypstError as error:
        return log(f"{target.name}: Typst can't render it: {error}")
    finally:
        source.unlink()
    target.with_suffix(".pdf").write_bytes(pdf if is_tagged else _without_tags(pdf))
    target.with_suffix(".md").write_text(markdown)


def _without_tags(pdf: bytes) -> bytes:
    document = pymupdf.open(stream=pdf)
    for key in ("StructTreeRoot", "MarkInfo"):
        document.xref_set_key(document.pdf_catalog(), key, "null")
    return document.tobytes(garbage=3, deflate=True, no_new_id=True)


# ---- From Markdown to Typst -------------------------------------------------------------------------

BLOCKS = {
    "bullet_list_open": "#list(", "ordered_list_open": "#enum(", "bullet_list_close": ")\n\n", "ordered_list_close": ")\n\n",
    "list_item_open": "[", "list_item_close": "],", "blockquote_open": "#quote(block: true)[", "blockquote_close": "]\n\n",
    "hr": "#line(length: 100%)\n\n",
}
INLINE = {
    "softbreak": " ", "hardbreak": " \\\n", "strong_open": "#strong[", "em_open": "#emph[", "s_open": "#strike[",
    "strong_close": "];", "em_close": "];", "s_close": "];",
}


def _blocks(tokens: list[Token], style: Style) -> Iterator[str]:
    for index, token in enumerate(tokens):
        if token.type in BLOCKS:
            yield BLOCKS[token.type]
        elif token.type in ("fence", "code_block"):
            yield f"#raw(block: true, {_string(token.content.rstrip())})\n\n"
        elif token.type == "heading_open":
            yield f"\n#heading(level: {token.tag[1]})[{_inline(tokens[index + 1])}]\n"
        elif token.type == "paragraph_open":
            yield _inline(tokens[index + 1]) + ("\n" if token.hidden else "\n\n")
        elif token.type == "table_open":
            yield _table(tokens[index:], style)


def _inline(token: Token) -> str:
    parts = []
    for child in token.children or []:
        if child.type == "text" and child.content:
            parts.append(f"#{_string(child.content)};")
        elif child.type == "code_inline":
            parts.append(f"#raw({_string(child.content)});")
        else:
            parts.append(INLINE.get(child.type, ""))
    return "".join(parts)


def _table(tokens: list[Token], style: Style) -> str:
    rows: list[list[Token]] = []
    for token in tokens:
        if token.type == "table_close":
            break
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(token)
    # Columns with longer texts are wider, but not in proportion.
    widths = [max(1, max(len(row[column].content) for row in rows) ** 0.5) for column in range(len(rows[0]))]
    columns = "".join(f"{width:.2f}fr, " for width in widths)
    header = "".join(f"strong[{_inline(cell)}], " for cell in rows[0])
    body = "".join(f"[{_inline(cell)}], " for row in rows[1:] for cell in row)
    return f"#table(columns: ({columns}), {style.table}, table.header({header}), {body})\n\n"


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
