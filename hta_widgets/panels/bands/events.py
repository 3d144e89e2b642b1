"""The GPU work of a job that is selected, as a table."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.clocks.aligned import common_offsets_ns
from hta_widgets.analyses.operators.operator_calls import with_shapes
from hta_widgets.analyses.time.calls import Calls, calls_of, operators_of_work
from hta_widgets.analyses.time.modules import PHASES, in_modules, phases
from hta_widgets.analyses.time.window import window_of
from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.panels.base.selection import Selection
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.rank import Rank
from hta_widgets.trace.ranks.replayed_calls import with_replayed_calls

NONE: Final = -1
"""Start and duration of a launch call that was not recorded."""


class Asked(NamedTuple):
    """What is selected on one rank; `window_ns` is on the rank's own clock."""

    streams: tuple[int, ...]
    kernel: str
    operators: tuple[str, ...]
    shapes: tuple[str, ...]
    modules: tuple[str, ...]
    phase: str
    steps: tuple[int, ...]
    window_ns: tuple[int, int] | None
    offset_ns: int


def selected_events(job: Job, selection: Selection, *, in_window: bool = True) -> pd.DataFrame:
    """List the analysed GPU work that is selected, and its launches.

    Work must match all fields: its rank, stream and name; the step in which its launch call starts
    (or, if the call was not recorded, in which the work itself starts); the window, which it must
    overlap; and its launch call, which must lie in one of the operators with one of the input
    shapes, in one of the modules (for the backward pass, the module of the forward operator), and
    in the phase.

    Returns
    -------
    DataFrame
        One row per kernel, copy, memset or CUDA graph, by rank and start: ``rank``, ``device``,
        ``stream``, ``step`` (-1 without steps), ``name``, ``type``, ``start_ns`` and
        ``duration_ns``; ``launch`` and ``operator``, the names of the launch call and of the
        innermost operator around it (empty if there is none), ``launch_start_ns`` and
        ``launch_duration_ns`` (-1 if there is none). Times are int64 ns since the first event of
        all ranks, on the common clock.
    """
    window_ns = selection.window_ns if in_window else None
    tables = job.reduce_each(_table_of, _asked(job, selection, window_ns)).values()
    return pd.concat(tables, ignore_index=True)


def count_events(job: Job, selection: Selection) -> int:
    """Count the rows of `selected_events`."""
    asked = _asked(job, selection, selection.window_ns)
    return sum(job.reduce_each(_count_of, asked).values())


def _asked(
    job: Job, selection: Selection, window: tuple[int, ...] | None
) -> dict[int, tuple[Asked]]:
    offsets_ns = common_offsets_ns(job)
    return {
        rank: (
            Asked(
                streams=tuple(selection.streams),
                kernel=selection.kernel,
                operators=selection.operators,
                shapes=selection.shapes,
                modules=selection.modules,
                phase=selection.code_phase,
                steps=selection.steps_of(job),
                window_ns=None
                if window is None
                else (window[0] - offsets_ns[rank], window[1] - offsets_ns[rank]),
                offset_ns=offsets_ns[rank],
            ),
        )
        for rank in job.select_ranks(selection.ranks)
    }


def _count_of(rank: Rank, asked: Asked) -> int:
    return int(chosen_work(rank, asked).size)


def chosen_work(rank: Rank, asked: Asked) -> Int64Array:
    """Positions of the selected work in `gpu_work`."""
    rank = with_replayed_calls(rank)  # its GPU work has the same positions
    work = rank.gpu_work
    chosen = np.ones(len(work), dtype=np.bool_)
    if asked.streams:
        chosen &= np.isin(work.stream, asked.streams)
    if asked.kernel:
        codes = [code for code, name in enumerate(work.names) if name == asked.kernel]
        chosen &= np.isin(work.name, codes)
    if asked.window_ns is not None:
        start_ns, end_ns = asked.window_ns
        chosen &= (work.start_ns < end_ns) & (work.end_ns > start_ns)
    if asked.steps:
        chosen &= np.isin(rank.remember(_steps), asked.steps)
    if asked.operators or asked.shapes or asked.modules or asked.phase:
        calls = calls_of(rank)
        below = np.append(_chosen_calls(rank, calls, asked), np.False_)
        chosen &= below[calls.places_of(work.launch)]
    return np.flatnonzero(chosen)


def _chosen_calls(rank: Rank, calls: Calls, asked: Asked) -> Mask:
    chosen = np.ones(calls.kind.size, dtype=np.bool_)
    if asked.operators or asked.shapes:
        chosen &= calls.forest.at_or_below(_chosen_operators(rank, calls, asked))
    if asked.modules:
        chosen &= in_modules(rank, asked.modules)
    if asked.phase:
        chosen &= phases(rank) == PHASES.index(asked.phase)
    return chosen


def _chosen_operators(rank: Rank, calls: Calls, asked: Asked) -> Mask:
    chosen = np.ones(calls.kind.size, dtype=np.bool_)
    if asked.operators:
        chosen &= calls.named({*asked.operators}.__contains__)
    if asked.shapes:
        chosen &= with_shapes(rank, {*asked.shapes})
    return chosen


def _steps(rank: Rank) -> Int64Array:
    """Step number of each piece of work."""
    whole = window_of(rank)
    numbers: Int64Array = whole.steps[whole.step_of(rank, rank.gpu_work)]
    return numbers


def _table_of(rank: Rank, asked: Asked) -> pd.DataFrame:
    rows = chosen_work(rank, asked)
    work, events = rank.gpu_work.take(rows), rank.trace.events
    launch = work.launch
    has_launch = launch >= 0
    names = np.array([*work.names, ""], dtype=object)
    start_ns = np.where(has_launch, events.start_ns[launch] + asked.offset_ns, NONE)
    duration_ns = np.where(has_launch, events.duration_ns[launch], NONE)
    types = np.array([each.name for each in KernelType], dtype=object)
    codes = np.array([each.value for each in KernelType])
    return pd.DataFrame(
        {
            "rank": np.full(rows.size, rank.trace.rank, dtype=np.int64),
            "device": work.device,
            "stream": work.stream,
            "step": rank.remember(_steps)[rows],
            "name": names[work.name],
            "type": types[np.searchsorted(codes, work.type)],
            "start_ns": work.start_ns + asked.offset_ns,
            "duration_ns": work.duration_ns,
            "launch": names[np.where(has_launch, events.name.codes[launch], NONE)],
            "operator": operators_of_work(rank)[rows],
            "launch_start_ns": start_ns,
            "launch_duration_ns": duration_ns,
        }
    )
