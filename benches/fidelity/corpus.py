"""Documents with truth, found in a folder.

Truth is Markdown with the PDF's name: next to it, in a folder `markdown` next to its folder (READoc), or in
`ground_truth/pdf` (xberg-io/test_documents, where NAME_scanned.pdf has the truth of NAME). `NAME.furniture.json` next to
the truth lists running headers and footers; without it they are found by their repetition.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pymupdf

# Folders that say nothing of what is in them.
PLAIN_FOLDERS = {"pdf", "pdfs", "data", "vendored", "load"}
# A page with less text is an image, or nearly empty.
MIN_TEXT = 20


@dataclass(frozen=True)
class Document:
    name: str
    corpus: str
    pdf: str
    truth: str
    pages: int
    is_scan: bool
    is_tagged: bool
    furniture: list[dict]


def find(folder: Path, cache: Path) -> list[Document]:
    """The documents of the folder; what is known of each PDF is kept in `cache`."""
    folder = folder.resolve()
    known = json.loads(cache.read_text()) if cache.exists() else {}
    found: dict[str, Document] = {}
    seen = set()
    for pdf in sorted(folder.rglob("*.pdf"), key=lambda path: (len(path.parts), path)):
        truth = _truth(pdf, folder)
        corpus = _corpus(pdf, folder)
        name = f"{corpus}/{_short(pdf.stem)}"
        if not truth or name in found:
            continue
        key = hashlib.sha256(pdf.read_bytes()).hexdigest()
        # The same file under two names counts once.
        if key in seen:
            continue
        seen.add(key)
        if key not in known:
            known[key] = _inspect(pdf)
        facts = dict(known[key])
        listed = truth.with_name(truth.stem + ".furniture.json")
        if listed.exists():
            facts["furniture"] = json.loads(listed.read_text())
        if facts["pages"]:
            found[name] = Document(name, corpus, str(pdf), str(truth), **facts)
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_text(json.dumps(known))
    return sorted(found.values(), key=lambda document: document.name)


def _truth(pdf: Path, folder: Path) -> Path | None:
    stem = pdf.stem.removesuffix("_scanned") if "scanned" in pdf.parent.name else pdf.stem
    places = [pdf.with_suffix(".md"), pdf.parent.parent / "markdown" / f"{pdf.stem}.md"]
    places += [folder / "ground_truth" / "pdf" / f"{stem}.md"]
    return next((place for place in places if place.exists()), None)


def _corpus(pdf: Path, folder: Path) -> str:
    names = [name for name in pdf.relative_to(folder).parts[:-1] if name not in PLAIN_FOLDERS]
    return names[0] if names else folder.name


def _short(stem: str) -> str:
    stem = re.sub(r"^([0-9a-f]{8})[0-9a-f]{24}", r"\1", stem)
    return re.sub(r"[^A-Za-z0-9.]+", "-", stem)[:40].strip("-.")


# ---- What a PDF contains ----------------------------------------------------------------------------


def _inspect(pdf: Path) -> dict:
    try:
        document = pymupdf.open(pdf)
        if document.needs_pass:
            return {"pages": 0, "is_scan": False, "is_tagged": False, "furniture": []}
        texts = [len(page.get_text().strip()) for page in document]
        has_images = any(page.get_images() for page in document)
        return {
            "pages": len(document),
            "is_scan": has_images and sum(texts) < MIN_TEXT * len(document),
            "is_tagged": document.pdf_catalog() > 0
            and document.xref_get_key(document.pdf_catalog(), "StructTreeRoot")[0] != "null",
            "furniture": furniture(document),
        }
    except (RuntimeError, ValueError):  # a broken file, which is no document to compare
        return {"pages": 0, "is_scan": False, "is_tagged": False, "furniture": []}


# Lines in this part of the page's height, above and below, may be running headers and footers.
MARGIN = 0.12
# So many pages must have the same line, and it must have so many letters to differ from other text.
MIN_REPEATS = 3
MIN_LETTERS = 6


def furniture(document: pymupdf.Document) -> list[dict]:
    """Lines that repeat in the margins of at least a quarter of the pages; numbers in them may change."""
    pages: dict[str, set[int]] = {}
    example: dict[str, str] = {}
    for number, page in enumerate(document):
        height = page.rect.height
        for block in page.get_text("dict", flags=pymupdf.TEXT_PRESERVE_WHITESPACE)["blocks"]:
            for line in block.get("lines", []):
                top, bottom = line["bbox"][1], line["bbox"][3]
                if MARGIN * height < (top + bottom) / 2 < (1 - MARGIN) * height:
                    continue
                text = " ".join("".join(span["text"] for span in line["spans"]).split())
                key = re.sub(r"\d+", "#", text)
                if sum(letter.isalpha() for letter in text) >= MIN_LETTERS:
                    pages.setdefault(key, set()).add(number)
                    example.setdefault(key, text)
    enough = max(MIN_REPEATS, len(document) / 4)
    return [{"text": example[key], "pages": len(on)} for key, on in pages.items() if len(on) >= enough]
