"""Drivers record each answer when it arrives, so that a killed run keeps its answers."""

import json
import time


def record(page: int, text: str | None) -> None:
    with open("answers.jsonl", "a") as file:
        file.write(json.dumps({"page": page, "text": text or "", "time": time.time()}) + "\n")
