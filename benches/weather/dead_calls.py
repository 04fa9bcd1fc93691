"""Calls to models that were down, and which of them a breaker should have prevented."""

from __future__ import annotations

from itertools import accumulate, takewhile

# A breaker opens after this many failures in a row; a call that had started by then belongs to the first wave.
THRESHOLD = 3
NOTICE_MS = 100
# Then one call each time that the cooldown is over, in seconds (SPEC and docs/settings.md).
COOLDOWNS = [30, 60, 120, 240]


def is_dead(call: dict) -> bool:
    """Whether a call went to a model that was down: it hung, or there was an outage."""
    return call["behaviour"] in ("hang", {"status": 503})


def after_first_wave(calls: list[dict]) -> int:
    """Calls that started when their model had already failed as often as a breaker needs to open."""
    return sum(_after_first_wave([call for call in _dead(calls) if call["model"] == model]) for model in _models(calls))


def probes(calls: list[dict], seconds: float) -> int:
    """Probes that breakers send in this time, to all models that were down."""
    each = len(list(takewhile(lambda end: end <= seconds, accumulate(COOLDOWNS))))
    return each * len(_models(calls))


def _dead(calls: list[dict]) -> list[dict]:
    return [call for call in calls if is_dead(call)]


def _models(calls: list[dict]) -> set[str]:
    return {call["model"] for call in _dead(calls)}


def _after_first_wave(calls: list[dict]) -> int:
    ends = sorted(call["finished_ms"] for call in calls if call["finished_ms"] is not None)
    if len(ends) < THRESHOLD:
        return 0
    return sum(call["started_ms"] > ends[THRESHOLD - 1] + NOTICE_MS for call in calls)
