"""Compares the output of a run with the text of the pages, and counts its model calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass

import documents
from tools import Answer
from process import Ending
from scenarios import DEADLINE, GRACE, PAGES, REQUESTS, Scenario


@dataclass(frozen=True)
class Verdict:
    seconds: float
    # None: the run was killed.
    exit_code: int | None
    # It ended by itself inside the deadline, with text for at least one page.
    in_time: bool
    # Pages that arrived inside the deadline, however the run ended.
    pages_with_text: int
    # Of these, pages with their own text.
    pages_right: int
    pages_by_model: int
    # Pages that arrived after the deadline, before the run was killed.
    pages_late: int
    calls: int
    calls_to_failing: int
    calls_by_model: dict[str, int]
    max_calls_for_a_page: int
    peak_bytes: int

    def as_json(self) -> dict:
        return asdict(self) | {"seconds": round(self.seconds, 2)}


Evaluate = Callable[[Scenario, Ending, "list[Answer]", "list[dict]"], Verdict]


def document(scenario: Scenario, ending: Ending, answers: list[Answer], calls: list[dict]) -> Verdict:
    return _verdict(scenario, ending, answers, calls, PAGES, _is_own_text, documents.READ_BY_AI)


def requests(scenario: Scenario, ending: Ending, answers: list[Answer], calls: list[dict]) -> Verdict:
    return _verdict(scenario, ending, answers, calls, REQUESTS, _names_page, "[read by ")


def _verdict(
    scenario: Scenario, ending: Ending, answers: list[Answer], calls: list[dict],
    pages: int, is_right: Callable[[int, str], bool], mark: str,
) -> Verdict:
    answers = [answer for answer in answers if answer.text.strip() and 1 <= answer.page <= pages]
    end = ending.started + DEADLINE + GRACE
    texts = {answer.page: answer.text for answer in answers if answer.time <= end}
    return Verdict(
        seconds=ending.seconds,
        exit_code=ending.exit_code,
        in_time=bool(texts) and ending.exit_code is not None and ending.seconds <= DEADLINE + GRACE,
        pages_with_text=len(texts),
        pages_right=sum(is_right(page, text) for page, text in texts.items()),
        pages_by_model=sum(mark in text and is_right(page, text) for page, text in texts.items()),
        pages_late=len({answer.page for answer in answers} - texts.keys()),
        calls=len(calls),
        calls_to_failing=sum(call["model"] in scenario.failing for call in calls),
        calls_by_model=dict(Counter(call["model"] for call in calls)),
        max_calls_for_a_page=max(Counter(filter(None, map(_page, calls))).values(), default=0),
        peak_bytes=ending.peak_bytes,
    )


def _page(call: dict) -> int | None:
    """The page of a call, by its image if there is one, else by its text."""
    return documents.page_of(call["image"]) or call["page"]


def _is_own_text(page: int, text: str) -> bool:
    """Whether the text names this page's harbour and no other."""
    return [name for name in documents.HARBOURS if name in text] == [documents.HARBOURS[page - 1]]


def _names_page(page: int, text: str) -> bool:
    return f"page {page}\n" in text or f"Page {page} has no text" in text or text.rstrip().endswith(f"page {page}")
