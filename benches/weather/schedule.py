"""Several runs at once, as many as the cores have time for."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contestants import Contestant
    from measure import Lane, Planned
    from scenario_list import Scenario, Setup

# Cores that a run keeps busy while its calls wait, measured with 400 pages.
CORES = {"everypage": 0.2, "openai": 0.4, "openai-best": 0.4, "litellm": 0.4, "zerox": 0.8}
# It repeats refused calls without a pause.
CORES_OF_REPEATS = {"openai-best": 1.0}
SMALL, SMALL_PART = 40, 0.3


def cores(scenario: Scenario, setup: Setup, contestant: Contestant) -> float:
    is_refused = bool(scenario.limit) or scenario.name.startswith("outage")
    busy = CORES_OF_REPEATS.get(contestant.key) if is_refused else None
    return (busy or CORES[contestant.key]) * (SMALL_PART if setup.pages <= SMALL else 1)


def in_lanes(runs: list[Planned], lanes: list[Lane], make: Callable[[Planned, Lane], None]) -> None:
    """Makes all runs, one at a time in each lane, while they need no more cores than there are."""
    left, used, failed = list(runs), 0.0, []
    changed = threading.Condition()

    def take() -> Planned | None:
        """The first run that fits; `None` when none is left."""
        nonlocal used
        with changed:
            while left and not failed:
                for run in left:
                    if not used or used + cores(*run) <= (os.cpu_count() or 1):
                        left.remove(run)
                        used += cores(*run)
                        return run
                changed.wait()
            return None

    def work(lane: Lane) -> None:
        nonlocal used
        while run := take():
            try:
                make(run, lane)
            except BaseException as error:
                failed.append(error)
            with changed:
                used = max(0.0, used - cores(*run))
                if used < 1e-6:
                    used = 0.0
                changed.notify_all()

    threads = [threading.Thread(target=work, args=(lane,)) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
