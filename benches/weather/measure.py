"""Runs every scenario with every contestant, several times."""

from __future__ import annotations

import datetime
import hashlib
import json
import platform
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import dead_calls
import documents
import install
import machine
import pages
import process
import schedule
from contestants import CONTESTANTS, PACKAGES, Contestant, Run
from install import log
from provider import Provider
from scenario_list import GRACE, SCENARIOS, Setup, Scenario, ideal_seconds, script

WORK = install.ROOT / ".cache" / "weather" / "work"


@dataclass(frozen=True)
class Selection:
    everypage: Path
    repeats: int
    scenarios: list[str]
    pages: list[int]
    providers: list[int]
    contestants: list[str]
    lanes: int

    def runs(self) -> Iterator[Planned]:
        """One repeat. Consecutive runs are different contestants, so that a busy moment affects all alike."""
        for size in self.pages:
            for providers in self.providers:
                for scenario in SCENARIOS:
                    if self.scenarios and scenario.name not in self.scenarios:
                        continue
                    if size not in scenario.pages or providers not in scenario.providers:
                        continue
                    for contestant in CONTESTANTS:
                        if not self.contestants or contestant.key in self.contestants:
                            yield scenario, Setup(size, providers), contestant


Planned = tuple[Scenario, Setup, Contestant]


@dataclass(frozen=True)
class Lane:
    """Where one run at a time is made: with a provider and folders of its own."""

    folder: Path
    provider: Provider


def measure(selection: Selection, results: dict, save: Callable[[dict], None]) -> dict:
    """Adds what `results` does not have yet, and saves after every run."""
    shutil.rmtree(WORK, ignore_errors=True)
    files = {
        size: documents.write(WORK / f"{size}-pages.pdf", pages.document(size)) for size in selection.pages
    }
    lanes = [Lane(WORK / f"lane-{number}", Provider(selection.everypage)) for number in range(selection.lanes)]
    runs = list(selection.runs())
    changing = threading.Lock()

    def make(planned: Planned, lane: Lane, repeat: int) -> None:
        scenario, setup, contestant = planned
        with changing:
            row = row_of(results, scenario, setup, contestant)
            if len(row["runs"]) > repeat:
                return
        run = one_run(selection.everypage, scenario, setup, contestant, lane, files[setup.pages])
        with changing:
            row["runs"].append(run)
            save(results)
        where = f"{repeat + 1}/{selection.repeats} {runs.index(planned) + 1}/{len(runs)}"
        size = f"{setup.pages} pages, {setup.providers} providers"
        log(f"{where} {scenario.name:18} {size:22} {contestant.key:12} {json.dumps(run)}")

    try:
        for repeat in range(selection.repeats):
            load = machine.other_load()
            results["machine"]["load"] = max(load, results["machine"].get("load", 0))
            for planned in runs:
                if len(lanes) == 1 or not planned[0].waits:
                    make(planned, lanes[0], repeat)
            if len(lanes) > 1:
                waiting = [planned for planned in runs if planned[0].waits]
                schedule.in_lanes(waiting, lanes, lambda planned, lane: make(planned, lane, repeat))
    finally:
        for lane in lanes:
            lane.provider.close()
    return results


def row_of(results: dict, scenario: Scenario, setup: Setup, contestant: Contestant) -> dict:
    head = {
        "scenario": scenario.name, "title": scenario.title, "pages": setup.pages, "providers": setup.providers,
        "deadline": scenario.deadline, "readable": setup.pages - scenario.unreadable(setup),
        "ideal": ideal_seconds(scenario, setup), "contestant": contestant.key,
    }
    for row in results["rows"]:
        if row | head == row:
            return row
    results["rows"].append(head | {"runs": []})
    return results["rows"][-1]


def one_run(
    everypage: Path, scenario: Scenario, setup: Setup, contestant: Contestant, lane: Lane, document: Path
) -> dict:
    folder, provider = lane.folder / "run", lane.provider
    run = Run(folder, document, provider.openai_url, provider.url, everypage, setup.pages, setup.models, scenario.deadline)
    # A second run finds the data folder of the first one.
    shutil.rmtree(lane.folder / "data", ignore_errors=True)
    for _ in range(2 if scenario.warm_latency and contestant.key == "everypage" else 1):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        provider.load(script(scenario, setup))
        ending = process.run(
            contestant.command(run), contestant.environment(run), folder, scenario.deadline + GRACE
        )
    return evaluate(scenario, setup, ending, contestant, folder, provider)


def evaluate(
    scenario: Scenario, setup: Setup, ending: process.Ending, contestant: Contestant, folder: Path, provider: Provider
) -> dict:
    calls, counts = provider.calls(), provider.counts()
    end = ending.started + scenario.deadline + GRACE
    read = {
        answer.page
        for answer in contestant.delivered(folder)
        if 1 <= answer.page <= setup.pages and answer.time <= end and pages.is_read_by_ai(answer.page, answer.text)
    }
    results: Counter[str] = Counter()
    for model in counts["models"]:
        results.update(model["results"])
    return {
        "read": len(read),
        "seconds": round(ending.seconds, 2),
        "span": span(calls),
        "exit_code": ending.exit_code,
        "calls": counts["total"],
        "calls_to_dead": sum(map(dead_calls.is_dead, calls)),
        "calls_to_dead_after_wave": dead_calls.after_first_wave(calls),
        "probes": dead_calls.probes(calls),
        "max_in_flight": counts["max_in_flight"],
        "results": dict(sorted(results.items())),
        "peak_bytes": ending.peak_bytes,
    }


def span(calls: list[dict]) -> float | None:
    """Seconds from the start of the first call to the end of the last one that ended."""
    ends = [call["finished_ms"] for call in calls if call["finished_ms"] is not None]
    return round((max(ends) - min(call["started_ms"] for call in calls)) / 1000, 2) if ends else None


def description(selection: Selection, command: str) -> dict:
    version = subprocess.run([selection.everypage, "--version"], capture_output=True, text=True, check=True)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=install.ROOT, capture_output=True, text=True)
    versions = {
        "Everypage": f"{version.stdout.split()[1]} ({commit.stdout.strip()})",
        **{name: PACKAGES[name] for name in ("openai", "litellm")},
        "py-zerox": install.TOOLS["py-zerox"],
        "Python": platform.python_version(),
    }
    return {
        "date": datetime.date.today().isoformat(),
        "command": command,
        "repeats": selection.repeats,
        "lanes": selection.lanes,
        "binary": hashlib.sha256(selection.everypage.read_bytes()).hexdigest()[:16],
        "versions": versions,
        "machine": machine.description(),
        "rows": [],
    }


def differences(before: dict, now: dict) -> list[str]:
    """What makes the runs of an interrupted measurement incomparable with further ones."""
    return [name for name in ("binary", "versions", "lanes") if before.get(name) != now.get(name)]
