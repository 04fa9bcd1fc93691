"""Everypage: PDFs to text with vision AI, always finished.

    from everypage import Everypage

    result = Everypage().read("report.pdf")
    print(result.text)
"""

from .async_client import AsyncEverypage
from .client import Everypage
from .errors import EverypageError, JobError, ProblemError, ProgramError, WaitTimeout
from .flows import Options
from .generated.models import (
    Block,
    BlockKind,
    Job,
    ModelCall,
    PageDetail,
    PageResult,
    ProblemCode,
    ResultDocument,
    ResultMetadata,
    Source,
    Status,
    Table,
)
from .result import Result

__all__ = [
    "AsyncEverypage",
    "Block",
    "BlockKind",
    "Everypage",
    "EverypageError",
    "Job",
    "JobError",
    "ModelCall",
    "Options",
    "PageDetail",
    "PageResult",
    "ProblemCode",
    "ProblemError",
    "ProgramError",
    "Result",
    "ResultDocument",
    "ResultMetadata",
    "Source",
    "Status",
    "Table",
    "WaitTimeout",
]
