"""The result of a job."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import attrs

from .generated.models import PageResult, ResultDocument, ResultMetadata
from .generated.types import Unset

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Result:
    """The text of every page of a document, and where it came from."""

    #: The JSON format, typed.
    document: ResultDocument

    @classmethod
    def parse(cls, data: dict[str, Any]) -> Result:
        return cls(plain(ResultDocument.from_dict(data)))

    @property
    def job_id(self) -> str:
        return self.document.job_id

    @property
    def version(self) -> int:
        return self.document.version

    @property
    def pages(self) -> list[PageResult]:
        """Every page, in order, under its true number."""
        return self.document.pages

    @property
    def metadata(self) -> ResultMetadata:
        return self.document.metadata

    @property
    def text(self) -> str:
        """The text of all pages, a blank line between them."""
        return "\n\n".join(page.text for page in self.pages)

    @property
    def fallback_pages(self) -> list[int]:
        """Numbers of the pages that a model was to read and did not: their text is Everypage's own reading."""
        return [page.page for page in self.pages if page.source.value.endswith("_fallback")]

    @property
    def is_complete(self) -> bool:
        """Whether every page has the text that was planned for it."""
        return not self.fallback_pages and not self.metadata.missing_pages

    def __str__(self) -> str:
        return self.text


def plain(value: T) -> T:
    """Replaces the generated client's marker of absent fields by None, in the model and all that it holds."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            value[index] = plain(item)
    elif attrs.has(type(value)):
        for field in attrs.fields(type(value)):
            inner = getattr(value, field.name)
            if isinstance(inner, Unset):
                # A list that is empty is left out of the JSON.
                setattr(value, field.name, [] if str(field.type).startswith("list[") else None)
            elif isinstance(inner, list) or attrs.has(type(inner)):
                plain(inner)
    return value
