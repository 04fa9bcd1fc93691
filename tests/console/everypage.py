"""Runs the real program on a free port, with its own data folder and a scripted provider."""

import os
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ["EVERYPAGE_BINARY"])
SAMPLE = ROOT / "samples" / "harbour-report-2026.pdf"
# Of its twelve pages, those with graphics.
GRAPHICS_PAGES = [4, 5, 9, 10]


def environment(folder: str, more: dict[str, str]) -> dict[str, str]:
    # None of this machine's settings, above all no API keys and addresses.
    return {"PATH": os.environ["PATH"], "HOME": folder, "TMPDIR": folder, "EVERYPAGE_DATA": folder + "/data"} | more


class Everypage:
    """A running server. `rules` script the provider's failures; `settings` are environment variables."""

    def __init__(self, *rules: str, keys: list[str] = (), **settings: str):
        self.folder = tempfile.TemporaryDirectory(prefix="everypage-console-")
        self.processes: list[subprocess.Popen] = []
        self.settings = environment(self.folder.name, {})
        script = [part for rule in rules for part in ("--script", rule)]
        started = self.start("dev", "provider", *script, until=r"ANTHROPIC_BASE_URL=(\S+)")
        provider = started.group(1)
        self.settings |= {
            # The scan among the pages has no text, whether or not the OCR program is built.
            "OCR": "off",
            "OPENAI_BASE_URL": provider + "/v1", "OPENAI_API_KEY": "scripted",
            "ANTHROPIC_BASE_URL": provider, "ANTHROPIC_API_KEY": "scripted",
        } | settings
        self.keys = [self.run("keys", "create", "--role", role) for role in keys]
        self.serve("127.0.0.1:0")

    def serve(self, address: str) -> None:
        self.url = self.start("serve", "--listen", address, "--grace", "1s", until=r"(http://\S+)").group(1)

    def stop_serving(self) -> None:
        process = self.processes.pop()
        process.terminate()
        process.wait()
        process.stdout.close()

    def run(self, *arguments: str) -> str:
        done = subprocess.run([BINARY, *arguments], env=self.settings, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def start(self, *arguments: str, until: str) -> re.Match:
        log = open(pathlib.Path(self.folder.name) / f"{arguments[0]}.log", "w+")
        process = subprocess.Popen(
            [BINARY, *arguments], env=self.settings, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True
        )
        self.processes.append(process)
        output = ""
        for line in process.stdout:
            output += line
            if found := re.search(until, output):
                return found
        log.seek(0)
        raise AssertionError(f"{arguments} exited: {log.read()}")

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        self.folder.cleanup()


def variant(number: int) -> bytes:
    """The sample with different bytes: another document with the same pages."""
    return SAMPLE.read_bytes() + f"\n% {number}\n".encode()
