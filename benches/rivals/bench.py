"""Every scenario with every contestant, again and again, and where that was."""

from __future__ import annotations

import datetime
import json
import os
import platform
import shutil
import subprocess
from pathlib import Path

import contestants
import install
import judge
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
    if results["machine"]["load"] > 0.5:
        say(f"this machine is busy (load {results['machine']['load']}): times will be longer than they need be")
    shutil.rmtree(WORK, ignore_errors=True)
    documents = {
        "documents": paper.write(WORK / "short.pdf", paper.short()),
        "gateways": paper.write(WORK / "long.pdf", paper.long(scenarios.REQUESTS)),
    }
    provider = Provider(install.everypage())
    try:
        for _ in range(repeats):
            for kind, document in documents.items():
                one_repeat(results, kind, provider, document, only, wanted)
    finally:
        provider.close()
    return results


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
    # What a killed or failed tool left behind is no delivery, and may be half a file.
    delivery = who.delivered(folder) if ending.exit_code in who.good else None
    return verdict(scenario, ending, delivery, provider.calls()).as_json()


def description(repeats: int) -> dict:
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    processor = names[0].partition(":")[2].strip() if names else platform.machine()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    system = platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    return {
        "date": datetime.date.today().isoformat(),
        "command": "benches/rivals/run",
        "repeats": repeats,
        "versions": {"Everypage": everypage_version(), **install.RIVALS, "Python": platform.python_version()},
        "machine": {
            "cores": os.cpu_count(), "processor": processor, "memory_gb": round(memory / 1e9),
            "system": system, "load": round(os.getloadavg()[0], 1),
        },
        "documents": [],
        "gateways": [],
    }


def everypage_version() -> str:
    asked = subprocess.run([install.everypage(), "--version"], capture_output=True, text=True, check=True)
    return asked.stdout.split()[1]
