"""User annotations as HTA's tables."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.gpu_annotations import SOURCES, annotated_work
from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.grouping import grouped
from hta_widgets.hta_tables.event_columns import (
    CATEGORY_NAMES,
    NONE,
    decoded,
    event_columns,
    event_frame,
)
from hta_widgets.intervals import Intervals
from hta_widgets.names.shorten import plain_name
from hta_widgets.quantities import NS_PER_US
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.ranks.rank import Rank

OTHERS: Final = "others"
BREAKDOWN: Final = (
    *("name", "sum (us)", "max (us)", "min (us)", "stddev", "mean (us)", "rank"),
    *("count", "busy (us)", "self (us)"),
)


def kernels_with_user_annotations(
    rank: Rank,
    codes: Int64Array,
    offset_ns: int,
    *,
    expand_names: bool,
    shorten_names: bool,
) -> pd.DataFrame:
    """Return the table that `TraceAnalysis.get_gpu_kernels_with_user_annotations` documents.

    `codes` and the offset are those of `event_columns`.
    """
    events, annotated = rank.trace.events, annotated_work(rank)
    work, names = annotated.work, events.name.values
    columns: dict[str, Any] = event_columns(rank, work.rows, codes, offset_ns)
    columns["user_annotation"] = np.append(codes, NONE)[annotated.annotation]
    if expand_names:
        shown = map(plain_name, names) if shorten_names else names
        columns |= {
            "s_name": decoded(work.name, [*shown]),
            "s_cat": CATEGORY_NAMES[events.kind[work.rows]],
            "s_user_annotation": decoded(annotated.annotation, [*names, ""]),
        }
    columns["device"] = work.device
    columns["annotation_source"] = decoded(annotated.source, SOURCES)
    return event_frame(columns)


def user_annotation_breakdown(
    rank: Rank,
    *,
    on_gpu: bool,
    duration_ratio: float,
    num_kernels: int,
    allowlist: tuple[str, ...],
) -> pd.DataFrame | None:
    """Rows of one rank; None if it has no such annotations."""
    events = rank.trace.events
    rows = events.rows_of(Kind.GPU_ANNOTATION if on_gpu else Kind.ANNOTATION)
    rows = rows[_holds_work(rank, rows) if on_gpu else rank.analysed[rows]]
    if not rows.size:
        return None
    codes = events.name.codes[rows].astype(np.int64)
    label = _folded(
        rank,
        codes,
        events.duration_ns[rows],
        duration_ratio=duration_ratio,
        num_kernels=num_kernels,
        allowlist=allowlist,
    )
    names = [*events.name.values, OTHERS]
    busy_ns, self_ns = _launched_in(rank, label)
    groups = grouped(label[codes])
    lengths = [events.duration_ns[rows[each]] for each in groups.parts]
    kept = label[codes[groups.first]].tolist()
    table = pd.DataFrame(
        {
            "name": [names[code] for code in kept],
            "sum (us)": [each.sum() / NS_PER_US for each in lengths],
            "max (us)": [each.max() / NS_PER_US for each in lengths],
            "min (us)": [each.min() / NS_PER_US for each in lengths],
            "stddev": [each.std(ddof=int(each.size > 1)) / NS_PER_US for each in lengths],
            "mean (us)": [each.mean() / NS_PER_US for each in lengths],
            "rank": rank.trace.rank,
            "count": groups.sizes,
            "busy (us)": [busy_ns.get(code, 0) / NS_PER_US for code in kept],
            "self (us)": [self_ns.get(code, 0) / NS_PER_US for code in kept],
        }
    )
    return table.sort_values("name", kind="stable", ignore_index=True)


def _holds_work(rank: Rank, rows: Int64Array) -> Mask:
    """Which GPU ranges contain the middle of analysed work on their stream."""
    events, work = rank.trace.events, rank.gpu_work
    middle = work.start_ns + work.duration_ns // 2
    holds = np.zeros(rows.size, dtype=np.bool_)
    pid, tid = events.pid[work.rows], events.tid[work.rows]  # ranges have no device and stream
    for of_stream in grouped(events.pid[rows], events.tid[rows]).parts:
        own = rows[of_stream]
        there = (pid == events.pid[own[0]]) & (tid == events.tid[own[0]])
        sorted_middles = np.sort(middle[there])
        first = np.searchsorted(sorted_middles, events.start_ns[own])
        last = np.searchsorted(sorted_middles, events.start_ns[own] + events.duration_ns[own])
        holds[of_stream] = last > first
    return holds


def _folded(
    rank: Rank,
    codes: Int64Array,
    lengths_ns: Int64Array,
    *,
    duration_ratio: float,
    num_kernels: int,
    allowlist: tuple[str, ...],
) -> Int64Array:
    """For each name's code, the code of the name it is listed under; the last means others."""
    names = rank.trace.events.name.values
    label = np.arange(len(names) + 1)
    totals = np.zeros(len(names), dtype=np.int64)
    np.add.at(totals, codes, lengths_ns)
    used = np.unique(codes)
    if used.size <= num_kernels:
        return label
    longest = used[np.argsort(-totals[used], kind="stable")]
    reached = np.cumsum(totals[longest]) - totals[longest]
    is_enough = reached >= duration_ratio * totals.sum()
    folded = longest[is_enough | (np.arange(used.size) >= num_kernels)]
    for code in folded.tolist():
        if not any(re.search(pattern, names[code]) for pattern in allowlist):
            label[code] = len(names)
    return label


def _launched_in(rank: Rank, label: Int64Array) -> tuple[dict[int, int], dict[int, int]]:
    """Busy time and own time (ns) of the work launched in the annotations of each label."""
    annotated = annotated_work(rank)
    work = annotated.work
    piece, name = annotated.inside[:, 0], label[annotated.inside[:, 1]]
    busy_ns: dict[int, int] = {}
    for rows in grouped(name, work.device[piece]).parts:
        own, code = piece[rows], int(name[rows[0]])
        covered = Intervals.union(work.start_ns[own], work.end_ns[own]).length
        busy_ns[code] = busy_ns.get(code, 0) + covered
    inner = np.flatnonzero(annotated.annotation >= 0)
    codes = label[annotated.annotation[inner]]
    groups = grouped(codes)
    sums = groups.reduce(np.add, work.duration_ns[inner])
    return busy_ns, dict(zip(codes[groups.first].tolist(), sums.tolist(), strict=True))
