"""Replays of written jobs, all steps of all ranks, and the edits that the tests ask them for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from hta_widgets.diagnosis.replay.edits import (
    CommunicationHidden,
    Edit,
    EqualWork,
    HostSpeed,
    WithoutCopies,
    WithoutHostWork,
    WithoutStarts,
    WithoutWaits,
)
from hta_widgets.diagnosis.replay.rank_part import PackedPart, rank_part
from hta_widgets.diagnosis.replay.replay import Replay, replay_of
from hta_widgets.diagnosis.replay.waiting_calls import SYNCHRONISING, Wait
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace

SHORTENING: Final[Mapping[str, Sequence[Edit]]] = {
    "input_starvation": [WithoutHostWork(("loading",))],
    "host_pause": [WithoutHostWork(("stalling",))],
    "allocator_retries": [
        WithoutHostWork(("allocating",)),
        WithoutWaits((Wait.FREE, *SYNCHRONISING), of_allocator=True),
    ],
    "launch_bound": [HostSpeed(math.inf)],
    "host_twice": [HostSpeed(2)],
    "starts": [WithoutStarts()],
    "blocking_sync": [WithoutWaits((Wait.COPY, *SYNCHRONISING))],
    "slow_host_copies": [WithoutCopies()],
    "exposed_communication": [CommunicationHidden()],
    "hidden_half": [CommunicationHidden(0.5)],
    "faster_median": [EqualWork("median", only_slower=True)],
}
"""Edits after which nothing takes longer."""

EDITS: Final[Mapping[str, Sequence[Edit]]] = SHORTENING | {
    "mean": [EqualWork("mean")],
    "median": [EqualWork("median")],
}


def replayed(job: Job) -> Replay:
    """All steps that all ranks with GPU work have."""
    parts = {
        rank: PackedPart.of(rank_part(job.rank(rank)))
        for rank in job.ranks
        if len(job.gpu_work(rank))
    }
    steps = set.intersection(*(set(part.column("steps").tolist()) for part in parts.values()))
    return replay_of(job, parts, sorted(steps), tuple(parts))


def opened(folder: Path, **options: object) -> Replay:
    """Replay a written job with its last step."""
    job = open_trace(folder, progress=False, include_last_profiler_step=True, **options)
    return replayed(job)


def prices_ns(replay: Replay, edits: Mapping[str, Sequence[Edit]] = EDITS) -> dict[str, float]:
    """What each of some edits brings."""
    return {name: replay.gain_ns(each) for name, each in edits.items()}
