"""A recorded job in which kernels take as much less as they could."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hta_widgets.diagnosis.facts.rank_facts import RankFacts
from hta_widgets.diagnosis.replay.edits import ShorterOperations
from hta_widgets.diagnosis.replay.recorded_job import RecordedJob


def shorter_kernels(
    job: RecordedJob, facts: Mapping[int, RankFacts], columns: Sequence[str]
) -> ShorterOperations:
    """The edit in which kernels take as much less as columns of `Savings` say."""
    less_ns = np.zeros(job.stream.size)
    for place, (rank, part) in enumerate(zip(job.ranks, job.parts, strict=True)):
        savings = facts[rank].compute.savings
        own = np.flatnonzero((job.operation_rank == place) & ~job.is_finish)
        rows = part.row[job.operation[own]]
        for column in columns:
            less_ns[own] += savings.of_rows(column, rows)
    return ShorterOperations(less_ns)


def percent_left(job: RecordedJob, shorter: ShorterOperations) -> float:
    """What is left (%) of the time of the kernels that are shorter; 100 if none is."""
    whole_ns = float(job.weights.duration[shorter.less_ns > 0].sum())
    return 100 - 100 * float(shorter.less_ns.sum()) / whole_ns if whole_ns else 100.0
