"""liteparse, without a model; scans with its built-in Tesseract."""

from files import convert_all
from liteparse import LiteParse

PARSERS = {ocr: LiteParse(output_format="markdown", ocr_enabled=ocr, quiet=True) for ocr in (False, True)}

convert_all(lambda pdf, is_scan: PARSERS[is_scan].parse(pdf).text)
