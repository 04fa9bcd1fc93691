"""A document with LiteLLM's Router. Runs in its own environment; the task is JSON on the command line."""

import asyncio
import json
import sys
from pathlib import Path

import answers
from litellm import Router
from page_images import Document


async def main() -> None:
    Path("ready").touch()
    task = json.loads(sys.argv[1])
    document = Document(task["document"], task["pages"])
    router = Router(**task["router"])
    slots = asyncio.Semaphore(task["concurrency"])

    async def read(page: int) -> None:
        async with slots:
            messages = await asyncio.to_thread(document.messages, page)
            try:
                response = await router.acompletion(model=task["model"], messages=messages)
                answers.record(page, response.choices[0].message.content)
            except Exception as error:
                print(page, type(error).__name__, error, file=sys.stderr)

    await asyncio.gather(*(read(page) for page in range(1, task["pages"] + 1)))


asyncio.run(main())
