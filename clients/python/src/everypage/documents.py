"""What can be read: a path, a URL, bytes or an open file."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import urllib.parse
from typing import IO

DocumentSource = str | os.PathLike[str] | bytes | IO[bytes]

#: The name of a document without one.
UNNAMED = "document.pdf"


@dataclasses.dataclass(frozen=True)
class Document:
    name: str
    content: bytes


def is_url(source: DocumentSource) -> bool:
    return isinstance(source, str) and source.lower().startswith(("http://", "https://"))


def name_of_url(url: str) -> str:
    last = urllib.parse.urlsplit(url).path.rsplit("/", 1)[-1]
    return urllib.parse.unquote(last) or UNNAMED


def load(source: DocumentSource) -> Document:
    """Reads anything but a URL."""
    if isinstance(source, bytes | bytearray | memoryview):
        return Document(UNNAMED, bytes(source))
    if isinstance(source, str | os.PathLike):
        if isinstance(source, str) and "://" in source:
            raise ValueError(f"{source!r}: only http:// and https:// addresses can be read")
        path = pathlib.Path(source)
        return Document(path.name, path.read_bytes())
    if hasattr(source, "read"):
        content = source.read()
        if not isinstance(content, bytes):
            raise TypeError("the file is open for text; open it with mode \"rb\"")
        name = getattr(source, "name", None)
        return Document(pathlib.Path(name).name if isinstance(name, str) else UNNAMED, content)
    raise TypeError(f"a document is a path, a URL, bytes or a file, not {type(source).__name__}")
