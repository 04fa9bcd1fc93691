"""The documents of the benchmark: every page has its own text."""

from __future__ import annotations

from pathlib import Path

# One for each page of the short document: text with another page's harbour has a wrong page number.
HARBOURS = ["Aberdeen", "Bergen", "Cadiz", "Dover", "Esbjerg", "Famagusta", "Genoa", "Hamburg", "Izmir", "Jaffa"]

HEIGHT = 842
# Draws the picture that makes a page one with graphics.
PICTURE = "q 400 0 0 400 50 120 cm /I Do Q"
LINES = [
    "Harbour of {name}, entries of the day",
    "The ferry left {name} at seven with forty passengers and a crate of lemons",
    "By noon the fog had lifted and the keeper wrote down nine sails to the west",
    "No one remembered who had painted the old warehouse green or when its clock had stopped",
    "In the evening the band of {name} played until the last lamps were put out",
]
# A mark that only a model's answer has; text read from the PDF itself does not have it.
READ_BY_AI = "Read by a model."


def width(page: int) -> int:
    """Each page of the short document has its own width, so that an image alone identifies it."""
    return 500 + 14 * page


def shape(page: int) -> str:
    return f"{width(page)}x{HEIGHT}"


def page_of(image: dict[str, int] | None, pages: int = len(HARBOURS)) -> int | None:
    """The page that this is an image of, at any resolution."""
    if not image:
        return None
    ratio = image["width"] / image["height"] * HEIGHT
    page = round((ratio - 500) / 14)
    return page if 1 <= page <= pages and abs(ratio - width(page)) < 5 else None


def words(page: int) -> str:
    return "\n".join(line.format(name=HARBOURS[page - 1]) for line in LINES)


def answer(page: int) -> str:
    """The answer of a working model."""
    return f"{words(page)}\n{READ_BY_AI}"


def short() -> bytes:
    """A page for each harbour, with a picture."""
    return pdf([(width(page), words(page)) for page in range(1, len(HARBOURS) + 1)], PICTURE)


def long(pages: int) -> bytes:
    """Pages of text only, which need no image: a request contains the page number."""
    text = "The harbour master's book, page {}\nNine sails to the west and one to the east"
    return pdf([(595, text.format(page)) for page in range(1, pages + 1)])


def write(path: Path, document: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(document)
    return path


def pdf(pages: list[tuple[int, str]], drawn: str = "") -> bytes:
    """A page for each width and text; `drawn` is added to every page."""
    picture = bytes((x * y) % 256 for y in range(64) for x in range(64))
    kids = " ".join(f"{5 + 2 * index} 0 R" for index in range(len(pages)))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Count {len(pages)}/Kids[{kids}]>>".encode(),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        _stream("/Type/XObject/Subtype/Image/Width 64/Height 64/ColorSpace/DeviceGray/BitsPerComponent 8", picture),
    ]
    for index, (page_width, text) in enumerate(pages):
        objects.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 {page_width} {HEIGHT}]/Contents {6 + 2 * index} 0 R"
            "/Resources<</Font<</F 3 0 R>>/XObject<</I 4 0 R>>>>>>".encode()
        )
        lines = [f"BT /F 11 Tf 50 {780 - 18 * row} Td ({line}) Tj ET" for row, line in enumerate(text.splitlines())]
        objects.append(_stream("", "\n".join([*lines, drawn]).encode()))
    return _assembled(objects)


def _stream(entries: str, data: bytes) -> bytes:
    return f"<<{entries}/Length {len(data)}>>\nstream\n".encode() + data + b"\nendstream"


def _assembled(objects: list[bytes]) -> bytes:
    out = bytearray(b"%PDF-1.7\n")
    places = []
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, table)
    return bytes(out)
