"""Converts the documents with each tool and scores the results."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import tools
from corpus import Document
from parse import parse
from score import score

PARALLEL = min(2, os.cpu_count() or 1)


@dataclass(frozen=True)
class Set:
    """Documents that are reported together: the generated ones, and those of the folders that were given."""

    name: str
    documents: list[Document]


def results(selected: list[tools.Tool], sets: list[Set], fresh: bool) -> tuple[list[dict], list[dict]]:
    """The rows and costs of all sets; each has the name of its set."""
    all_rows, all_costs = [], []
    for one in sets:
        found, costs = rows(selected, one.documents, fresh)
        all_rows += [{"set": one.name} | row for row in found]
        all_costs += [{"set": one.name} | cost for cost in costs]
    return all_rows, all_costs


def rows(selected: list[tools.Tool], documents: list[Document], fresh: bool) -> tuple[list[dict], list[dict]]:
    """Scores, a row for each tool and document; and costs, a row for each tool and kind of documents."""
    tasks, costs = [], []
    for tool in selected:
        outputs = {}
        for is_scan in (False, True):
            kind = [document for document in documents if document.is_scan == is_scan]
            found, cost = tools.convert(tool, kind, fresh)
            outputs |= found
            if cost.pages:
                costs.append({
                    "tool": tool.name, "is_scan": is_scan, "documents": len(kind), "pages": cost.pages,
                    "cpu_seconds": round(cost.cpu_seconds, 1), "peak_bytes": cost.peak_bytes,
                })
        tasks += [(tool.name, document, outputs[document.name]) for document in documents]
    with ProcessPoolExecutor(PARALLEL, initializer=os.nice, initargs=(5,)) as pool:
        # Long documents first: none of them is left for one process at the end.
        order = sorted(range(len(tasks)), key=lambda index: -tasks[index][1].pages)
        scored = dict(zip(order, pool.map(_scored, [tasks[index] for index in order], chunksize=1)))
    return [scored[index] for index in range(len(tasks))], costs


def _scored(task: tuple[str, Document, Path]) -> dict:
    tool, document, output = task
    truth = parse(Path(document.truth).read_text(errors="replace"))
    found = parse(output.read_text(errors="replace"))
    scores = score(truth, found, document.furniture)
    rounded = {name: round(value, 4) if isinstance(value, float) else value for name, value in scores.items()}
    return {
        "tool": tool, "corpus": document.corpus, "document": document.name, "pages": document.pages,
        "is_scan": document.is_scan, "is_tagged": document.is_tagged, **rounded,
    }


def sample(documents: list[Document], count: int) -> list[Document]:
    """A fixed choice of documents, in proportion to the corpora; no scans, and no books, which take long."""
    suitable = [document for document in documents if not document.is_scan and document.pages <= 40]
    by_corpus: dict[str, list[Document]] = {}
    for document in sorted(suitable, key=lambda one: hashlib.sha256(one.name.encode()).digest()):
        by_corpus.setdefault(document.corpus, []).append(document)
    chosen = [
        document for group in by_corpus.values() for document in group[:max(1, round(count * len(group) / len(suitable)))]
    ]
    return sorted(chosen, key=lambda document: document.name)
