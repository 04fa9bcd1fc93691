"""Medians and ranges of what was measured, as people read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

NEVER = "never"


def number(values: Iterable[float], digits: int = 0) -> str:
    """The median, and the range where there is one."""
    values = list(values)
    low, middle, high = (f"{value:.{digits}f}" for value in (min(values), median(values), max(values)))
    return middle if low == high else f"{middle} ({low}–{high})"


def seconds(runs: Sequence[dict]) -> str:
    """`never` where most runs had to be killed."""
    killed = sum(run["exit_code"] is None for run in runs)
    if killed * 2 > len(runs):
        return NEVER
    return number((run["seconds"] for run in runs), 1) + " s"


def megabytes(values: Iterable[int]) -> str:
    return number(value / 1e6 for value in values) + " MB"
