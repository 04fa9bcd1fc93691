"""TensorZero's embedded gateway, one request for each page. Runs in its own environment; the task is JSON on the
command line."""

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
    slots = asyncio.Semaphore(task["concurrency"])
    gateway = await AsyncTensorZeroGateway.build_embedded(config_file="tensorzero.toml")

    async def call(page: int) -> None:
        async with slots:
            try:
                messages = [{"role": "user", "content": f"Page {page} of {task['requests']}"}]
                response = await gateway.inference(function_name="read", input={"messages": messages})
                answers.record(page, response.content[0].text)
            except Exception as error:
                print(page, type(error).__name__, error, file=sys.stderr)

    async with gateway:
        await asyncio.gather(*(call(page) for page in range(1, task["requests"] + 1)))


asyncio.run(main())
# Its threads may crash an interpreter that exits normally.
os._exit(0)
