"""Everypage's scripted provider in its own process, shared by all tools."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from pathlib import Path


class Provider:
    def __init__(self, everypage: Path):
        self.process = subprocess.Popen(
            [everypage, "dev", "provider", "--port", "0"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        assert self.process.stdout
        # export OPENAI_BASE_URL=http://127.0.0.1:PORT/v1 OPENAI_API_KEY=scripted
        first = self.process.stdout.readline().strip()
        self.openai_url = first.partition("=")[2].partition(" ")[0]
        if not self.openai_url.startswith("http"):
            raise RuntimeError(f"the scripted provider did not start; its first line is {first!r}")
        self.url = self.openai_url.removesuffix("/v1")

    def load(self, script: list[str]) -> None:
        self._wait_until_idle()
        self._call("/script", "\n".join(script).encode())
        self._call("/reset", b"")

    def calls(self) -> list[dict]:
        return json.loads(self._call("/calls/log"))

    def counts(self) -> dict:
        return json.loads(self._call("/calls"))

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()

    def _wait_until_idle(self) -> None:
        """Waits until the provider has noticed that the last run's connections are closed."""
        for _ in range(100):
            if self.counts()["in_flight"] == 0:
                return
            time.sleep(0.05)

    def _call(self, path: str, body: bytes | None = None) -> bytes:
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data=body), timeout=30) as response:
            return response.read()
