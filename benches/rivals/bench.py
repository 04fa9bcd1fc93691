"""Every scenario with every contestant, again and again, and where that was."""

from __future__ import annotations

import datetime
import json
import platform
import shutil
import subprocess
from pathlib import Path

import contestants
import install
import judge
import machine
import paper
import process
import scenarios
from install import say
from judge import Judge
from provider import Provider

WORK = install.CACHE / "work"


def measure(repeats: int, only: list[str], wanted: list[str]) -> dict:
    """All repeats of all scenarios; neighbours in time are different tools, so a busy moment hits them alike."""
    results = description(repeats)
    shutil.rmtree(WORK, ignore_errors=True)
    documents = {
        "documents": paper.write(WORK / "short.pdf", paper.short()),
        "gateways": paper.write(WORK / "long.pdf", paper.long(scenarios.REQUESTS)),
    }
    provider = Provider(install.everypage())
    try:
        for _ in range(repeats):
            for kind, document in documents.items():
                note_load(results["machine"])
                one_repeat(results, kind, provider, document, only, wanted)
    finally:
        provider.close()
    return results


def note_load(noted: dict) -> None:
    """The worst of it, before every repeat: others may begin at any time of such a long run."""
    load = machine.others_load()
    if load > machine.CALM:
        say(f"others keep {load} cores of this machine busy: times will be longer than they need be")
    noted["load"] = max(load, noted.get("load", 0))


def one_repeat(
    results: dict, kind: str, provider: Provider, document: Path, only: list[str], wanted: list[str]
) -> None:
    of_documents = kind == "documents"
    pages = scenarios.PAGES if of_documents else scenarios.REQUESTS
    for scenario in scenarios.DOCUMENTS if of_documents else scenarios.GATEWAYS:
        for who in contestants.READERS if of_documents else contestants.GATEWAYS:
            if (only and who.tool not in only) or (wanted and scenario.name not in wanted):
                continue
            if of_documents:
                provider.play(scenarios.document_script(scenario, who.front_matter))
            else:
                provider.play(scenarios.gateway_script(scenario))
            run = one_run(scenario, who, provider, document, judge.document if of_documents else judge.requests)
            say(f"{scenario.name:12} {who.name:24} {json.dumps(run)}")
            head = {
                "scenario": scenario.name, "title": scenario.title, "tool": who.tool, "settings": who.settings,
                "models": who.models, "pages": pages, "deadline": scenarios.DEADLINE, "grace": scenarios.GRACE,
            }
            row = next((row for row in results[kind] if row | head == row), None)
            if row is None:
                row = head | {"runs": []}
                results[kind].append(row)
            row["runs"].append(run)


def one_run(
    scenario: scenarios.Scenario, who: contestants.Contestant, provider: Provider, document: Path, verdict: Judge
) -> dict:
    folder = WORK / "run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    place = contestants.Place(folder, document, provider.openai_url, provider.url)
    ending = process.run(who.command(place), who.environment(place), folder, scenarios.DEADLINE * scenarios.PATIENCE)
    return verdict(scenario, ending, who.delivered(folder), provider.calls()).as_json()


def description(repeats: int) -> dict:
    return {
        "date": datetime.date.today().isoformat(),
        "command": "benches/rivals/run",
        "repeats": repeats,
        "versions": {"Everypage": everypage_version(), **install.RIVALS, "Python": platform.python_version()},
        "machine": machine.description(),
        "documents": [],
        "gateways": [],
    }


def everypage_version() -> str:
    asked = subprocess.run([install.everypage(), "--version"], capture_output=True, text=True, check=True)
    return asked.stdout.split()[1]
