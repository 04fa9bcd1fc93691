"""Writes the corpus into a folder: NAME.pdf, NAME.md and, where there are running lines, NAME.furniture.json."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path

from generated import letters, scans
from generated.documents import documents
from generated.words import Words


HERE = Path(__file__).resolve().parent


def corpus(folder: Path) -> Path:
    """The corpus in the folder, made again if the generator has changed."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(HERE.glob("*.py")))).hexdigest()
    made = folder / "generator"
    if not made.exists() or made.read_text() != digest:
        shutil.rmtree(folder, ignore_errors=True)
        make(folder)
        made.write_text(digest)
    return folder


def make(folder: Path) -> None:
    texts, images = folder / "generated", folder / "generated-scans"
    texts.mkdir(parents=True)
    images.mkdir()
    for name, draw in documents():
        pdf = texts / f"{name}.pdf"
        pages = draw(pdf, Words(name))
        pages.close()
        if name == "letters-turned-page":
            letters.rotate(pdf, 90)
        pdf.with_suffix(".md").write_text("\n\n".join(pages.truth) + "\n")
        if pages.furniture:
            (texts / f"{name}.furniture.json").write_text(json.dumps(_lines(pages.furniture)))
    scans.make(texts, images)


def _lines(furniture: dict[str, int]) -> list[dict]:
    """Lines that differ in numbers only are one line."""
    merged: dict[str, dict] = {}
    for text, pages in furniture.items():
        merged.setdefault(re.sub(r"\d+", "#", text), {"text": text, "pages": 0})["pages"] += pages
    return list(merged.values())
