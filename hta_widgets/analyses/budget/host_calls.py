"""Which calls of a rank wait, prepare batches, or tell what the host does; by place."""

from __future__ import annotations

import numpy as np

from hta_widgets.analyses.time import patterns
from hta_widgets.analyses.time.calls import Calls, calls_of
from hta_widgets.analyses.time.modules import PHASES, phases
from hta_widgets.arrays import Mask
from hta_widgets.intervals import Intervals
from hta_widgets.trace.model.events import Kind, KindSet
from hta_widgets.trace.ranks.rank import Rank

_TELLING = KindSet((Kind.CPU_OP, Kind.PYTHON))


def blocking_calls(rank: Rank) -> Mask:
    """Calls that return when the GPU has done what was asked of it before."""
    calls = calls_of(rank)
    return calls.named(patterns.BLOCKING.search) & calls.is_launch_call


def loading_calls(rank: Rank) -> Mask:
    """Calls that load data, or prepare it and launch no kernels, or without kernels no modules."""
    calls = calls_of(rank)
    prepares = calls.named(patterns.PREPROCESSING.search)
    if prepares.any():
        prepares &= ~_around(calls, _computing(rank, calls))
    return (prepares | calls.named(patterns.DATA_LOADING.search)) & ~calls.is_launch_call


def code_loading(rank: Rank) -> Intervals:
    """Time in which CUDA loads code at its first use, on any thread."""
    events = rank.trace.events
    names = events.name.values
    codes = [code for code, name in enumerate(names) if patterns.LOADS_CODE.search(name)]
    rows = events.rows_of(Kind.OVERHEAD)
    rows = rows[np.isin(events.name.codes[rows], codes)]
    start_ns = events.start_ns[rows]
    return Intervals.union(start_ns, start_ns + events.duration_ns[rows])


def telling_calls(rank: Rank) -> Mask:
    """Operators and frames."""
    return _TELLING.among(calls_of(rank).kind)


def _computing(rank: Rank, calls: Calls) -> Mask:
    """Calls that launch kernels; where none is recorded, those of modules and their gradients."""
    events = rank.trace.events
    kernels = events.rows_of(Kind.KERNEL)
    if not kernels.size:
        return np.asarray(phases(rank) != PHASES.index("other"))
    launch = rank.launches[kernels].astype(np.int64)
    launching = np.zeros(calls.kind.size, dtype=np.bool_)
    launching[calls.places_of(launch[launch >= 0])] = True
    return launching


def _around(calls: Calls, chosen: Mask) -> Mask:
    """Some calls and all around them: in name only, a whole program may process images."""
    before = np.concatenate(([0], np.cumsum(chosen)))
    return np.asarray(before[calls.forest.ends] > before[:-1])
