"""How many steps the time of an analysis holds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from hta_widgets.analyses.time.window import NO_STEP, window_of
from hta_widgets.trace.job import Job
from hta_widgets.trace.ranks.rank import Rank


def counted_steps(
    job: Job,
    ranks: Iterable[int],
    *,
    steps: Collection[int] = (),
    window_ns: Sequence[int] | None = None,
) -> int:
    """Count the ProfilerSteps of each rank in the time that is counted.

    Parameters
    ----------
    job : Job
    ranks : iterable of int
        All ranks if empty.
    steps : collection of int
        Numbers of those that count; all that are analysed if empty.
    window_ns : pair of int, optional
        A window, which need not hold whole steps.

    Returns
    -------
    int
        0 where time cannot be told per step: the ranks have different numbers of steps or none, or
        a window is counted.
    """
    if window_ns is not None:
        return 0
    by_rank = job.reduce(_steps_of, [*ranks] or job.ranks).values()
    counts = {len({*each} & {*steps} if steps else each) for each in by_rank}
    return counts.pop() if len(counts) == 1 else 0


def _steps_of(rank: Rank) -> tuple[int, ...]:
    return tuple(each for each in window_of(rank).steps.tolist() if each != NO_STEP)
