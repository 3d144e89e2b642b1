"""Ranks whose kernels take longer than the same kernels with the same work on the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.diagnosis.kernel_facts import like_kernel_facts, pace_in_windows
from hta_widgets.analyses.diagnosis.like_kernels import LikeKernels
from hta_widgets.analyses.diagnosis.limits import Limits
from hta_widgets.analyses.diagnosis.steps import Matrix, Steps
from hta_widgets.trace.job import Job

FEWEST_WINDOWS: Final = 5
"""Windows of 10 ms that tell whether a GPU changes its clock."""

LEAST_DIFFERENCE: Final = 0.03
"""Ranks or steps that differ by less in the time they compute are not looked at closer."""

_PAIR: Final = 2


@dataclass(frozen=True, eq=False)
class Hardware:
    """What the kernels say about the GPUs.

    Attributes
    ----------
    like : LikeKernels, optional
        None if all ranks compute equally long, so that there is nothing to compare.
    ratio, excess_ns : ndarray of float64, shape (ranks, steps)
        See `LikeKernels`; of all ranks.
    slow, throttled : tuple of int
        Positions of ranks with a slow GPU, and with one that is slow at times.
    stage : tuple of int
        Ranks whose kernels take longer, and that are all copies of one stage of a pipeline.
    against_itself : ndarray of float64
        See `LikeKernels`.
    """

    like: LikeKernels | None
    ratio: Matrix
    excess_ns: Matrix
    slow: tuple[int, ...] = ()
    throttled: tuple[int, ...] = ()
    stage: tuple[int, ...] = ()
    against_itself: NDArray[np.float64] | None = None

    def excess_of(self, places: Sequence[int]) -> Matrix:
        """Excess of some ranks, 0 for the others."""
        found = np.zeros_like(self.excess_ns)
        found[list(places)] = self.excess_ns[list(places)]
        return found


def hardware(job: Job, steps: Steps, copies: Sequence[tuple[int, ...]], limits: Limits) -> Hardware:
    """Compare the kernels of the ranks, where the ranks or steps differ at all.

    Parameters
    ----------
    job : Job
    steps : Steps
    copies : sequence of tuple of int
        Ranks with the same stage of a pipeline, for each stage.
    limits : Limits
    """
    shape = steps["compute"].shape
    if not _differ(steps["compute"]):
        return Hardware(None, np.ones(shape), np.zeros(shape))
    like = LikeKernels.of(steps, job.reduce(like_kernel_facts, steps.ranks))
    if not like.are_described:
        return Hardware(like, np.ones(shape), np.zeros(shape))
    found = Hardware(like, like.ratio(), like.excess_ns(), against_itself=like.against_itself())
    slower = found.ratio > limits.slower_kernels
    often = 100 * slower.mean(axis=1)
    hot = (often >= limits.slower_in_steps_percent) & (slower.sum(axis=1) >= min(2, shape[1]))
    places = np.flatnonzero(hot).tolist()
    if not places or len(places) > max(2, limits.slower_ranks_percent / 100 * shape[0]):
        return found
    ranks = tuple(steps.ranks[place] for place in places)
    if _are_a_stage(ranks, copies):
        return replace(found, stage=ranks)
    steady = often >= limits.slower_in_most_steps_percent
    throttled = tuple(
        place
        for place in places
        if not steady[place] or _pace_range(job, like, place) > limits.unsteady_pace
    )
    slow = tuple(place for place in places if place not in throttled)
    return replace(found, slow=slow, throttled=throttled)


def _differ(compute: Matrix) -> bool:
    """Whether ranks or steps differ in how long they compute."""
    if not compute.size:
        return False
    over_ranks = compute.max(axis=0) > (1 + LEAST_DIFFERENCE) * np.median(compute, axis=0)
    over_steps = compute.max(axis=1) > (1 + LEAST_DIFFERENCE) * compute.min(axis=1)
    pair = compute.max(axis=0) > (1 + LEAST_DIFFERENCE) * compute.min(axis=0)
    return bool(over_ranks.any() or over_steps.any() or (len(compute) == _PAIR and pair.any()))


def _are_a_stage(hot: Sequence[int], copies: Sequence[tuple[int, ...]]) -> bool:
    """Whether these ranks are all copies, two or more, of one stage."""
    return len(hot) > 1 and any({*hot} == {*stage} for stage in copies)


def _pace_range(job: Job, like: LikeKernels, place: int) -> float:
    """Ratio of the slow to the fast tenth of the moments of a rank; 1 if there are few."""
    rank = like.steps.ranks[place]
    keys, usual_ns = like.usual_elsewhere(place)
    pace = job.reduce_each(pace_in_windows, {rank: (keys, usual_ns)})[rank]
    if pace.size < FEWEST_WINDOWS:
        return 1.0
    low, high = np.quantile(pace, (0.1, 0.9))
    return float(high / low) if low > 0 else 1.0
