"""Scores Everypage's classification of pages against labels.json.

The pages were labelled by eye: `figure` has a chart, plot, diagram, map, photograph, music, or an image of text,
`plain` has none (a letterhead or watermark on every page is none), `either` has a logo, a signature, decoration, or is
a scan with a text layer: both answers are right.

300 pages are a random sample (at most 6 of a document). 108 were chosen among pages with images or many drawings, and 35
are all others found with drawings and a caption or curves, to have enough figures. 144 more random pages (`later`) were
labelled when the classification had been written. Plain pages are counted in the random samples only.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import child
import corpus
import tools
from environment import CACHE, HERE, log

LABELS = HERE / "labels.json"
RANDOM = ("random", "later")


def classify(program: Path, folders: list[Path], show: bool) -> dict:
    """Counts of figures found and of plain pages sent; with `show`, each wrong page."""
    labels = json.loads(LABELS.read_text())["labels"]
    names = {label["document"] for label in labels}
    documents = [one for folder in folders for one in corpus.find(folder, CACHE / "documents.json") if one.name in names]
    missing = names - {document.name for document in documents}
    if missing:
        log(f"{len(missing)} labelled documents are not in the folders, such as {sorted(missing)[0]}")
    found = _classified(program, documents)
    known = [label for label in labels if (label["document"], label["page"]) in found]
    wrong = {"figure": [], "plain": []}
    for label in known:
        is_sent, reason = found[label["document"], label["page"]]
        if label["label"] in wrong and is_sent != (label["label"] == "figure"):
            wrong[label["label"]].append((label, reason))
    if show:
        for kind, pages in wrong.items():
            print(f"{'figures missed' if kind == 'figure' else 'plain pages sent'}: {len(pages)}")
            for label, reason in pages:
                print(f"  {label['document']:50} page {label['page']:3}  {reason or ''}  ({label['sample']})")
    figures = sum(label["label"] == "figure" for label in known)
    plain = [label for label in known if label["label"] == "plain" and label["sample"] in RANDOM]
    sent = [label for label, _ in wrong["plain"] if label["sample"] in RANDOM]
    return {
        "pages": len(known), "figures": figures, "figures_found": figures - len(wrong["figure"]),
        "plain": len(plain), "plain_sent": len(sent),
    }


def _classified(program: Path, documents: list[corpus.Document]) -> dict[tuple[str, int], tuple[bool, str | None]]:
    work = CACHE / "work-classify"
    shutil.rmtree(work, ignore_errors=True)
    (work / "in").mkdir(parents=True)
    files = []
    for index, document in enumerate(documents):
        files.append(work / "in" / f"{index}.pdf")
        files[-1].symlink_to(document.pdf)
    command = [str(program), "process", *map(str, files), "--format", "json", "-o", str(work / "out"), "-q", "--force"]
    child.run(command, tools.ENVIRONMENT | {"EVERYPAGE_DATA": str(work / "data")}, work, time_limit=3600)
    found = {}
    for index, document in enumerate(documents):
        result = work / "out" / f"{index}.json"
        for page in json.loads(result.read_text())["pages"] if result.exists() else []:
            found[document.name, page["page"]] = (page["classification"] == "HAS_GRAPHICS", page.get("reason"))
    shutil.rmtree(work)
    return found
