"""A run over the documents that the options select."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import corpus
import environment
import measure
import rendered
import screen
import tools
from environment import CACHE
from generated import make

# Everypage's scores of the last run, to print what changed since.
LAST = CACHE / "last.json"
# All rows of the last run, for questions that the tables do not answer.
ROWS = CACHE / "rows.json"


def compare(options: argparse.Namespace, program: Path) -> tuple[list[dict], list[dict]]:
    """Scores and costs, which are also printed."""
    sets = selected_sets(options)
    if not any(one.documents for one in sets):
        sys.exit("no PDF with truth; corpus.py says where truth is looked for")
    pinned = environment.versions()
    selected = [
        tools.everypage(program) if name == "everypage" else tools.peer(name, pinned[environment.PEERS[name]])
        for name in options.tools
    ]
    rows, costs = measure.results(selected, sets, options.fresh)
    if options.details:
        screen.print_details(rows)
    screen.print_summary(rows, costs)
    ROWS.write_text(json.dumps(rows))
    _print_changes(rows)
    return rows, costs


def selected_sets(options: argparse.Namespace) -> list[measure.Set]:
    folders = {"collected": options.corpus}
    if not options.no_generated:
        folders["generated"] = [make.corpus(CACHE / "corpus")]
    if options.markdown:
        folders["rendered"] = [rendered.corpus(options.markdown, CACHE / "rendered")]
    sets = []
    for name, given in folders.items():
        documents = [document for folder in given for document in corpus.find(folder, CACHE / "documents.json")]
        documents = [one for one in documents if not options.only or any(text in one.name for text in options.only)]
        if options.bounds:  # Scans take most of the time.
            documents = [one for one in documents if not one.is_scan]
        if documents:
            sets.append(measure.Set(name, measure.sample(documents, options.sample) if options.sample else documents))
    return sets


def _print_changes(rows: list[dict]) -> None:
    before = json.loads(LAST.read_text()) if LAST.exists() else []
    screen.print_changes(rows, before)
    now = [row for row in rows if row["tool"] == "everypage"]
    kept = {row["document"] for row in now}
    LAST.write_text(json.dumps(now + [row for row in before if row["document"] not in kept]))
