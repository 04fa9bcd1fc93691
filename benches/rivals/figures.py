"""Medians and ranges of the measurements, formatted for tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median


def number(values: Iterable[float], digits: int = 0) -> str:
    """The median, and the range if there is one."""
    values = list(values)
    low, middle, high = (f"{value:.{digits}f}" for value in (min(values), median(values), max(values)))
    return middle if low == high else f"{middle} ({low}–{high})"


def seconds(runs: Sequence[dict]) -> str:
    """Median and range of times; a killed run took longer than its time."""
    ordered = sorted(runs, key=lambda run: run["seconds"])
    low, middle, high = map(_time, (ordered[0], ordered[len(ordered) // 2], ordered[-1]))
    return (middle if low == high else f"{middle} ({low}–{high})") + " s"


def _time(run: dict) -> str:
    return f"> {run['seconds']:.0f}" if run["exit_code"] is None else f"{run['seconds']:.1f}"


def megabytes(values: Iterable[int]) -> str:
    return number(value / 1e6 for value in values) + " MB"
