"""LiteLLM's Router, one request for each page. Runs in its own environment; the task is JSON on the command line."""

import asyncio
import json
import sys
from pathlib import Path

import answers
from litellm import Router


async def main() -> None:
    Path("ready").touch()
    task = json.loads(sys.argv[1])
    router = Router(**task["router"])
    slots = asyncio.Semaphore(task["concurrency"])

    async def call(page: int) -> None:
        async with slots:
            try:
                messages = [{"role": "user", "content": f"Page {page} of {task['requests']}"}]
                response = await router.acompletion(model=task["model"], messages=messages)
                answers.record(page, response.choices[0].message.content)
            except Exception as error:
                print(page, type(error).__name__, file=sys.stderr)

    await asyncio.gather(*(call(page) for page in range(1, task["requests"] + 1)))


asyncio.run(main())
