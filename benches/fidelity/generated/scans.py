"""Scans: pages of the corpus as images with noise, a slight skew, or turned."""

from __future__ import annotations

import io
import random
from dataclasses import dataclass
from pathlib import Path

import numpy
import pymupdf
from PIL import Image, ImageFilter


@dataclass(frozen=True)
class Scan:
    name: str
    source: str
    dpi: int = 200
    # Clockwise, in steps of 90: how the sheet lay on the scanner.
    turn: int = 0
    skew: float = 0.0
    noise: float = 0.0
    blur: float = 0.0
    # Ink and paper, 0 to 255.
    ink: int = 0
    paper: int = 255
    pages: int = 2


SCANS = (
    Scan("clean", "columns-1"),
    Scan("noise", "headings-numbered", noise=25, blur=0.6),
    Scan("skew", "lists", skew=0.8, noise=12),
    Scan("pale", "furniture-chapters", ink=110, paper=225, noise=12),
    Scan("two-columns", "columns-2", noise=15, blur=0.5),
    Scan("table", "tables-ruled", noise=12),
    Scan("coarse", "headings-by-weight", dpi=150, noise=12),
    Scan("turned-90", "columns-mixed", turn=90, noise=12),
    Scan("turned-180", "headings-long", turn=180, noise=12),
    Scan("turned-270", "captions", turn=270, noise=12),
    Scan("turned-90-table", "tables-book", turn=90, noise=12),
    Scan("skew-turned", "letters-hyphens", turn=270, skew=-0.7, noise=15),
)


def make(texts: Path, folder: Path) -> None:
    for scan in SCANS:
        source, target = pymupdf.open(texts / f"{scan.source}.pdf"), pymupdf.open()
        chance = numpy.random.default_rng(random.Random(scan.name).randrange(2**32))
        for page in source:
            image = _scanned(page, scan, chance)
            width, height = (side * 72 / scan.dpi for side in image.size)
            data = io.BytesIO()
            image.save(data, "JPEG", quality=80)
            target.new_page(width=width, height=height).insert_image(pymupdf.Rect(0, 0, width, height), stream=data.getvalue())
        (folder / f"scan-{scan.name}.pdf").write_bytes(target.tobytes(no_new_id=True))
        (folder / f"scan-{scan.name}.md").write_text((texts / f"{scan.source}.md").read_text())
        (folder / f"scan-{scan.name}.furniture.json").write_text("[]")


def _scanned(page: pymupdf.Page, scan: Scan, chance: numpy.random.Generator) -> Image.Image:
    drawn = page.get_pixmap(dpi=scan.dpi, colorspace=pymupdf.csGRAY)
    image = Image.frombytes("L", (drawn.width, drawn.height), drawn.samples)
    if scan.skew:
        image = image.rotate(scan.skew, Image.Resampling.BICUBIC, fillcolor=255)
    if scan.blur:
        image = image.filter(ImageFilter.GaussianBlur(scan.blur))
    values = numpy.asarray(image, dtype=float) / 255 * (scan.paper - scan.ink) + scan.ink
    if scan.noise:
        values += chance.normal(0, scan.noise, values.shape)
    image = Image.fromarray(values.clip(0, 255).astype(numpy.uint8))
    return image.rotate(-scan.turn, expand=True) if scan.turn else image
