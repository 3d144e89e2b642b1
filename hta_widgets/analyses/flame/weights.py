"""What a flame graph shows of each call: GPU work, CPU time, idle time of the GPU or memory."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from hta_widgets.analyses.flame.call_tree import CallTree, Order, Rows, Weights, call_tree
from hta_widgets.analyses.idle_owners.owned_time import counted_time
from hta_widgets.analyses.memory_use.owners import owners_of
from hta_widgets.analyses.memory_use.recorded import CPU, recorded_memory
from hta_widgets.analyses.shared.attribution.calls import calls_of
from hta_widgets.analyses.shared.attribution.cpu_time import own_cpu_time
from hta_widgets.analyses.shared.excerpt import EVERYTHING, Excerpt, counted_work
from hta_widgets.trace.ranks.rank import Rank

Weight: TypeAlias = Literal["gpu", "cpu", "idle", "bytes"]

NOBODY = {
    "gpu": "(launch not recorded)",
    "cpu": "(no call)",
    "idle": "(no call)",
    "bytes": "(no call)",
}
"""Name of the node of what belongs to no call."""


def weighted_tree(rank: Rank, weight: Weight, order: Order, excerpt: Excerpt | None) -> CallTree:
    """The call paths of a rank with their time."""
    if excerpt is None:
        return rank.remember(_tree, weight, order)
    return _tree(rank, weight, order, excerpt)


def _tree(rank: Rank, weight: Weight, order: Order, excerpt: Excerpt | None = None) -> CallTree:
    of = {"gpu": _gpu, "cpu": _cpu, "idle": _idle, "bytes": _bytes}[weight]
    return call_tree(calls_of(rank), Weights(*of(rank, excerpt), NOBODY[weight]), order)


def _gpu(rank: Rank, excerpt: Excerpt | None) -> tuple[Rows, Rows, Rows]:
    calls = calls_of(rank)
    parts = [
        (calls.places_of(work.launch), work.name.astype(np.int64), work.duration_ns)
        for work in counted_work(rank, excerpt).values()
    ]
    place, name, ns = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return place, name, ns


def _cpu(rank: Rank, excerpt: Excerpt | None) -> tuple[Rows, Rows, Rows]:
    own = own_cpu_time(rank, excerpt)
    return own.place, np.full(own.place.size, -1), own.ns


def _idle(rank: Rank, excerpt: Excerpt | None) -> tuple[Rows, Rows, Rows]:
    pieces = counted_time(rank, excerpt or EVERYTHING).pieces
    return pieces.owner, np.full(pieces.owner.size, -1), pieces.length_ns()


def _bytes(rank: Rank, excerpt: Excerpt | None) -> tuple[Rows, Rows, Rows]:
    """What calls allocate of the GPUs' memory, or of the CPU's where that is all there is."""
    devices = recorded_memory(rank)
    chosen = [each for each in devices if each.device != CPU] or devices
    parts = [(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))]
    for memory in chosen:
        opened = memory.bytes > 0
        if excerpt is not None:
            opened &= excerpt.holds(rank, memory.time_ns)
        positions = np.flatnonzero(opened)
        parts.append((owners_of(rank, memory, positions).call, memory.bytes[positions]))
    place, size = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return place, np.full(place.size, -1), size
