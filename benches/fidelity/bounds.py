"""What Everypage must reach on the generated corpus, from bounds.json: a regression fails the run."""

from __future__ import annotations

import json

import summary
from environment import HERE

BOUNDS = HERE / "bounds.json"


def failures(rows: list[dict]) -> list[str]:
    """A sentence for each mean that is worse than its bound; leakage and false tables have an upper bound, the others a lower one."""
    means = summary.means([row for row in rows if row["tool"] == "everypage" and row["set"] == "generated"])
    found = []
    for name, bound in json.loads(BOUNDS.read_text()).items():
        value = means[name]
        if value is None or (value > bound if name in ("leakage", "false_tables") else value < bound):
            found.append(f"{name} is {summary.shown(value)}, the bound is {summary.shown(bound)}")
    return found
