"""What the drivers share: each converts a list of files in one process, so that its start is not counted per file."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path


def convert_all(convert: Callable[[str, bool], str]) -> None:
    """`convert` gets the path of a PDF and whether it is a scan. A file that fails gets no output."""
    for task in json.loads(Path(sys.argv[1]).read_text()):
        try:
            text = convert(task["pdf"], task["is_scan"])
        except Exception:  # a library's failure is this file's result, not the end of the run
            traceback.print_exc()
            text = ""
        Path(task["output"]).write_text(text or "")
