"""The document: pages with a picture and a text of their own."""

from __future__ import annotations

import re

import documents

LINES = [
    "Harbour of {name}, entries of the day",
    "The ferry left {name} at seven with forty passengers and a crate of lemons",
    "By noon the fog had lifted and the keeper wrote down nine sails to the west",
    "In the evening the band of {name} played until the last lamps were put out",
]
WIDTH = 595


def name(page: int) -> str:
    """A harbour for each page: text with another page's harbour has a wrong page number."""
    return f"Port{page}"


def words(page: int) -> str:
    return "\n".join(line.format(name=name(page)) for line in LINES)


def answer(page: int) -> str:
    """The answer of a working model: the page's words, and a mark that the PDF's own text does not have."""
    return f"{words(page)}\n{documents.READ_BY_AI}"


def is_read_by_ai(page: int, text: str) -> bool:
    """Whether the text is a model's answer about this page and no other."""
    return documents.READ_BY_AI in text and set(re.findall(r"\bPort\d+\b", text)) == {name(page)}


def document(pages: int) -> bytes:
    return documents.pdf([(WIDTH, words(page)) for page in range(1, pages + 1)], documents.PICTURE)
