"""TensorZero's embedded gateway, one request for each page. In its own environment; the task is as ask_litellm's."""

import asyncio
import json
import os
import sys
from pathlib import Path

import answers
from tensorzero import AsyncTensorZeroGateway


async def main() -> None:
    Path("ready").touch()
    task = json.loads(sys.argv[1])
    Path("tensorzero.toml").write_text(task["config"])
    places = asyncio.Semaphore(task["at_once"])
    gateway = await AsyncTensorZeroGateway.build_embedded(config_file="tensorzero.toml")

    async def ask(page: int) -> None:
        async with places:
            try:
                messages = [{"role": "user", "content": f"Page {page} of {task['requests']}"}]
                response = await gateway.inference(function_name="read", input={"messages": messages})
                answers.keep(page, response.content[0].text)
            except Exception as error:
                print(page, type(error).__name__, error, file=sys.stderr)

    async with gateway:
        await asyncio.gather(*(ask(page) for page in range(1, task["requests"] + 1)))


asyncio.run(main())
# Its threads may crash an interpreter that ends by itself, when all is said and done.
os._exit(0)
