"""When a request is repeated, and after which time. Every request of the client may be repeated: a document is
submitted under a key, or recognised by its content."""

from __future__ import annotations

import random

import httpx

from .errors import retry_after

#: How often a request is sent at most.
MAX_TRIES = 5
FIRST_DELAY = 0.5
MAX_DELAY = 20.0

#: Too many requests, and what proxies and stopping servers answer.
PASSING = frozenset({429, 502, 503, 504})


def delay(tries: int, outcome: httpx.Response | httpx.TransportError) -> float | None:
    """Seconds until the next try; `None` when the outcome is final."""
    if tries >= MAX_TRIES:
        return None
    if isinstance(outcome, httpx.UnsupportedProtocol):
        return None
    if isinstance(outcome, httpx.Response):
        if outcome.status_code not in PASSING:
            return None
        if (asked := retry_after(outcome)) is not None:
            return min(max(asked, 0.0), MAX_DELAY)
    backoff = min(FIRST_DELAY * 2 ** (tries - 1), MAX_DELAY)
    return backoff * random.uniform(0.5, 1.0)
