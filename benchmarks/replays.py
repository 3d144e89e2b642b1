"""Time the replay of a loaded job: the parts of its ranks, the network, and what is asked of it."""

from __future__ import annotations

import math
from statistics import median
from typing import Any

import numpy as np

from benchmarks.stopwatch import timed
from hta_widgets.analyses.clocks.aligned import job_clocks
from hta_widgets.arrays import Float64Array
from hta_widgets.diagnosis.replay.binding import Solution
from hta_widgets.diagnosis.replay.critical_path import CriticalPath
from hta_widgets.diagnosis.replay.edits import Edit, EqualWork, HostSpeed, WithoutCopies
from hta_widgets.diagnosis.replay.rank_part import PackedPart, rank_part
from hta_widgets.diagnosis.replay.replay import Replay, replay_of
from hta_widgets.diagnosis.replay.slack import Slack
from hta_widgets.trace.job import Job

EDITS: dict[str, list[Edit]] = {
    "host infinitely fast": [HostSpeed(math.inf)],
    "no copies": [WithoutCopies()],
    "ranks alike": [EqualWork("median")],
}
TIMES = 9
MEMORY = "memory of the parts"
BYTES = 8
MB = 2**20


def time_replay(job: Job) -> dict[str, float]:
    """CPU time of each stage, and the memory of the parts."""
    clocks = timed(lambda: job_clocks(job)) if len(job.ranks) > 1 else {"cpu_s": 0.0}
    parts: dict[int, PackedPart] = {}
    asked = timed(
        lambda: parts.update((rank, PackedPart.of(rank_part(job.rank(rank)))) for rank in job.ranks)
    )
    steps = set.intersection(*(set(part.column("steps").tolist()) for part in parts.values()))

    def built() -> Replay:
        replay = replay_of(job, parts, sorted(steps), job.ranks)
        replay.is_sound  # noqa: B018  # what each answer is compared with: the replay as recorded
        return replay

    replay = built()
    return {
        "clocks": clocks["cpu_s"],
        "parts": asked["cpu_s"],
        "network": median(timed(built)["cpu_s"] for _ in range(TIMES)),
        **{
            name: median(gain_s(built(), edits) for _ in range(TIMES))
            for name, edits in EDITS.items()
        },
        "latest times": median(timed(lambda: solved(replay).latest)["cpu_s"] for _ in range(TIMES)),
        "critical path": median(timed(lambda: path(replay))["cpu_s"] for _ in range(TIMES)),
        "drag of all operations": median(
            timed(lambda: drags(replay))["cpu_s"] for _ in range(TIMES)
        ),
        "operations": float(sum(part.column("row").size for part in parts.values())),
        MEMORY: sum(bytes_of(part.unpacked()) for part in parts.values()) / MB,
    }


def gain_s(replay: Replay, edits: list[Edit]) -> float:
    """CPU time of one what-if, of a replay that remembers none."""
    return timed(lambda: replay.gain_ns(edits))["cpu_s"]


def solved(replay: Replay) -> Slack:
    """Slack of everything, not worked out yet."""
    return CriticalPath.of(Solution(replay.network, replay.job.weights)).slack


def path(replay: Replay) -> CriticalPath:
    """The critical path, from nothing."""
    return CriticalPath.of(Solution(replay.network, replay.job.weights))


def drags(replay: Replay) -> Float64Array:
    """What is gained without each operation, from nothing."""
    return solved(replay).drag_ns


def bytes_of(value: Any) -> int:  # noqa: ANN401
    """Memory of arrays, and of tuples of them."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, tuple):
        return sum(map(bytes_of, value))
    return len(value) if isinstance(value, str) else BYTES
