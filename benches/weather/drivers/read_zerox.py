"""A document with py-zerox. Runs in its own environment; the task is JSON on the command line."""

import asyncio
import json
import re
import sys
from pathlib import Path

import answers
from prompt import PROMPT
from pyzerox import zerox
from pyzerox.models import litellmmodel

# It knows the models by a list of its own and calls the first one before it starts, with no timeout.
litellmmodel.validate_model = lambda self: None
litellmmodel.validate_access = lambda self: None


def with_page_numbers(pages: int) -> None:
    """Adds the page's number to each request, by which the provider finds the answer; py-zerox sends none."""
    prepare = litellmmodel._prepare_messages

    async def prepare_with_number(self: litellmmodel, image_path: str, **options: object) -> list[dict]:
        messages = await prepare(self, image_path=image_path, **options)
        number = int(re.search(r"-(\d+)\.png$", image_path)[1])
        messages[-1]["content"].append({"type": "text", "text": f"Page {number} of {pages}"})
        return messages

    litellmmodel._prepare_messages = prepare_with_number


async def main() -> None:
    Path("ready").touch()
    task = json.loads(sys.argv[1])
    with_page_numbers(task["pages"])
    result = await zerox(
        file_path=task["document"], model=task["model"], custom_system_prompt=PROMPT, **task["options"]
    )
    # It returns all pages together, when the last one is done.
    for page in result.pages:
        answers.record(page.page, page.content)


asyncio.run(main())
