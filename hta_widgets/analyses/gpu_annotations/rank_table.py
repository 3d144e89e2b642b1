"""The user annotations of one rank, by name."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.idle_owners.sums import idle_by_call
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.counted import launched_work, sums_at
from hta_widgets.analyses.time.excerpt import EVERYTHING, Excerpt
from hta_widgets.analyses.time.sub_forest import SubForest, cpu_times
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.model.steps import STEP_NAME
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

Positions = NDArray[np.int64]


class AnnotationRows(NamedTuple):
    """Rows of one rank, and what lies in none of them.

    Attributes
    ----------
    table : DataFrame
        As `GpuAnnotations.annotations`.
    totals : tuple of int
        GPU time of all work, of that launched outside annotations, and of that with unknown launch.
    """

    table: pd.DataFrame
    totals: tuple[int, int, int]


def annotation_rows(rank: Rank, excerpt: Excerpt | None) -> AnnotationRows:
    """The user annotations of a rank in some of its time."""
    columns = _by_name(rank, excerpt)
    names = rank.trace.events.name.values
    holds = np.any([column != 0 for column in columns.values()], axis=0)
    kept = np.flatnonzero(holds)
    table = pd.DataFrame(
        {
            "rank": np.full(kept.size, rank.trace.rank),
            "annotation": np.array([names[code] for code in kept.tolist()], dtype=object),
            **{name: column[kept] for name, column in columns.items()},
        }
    )
    return AnnotationRows(table, _totals(rank, excerpt))


def _annotations(rank: Rank) -> SubForest:
    calls = calls_of(rank)
    return SubForest.of(calls, calls.kind == Kind.ANNOTATION)


def _totals(rank: Rank, excerpt: Excerpt | None) -> tuple[int, int, int]:
    work, place = launched_work(rank, excerpt)
    unrecorded = place == NO_PARENT
    outside = (rank.remember(_annotations).at(place) == NO_PARENT) & ~unrecorded
    ns = work.duration_ns
    return int(ns.sum()), int(ns[outside].sum()), int(ns[unrecorded].sum())


def _by_name(rank: Rank, excerpt: Excerpt | None) -> dict[str, Times]:
    """Columns by code of the name."""
    tree, size = rank.remember(_annotations), len(rank.trace.events.name.values)
    cpu, outermost = cpu_times(rank, tree, excerpt), tree.same_name == NO_PARENT
    work, place = launched_work(rank, excerpt)
    owner, idle = tree.at(place), idle_by_call(rank, excerpt)
    counted = (excerpt or EVERYTHING).counts(work).astype(np.int64)
    own_ns = tree.own(owner, work.duration_ns)
    of_call = {
        "calls": cpu.calls,
        "cpu_sum_ns": np.where(outermost, cpu.inside_ns, 0),
        "gpu_work": tree.totals(tree.own(owner, counted)),
        "gpu_ns": tree.totals(own_ns),
        "gpu_self_ns": own_ns,
        "gpu_span_ns": np.where(outermost, _spans_ns(tree, work, owner), 0),
        "idle_ns": tree.totals(tree.own(tree.at(idle.place), idle.ns)),
    }
    sums = {name: sums_at(tree.name, column, size) for name, column in of_call.items()}
    ranges, range_ns = _recorded_ranges(rank, size, excerpt)
    return {
        **{name: sums[name] for name in ("calls", "cpu_sum_ns", "gpu_work", "gpu_ns")},
        "gpu_busy_ns": _busy_ns(tree, work, owner, size),
        **{name: sums[name] for name in ("gpu_span_ns", "gpu_self_ns", "idle_ns")},
        "recorded_ranges": ranges,
        "recorded_range_ns": range_ns,
    }


def _spans_ns(tree: SubForest, work: GpuWork, owner: Positions) -> Times:
    """From the first start to the last end of the work launched in each call."""
    by_owner = grouped(owner)
    position = owner[by_owner.first]
    start = by_owner.reduce(np.minimum, work.start_ns)
    end = by_owner.reduce(np.maximum, work.end_ns)
    first = np.searchsorted(position, np.arange(tree.size))
    last = np.searchsorted(position, tree.last)
    filled = np.flatnonzero(last > first)
    span = np.zeros(tree.size, dtype=np.int64)
    if filled.size:
        edges = np.stack([first[filled], last[filled]], axis=1).ravel()
        starts = np.minimum.reduceat(np.append(start, start[-1:]), edges)[::2]
        ends = np.maximum.reduceat(np.append(end, end[-1:]), edges)[::2]
        span[filled] = ends - starts
    return span


def _busy_ns(tree: SubForest, work: GpuWork, owner: Positions, size: int) -> Times:
    """Time in which any work launched in an annotation of each name runs, by device."""
    pieces: list[Positions] = [np.zeros(0, dtype=np.int64)]
    codes: list[NDArray[Any]] = [np.zeros(0, dtype=np.int64)]
    piece = np.flatnonzero(owner != NO_PARENT)
    around = owner[piece]
    while piece.size:
        outermost = tree.same_name[around] == NO_PARENT
        pieces.append(piece[outermost])
        codes.append(tree.name[around[outermost]])
        around = tree.parent[around]
        piece, around = piece[around != NO_PARENT], around[around != NO_PARENT]
    every, code = np.concatenate(pieces), np.concatenate(codes)
    busy = np.zeros(size, dtype=np.int64)
    for rows in grouped(code, work.device[every]).parts:
        of_name = every[rows]
        busy[code[rows[0]]] += Intervals.union(work.start_ns[of_name], work.end_ns[of_name]).length
    return busy


def _recorded_ranges(rank: Rank, size: int, excerpt: Excerpt | None) -> tuple[Times, Times]:
    """Number and length of the ranges on the GPU that the profiler recorded, by name."""
    events, rows = rank.trace.events, rank.remember(_rows_of_ranges)
    start, length_ns = events.start_ns[rows], events.duration_ns[rows]
    is_counted = np.ones(rows.size, dtype=np.int64)
    if excerpt is not None:
        on_device = events.pid[rows]  # as Kineto writes them, they have no device
        for device in np.unique(on_device).tolist():
            own = on_device == device
            time = excerpt.time(rank, device)
            end = start[own] + length_ns[own]
            is_counted[own] = time.covers(start[own])
            length_ns[own] = time.covered_until(end) - time.covered_until(start[own])
    codes = events.name.codes[rows]
    return sums_at(codes, is_counted, size), sums_at(codes, length_ns, size)


def _rows_of_ranges(rank: Rank) -> Positions:
    """Rows of what the profiler recorded of annotations on the GPU, without ProfilerSteps."""
    events = rank.trace.events
    rows = events.rows_of(Kind.GPU_ANNOTATION)
    steps = [code for code, name in enumerate(events.name.values) if STEP_NAME.match(name)]
    return rows[~np.isin(events.name.codes[rows], steps)]
