"""Calls to models that were down, and which of them a breaker should have prevented."""

from __future__ import annotations

# A breaker opens after this many failures in a row; a call that had started by then belongs to the first wave.
THRESHOLD = 3
NOTICE_MS = 100
# Then one call at a time may go to the model, the probe, and not before this long after the last one has failed.
PROBE_PAUSE_MS = 900


def is_dead(call: dict) -> bool:
    """Whether a call went to a model that was down: it hung, or there was an outage."""
    return call["behaviour"] in ("hang", {"status": 503})


def after_first_wave(calls: list[dict]) -> int:
    """Calls that started when their model had already failed as often as a breaker needs to open."""
    return sum(_after_first_wave([call for call in _dead(calls) if call["model"] == model]) for model in _models(calls))


def probes(calls: list[dict]) -> int:
    """Those of these calls that are probes: alone, and some time after the last failure."""
    found = 0
    for model in _models(calls):
        dead = [call for call in _dead(calls) if call["model"] == model]
        found += sum(_is_probe(call, dead) for call in dead if call in _later(dead))
    return found


def _dead(calls: list[dict]) -> list[dict]:
    return [call for call in calls if is_dead(call)]


def _models(calls: list[dict]) -> set[str]:
    return {call["model"] for call in _dead(calls)}


def _after_first_wave(calls: list[dict]) -> int:
    return len(_later(calls))


def _later(calls: list[dict]) -> list[dict]:
    """The calls to one model after its first wave."""
    ends = sorted(call["finished_ms"] for call in calls if call["finished_ms"] is not None)
    if len(ends) < THRESHOLD:
        return []
    return [call for call in calls if call["started_ms"] > ends[THRESHOLD - 1] + NOTICE_MS]


def _is_probe(call: dict, dead: list[dict]) -> bool:
    """Whether no other call to the model was in flight, or had failed just before."""
    before = [other for other in dead if other is not call and other["started_ms"] <= call["started_ms"]]
    ends = [other["finished_ms"] for other in before]
    return None not in ends and call["started_ms"] >= max(ends, default=0) + PROBE_PAUSE_MS
