"""Counts and durations of everything a rank does, by name, for comparisons like HTA's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.time.call_sums import sums_at
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.grouping import grouped
from hta_widgets.hta_tables.event_columns import CATEGORY_NAMES
from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import GPU_WORK, Kind, KindSet
from hta_widgets.trace.ranks.iterations import NO_ITERATION, iterations, iterations_at
from hta_widgets.trace.ranks.rank import Rank

_ON_GPU: Final = KindSet((*GPU_WORK, Kind.SYNC))
_NEITHER: Final = KindSet((Kind.PROFILER_RANGE, Kind.COUNTER, Kind.INSTANT))

COLUMNS: Final = ("name", "cat", "on_gpu", "counts", "total_ns", "self_ns")


def operation_sums(rank: Rank, steps: tuple[int, ...] | None) -> pd.DataFrame:
    """Sums of a rank over some ProfilerSteps, or over the whole recording.

    One row per name and kind: ``name``, ``cat``, ``on_gpu``, ``counts``, ``total_ns``, ``self_ns``
    (for CPU calls, without the calls inside; for GPU work, the total).
    """
    events = rank.trace.events
    kept = ~_NEITHER.among(events.kind)
    if steps is not None:
        kept &= np.isin(_iterations(rank), steps)
    rows = np.flatnonzero(kept)
    on_gpu = _ON_GPU.among(events.kind)
    groups = grouped(events.name.codes[rows], events.kind[rows])
    first = rows[groups.first]
    return pd.DataFrame(
        {
            "name": np.array(events.names_at(first), dtype=object),
            "cat": CATEGORY_NAMES[events.kind[first]],
            "on_gpu": on_gpu[first],
            "counts": groups.sizes,
            "total_ns": groups.reduce(np.add, events.duration_ns[rows]),
            "self_ns": groups.reduce(np.add, rank.remember(_self_ns)[rows]),
        },
        columns=COLUMNS,
    )


def _iterations(rank: Rank) -> np.ndarray:
    """Step of each event; synchronisations without a call belong to the step they start in."""
    events = rank.trace.events
    found = iterations(rank).copy()
    waits = events.rows_of(Kind.SYNC)
    waits = waits[found[waits] == NO_ITERATION]
    found[waits] = iterations_at(rank, events.start_ns[waits])
    return found


def _self_ns(rank: Rank) -> Times:
    """Duration of each event without the calls inside; 0 for marks and projected ranges."""
    calls, events = calls_of(rank), rank.trace.events
    found = np.where(_ON_GPU.among(events.kind), events.duration_ns, 0)
    length = calls.forest.cut_end_ns - calls.start_ns
    inside = sums_at(calls.forest.parent, length, length.size)
    found[calls.forest.rows] = length - inside
    return found


def steps_of(rank: Rank) -> tuple[int, ...]:
    """Numbers of all ProfilerSteps that were recorded."""
    return rank.profiler_steps.distinct


def compared_sums(
    labels: tuple[str, str], sums: Sequence[pd.DataFrame], parts: Sequence[int]
) -> pd.DataFrame:
    """Put the sums of two traces side by side; see `TraceDiff.compare_traces`.

    The sums are by name: ``counts``, ``total_duration``, ``self_duration`` (µs); `parts` has the
    number of counted steps, over all ranks, of each trace.
    """
    first, second = sums
    index = first.index.append(second.index.difference(first.index))
    sides = [each.reindex(index, fill_value=0) for each in sums]
    columns: dict[str, pd.Series] = {}
    for label, side in zip(labels, sides, strict=True):
        columns[f"{label}_counts"] = side["counts"].astype("int64")
        columns[f"{label}_total_duration"] = side["total_duration"].astype("float64").round(3)
    before, before_us, after, after_us = columns.values()
    columns["diff_counts"] = after - before
    columns["diff_duration"] = (after_us - before_us).round(3)
    signs = np.array(["-", "=", "+"], dtype=object)
    change = signs[np.sign(columns["diff_counts"].to_numpy()) + 1]
    columns["counts_change_categories"] = pd.Series(change, index=index)
    for label, side in zip(labels, sides, strict=True):
        columns[f"{label}_self_duration"] = side["self_duration"].astype("float64").round(3)
    for label, total, count in zip(labels, (before_us, after_us), parts, strict=True):
        columns[f"{label}_duration_per_step"] = total / count
    return pd.DataFrame(columns, index=index)
