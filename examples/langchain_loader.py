#!/usr/bin/env python3
"""Loads a PDF into LangChain, one document per page.

    pip install everypage langchain-core
    python langchain_loader.py report.pdf

Without EVERYPAGE_URL the package starts a server on this machine. Set OPENAI_API_KEY or ANTHROPIC_API_KEY for
pages with graphics; without a key every page has the text that Everypage reads itself.
"""

import os
import sys
from collections.abc import Iterator

from everypage import Everypage
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document


class EverypageLoader(BaseLoader):
    """Every page ends with text; `text_source` says whose it is, and `confidence` how sure it is."""

    def __init__(self, path: str | os.PathLike[str], *, client: Everypage | None = None, **options):
        self.path, self.client, self.options = path, client or Everypage(), options

    def lazy_load(self) -> Iterator[Document]:
        result = self.client.read(self.path, **self.options)
        for page in result.pages:
            if not page.has_text:
                continue
            metadata = {
                "source": str(self.path),
                "page": page.page,
                "total_pages": result.metadata.total_pages,
                "text_source": page.source.value,
                "confidence": page.confidence,
                "job_id": result.job_id,
            }
            yield Document(page_content=page.text, metadata=metadata, id=f"{result.document.document_sha256}-{page.page}")


if __name__ == "__main__":
    for path in sys.argv[1:]:
        for document in EverypageLoader(path).lazy_load():
            print(document.metadata["page"], document.metadata["text_source"], document.page_content[:60].replace("\n", " "))
