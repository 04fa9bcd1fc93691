#!/usr/bin/env python3
"""Makes docs/images/demo.svg, the animated picture in README.md, from the demo's own output:

    CLICOLOR_FORCE=1 ./everypage demo | docs/images/make-demo-svg.py --until "What was read" > docs/images/demo.svg

Lines that start with a time ("   2.4 s page 5 …") appear at that time; all others appear shortly after the
line before. Viewers without CSS animations, and those that prefer less motion, see the whole picture.
`--until TEXT` stops before the first line that starts with TEXT, `--drop TEXT` leaves out the section whose heading
starts with TEXT (up to the next blank line). Standard library only.
"""

import argparse
import html
import re
import sys

ADVANCE, LINE, SIZE = 8.4, 19, 14  # pixels: width of a character, height of a line, size of the font
MARGIN, TITLE = 18, 34
STEP, PAUSE = 0.05, 0.6  # seconds: between lines without a time, before the first line
COLOURS = {"31": "red", "32": "green", "33": "yellow", "36": "cyan", "2": "dim", "1": "bold"}
STYLE = """
.text { font: %dpx ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #c9d1d9 }
.bold { font-weight: bold; fill: #f0f6fc } .dim { fill: #8b949e } .red { fill: #ff7b72 } .green { fill: #56d364 }
.yellow { fill: #e3b341 } .cyan { fill: #76e3ea }
@keyframes appear { from { opacity: 0 } to { opacity: 1 } }
.line { animation: appear 0.01s linear both }
@media (prefers-reduced-motion: reduce) { .line { animation: none } }
""" % SIZE


def spans(line):
    """The pieces of a line as (text, class): `\\x1b[1m…` is bold, and so on."""
    found, current = [], ""
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if part.startswith("\x1b"):
            codes = [code for code in part[2:-1].split(";") if code in COLOURS]
            current = " ".join(COLOURS[code] for code in codes)
        elif part:
            found.append((part, current))
    return found


def seconds(text):
    """The time that a line starts with, if any: `341 ms`, `2.4 s`."""
    match = re.match(r"\s+([0-9.]+) (ms|s)\s", text)
    return match and float(match[1]) / (1000 if match[2] == "ms" else 1)


def picture(lines, title):
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    columns = max(map(len, plain))
    width = round(columns * ADVANCE) + 2 * MARGIN
    height = TITLE + len(lines) * LINE + MARGIN
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="{html.escape(title)}">',
        f"<title>{html.escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" fill="#0d1117" stroke="#484f58"/>',
        *(f'<circle cx="{x}" cy="17" r="5" fill="{fill}"/>' for x, fill in ((20, "#ff5f57"), (38, "#febc2e"), (56, "#28c840"))),
    ]
    clock, story = PAUSE, None
    for number, (line, text) in enumerate(zip(lines, plain)):
        at = seconds(text)
        if at is not None:
            story = clock - at if story is None else story
            clock = max(clock + STEP, story + at)
        else:
            clock += STEP
        y, column, pieces = TITLE + (number + 1) * LINE - 5, 0, []
        for piece, kind in spans(line):
            # Runs of spaces are left out and the rest is placed by its column, so that columns align in every viewer
            # and font.
            for shown in re.finditer(r"\S+(?: \S+)*", piece):
                x, length = MARGIN + (column + shown.start()) * ADVANCE, len(shown[0]) * ADVANCE
                attribute = f' class="{kind}"' if kind else ""
                pieces.append(
                    f'<tspan x="{x:.1f}" textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs"{attribute}>'
                    f"{html.escape(shown[0], quote=False)}</tspan>"
                )
            column += len(piece)
        if pieces:
            out.append(f'<text class="text line" y="{y}" style="animation-delay:{clock:.2f}s">{"".join(pieces)}</text>')
    return "\n".join([*out, "</svg>", ""])


def position(lines, start):
    plain = (re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines)
    found = next((number for number, text in enumerate(plain) if text.startswith(start)), None)
    if found is None:
        sys.exit(f"no line starts with {start!r}")
    return found


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--until", metavar="TEXT", help="stop before the first line that starts with this")
    options.add_argument("--drop", metavar="TEXT", action="append", default=[], help="leave out this section")
    options.add_argument("--title", default="./everypage demo: a report is read while two of four models fail")
    options = options.parse_args()
    lines = ["\x1b[2m$\x1b[0m ./everypage demo", *sys.stdin.read().splitlines()]
    if options.until:
        lines = lines[: position(lines, options.until)]
    for heading in options.drop:
        start = position(lines, heading)
        blank = (number for number in range(start, len(lines)) if not lines[number].strip())
        del lines[start : next(blank, len(lines)) + 1]
    while not lines[-1].strip():
        lines.pop()
    sys.stdout.write(picture(lines, options.title))


if __name__ == "__main__":
    main()
