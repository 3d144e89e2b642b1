"""How many kernels last longer than a cutoff."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from hta_widgets.analyses.result import Result
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.ranks.rank import Rank


@dataclass(frozen=True, kw_only=True, eq=False)
class LongKernels(Result):
    """Kernels that last longer than a cutoff.

    Attributes
    ----------
    ranks : DataFrame
        ``rank`` and ``long``, the number of its kernels that last longer.
    """

    ranks: pd.DataFrame


def long_kernels(
    job: Job, ranks: Iterable[int] | None = None, *, cutoff: float = 10
) -> LongKernels:
    """Count the kernels of each rank that last longer than a cutoff (µs)."""
    chosen = select_ranks(job, ranks)
    counts = job.reduce(_count_long, chosen, round(cutoff * 1_000))
    table = pd.DataFrame({"rank": list(counts), "long": list(counts.values())})
    finding = f"{table['long'].sum()} kernels last longer than {cutoff:g} µs."
    return LongKernels(ranks=table, finding=finding, notices=job.notices_for(chosen))


def _count_long(rank: Rank, cutoff_ns: int) -> int:
    return int((rank.gpu_work.duration_ns > cutoff_ns).sum())
