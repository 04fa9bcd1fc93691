"""Runs every scenario with every tool, several times, and describes the machine."""

from __future__ import annotations

import datetime
import json
import platform
import shutil
import subprocess
from pathlib import Path

import tools
import install
import evaluate
import machine
import documents
import process
import scenarios
from install import log
from evaluate import Evaluate
from provider import Provider

WORK = install.CACHE / "work"


def measure(repeats: int, only: list[str], wanted: list[str]) -> dict:
    """All repeats of all scenarios. Consecutive runs are different tools, so that a busy moment affects all alike."""
    results = description(repeats)
    shutil.rmtree(WORK, ignore_errors=True)
    files = {
        "documents": documents.write(WORK / "short.pdf", documents.short()),
        "gateways": documents.write(WORK / "long.pdf", documents.long(scenarios.REQUESTS)),
    }
    provider = Provider(install.everypage())
    try:
        for _ in range(repeats):
            for kind, document in files.items():
                record_load(results["machine"])
                one_repeat(results, kind, provider, document, only, wanted)
    finally:
        provider.close()
    return results


def record_load(machine_results: dict) -> None:
    """Records the highest load of other processes before a repeat: they may start at any time of a long run."""
    load = machine.other_load()
    if load > machine.IDLE_CORES:
        log(f"other processes keep {load} cores of this machine busy: times will be too long")
    machine_results["load"] = max(load, machine_results.get("load", 0))


def one_repeat(
    results: dict, kind: str, provider: Provider, document: Path, only: list[str], wanted: list[str]
) -> None:
    of_documents = kind == "documents"
    pages = scenarios.PAGES if of_documents else scenarios.REQUESTS
    for scenario in scenarios.DOCUMENTS if of_documents else scenarios.GATEWAYS:
        for tool in tools.READERS if of_documents else tools.GATEWAYS:
            if (only and tool.name not in only) or (wanted and scenario.name not in wanted):
                continue
            if of_documents:
                provider.load(scenarios.document_script(scenario, tool.front_matter))
            else:
                provider.load(scenarios.gateway_script(scenario))
            run = one_run(scenario, tool, provider, document, evaluate.document if of_documents else evaluate.requests)
            log(f"{scenario.name:12} {tool.label:24} {json.dumps(run)}")
            head = {
                "scenario": scenario.name, "title": scenario.title, "tool": tool.name, "settings": tool.settings,
                "models": tool.models, "pages": pages, "deadline": scenarios.DEADLINE, "grace": scenarios.GRACE,
            }
            row = next((row for row in results[kind] if row | head == row), None)
            if row is None:
                row = head | {"runs": []}
                results[kind].append(row)
            row["runs"].append(run)


def one_run(
    scenario: scenarios.Scenario, tool: tools.Tool, provider: Provider, document: Path, evaluated: Evaluate
) -> dict:
    folder = WORK / "run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run_input = tools.RunInput(folder, document, provider.openai_url, provider.url)
    ending = process.run(tool.command(run_input), tool.environment(run_input), folder, scenarios.DEADLINE * scenarios.MAX_DEADLINES)
    return evaluated(scenario, ending, tool.delivered(folder), provider.calls()).as_json()


def description(repeats: int) -> dict:
    return {
        "date": datetime.date.today().isoformat(),
        "command": "benches/rivals/run",
        "repeats": repeats,
        "versions": {"Everypage": everypage_version(), **install.TOOLS, "Python": platform.python_version()},
        "machine": machine.description(),
        "documents": [],
        "gateways": [],
    }


def everypage_version() -> str:
    version = subprocess.run([install.everypage(), "--version"], capture_output=True, text=True, check=True)
    return version.stdout.split()[1]
