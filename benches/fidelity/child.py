"""One run of a tool: CPU time and peak memory of its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import process

SAMPLE_SECONDS = 0.03


@dataclass(frozen=True)
class Ending:
    exit_code: int
    cpu_seconds: float
    peak_bytes: int


def run(command: list[str], environment: dict[str, str], folder: Path, time_limit: float) -> Ending:
    """Runs the command in its own session, which is killed at the time limit.

    Peak memory is the largest sum over the session's processes (each one's private pages and its share of shared ones),
    sampled; or the peak of the largest process, which the system keeps, if that is more.
    """
    with (folder / "log").open("wb") as log:
        child = subprocess.Popen(
            command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        ended = threading.Event()
        peak = 0

        def watch() -> None:
            nonlocal peak
            end = time.monotonic() + time_limit
            while not ended.wait(SAMPLE_SECONDS):
                members = process.members(child.pid)
                peak = max(peak, sum(map(process._proportional_bytes, members)), *map(_own_peak, members))
                if time.monotonic() > end:
                    for member in members:
                        os.kill(member, signal.SIGKILL)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        finally:
            ended.set()
            watcher.join()
    return Ending(child.returncode, usage.ru_utime + usage.ru_stime, peak)


def _own_peak(member: int) -> int:
    # Not rusage's: that begins with the memory of the process that started it.
    try:
        for line in Path(f"/proc/{member}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass  # The process has ended.
    return 0
