"""One picture of all results: pages delivered and time taken, by tool and scenario. Plain SVG, for light and dark."""

from __future__ import annotations

from html import escape
from statistics import median

from figures import seconds

NAME, CELL, ROW, HEAD = 190, 122, 34, 64
BAR = CELL - 14
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328 } .head { font-size: 11px } .bold { font-weight: 600 }
.late { fill: #b3261e } .faint { fill: #59636e }
.model { fill: #2f6fb5 } .pdf { fill: #8fbce6 } .wrong { fill: #d9822b } .after { fill: #e5b5b0 } .none { fill: #e3e6ea }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .late { fill: #ff8f80 } .faint { fill: #9aa4af }
  .model { fill: #539bf5 } .pdf { fill: #2b5787 } .wrong { fill: #e0964a } .after { fill: #7a4742 } .none { fill: #343b44 }
}"""


def svg(results: dict) -> str:
    body, y = _legend(), 44
    headings = {"documents": "One document of {pages} pages", "gateways": "{pages} pages through a chain of models"}
    for kind, what in headings.items():
        part, y = _grid(results[kind], (what + ", deadline {deadline} s").format(**results[kind][0]), y)
        body += part
    columns = max(len({row["scenario"] for row in results[kind]}) for kind in headings)
    width = NAME + columns * CELL
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" height="{y}" role="img" '
        f'aria-label="Pages delivered and time taken, by tool and scenario"><style>{STYLE}</style>\n'
        + "\n".join(body) + "\n</svg>\n"
    )


def _grid(rows: list[dict], title: str, y: int) -> tuple[list[str], int]:
    body = [_text(0, y + 14, title, "bold")]
    scenarios = list(dict.fromkeys((row["scenario"], row["title"]) for row in rows))
    for column, (_, heading) in enumerate(scenarios):
        for line, words in enumerate(_wrapped(heading)):
            body.append(_text(NAME + column * CELL, y + 34 + 13 * line, words, "head faint"))
    y += HEAD
    for tool in dict.fromkeys((row["tool"], row["settings"]) for row in rows):
        body.append(_text(0, y + 14, ", ".join(tool), ""))
        for column, (scenario, _) in enumerate(scenarios):
            row = next(row for row in rows if (row["tool"], row["settings"]) == tool and row["scenario"] == scenario)
            body += _cell(row, NAME + column * CELL, y)
        y += ROW
    return body, y + 14


def _cell(row: dict, x: float, y: float) -> list[str]:
    middle = lambda name: median(run[name] for run in row["runs"])
    right, by_model, text = middle("pages_right"), middle("pages_by_model"), middle("pages_with_text")
    after = middle("pages_late")
    parts = {
        "model": by_model, "pdf": right - by_model, "wrong": text - right, "after": after,
        "none": row["pages"] - text - after,
    }
    body, at = [], x
    for style, pages in parts.items():
        length = BAR * pages / row["pages"]
        if length > 0:
            body.append(f'<rect class="{style}" x="{at:.1f}" y="{y + 2}" width="{length:.1f}" height="9"/>')
        at += length
    late = middle("seconds") > row["deadline"] + row["grace"]
    label = seconds(row["runs"]).partition(" (")[0].removesuffix(" s") + " s"
    if not text + after:
        label += ", nothing"
    return [*body, _text(x, y + 24, label, "late" if late else "faint")]


def _legend() -> list[str]:
    body, x = [], 0
    for style, words in (
        ("model", "read by a model"), ("pdf", "read from the PDF itself"),
        ("wrong", "not this page's text"), ("after", "after the deadline"), ("none", "no text"),
    ):
        body += [f'<rect class="{style}" x="{x}" y="8" width="12" height="12"/>', _text(x + 18, 18, words, "")]
        x += 40 + 7 * len(words)
    return [*body, _text(x, 18, "red: over the deadline; >: killed", "late")]


def _wrapped(words: str, width: int = 18) -> list[str]:
    lines = [""]
    for word in words.split():
        if lines[-1] and len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _text(x: float, y: float, words: str, style: str) -> str:
    return f'<text class="{style}" x="{x:.0f}" y="{y:.0f}">{escape(words)}</text>'
