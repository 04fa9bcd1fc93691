"""The work of everypage-bench-pdf, done by PyMuPDF: prints one JSON object."""

import json
import multiprocessing
import resource
import sys
import time

import pymupdf

RANGE = 25


def read(page, work):
    """Text, then what a classification needs (images and vector graphics), then the image."""
    display = page.get_displaylist()
    flags = pymupdf.TEXTFLAGS_TEXT | pymupdf.TEXT_DEHYPHENATE
    text = pymupdf.TextPage(display.get_textpage(flags)).extractText()
    image = b""
    if work in ("classify", "render"):
        page.get_image_info()
        page.get_cdrawings()
    if work == "render":
        scale = 100 / 72
        pixmap = display.get_pixmap(matrix=pymupdf.Matrix(scale, scale), alpha=False)
        image = pixmap.tobytes("jpeg", jpg_quality=70)
    return len(text), len(image)


def read_range(job):
    file, work, first, last = job
    with pymupdf.open(file) as document:
        results = [read(document[number], work) for number in range(first, last)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return sum(r[0] for r in results), sum(r[1] for r in results), multiprocessing.current_process().pid, peak


def cpu_seconds():
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main():
    method, work, file = sys.argv[1:]
    # The start of the process and its imports are not counted.
    started, cpu_before = time.monotonic(), cpu_seconds()
    with pymupdf.open(file) as document:
        pages = len(document)
        if method == "here":
            results = [read(page, work) for page in document]
            chars, size = sum(r[0] for r in results), sum(r[1] for r in results)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if method == "pool":
        jobs = [(file, work, first, min(first + RANGE, pages)) for first in range(0, pages, RANGE)]
        with multiprocessing.get_context("spawn").Pool() as pool:
            results = pool.map(read_range, jobs, chunksize=1)
            pool.close()
            pool.join()
        chars, size = sum(r[0] for r in results), sum(r[1] for r in results)
        peaks = {pid: kilobytes for _, _, pid, kilobytes in results}
        peak = sum(peaks.values()) + resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall = time.monotonic() - started
    cpu = cpu_seconds() - cpu_before
    print(
        json.dumps(
            {
                "pages": pages,
                "wall_seconds": wall,
                "cpu_seconds": cpu,
                "peak_mb": peak / 1024,
                "text_chars": chars,
                "image_bytes": size,
                "memory_mb": [],
            }
        )
    )


if __name__ == "__main__":
    main()
