"""Results as JSON for a repository."""

from __future__ import annotations

import json


def as_text(results: dict) -> str:
    """JSON with a line for each row, so that a diff is readable."""
    def value(given: object) -> str:
        if not isinstance(given, list):
            return json.dumps(given)
        return "[\n" + ",\n".join(json.dumps(row) for row in given) + "\n]"

    return "{\n" + ",\n".join(f"{json.dumps(name)}: {value(given)}" for name, given in results.items()) + "\n}\n"
