"""A document with the openai package. Runs in its own environment; the task is JSON on the command line."""

import asyncio
import json
import sys
import time
from pathlib import Path

import answers
from openai import AsyncOpenAI, BadRequestError, OpenAIError
from page_images import Document


async def main() -> None:
    Path("ready").touch()
    task = json.loads(sys.argv[1])
    end = time.monotonic() + task["deadline"]
    document = Document(task["document"], task["pages"])
    client = AsyncOpenAI(**task["client"])
    slots = asyncio.Semaphore(task["concurrency"])

    async def read(page: int) -> None:
        async with slots:
            messages = await asyncio.to_thread(document.messages, page)
            models = list(task["models"])
            while models and time.monotonic() < end:
                for model in list(models):
                    try:
                        response = await client.chat.completions.create(model=model, messages=messages)
                        if text := response.choices[0].message.content:
                            return answers.record(page, text)
                        models.remove(model)
                    except BadRequestError:
                        models.remove(model)
                    except OpenAIError as error:
                        print(page, model, type(error).__name__, file=sys.stderr)
                if not task["until_deadline"]:
                    return

    await asyncio.gather(*(read(page) for page in range(1, task["pages"] + 1)))


asyncio.run(main())
