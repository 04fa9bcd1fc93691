"""The pages of a document as requests with an image."""

import base64
import io
import threading

import pypdfium2
from prompt import PROMPT

DPI = 100


class Document:
    def __init__(self, path: str, pages: int):
        self._document = pypdfium2.PdfDocument(path)
        self._pages = pages
        # PDFium must not be called by two threads.
        self._one_at_a_time = threading.Lock()

    def messages(self, page: int) -> list[dict]:
        with self._one_at_a_time:
            image = self._document[page - 1].render(scale=DPI / 72).to_pil()
        encoded = io.BytesIO()
        image.save(encoded, "JPEG", quality=80)
        url = "data:image/jpeg;base64," + base64.b64encode(encoded.getvalue()).decode()
        return [
            {"role": "system", "content": PROMPT},
            {"role": "user", "content": [
                {"type": "text", "text": f"Page {page} of {self._pages}"},
                {"type": "image_url", "image_url": {"url": url}},
            ]},
        ]
