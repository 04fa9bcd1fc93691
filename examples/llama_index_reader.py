#!/usr/bin/env python3
"""Loads a PDF into LlamaIndex, one document per page.

    pip install everypage llama-index-core
    python llama_index_reader.py report.pdf

As a file extractor: SimpleDirectoryReader("folder", file_extractor={".pdf": EverypageReader()}).

Without EVERYPAGE_URL the package starts a server on this machine. Set OPENAI_API_KEY or ANTHROPIC_API_KEY for
pages with graphics; without a key every page has the text that Everypage reads itself.
"""

import os
import sys

from everypage import Everypage
from llama_index.core.readers.base import BaseReader
from llama_index.core.schema import Document


class EverypageReader(BaseReader):
    """Every page ends with text; `text_source` says whose it is, and `confidence` how sure it is."""

    def __init__(self, *, client: Everypage | None = None):
        self.client = client or Everypage()

    def load_data(self, file: str | os.PathLike[str], extra_info: dict | None = None, **options) -> list[Document]:
        # SimpleDirectoryReader passes its file system; the file is a local path without it.
        options.pop("fs", None)
        result = self.client.read(file, **options)
        return [
            Document(
                doc_id=f"{result.document.document_sha256}-{page.page}",
                text=page.text,
                metadata={
                    "file_name": result.document.document,
                    "page": page.page,
                    "text_source": page.source.value,
                    "confidence": page.confidence,
                    **(extra_info or {}),
                },
                excluded_embed_metadata_keys=["text_source", "confidence"],
                excluded_llm_metadata_keys=["text_source", "confidence"],
            )
            for page in result.pages
            if page.has_text
        ]


if __name__ == "__main__":
    for path in sys.argv[1:]:
        for document in EverypageReader().load_data(path):
            print(document.metadata["page"], document.metadata["text_source"], document.text[:60].replace("\n", " "))
