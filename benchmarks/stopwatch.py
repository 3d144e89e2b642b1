"""Timings that child processes take of themselves, and how they report them."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable
from typing import Any

MARK = "RESULT "
"""Begins the line of a child's output that is its answer."""

Measured = dict[str, float]
"""``cpu_s`` (user and system, of ended children too) and ``wall_s``."""


class Stopwatch:
    """CPU and wall time since it was made, or since the last lap."""

    def __init__(self) -> None:
        self._cpu, self._wall = _cpu_s(), time.perf_counter()

    def lap(self) -> Measured:
        """Return what was spent since the last lap."""
        cpu, wall = _cpu_s(), time.perf_counter()
        spent = {"cpu_s": cpu - self._cpu, "wall_s": wall - self._wall}
        self._cpu, self._wall = cpu, wall
        return spent


def timed(call: Callable[[], object]) -> Measured:
    """Time one call."""
    watch = Stopwatch()
    call()
    return watch.lap()


def answer(results: dict[str, Any]) -> None:
    """Hand results to the parent."""
    print(MARK + json.dumps(results), flush=True)


def _cpu_s() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime
