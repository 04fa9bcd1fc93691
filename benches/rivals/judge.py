"""What a run delivered, held against what the pages say, and what it cost in calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

import paper
from contestants import Contestant, Delivery
from process import Ending
from scenarios import DEADLINE, GRACE, PAGES, REQUESTS



@dataclass(frozen=True)
class Verdict:
    seconds: float
    # None: killed.
    exit_code: int | None
    delivered: bool
    in_time: bool
    pages_with_text: int
    # Of these, those whose text is that of the page of this number.
    pages_right: int
    pages_by_model: int
    calls: int
    calls_in_vain: int
    peak_bytes: int

    def as_json(self) -> dict:
        return asdict(self) | {"seconds": round(self.seconds, 2)}


Judge = Callable[[Contestant, Ending, "Delivery | None", "list[dict]"], Verdict]


def document(contestant: Contestant, ending: Ending, delivery: Delivery | None, calls: list[dict]) -> Verdict:
    return _verdict(contestant, ending, delivery, calls, PAGES, _is_own_text, paper.READ_BY_AI)


def requests(contestant: Contestant, ending: Ending, delivery: Delivery | None, calls: list[dict]) -> Verdict:
    return _verdict(contestant, ending, delivery, calls, REQUESTS, _names_page, "[read by ")


def _verdict(
    contestant: Contestant, ending: Ending, delivery: Delivery | None, calls: list[dict],
    pages: int, is_right: Callable[[int, str], bool], mark: str,
) -> Verdict:
    delivered = ending.exit_code in contestant.good and delivery is not None
    texts = {page: text for page, text in (delivery or {}).items() if delivered and text.strip() and 1 <= page <= pages}
    in_vain = [call for call in calls if not _answered(call["behaviour"])]
    return Verdict(
        seconds=ending.seconds,
        exit_code=ending.exit_code,
        delivered=delivered,
        in_time=delivered and ending.seconds <= DEADLINE + GRACE,
        pages_with_text=len(texts),
        pages_right=sum(is_right(page, text) for page, text in texts.items()),
        pages_by_model=sum(mark in text and is_right(page, text) for page, text in texts.items()),
        calls=len(calls),
        calls_in_vain=len(in_vain),
        peak_bytes=ending.peak_bytes,
    )


def _answered(behaviour: object) -> bool:
    while isinstance(behaviour, dict) and "delay" in behaviour:
        behaviour = behaviour["delay"]["then"]
    return behaviour == "answer" or (isinstance(behaviour, dict) and "answer_text" in behaviour)


def _is_own_text(page: int, text: str) -> bool:
    """It names this page's harbour and nobody else's."""
    return [name for name in paper.HARBOURS if name in text] == [paper.HARBOURS[page - 1]]


def _names_page(page: int, text: str) -> bool:
    return f"page {page}\n" in text or f"Page {page} has no text" in text or text.rstrip().endswith(f"page {page}")
