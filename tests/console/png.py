"""Compresses a screenshot: 256 colours and a higher compression level, a third of the browser's size."""

import collections
import struct
import zlib

MAX_COLOURS = 256
# The most frequent colours, which are never merged.
EXACT_COLOURS = 64
# Colours with a smaller squared distance over red, green and blue are merged.
MIN_DISTANCE = 27


def compress(png: bytes) -> bytes:
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
    """Selects the palette from `colours`, which are sorted by frequency."""
    min_distance = MIN_DISTANCE
    while True:
        # Large areas keep their exact colour, however similar they are.
        palette = colours[:EXACT_COLOURS]
        for colour in colours[EXACT_COLOURS:]:
            if len(palette) == MAX_COLOURS:
                break
            if all(distance(colour, other) >= min_distance for other in palette):
                palette.append(colour)
        else:
            return palette
        if min_distance > 12 * MIN_DISTANCE:
            return palette
        # Too many colours: rare ones would have no similar colour in the palette.
        min_distance *= 2


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def read(png: bytes) -> tuple[int, int, list[bytes]]:
    """Returns width, height and RGB rows of a PNG as Chromium writes it."""
    parts, at = [], 8
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at : at + 8])
        parts.append((kind, png[at + 8 : at + 8 + size]))
        at += size + 12
    width, height, depth, colour = struct.unpack(">IIBB", parts[0][1][:10])
    assert (depth, colour) == (8, 2), "not a 24-bit RGB image"
    raw = zlib.decompress(b"".join(body for kind, body in parts if kind == b"IDAT"))
    stride, rows = width * 3, [bytes(width * 3)]
    for y in range(height):
        start = y * (stride + 1)
        rows.append(unfiltered(raw[start], bytearray(raw[start + 1 : start + 1 + stride]), rows[-1]))
    return width, height, rows[1:]


def unfiltered(kind: int, line: bytearray, above: bytes) -> bytes:
    """Reverts one of PNG's five row filters."""
    for x in range(len(line) if kind else 0):
        left, up, corner = (line[x - 3], above[x], above[x - 3]) if x >= 3 else (0, above[x], 0)
        line[x] = (line[x] + [0, left, up, (left + up) // 2, paeth(left, up, corner)][kind]) & 255
    return bytes(line)


def paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda value: abs(guess - value))
