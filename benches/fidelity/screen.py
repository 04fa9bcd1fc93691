"""What a run prints: a table for each kind of documents, and each document's scores on request."""

from __future__ import annotations

import summary
from summary import shown

SCORES = ("overall", "text", "tables", "headings", "hierarchy", "words_found", "words_right", "leakage")


def print_summary(rows: list[dict], costs: list[dict]) -> None:
    for name in dict.fromkeys(row["set"] for row in rows):
        group = [row for row in rows if row["set"] == name]
        texts, scans = ([row for row in group if row["is_scan"] == is_scan] for is_scan in (False, True))
        if texts and scans:
            _print_group(f"{name}, all", group)
        _print_groups(f"{name}, with text", texts)
        _print_groups(f"{name}, scans", scans)
    print()
    for cost in costs:
        speed = cost["pages"] / max(cost["cpu_seconds"], 0.01)
        kind = "scans" if cost["is_scan"] else "text"
        print(
            f"{cost['set']:12}{cost['tool']:14}{kind:6}{cost['pages']:6} pages{cost['cpu_seconds']:9.1f} CPU s"
            f"{speed:9.1f} pages per CPU s{cost['peak_bytes'] / 1e6:8.0f} MB"
        )


def _print_groups(title: str, rows: list[dict]) -> None:
    if rows:
        _print_group(title, rows)
    corpora = sorted({row["corpus"] for row in rows})
    for corpus in corpora if len(corpora) > 1 else []:
        _print_group(f"{title}, {corpus}", [row for row in rows if row["corpus"] == corpus])


def _print_group(title: str, rows: list[dict]) -> None:
    count = len({row["document"] for row in rows})
    print(f"\n{title}: {count} documents")
    print(f"{'':14}" + "".join(f"{name:>12}" for name in SCORES) + f"{'false tables':>14}")
    for name in dict.fromkeys(row["tool"] for row in rows):
        means = summary.means([row for row in rows if row["tool"] == name])
        print(f"{name:14}" + "".join(f"{shown(means[score]):>12}" for score in SCORES) + f"{means['false_tables']:14}")


def print_details(rows: list[dict]) -> None:
    """Each document with Everypage's scores, and how far the best peer is ahead; worst first."""
    by_document: dict[str, dict[str, dict]] = {}
    for row in rows:
        by_document.setdefault(row["document"], {})[row["tool"]] = row
    tools = list(dict.fromkeys(row["tool"] for row in rows))
    first = tools[0]

    def gap(scores: dict[str, dict]) -> float:
        return scores[first]["overall"] - max((row["overall"] for tool, row in scores.items() if tool != first), default=0)

    print("document" + " " * 42 + "".join(f"{tool + ' ' + name:>24}" for name in ("overall",) for tool in tools)
          + f"{'':4}{first}: text  tables headings words_found words_right leaked")
    for name, scores in sorted(by_document.items(), key=lambda item: gap(item[1])):
        row = scores[first]
        own = "".join(f"{shown(row[part]):>9}" for part in ("text", "tables", "headings", "words_found", "words_right"))
        print(f"{name:50}" + "".join(f"{shown(scores[tool]['overall']):>24}" for tool in tools)
              + f"{'':8}{own}{row['leaked_pages']:6}/{row['furniture_pages']}")
    for part in ("text", "tables", "headings"):
        _print_gaps(part, by_document, first)


def _print_gaps(part: str, by_document: dict[str, dict[str, dict]], first: str) -> None:
    """Where a peer is furthest ahead in one score."""
    gaps = []
    for name, scores in by_document.items():
        own = scores[first][part]
        others = {tool: row[part] for tool, row in scores.items() if tool != first and row[part] is not None}
        if own is not None and others and not scores[first]["is_scan"]:
            best = max(others, key=others.get)
            gaps.append((others[best] - own, name, own, best, others[best]))
    print(f"\n{part}: furthest behind a peer")
    for gap, name, own, best, score in sorted(gaps, reverse=True)[:12]:
        if gap > 0.02:
            print(f"  {name:50}{first} {shown(own)}  {best} {shown(score)}")


def print_changes(rows: list[dict], before: list[dict]) -> None:
    """Everypage's documents whose score changed since the last run."""
    old = {row["document"]: row for row in before}
    changes = []
    for row in rows:
        if row["tool"] == "everypage" and row["document"] in old:
            for part in ("text", "tables", "headings"):
                now, then = row[part], old[row["document"]][part]
                if now is not None and then is not None and abs(now - then) > 0.02:
                    changes.append((now - then, row["document"], part, then, now))
    if changes:
        print("changed since the last run of everypage:")
    for change, name, part, then, now in sorted(changes):
        print(f"  {change:+.3f}  {name:50}{part:10}{shown(then)} → {shown(now)}")
