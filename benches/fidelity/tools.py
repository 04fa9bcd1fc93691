"""Everypage and its peers: how each is run on a batch of documents, and what that costs."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import child
from corpus import Document
from environment import CACHE, PYTHON, TESSDATA, log

DRIVERS = Path(__file__).resolve().parent / "drivers"
# Documents per process: starting it costs little of their time, and a crash loses few.
BATCH = 40
# Seconds per page after which a batch is stopped; it is for tools that hang.
TIME_LIMIT_PER_PAGE = 20
# Nothing of the caller's environment: no keys, no settings.
ENVIRONMENT = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(CACHE / "home")}


@dataclass(frozen=True)
class Tool:
    name: str
    # What its output depends on, for the cache.
    version: str
    command: Callable[[Path, list[dict]], list[str]]
    environment: dict[str, str]


@dataclass
class Cost:
    pages: int = 0
    cpu_seconds: float = 0.0
    peak_bytes: int = 0
    failed: int = 0


def everypage(program: Path) -> Tool:
    digest = hashlib.sha256(program.read_bytes()).hexdigest()[:12]

    def command(folder: Path, tasks: list[dict]) -> list[str]:
        files = [task["pdf"] for task in tasks]
        return [str(program), "process", *files, "--format", "markdown", "-o", str(folder), "-q", "--force"]

    # A batch of scans takes longer than a job should, at a low priority.
    return Tool("everypage", digest, command, ENVIRONMENT | {"JOB_TIMEOUT": "1h"})


def peer(name: str, version: str) -> Tool:
    def command(folder: Path, tasks: list[dict]) -> list[str]:
        listed = folder / "tasks.json"
        listed.write_text(json.dumps(tasks))
        return [str(PYTHON), str(DRIVERS / f"run_{name}.py"), str(listed)]

    tessdata = {"TESSDATA_PREFIX": str(TESSDATA), "PYTHONDONTWRITEBYTECODE": "1"}
    return Tool(name, version, command, ENVIRONMENT | tessdata)


def convert(tool: Tool, documents: list[Document], fresh: bool) -> tuple[dict[str, Path], Cost]:
    """The Markdown of each document, from the cache unless `fresh`; and the cost of those converted now or then."""
    folder = CACHE / "output" / f"{tool.name}-{tool.version}"
    folder.mkdir(parents=True, exist_ok=True)
    outputs = {document.name: folder / f"{_file_name(document)}.md" for document in documents}
    kinds = [[d for d in documents if d.is_scan == is_scan] for is_scan in (False, True)]
    for kind in kinds:
        missing = [d for d in kind if fresh or not outputs[d.name].exists()]
        for start in range(0, len(missing), BATCH):
            _batch(tool, missing[start:start + BATCH], outputs, folder)
    return outputs, _cost(folder, documents)


def _file_name(document: Document) -> str:
    digest = hashlib.sha256(Path(document.pdf).read_bytes()).hexdigest()[:8]
    return f"{document.name.replace('/', '-')}-{digest}"


def _batch(tool: Tool, documents: list[Document], outputs: dict[str, Path], folder: Path) -> None:
    work = CACHE / f"work-{os.getpid()}"
    (work / "in").mkdir(parents=True)
    (work / "out").mkdir()
    tasks = []
    for document in documents:
        staged = work / "in" / f"{outputs[document.name].stem}.pdf"
        staged.symlink_to(document.pdf)
        outputs[document.name].unlink(missing_ok=True)
        tasks.append({
            "pdf": str(staged), "output": str(work / "out" / outputs[document.name].name), "is_scan": document.is_scan,
        })
    pages = sum(document.pages for document in documents)
    log(f"{tool.name}: {len(documents)} documents, {pages} pages")
    ending = child.run(
        tool.command(work / "out", tasks), tool.environment | {"EVERYPAGE_DATA": str(work / "data")}, work,
        time_limit=30 + TIME_LIMIT_PER_PAGE * pages,
    )
    for document in documents:
        found = work / "out" / outputs[document.name].name
        outputs[document.name].write_text(found.read_text(errors="replace") if found.exists() else "")
        if not found.exists():
            log(f"{tool.name}: no output for {document.name}; exit code {ending.exit_code}")
    cost = {
        "documents": [document.name for document in documents], "pages": pages, "cpu_seconds": round(ending.cpu_seconds, 3),
        "peak_bytes": ending.peak_bytes, "exit_code": ending.exit_code, "at": time.time(),
    }
    with (folder / "costs.jsonl").open("a") as file:
        file.write(json.dumps(cost) + "\n")
    shutil.rmtree(work)


def _cost(folder: Path, documents: list[Document]) -> Cost:
    """The batches whose documents are all asked for, each document counted once, the newest run of it first."""
    listed = folder / "costs.jsonl"
    rows = [json.loads(line) for line in listed.read_text().splitlines()] if listed.exists() else []
    wanted, total = {document.name for document in documents}, Cost()
    for row in sorted(rows, key=lambda row: -row["at"]):
        if wanted.issuperset(row["documents"]):
            wanted -= set(row["documents"])
            total.pages += row["pages"]
            total.cpu_seconds += row["cpu_seconds"]
            total.peak_bytes = max(total.peak_bytes, row["peak_bytes"])
    return total


