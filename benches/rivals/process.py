"""One run of one tool: its duration, its exit code and its peak memory."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

SAMPLE_SECONDS = 0.1
# A driver creates this file once it has imported its library: the import time is not counted.
READY = "ready"


@dataclass(frozen=True)
class Ending:
    # Wall-clock time, like the times of the answers.
    started: float
    seconds: float
    # None: it was still running at the time limit.
    exit_code: int | None
    peak_bytes: int


def run(command: list[str], environment: dict[str, str], folder: Path, time_limit: float) -> Ending:
    """Runs the command in its own session, by which its processes are found, measured and killed at the end."""
    with (folder / "log").open("wb") as log:
        started = time.time()
        process = subprocess.Popen(
            command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )
        peak = Peak(process.pid)
        try:
            exit_code = _wait(process, started + time_limit)
            started = _ready(folder) or started
            if exit_code is None:
                exit_code = _wait(process, started + time_limit)
            seconds = time.time() - started
        finally:
            # Also when the benchmark is interrupted: a session of its own does not end with it.
            peak.stop()
            for member in members(process.pid):
                _kill(member)
            process.wait()
    return Ending(started, seconds, exit_code, peak.bytes)


def _wait(process: subprocess.Popen[bytes], until: float) -> int | None:
    try:
        return process.wait(max(0, until - time.time()))
    except subprocess.TimeoutExpired:
        return None


def _ready(folder: Path) -> float | None:
    try:
        return (folder / READY).stat().st_mtime
    except FileNotFoundError:
        return None


class Peak:
    """Samples the memory of a session: each process's private pages, and its share of shared ones."""

    def __init__(self, session: int):
        self.bytes = 0
        self._session = session
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            self.bytes = max(self.bytes, sum(map(_proportional_bytes, members(self._session))))


def members(session: int) -> list[int]:
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            # The name in parentheses may contain anything; state, parent, group and session follow it.
            fields = Path(entry.path, "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(entry.name))
    return found


def _proportional_bytes(process: int) -> int:
    try:
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass  # The process has ended.
    return 0


def _kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        pass
