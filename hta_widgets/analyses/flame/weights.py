"""What a flame graph shows of each call: GPU work, CPU time, idle time of the GPU or memory."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import numpy as np

from hta_widgets.analyses.flame.call_tree import Weights
from hta_widgets.analyses.idle_owners.paths import with_calls_around
from hta_widgets.analyses.idle_owners.sums import idle_by_call
from hta_widgets.analyses.memory_use.owners import owners_of
from hta_widgets.analyses.memory_use.recorded import CPU, recorded_memory
from hta_widgets.analyses.time.call_sums import own_cpu_time
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.selection import TimeSelection, selected_work
from hta_widgets.arrays import Int64Array
from hta_widgets.trace.ranks.rank import Rank

Weight: TypeAlias = Literal["gpu", "cpu", "idle", "bytes"]

NO_WORK: Final = np.int64(-1)
"""Code of the work of time of a call itself."""

NOBODY = {
    "gpu": "(launch not recorded)",
    "cpu": "(no call)",
    "idle": "(no call)",
    "bytes": "(no call)",
}
"""Name of the node of what belongs to no call."""


def weights_of(rank: Rank, weight: Weight, selection: TimeSelection | None) -> Weights:
    """What the calls of a rank have of a weight, in some of its time."""
    of = {"gpu": _gpu, "cpu": _cpu, "idle": _idle, "bytes": _bytes}[weight]
    return Weights(*of(rank, selection), NOBODY[weight])


def calls_with_any(rank: Rank, weight: Weight) -> Int64Array:
    """Places of the calls that may have some of a weight at any time, and of all around them."""
    calls = calls_of(rank)
    if weight == "cpu":
        return np.arange(calls.kind.size)
    if weight == "gpu":
        launches = [rank.all_work(device).launch for device in rank.gpu_work.devices]
        places = calls.places_of(np.concatenate([rank.gpu_work.launch[:0], *launches]))
    else:
        places = weights_of(rank, weight, None).place
    return with_calls_around(calls, places)


def _gpu(rank: Rank, selection: TimeSelection | None) -> tuple[Int64Array, Int64Array, Int64Array]:
    calls = calls_of(rank)
    parts = [
        (calls.places_of(work.launch), work.name.astype(np.int64), work.duration_ns)
        for work in selected_work(rank, selection).values()
    ]
    place, name, ns = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return place, name, ns


def _cpu(rank: Rank, selection: TimeSelection | None) -> tuple[Int64Array, Int64Array, Int64Array]:
    own = own_cpu_time(rank, selection)
    return own.place, _no_work(own.place), own.ns


def _idle(rank: Rank, selection: TimeSelection | None) -> tuple[Int64Array, Int64Array, Int64Array]:
    place, ns = idle_by_call(rank, selection)
    return place, _no_work(place), ns


def _bytes(
    rank: Rank, selection: TimeSelection | None
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """What calls allocate of the GPUs' memory, or of the CPU's where that is all there is."""
    devices = recorded_memory(rank)
    chosen = [each for each in devices if each.device != CPU] or devices
    parts = [np.zeros((2, 0), dtype=np.int64)]
    for memory in chosen:
        opened = memory.bytes > 0
        if selection is not None:
            opened &= selection.asked_time(rank).covers(memory.time_ns)
        at = np.flatnonzero(opened)
        parts.append(np.stack((owners_of(rank, memory, at).call, memory.bytes[at])))
    place, size = np.concatenate(parts, axis=1)
    return place, _no_work(place), size


def _no_work(place: Int64Array) -> Int64Array:
    """Codes of the work of time of the calls themselves, which take no memory."""
    return np.broadcast_to(NO_WORK, place.shape)
