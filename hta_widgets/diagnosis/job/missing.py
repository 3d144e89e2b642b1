"""Ranks of the traced job that have no trace."""

from __future__ import annotations

from hta_widgets.trace.job import Job
from hta_widgets.trace.ranks.facts import MOST_RANKS, world_size_among, world_size_of

HALF = 0.5


def missing_of(job: Job) -> tuple[int, ...]:
    """Ranks without a trace, if at least half of the job, and more than one rank, has one.

    Ranks that have a trace and were not opened are not missing.
    """
    world = world_size_among(job.reduce(world_size_of, job.ranks))
    present = job.recorded_ranks
    if len(present) < 2 or world > MOST_RANKS or max(present) >= world:  # noqa: PLR2004
        return ()
    return tuple(sorted({*range(world)} - {*present})) if len(present) >= HALF * world else ()
