"""What the host launches between two waits, by which trials of an autotuner are known."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.time import patterns
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

FEWEST_IN_A_ROW: Final = 5
"""Launches of one kernel and of nothing else between two waits for the device, if it is tried.

Triton's ``do_bench`` launches as many to estimate how long a kernel takes, and more to measure it.
A program that is debugged waits after each launch.
"""

_FLUSHES: Final = re.compile(r"FillFunctor")
"""Autotuners empty the cache between two runs."""

_NO_SEGMENT: Final = -1

Rows = NDArray[np.int64]


def waits_for_events(rank: Rank) -> Rows:
    """When the host begins to wait for events, ascending."""
    return _waits(rank, patterns.WAITS_FOR_EVENT)


def flushes(work: GpuWork) -> list[int]:
    """Codes of the names that may empty the cache."""
    codes = np.unique(work.name).tolist()
    return [code for code in codes if _FLUSHES.search(work.names[code])]


def launched_kernels(rank: Rank, work: GpuWork) -> Rows:
    """Kernels with a launch call, in the order of these, without what empties the cache."""
    is_kernel = rank.trace.events.kind[work.rows] == Kind.KERNEL
    chosen = np.flatnonzero(is_kernel & (work.launch >= 0) & ~np.isin(work.name, flushes(work)))
    launched_ns = rank.trace.events.start_ns[work.launch[chosen]]
    return np.asarray(chosen[np.argsort(launched_ns, kind="stable")])


def segments(rank: Rank, work: GpuWork, kernels: Rows, waits: Rows) -> Rows:
    """Number of the segment between two waits that launches each kernel, without empty ones."""
    launched_ns = rank.trace.events.start_ns[work.launch[kernels]]
    _, segment = np.unique(np.searchsorted(waits, launched_ns), return_inverse=True)
    return np.asarray(segment, dtype=np.int64)


def opens_and_alone(name: NDArray[np.int32], segment: Rows) -> tuple[Rows, NDArray[np.bool_]]:
    """Where each segment opens, and whether all of its kernels are of one name."""
    opens = np.flatnonzero(np.diff(segment, prepend=_NO_SEGMENT))
    return opens, np.minimum.reduceat(name, opens) == np.maximum.reduceat(name, opens)


def repeated_between_waits(rank: Rank, work: GpuWork) -> Rows:
    """Kernels that are launched several times in a row between two waits for the device, alone."""
    waits, kernels = _waits(rank, patterns.WAITS_FOR_DEVICE), launched_kernels(rank, work)
    if not (waits.size and kernels.size):
        return kernels[:0]
    opens, is_alone = opens_and_alone(work.name[kernels], segments(rank, work, kernels, waits))
    sizes = np.diff(np.append(opens, kernels.size))
    return np.asarray(kernels[np.repeat(is_alone & (sizes >= FEWEST_IN_A_ROW), sizes)])


def _waits(rank: Rank, pattern: re.Pattern[str]) -> Rows:
    calls = calls_of(rank)
    return np.sort(calls.start_ns[calls.named(pattern.search) & calls.is_launch_call])
