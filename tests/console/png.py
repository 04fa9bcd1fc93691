"""Makes a picture of a screen small: 256 colours, packed well. A third of what the browser writes."""

import collections
import struct
import zlib

MOST = 256
KEPT = 64
# Colours that are closer than this, squared and summed over red, green and blue, are one.
CLOSE = 27


def smaller(png: bytes) -> bytes:
    width, height, rows = read(png)
    pixels = [row[at : at + 3] for row in rows for at in range(0, len(row), 3)]
    counts = collections.Counter(pixels)
    palette = choose([colour for colour, _ in counts.most_common()])
    place = {colour: min(range(len(palette)), key=lambda at: distance(palette[at], colour)) for colour in counts}
    places = bytes(place[pixel] for pixel in pixels)
    packed = zlib.compress(b"".join(b"\0" + places[y * width : (y + 1) * width] for y in range(height)), 9)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = [(b"IHDR", header), (b"PLTE", b"".join(palette)), (b"IDAT", packed), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, body) for kind, body in parts)


def distance(one: bytes, other: bytes) -> int:
    return (one[0] - other[0]) ** 2 + (one[1] - other[1]) ** 2 + (one[2] - other[2]) ** 2


def choose(colours: list[bytes]) -> list[bytes]:
    """The most frequent ones that differ, the first of `colours` first."""
    close = CLOSE
    while True:
        # Large areas keep their own colour, however alike they are.
        palette = colours[:KEPT]
        for colour in colours[KEPT:]:
            if len(palette) == MOST:
                break
            if all(distance(colour, other) >= close for other in palette):
                palette.append(colour)
        else:
            return palette
        if close > 12 * CLOSE:
            return palette
        # Too many: what is rare would have no colour near its own.
        close *= 2


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def read(png: bytes) -> tuple[int, int, list[bytes]]:
    """Width, height and rows of red, green and blue, as Chromium writes them."""
    parts, at = [], 8
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at : at + 8])
        parts.append((kind, png[at + 8 : at + 8 + size]))
        at += size + 12
    width, height, depth, colour = struct.unpack(">IIBB", parts[0][1][:10])
    assert (depth, colour) == (8, 2), "not a picture of 24 bits"
    raw = zlib.decompress(b"".join(body for kind, body in parts if kind == b"IDAT"))
    stride, rows = width * 3, [bytes(width * 3)]
    for y in range(height):
        start = y * (stride + 1)
        rows.append(unfiltered(raw[start], bytearray(raw[start + 1 : start + 1 + stride]), rows[-1]))
    return width, height, rows[1:]


def unfiltered(kind: int, line: bytearray, above: bytes) -> bytes:
    """A row as it was before one of PNG's five filters."""
    for x in range(len(line) if kind else 0):
        left, up, corner = (line[x - 3], above[x], above[x - 3]) if x >= 3 else (0, above[x], 0)
        line[x] = (line[x] + [0, left, up, (left + up) // 2, paeth(left, up, corner)][kind]) & 255
    return bytes(line)


def paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda value: abs(guess - value))
