"""Ranks whose kernels take longer than the same kernels with the same work on other ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from hta_widgets.analyses.server_steps import server_steps
from hta_widgets.arrays import Float64Array, Mask
from hta_widgets.diagnosis.facts.kernel_facts import like_kernel_facts, pace_range
from hta_widgets.diagnosis.job.like_kernels import LikeKernels
from hta_widgets.diagnosis.job.steps import Matrix, Steps
from hta_widgets.diagnosis.limits import Limits
from hta_widgets.trace.job import Job

LEAST_DIFFERENCE: Final = 0.03
"""Ranks or steps whose compute time differs by less are not looked at any closer."""

_PAIR: Final = 2


@dataclass(frozen=True, eq=False)
class Hardware:
    """What the kernels show about the GPUs."""

    like: LikeKernels | None
    """None if all ranks compute for equally long, and there is nothing to compare."""
    ratio: Matrix
    excess_ns: Matrix
    """See `LikeKernels`; for all ranks. The ratio of ranks that are slow for less than half of the
    time is one of means."""
    needed_ns: Matrix
    """See `LikeKernels`."""
    slow: tuple[int, ...] = ()
    throttled: tuple[int, ...] = ()
    """Positions of ranks with a slow GPU, and of ranks with a GPU that is slow at times."""
    against_itself: Float64Array | None = None
    """See `LikeKernels`."""

    def excess_of(self, places: Sequence[int]) -> Matrix:
        """Excess of some ranks, 0 for the others."""
        found = np.zeros_like(self.excess_ns)
        found[list(places)] = self.excess_ns[list(places)]
        return found


def hardware(job: Job, steps: Steps, copies: Sequence[tuple[int, ...]], limits: Limits) -> Hardware:
    """Compare the kernels of the ranks, if ranks or steps differ at all.

    `copies` are the ranks with the same stage of a pipeline, for each stage.
    """
    compute = steps["compute"]
    nothing = np.ones_like(compute), np.zeros_like(compute), compute
    if not _differ(compute):
        return Hardware(None, *nothing)
    like = LikeKernels.of(steps, job.reduce(like_kernel_facts, steps.ranks))
    if not like.are_described or _serve_apart(job, steps):
        return Hardware(like, *nothing)
    of_steps = like.ratio()
    steady, hot = (
        _is_often(of_steps > limits.slower_kernels, percent)
        for percent in (limits.slower_in_most_steps_percent, limits.slower_in_steps_percent)
    )
    of_means = like.ratio(of_means=True)
    warm = ~hot & _is_often(of_means > limits.slower_kernels, limits.slower_in_steps_percent)
    unsteady = (hot | warm) & _is_unsteady(job, steps, limits) if (hot | warm).any() else hot
    warm &= unsteady
    ratio = np.where(warm[:, np.newaxis], of_means, of_steps)
    itself = like.against_itself()
    found = Hardware(like, ratio, like.excess_ns(), like.needed_ns(), against_itself=itself)
    places = np.flatnonzero(hot | warm).tolist()
    if not places or len(places) > max(2, limits.slower_ranks_percent / 100 * len(compute)):
        return found
    ranks = {steps.ranks[place] for place in places}
    if len(ranks) > 1 and any(ranks == {*stage} for stage in copies):
        return found  # which has more work
    slow = tuple(place for place in places if steady[place] and not unsteady[place])
    throttled = tuple(place for place in places if place not in slow)
    return replace(found, slow=slow, throttled=throttled)


def _serve_apart(job: Job, steps: Steps) -> bool:
    """Whether ranks of a server compute for different requests in a step.

    Equal launches are then not equal work: of two replicas with 32 and 8 requests, whose kernels
    have a block for each multiprocessor, one seemed to have a GPU 1.36 times as slow.
    """
    table = server_steps(job).steps
    if table.empty:
        return False
    table = table[table["rank"].isin(steps.ranks) & table["step"].isin(steps.numbers)]
    return bool((table.groupby("step")["label"].nunique() > 1).any())


def _is_often(slower: Mask, percent: float) -> Mask:
    """Which ranks are slower in this share of the steps, and in two of them if there are two."""
    fewest = min(2, slower.shape[1])
    return np.asarray((100 * slower.mean(axis=1) >= percent) & (slower.sum(axis=1) >= fewest))


def _differ(compute: Matrix) -> bool:
    """Whether ranks or steps differ in how long they compute."""
    if not compute.size:
        return False
    over_ranks = compute.max(axis=0) > (1 + LEAST_DIFFERENCE) * np.median(compute, axis=0)
    over_steps = compute.max(axis=1) > (1 + LEAST_DIFFERENCE) * compute.min(axis=1)
    pair = compute.max(axis=0) > (1 + LEAST_DIFFERENCE) * compute.min(axis=0)
    return bool(over_ranks.any() or over_steps.any() or (len(compute) == _PAIR and pair.any()))


def _is_unsteady(job: Job, steps: Steps, limits: Limits) -> Mask:
    """Whether the pace of each rank changes more than that of a usual one."""
    by_rank = job.reduce(pace_range, steps.ranks)
    ranges = np.array([by_rank[rank] for rank in steps.ranks])
    usual = np.median(ranges) if ranges.size > _PAIR else ranges.min()
    return np.asarray(ranges > limits.unsteady_pace * usual)
