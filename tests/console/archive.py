"""Generates a realistic PDF of any length: a harbour archive, with a chart on most of its pages."""

import random
import textwrap

PLACES = ["North quay", "South quay", "Grain dock", "Timber wharf", "Ferry pier", "Dry dock", "Cold store", "Rail yard", "Fish market", "Pilot station"]
GOODS = ["cargo", "timber", "grain", "passengers", "coal", "fish", "containers"]
MONTHS = "JFMAMJJASOND"
LINES = [
    "The {place} handled {a} thousand tonnes of {goods} in {year}, {b} per cent more than the year before.",
    "Ice closed the inner basin for {b} days in February, and the pilots worked in two shifts until the thaw.",
    "Of {a} vessels that called, none waited longer than {b} hours for a berth.",
    "The council asks that the figures for {goods} be read together with those of the rail yard.",
    "Two cranes were overhauled in spring; a third, built in 19{b}, was taken down in October.",
    "Dredging along the fairway moved {a} cubic metres of silt and kept the depth at nine metres.",
    "Dues rose by {b} per cent, which the shipping agents accepted after a hearing in May.",
    "The harbour office thanks the crews of the tugs, who were called out {a} times, often at night.",
]


def pdf(pages: int, seed: int = 2026) -> bytes:
    """Returns the same bytes for the same arguments."""
    chance = random.Random(seed)
    contents = [plain(chance, number) if number % 6 == 1 else charted(chance, number) for number in range(1, pages + 1)]
    fonts = [f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>" for name in ("Helvetica", "Helvetica-Bold", "Times-Roman")]
    # Object 1 is the catalog, 2 the page tree, 3 to 5 are fonts; then a page and its content alternate.
    first = 6
    kids = " ".join(f"{first + 2 * at} 0 R" for at in range(pages))
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {pages} >>", *fonts]
    for at, content in enumerate(contents):
        attributes = "/MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R /F2 4 0 R /F3 5 0 R >> >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R {attributes} /Contents {first + 2 * at + 1} 0 R >>")
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    out, places = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    out += f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return out.encode("latin-1")


def text(x: float, y: float, size: float, words: str, font: str = "F1", ink: str = "0.13 0.16 0.2") -> str:
    escaped = words.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
    return f"BT {ink} rg /{font} {size} Tf {x} {y} Td ({escaped}) Tj ET"


def frame(number: int, title: str) -> list[str]:
    quiet = "0.45 0.5 0.55"
    return [
        text(64, 790, 8, "Lindholm harbour: the archive", ink=quiet),
        "0.45 0.5 0.55 RG 0.4 w 64 782 m 531 782 l S",
        text(64, 738, 20, title, "F2", "0.1 0.36 0.5"),
        text(515, 40, 9, str(number), ink=quiet),
    ]


def paragraphs(chance: random.Random, y: float, count: int, place: str, goods: str, year: int) -> tuple[list[str], float]:
    out = []
    for _ in range(count):
        sentences = [line.format(place=place, goods=goods, year=year, a=chance.randint(120, 980), b=chance.randint(11, 38)) for line in chance.sample(LINES, 2)]
        for line in textwrap.wrap(" ".join(sentences), 56):
            out.append(text(64, y, 16, line, "F3"))
            y -= 20
        y -= 9
    return out, y


def plain(chance: random.Random, number: int) -> str:
    year = 1990 + number // 2
    body, _ = paragraphs(chance, 704, 5, chance.choice(PLACES), chance.choice(GOODS), year)
    return "\n".join(frame(number, f"Minutes of {year}") + body)


def charted(chance: random.Random, number: int) -> str:
    place, goods, year = chance.choice(PLACES), chance.choice(GOODS), 1990 + number // 2
    body, y = paragraphs(chance, 704, 2, place, goods, year)
    base, left, step = y - 230, 84, 36
    chart = [text(64, y - 8, 9, f"Thousand tonnes of {goods}, by month", "F2"), "0.8 0.83 0.86 RG 0.5 w"]
    chart += [f"{left - 6} {base + line} m {left + 12 * step} {base + line} l S" for line in (0, 60, 120, 180)]
    chart += [text(64, base + line - 3, 8, str(line), ink="0.45 0.5 0.55") for line in (0, 60, 120, 180)]
    for at, month in enumerate(MONTHS):
        high = chance.randint(40, 170)
        ink = "0.88 0.5 0.2" if high > 140 else "0.1 0.36 0.5"
        chart += [f"{ink} rg {left + at * step + 5} {base} {step - 12} {high} re f", text(left + at * step + 13, base - 14, 8, month)]
    chart.append(text(64, base - 36, 9, f"Figure {number}. {place}, {year}; the best months stand out."))
    more, _ = paragraphs(chance, base - 66, 1, place, goods, year)
    return "\n".join(frame(number, f"{place}: {goods} in {year}") + body + chart + more)
