"""The machine: what it is, and whether others leave it alone."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

# Cores that others may keep busy: so much is the noise of any system.
CALM = 0.2
SAMPLE_SECONDS = 3
# So long it waits for others to come to rest. Then it goes on, and the results say so.
PATIENCE_SECONDS = 60


def description() -> dict:
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "cores": os.cpu_count(),
        "processor": names[0].partition(":")[2].strip() if names else platform.machine(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", "Linux"),
    }


def others_load() -> float:
    """Waits until the machine is calm, as long as patience lasts; the cores that others still keep busy.

    The load average would tell of the last minute, and so of our own run before this one.
    """
    end = time.monotonic() + PATIENCE_SECONDS
    load = _busy_cores()
    while load > CALM and time.monotonic() < end:
        load = _busy_cores()
    return round(load, 1)


def _busy_cores() -> float:
    began, before = time.monotonic(), _busy_seconds()
    time.sleep(SAMPLE_SECONDS)
    return (_busy_seconds() - before) / (time.monotonic() - began)


def _busy_seconds() -> float:
    """Of all cores since the machine started, with what its host took away."""
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + interrupts + soft_interrupts + stolen) / os.sysconf("SC_CLK_TCK")
