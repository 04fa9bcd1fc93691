"""Means over documents."""

from __future__ import annotations

COLUMNS = ("overall", "text", "tables", "headings", "hierarchy", "words_found", "words_right")


def mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def means(rows: list[dict]) -> dict:
    """The mean of each score over the documents that have it, and the pages on which furniture was left in."""
    furniture = sum(row["furniture_pages"] for row in rows)
    return {name: mean([row[name] for row in rows]) for name in COLUMNS} | {
        "documents": len(rows),
        "leakage": sum(row["leaked_pages"] for row in rows) / furniture if furniture else None,
        "furniture_pages": furniture,
        "false_tables": sum(row["false_tables"] for row in rows),
    }


def shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}".removeprefix("0")
