"""The kernels of a job, with counts and total times."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.time.call_sums import sums_at
from hta_widgets.arrays import Int64Array
from hta_widgets.trace.job import Job
from hta_widgets.trace.ranks.rank import Rank


class KernelTimes(NamedTuple):
    """Executions of each kernel, copy and memset of a rank, as parallel arrays."""

    names: tuple[str, ...]
    counts: Int64Array
    totals_ns: Int64Array


def times_of_rank(rank: Rank) -> KernelTimes:
    """Count the executions of each kernel of a rank, and sum up their time."""
    work = rank.gpu_work
    codes, which = np.unique(work.name, return_inverse=True)
    total_ns = sums_at(which, work.duration_ns, codes.size)
    names = tuple(work.names[code] for code in codes.tolist())
    return KernelTimes(names, np.bincount(which, minlength=codes.size), total_ns)


def kernel_times(job: Job) -> pd.DataFrame:
    """Add up the executions of each kernel, copy and memset of all ranks.

    Returns
    -------
    DataFrame
        ``name``, ``count`` and ``total_ns`` (int64) over all ranks, the longest time first.
    """
    by_rank = job.reduce(times_of_rank, job.ranks).values()
    table = pd.DataFrame(
        {
            "name": pd.Series([name for each in by_rank for name in each.names], dtype=object),
            "count": np.concatenate([np.zeros(0, np.int64), *(each.counts for each in by_rank)]),
            "total_ns": np.concatenate(
                [np.zeros(0, np.int64), *(each.totals_ns for each in by_rank)]
            ),
        }
    )
    summed = table.groupby("name", sort=False, as_index=False).sum()
    return summed.sort_values("total_ns", ascending=False, kind="stable", ignore_index=True)
