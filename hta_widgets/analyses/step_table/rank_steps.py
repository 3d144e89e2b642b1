"""The steps of one rank: periods, classes of time, and counts."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.idle_owners.gaps import gaps_of, recorded_work
from hta_widgets.analyses.idle_owners.owned_time import owned_time
from hta_widgets.analyses.time.causes import CAUSE_NAMES, IDLE_BUDGET, IDLE_CAUSES
from hta_widgets.analyses.time.collectives.partition import RankSplit, communication_parts
from hta_widgets.analyses.time.excerpt import EVERYTHING, Excerpt
from hta_widgets.analyses.time.window import Window, window_of
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.rank import Rank

WORK_CLASSES: Final = {
    "compute": (KernelType.COMPUTATION, KernelType.OTHER),
    "graph": (KernelType.CUDA_GRAPH,),
    "copies": (KernelType.MEMORY,),
}
"""Kernel types of the classes of work that is no communication."""

COMMUNICATION_CLASSES: Final = ("transfer", "communication", "waiting")
"""Moving data; communication of which it is not known; waiting for other ranks."""

STEP_CLASSES: Final = (*WORK_CLASSES, *COMMUNICATION_CLASSES, *IDLE_BUDGET)
"""Classes of the time of a step, which add up to it; an instant counts for the first that holds."""

_KEYS: Final = ("rank", "device", "step", "start_ns", "end_ns", "period_ns", "cpu_ns")
_COUNTS: Final = ("gpu_work", "kernels", "launches")
STEP_COLUMNS: Final = (
    *_KEYS,
    *(f"{name}_ns" for name in STEP_CLASSES),
    "hidden_communication_ns",
    *_COUNTS,
    *(f"idle_{cause}_ns" for cause in CAUSE_NAMES),
)
"""Columns of `StepTable.steps` that hold for a rank alone."""

Columns = dict[str, NDArray[np.int64]]


def steps_of_rank(rank: Rank, split: RankSplit, excerpt: Excerpt = EVERYTHING) -> Columns:
    """Rows of `StepTable.steps` of one rank, by column.

    Parameters
    ----------
    rank : Rank
    split : RankSplit
        What is known of the waiting of its communication kernels.
    excerpt : Excerpt
        Its steps, and the part of each in its window.
    """
    window = window_of(rank)
    parts = [
        _steps_of_device(rank, split, window, device, excerpt) for device in rank.gpu_work.devices
    ]
    none = np.zeros(0, dtype=np.int64)
    return {name: np.concatenate([none, *(part[name] for part in parts)]) for name in STEP_COLUMNS}


def _steps_of_device(
    rank: Rank, split: RankSplit, window: Window, device: int, excerpt: Excerpt
) -> Columns:
    edges = window.step_edges(rank, device)
    count = window.steps.size
    chosen = np.isin(window.steps, excerpt.steps or window.steps)
    limits = excerpt.window_of(rank)
    if limits is not None:
        edges = np.clip(edges, *limits)
        chosen &= np.diff(edges) > 0
    idle_ns = _idle_by_cause(rank, window, device, edges)
    columns = {
        "rank": np.full(count, rank.trace.rank, dtype=np.int64),
        "device": np.full(count, device, dtype=np.int64),
        "step": window.steps.astype(np.int64),
        "start_ns": edges[:-1],
        "end_ns": edges[1:],
        "period_ns": np.diff(edges),
        "cpu_ns": window.step_length_ns,
        **_busy_time(rank, split, device, edges),
        **_idle_time(idle_ns),
        **_counts(rank, window, device),
    }
    return {name: column[chosen] for name, column in columns.items()}


def _busy_time(rank: Rank, split: RankSplit, device: int, edges: Times) -> Columns:
    """Time of each class, without that of the classes before, and the communication they hide."""
    rows = recorded_work(rank, device)
    events = rank.trace.events
    types = rank.settings.kernel_rules.types(events, rows)
    start_ns, end_ns = events.start_ns[rows], events.start_ns[rows] + events.duration_ns[rows]
    by_class = {}
    for name, of_class in WORK_CLASSES.items():
        chosen = np.isin(types, of_class)
        by_class[name] = Intervals.union(start_ns[chosen], end_ns[chosen])
    communicates = types == KernelType.COMMUNICATION
    at = (rows[communicates], start_ns[communicates], end_ns[communicates])
    by_class |= _communication(*at, split)
    before, columns = Intervals.union([], []), {}
    for name, own in by_class.items():
        after = before | own
        columns[f"{name}_ns"] = after.length_in_bins(edges) - before.length_in_bins(edges)
        before = after
    exposed_ns = np.sum([columns[f"{name}_ns"] for name in COMMUNICATION_CLASSES], axis=0)
    whole_ns = Intervals.union(*at[1:]).length_in_bins(edges)
    columns["hidden_communication_ns"] = whole_ns - exposed_ns
    return columns


def _communication(
    rows: NDArray[np.int64], start_ns: Times, end_ns: Times, split: RankSplit
) -> dict[str, Intervals]:
    """Time of each of `COMMUNICATION_CLASSES`, in collectives and in sends and receives."""
    parts = communication_parts(rows, start_ns, end_ns, split)
    transfer, transfer_p2p, unknown, wait, wait_p2p = (Intervals.union(*part) for part in parts)
    found = (transfer | transfer_p2p, unknown, wait | wait_p2p)
    return dict(zip(COMMUNICATION_CLASSES, found, strict=True))


def _idle_by_cause(rank: Rank, window: Window, device: int, edges: Times) -> NDArray[np.int64]:
    """Idle time inside the edges, a row for each step and a column for each cause."""
    gaps, owned = rank.remember(gaps_of), rank.remember(owned_time)
    of_device = np.flatnonzero(gaps.device[owned.segments.gap] == device)
    of_device = of_device[np.isin(owned.step[of_device], window.steps)]
    segments = owned.segments.take(of_device)
    order = np.argsort(window.steps)
    step = order[np.searchsorted(window.steps[order], owned.step[of_device])]
    sums = np.zeros((window.steps.size, len(CAUSE_NAMES)), dtype=np.int64)
    inside_ns = np.minimum(segments.end_ns, edges[-1]) - np.maximum(segments.start_ns, edges[0])
    np.add.at(sums, (step, owned.cause[of_device]), np.maximum(inside_ns, 0))
    return sums


def _idle_time(idle_ns: NDArray[np.int64]) -> Columns:
    """Idle time by class of the budget, and by cause."""
    budget = {
        f"{name}_ns": idle_ns[:, [cause.budget == name for cause in IDLE_CAUSES]].sum(axis=1)
        for name in IDLE_BUDGET
    }
    by_cause = {f"idle_{cause}_ns": idle_ns[:, code] for code, cause in enumerate(CAUSE_NAMES)}
    return budget | by_cause


def _counts(rank: Rank, window: Window, device: int) -> Columns:
    """Work that each step launches, kernels among it, and the calls that launch it."""
    work, kind = rank.gpu_work.by_device()[device], rank.trace.events.kind
    launched = (work.launch >= 0) & window.is_of_a_step(rank, work)
    work = work.take(np.flatnonzero(launched))
    step = window.step_of(rank, work)
    _, launching = np.unique(work.launch, return_index=True)
    count = window.steps.size
    return {
        "gpu_work": np.bincount(step, minlength=count),
        "kernels": np.bincount(step[kind[work.rows] == Kind.KERNEL], minlength=count),
        "launches": np.bincount(step[launching], minlength=count),
    }
