"""Kernels that run in few steps only: trials of an autotuner, and what is run once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.diagnosis.facts.trial_waits import (
    flushes,
    repeated_between_waits,
    waits_for_events,
)
from hta_widgets.diagnosis.limits import TrialLimits
from hta_widgets.grouping import grouped
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

NAME_COLUMNS: Final = ("trial_names", "trials", "once")

MOST_NAMED: Final = 5


class Trials(NamedTuple):
    """Kernels of the steps of a rank that other steps do not have.

    Attributes
    ----------
    columns : mapping of str to ndarray of int64
        For each step: ``trial_names`` (number of kernel names that an autotuner tries, 0 if none
        does), ``trials`` (ns, their duration), ``once`` (ns, duration of the kernels that run in
        no other step).
    names : tuple of str
        Of the kernels tried, the longest first.
    spans_ns : tuple of pairs of int
        Without steps, when each series of trials starts and ends on the GPU, ascending; empty
        without trials, and where the steps are recorded.
    """

    columns: Mapping[str, NDArray[np.int64]]
    names: tuple[str, ...]
    spans_ns: tuple[tuple[int, int], ...] = ()


def trials(
    rank: Rank, work: GpuWork, step: NDArray[np.int64], count: int, limits: TrialLimits
) -> Trials:
    """Find the kernels that few steps have.

    Parameters
    ----------
    rank : Rank
    work : GpuWork
        Of its device.
    step : ndarray of int64
        Position of the step that launches each piece of work.
    count : int
        Number of steps.
    limits : TrialLimits
    """
    kernels = np.flatnonzero(rank.trace.events.kind[work.rows] == Kind.KERNEL)
    groups = grouped(work.name[kernels], step[kernels])
    name, of_step = work.name[kernels][groups.first], step[kernels][groups.first]
    length_ns = groups.reduce(np.add, work.duration_ns[kernels])
    in_steps = np.bincount(name, minlength=len(work.names))[name]
    tried = (100 * in_steps <= limits.steps_percent * count) & (groups.sizes >= limits.runs)
    tried &= ~np.isin(name, flushes(work))
    names = np.bincount(of_step[tried], minlength=count)
    is_trial = np.zeros(count, dtype=np.bool_)
    in_a_row = repeated_between_waits(rank, work) if tried.any() else kernels[:0]
    for each in np.flatnonzero(names >= limits.kernels).tolist():
        codes = name[tried & (of_step == each)]
        mine = kernels[(step[kernels] == each) & np.isin(work.name[kernels], codes)]
        measured = np.unique(work.name[np.intersect1d(mine, in_a_row)]).size
        is_trial[each] = _waits(rank, work, mine) >= codes.size or measured >= limits.kernels
    tried &= is_trial[of_step]
    longest = np.flatnonzero(tried)[np.argsort(-length_ns[tried], kind="stable")]
    distinct = dict.fromkeys(name[longest].tolist())
    return Trials(
        columns={
            "trial_names": np.where(is_trial, names, 0),
            "trials": _sums(length_ns, of_step, tried, count),
            "once": _sums(length_ns, of_step, in_steps == 1, count),
        },
        names=tuple(work.names[code] for code in [*distinct][:MOST_NAMED]),
    )


def _waits(rank: Rank, work: GpuWork, tried: NDArray[np.int64]) -> int:
    """Number of waits for events between the first and the last launch of some kernels."""
    launch = work.launch[tried]
    starts = rank.trace.events.start_ns[launch[launch >= 0]]
    if not starts.size:
        return 0
    at = waits_for_events(rank)
    slack_ns = int(np.ptp(starts)) // starts.size
    return int(np.count_nonzero((at >= starts.min()) & (at <= starts.max() + slack_ns)))


def _sums(
    length_ns: NDArray[np.int64], step: NDArray[np.int64], chosen: NDArray[np.bool_], count: int
) -> NDArray[np.int64]:
    sums = np.zeros(count, dtype=np.int64)
    np.add.at(sums, step[chosen], length_ns[chosen])
    return sums
