"""pdf_inspector, without OCR: its OCR models are downloaded from a site that is not a package registry."""

import pdf_inspector
from files import convert_all

convert_all(lambda pdf, is_scan: pdf_inspector.process_pdf(pdf).markdown)
