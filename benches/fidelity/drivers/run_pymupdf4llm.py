"""pymupdf4llm with its layout model, without headers and footers; scans with Tesseract."""

import pymupdf4llm
from files import convert_all


def convert(pdf: str, is_scan: bool) -> str:
    return pymupdf4llm.to_markdown(pdf, header=False, footer=False, use_ocr=is_scan, show_progress=False)


convert_all(convert)
