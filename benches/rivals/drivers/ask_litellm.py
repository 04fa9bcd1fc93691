"""LiteLLM's Router, one request for each page. In its own environment; the task is JSON on the command line."""

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
    places = asyncio.Semaphore(task["at_once"])

    async def ask(page: int) -> None:
        async with places:
            try:
                messages = [{"role": "user", "content": f"Page {page} of {task['requests']}"}]
                response = await router.acompletion(model=task["model"], messages=messages)
                answers.keep(page, response.choices[0].message.content)
            except Exception as error:
                print(page, type(error).__name__, file=sys.stderr)

    await asyncio.gather(*(ask(page) for page in range(1, task["requests"] + 1)))


asyncio.run(main())
