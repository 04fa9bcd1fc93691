"""Describes the machine, and measures the load of other processes."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

# Cores that other processes may keep busy: every system has this much noise.
IDLE_CORES = 0.2
SAMPLE_SECONDS = 3
# How long the benchmark waits for an idle machine. Then it continues, and the results contain the load.
IDLE_WAIT_SECONDS = 60


def description() -> dict:
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "cores": os.cpu_count(),
        "processor": names[0].partition(":")[2].strip() if names else platform.machine(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", "Linux"),
    }


def other_load() -> float:
    """Waits until the machine is idle, for a limited time; returns the cores that other processes still keep busy.

    The load average would include the last minute, and so our own previous run.
    """
    end = time.monotonic() + IDLE_WAIT_SECONDS
    load = _busy_cores()
    while load > IDLE_CORES and time.monotonic() < end:
        load = _busy_cores()
    return round(load, 1)


def _busy_cores() -> float:
    started, before = time.monotonic(), _busy_seconds()
    time.sleep(SAMPLE_SECONDS)
    return (_busy_seconds() - before) / (time.monotonic() - started)


def _busy_seconds() -> float:
    """Busy time of all cores since the machine started, including time stolen by its host."""
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + interrupts + soft_interrupts + stolen) / os.sysconf("SC_CLK_TCK")
