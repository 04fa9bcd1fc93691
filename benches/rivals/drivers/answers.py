"""Every driver writes each answer down when it has it: what a run had got by the time it is killed, it keeps."""

import json
import time


def keep(page: int, text: str | None) -> None:
    with open("answers.jsonl", "a") as file:
        file.write(json.dumps({"page": page, "text": text or "", "time": time.time()}) + "\n")
