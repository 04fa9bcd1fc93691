"""py-zerox on one document. Runs in its own environment; the task is JSON on the command line."""

import asyncio
import json
import sys
from pathlib import Path

import answers
from pyzerox import zerox
from pyzerox.models import litellmmodel


async def main() -> None:
    Path("ready").touch()
    task = json.loads(sys.argv[1])
    if task["skip_probe"]:
        # It calls the model once before it starts, with no timeout and no second model.
        litellmmodel.validate_access = lambda self: None
    result = await zerox(file_path=task["document"], model=task["model"], **task["options"])
    # It returns all pages together, when the last one is done.
    for page in result.pages:
        answers.record(page.page, page.content)


asyncio.run(main())
