"""Scores of one document: each between 0 and 1, or None where the truth has nothing to compare with."""

from __future__ import annotations

import re
from collections import Counter

from rapidfuzz.distance import Indel

import teds
from parse import Heading, Parsed, words

# Headings this similar are the same heading.
SAME_HEADING = 0.8
# Above this length, texts are compared by words: the time grows with the square of the length.
MAX_CHARACTERS = 400_000


def score(truth: Parsed, found: Parsed, furniture: list[dict]) -> dict:
    tables, false_tables = table_scores(truth, found)
    headings, hierarchy = heading_scores(truth.headings, found.headings)
    text = text_score(truth.text, found.text)
    parts = [part for part in (text, tables, headings) if part is not None]
    precision, recall = word_scores(truth.text, found.text)
    return {
        "overall": sum(parts) / len(parts),
        "text": text,
        "tables": tables,
        "headings": headings,
        "hierarchy": hierarchy,
        "words_found": recall,
        "words_right": precision,
        "false_tables": false_tables,
        **leakage(furniture, truth.text, found.text),
    }


def text_score(truth: str, found: str) -> float:
    """Normalised edit similarity: missing text, wrong text and a wrong order all lower it."""
    if len(truth) + len(found) > 2 * MAX_CHARACTERS:
        return Indel.normalized_similarity(truth.split(), found.split())
    return Indel.normalized_similarity(truth, found)


def word_scores(truth: str, found: str) -> tuple[float, float]:
    """Share of the found words that are in the truth, and of the truth's words that were found, in any order."""
    expected, given = Counter(words(truth)), Counter(words(found))
    common = sum((expected & given).values())
    return common / max(1, sum(given.values())), common / max(1, sum(expected.values()))


def table_scores(truth: Parsed, found: Parsed) -> tuple[float | None, int]:
    """Mean TEDS over the truth's tables and those that are none; and the number of tables where there are none."""
    if not truth.tables:
        return None, len(found.tables)
    total, joined = teds.similarity(truth.tables, found.tables)
    return min(1.0, 2 * total / (len(truth.tables) + len(found.tables) - joined)), 0


def heading_scores(truth: list[Heading], found: list[Heading]) -> tuple[float | None, float | None]:
    """F1 of the headings, and the same if a heading must also be below the right one."""
    if not truth:
        return None, None
    pairs = _matched(truth, found)
    parents, found_parents = _parents(truth), _parents(found)
    partner = dict(pairs)
    in_place = sum(
        partner.get(parents[i]) == found_parents[j] if parents[i] is not None else found_parents[j] is None
        for i, j in pairs
    )
    total = len(truth) + len(found)
    return 2 * len(pairs) / total, 2 * in_place / total


def _matched(truth: list[Heading], found: list[Heading]) -> list[tuple[int, int]]:
    """The longest sequence of pairs of similar headings, in order."""
    keys, found_keys = [_key(heading) for heading in truth], [_key(heading) for heading in found]
    best: list[list[int]] = [[0] * (len(found) + 1) for _ in range(len(truth) + 1)]
    same = [[_is_same(key, other) for other in found_keys] for key in keys]
    for i in range(len(truth) - 1, -1, -1):
        for j in range(len(found) - 1, -1, -1):
            best[i][j] = 1 + best[i + 1][j + 1] if same[i][j] else max(best[i + 1][j], best[i][j + 1])
    pairs, i, j = [], 0, 0
    while i < len(truth) and j < len(found):
        if same[i][j] and best[i][j] == 1 + best[i + 1][j + 1]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def _key(heading: Heading) -> str:
    """Without its number: a word processor makes numbers itself, and truth from its files lacks them."""
    text = re.sub(r"^\W*\d+(\.\d+)*\W*(?=[^\W\d])", "", heading.text.lower())
    return re.sub(r"\W+", " ", text).strip()


def _is_same(one: str, other: str) -> bool:
    return one == other or Indel.normalized_similarity(one, other, score_cutoff=SAME_HEADING) >= SAME_HEADING


def _parents(headings: list[Heading]) -> list[int | None]:
    parents: list[int | None] = []
    for index, heading in enumerate(headings):
        above = (i for i in range(index - 1, -1, -1) if headings[i].level < heading.level)
        parents.append(next(above, None))
    return parents


def leakage(furniture: list[dict], truth: str, found: str) -> dict:
    """Pages with a running header or footer, and on how many of them it is in the text."""
    pages = leaked = 0
    expected, given = _without_digits(truth), _without_digits(found)
    for line in furniture:
        key = _without_digits(line["text"])
        # Where the truth has the line on each page as well, it is text.
        due = max(0, line["pages"] - expected.count(key))
        pages += due
        leaked += min(max(0, given.count(key) - expected.count(key)), due)
    return {"furniture_pages": pages, "leaked_pages": leaked}


def _without_digits(text: str) -> str:
    return re.sub(r"\d+", "#", "".join(text.lower().split()))
