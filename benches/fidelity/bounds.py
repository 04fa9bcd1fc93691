"""What Everypage must reach on the generated corpus, from bounds.json: a regression fails the run."""

from __future__ import annotations

import json

import summary
from environment import HERE

BOUNDS = HERE / "bounds.json"


def failures(rows: list[dict]) -> list[str]:
    """A sentence for each mean that is worse than its bound; leakage is an upper bound, the others are lower ones."""
    found = []
    for kind, bounds in json.loads(BOUNDS.read_text()).items():
        own = [
            row for row in rows
            if row["tool"] == "everypage" and row["set"] == "generated" and row["is_scan"] == (kind == "scans")
        ]
        means = summary.means(own)
        for name, bound in bounds.items():
            value = means[name]
            is_worse = value is None or (value > bound if name == "leakage" else value < bound)
            if is_worse:
                found.append(f"{kind}: {name} is {summary.shown(value)}, the bound is {summary.shown(bound)}")
    return found
