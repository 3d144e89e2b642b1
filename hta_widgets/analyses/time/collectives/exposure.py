"""Exposed time of each communication kernel."""

from __future__ import annotations

import numpy as np

from hta_widgets.intervals import Intervals, Times


def exposed_times(start_ns: Times, end_ns: Times, hidden: Intervals) -> Times:
    """Split the exposed communication time of a device among its communication kernels.

    Each instant belongs to the kernel that started first of those that run then. So the parts add
    up to the time in which communication runs and is not hidden.

    Parameters
    ----------
    start_ns, end_ns : ndarray of int64
        Communication kernels, ascending by start.
    hidden : Intervals
        Time in which the device computes, or runs a graph that was recorded as a whole.

    Returns
    -------
    ndarray of int64
        Exposed time (ns) of each kernel.
    """
    # first   |-----------|              owns all of its time
    # second     |----|                  owns nothing: the first ends later
    # third             |------|         owns what comes after `reached`, the latest end so far
    if not start_ns.size:
        return np.zeros(0, dtype=np.int64)
    reached = np.maximum.accumulate(end_ns)
    owned_from = start_ns.copy()
    np.maximum(start_ns[1:], reached[:-1], out=owned_from[1:])
    np.minimum(owned_from, end_ns, out=owned_from)
    hidden_ns = hidden.covered_until(end_ns) - hidden.covered_until(owned_from)
    return np.asarray(end_ns - owned_from - hidden_ns)
