"""Why nothing computes beside the transfers of a rank: by their streams, and by what comes next.

What comes next on the GPU is known with its launch. Before that launch the host had nothing for the
GPU to do; after it, the work was ready but for what it waits for::

    host   launch A   launch transfer         launch B
    GPU    [  A  ][          transfer                 ][ B ]
                  |--- not launched ---|--- B is held --|
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

import numpy as np

from hta_widgets.analyses.time.calls import calls_of, nearest_at_or_above
from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.intervals import Times
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

SHORT_NS: Final = 50_000
"""Transfers of at most this length are mostly latency: a ring of NCCL needs 10 to 40 µs between
nodes however few bytes it sends."""

_OPTIMIZER: Final = "Optimizer.step#"


class Reason(Enum):
    """Why nothing computes meanwhile; of two that hold, the first."""

    LATENCY = f"in transfers of at most {SHORT_NS // 1000} µs"
    SAME_STREAM = "on the stream that computes"
    NOT_LAUNCHED = "before the next kernel is launched"
    OPTIMIZER = "while the optimizer waits for it"
    HELD = "while the next kernel waits for it"


def exposed_reasons(
    rank: Rank, work: GpuWork, chosen: GpuWork, arrived_ns: Times, exposed_ns: Times
) -> Mapping[Reason, int]:
    """Exposed transfer (ns) by its reason; less than all of it where launches are not recorded.

    Parameters
    ----------
    rank : Rank
    work : GpuWork
        All of its GPU work.
    chosen : GpuWork
        Its communication.
    arrived_ns, exposed_ns : ndarray of int64
        For each piece of ``chosen``: when its last member arrives, and the transfer from then on in
        which its device does nothing else.
    """
    found = dict.fromkeys(Reason, 0)
    for device, every in work.by_device().items():
        here = np.flatnonzero((chosen.device == device) & (exposed_ns > 0))
        computes = every.take(np.flatnonzero(every.type == KernelType.COMPUTATION))
        if not here.size or not len(computes):
            continue
        transfer_ns, ends_ns = exposed_ns[here], chosen.end_ns[here]
        is_short = ends_ns - arrived_ns[here] <= SHORT_NS
        is_same = (chosen.stream[here] == _busiest_stream(computes)) & ~is_short
        launch = _launch_of_next(computes, ends_ns)
        is_known = (launch >= 0) & ~is_short & ~is_same
        launched_ns = rank.trace.events.start_ns[launch]
        late_ns = np.clip(launched_ns - arrived_ns[here], 0, transfer_ns) * is_known
        held_ns = (transfer_ns - late_ns) * is_known
        is_last = _in_optimizer(rank, launch)
        for reason, ns in (
            (Reason.LATENCY, transfer_ns * is_short),
            (Reason.SAME_STREAM, transfer_ns * is_same),
            (Reason.NOT_LAUNCHED, late_ns),
            (Reason.OPTIMIZER, held_ns * is_last),
            (Reason.HELD, held_ns * ~is_last),
        ):
            found[reason] += int(ns.sum())
    return found


def _busiest_stream(computes: GpuWork) -> int:
    """The stream that computes most: others have helpers of NCCL, such as copies into buckets."""
    streams, which = np.unique(computes.stream, return_inverse=True)
    return int(streams[np.argmax(np.bincount(which, computes.duration_ns))])


def _launch_of_next(computes: GpuWork, ends_ns: Times) -> Int64Array:
    """Row of the launch of what computes first after each of some times; -1 for none."""
    launch = np.append(computes.launch, -1)
    return np.asarray(launch[np.searchsorted(computes.start_ns, ends_ns)])


def _in_optimizer(rank: Rank, launch: Int64Array) -> Mask:
    calls = calls_of(rank)
    is_step = calls.named(lambda name: name.startswith(_OPTIMIZER))
    if not is_step.any():
        return np.zeros(launch.size, dtype=np.bool_)
    nearest = np.append(nearest_at_or_above(calls.forest, is_step), -1)
    return np.asarray(nearest[calls.places_of(launch)] >= 0)
