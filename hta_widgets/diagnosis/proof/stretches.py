"""Intervals of one rank that may overlap."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.ranks.gpu_work import GpuWork


class Stretches(NamedTuple):
    """Intervals of one rank.

    Attributes
    ----------
    start_ns, end_ns : ndarray of int64
        Kernels that run at once are one each, so that they may overlap.
    """

    start_ns: Times
    end_ns: Times

    @classmethod
    def nothing(cls) -> Stretches:
        """None."""
        return cls(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))

    @classmethod
    def covered(cls, intervals: Intervals) -> Stretches:
        """Disjoint ones."""
        return cls(intervals.starts, intervals.ends)

    @classmethod
    def of_work(cls, work: GpuWork) -> Stretches:
        """Each piece of GPU work."""
        return cls(work.start_ns, work.end_ns)

    def inside(self, bounds: Intervals) -> Stretches:
        """What is left of them inside of some bounds, in order of time."""
        parts = [
            (np.maximum(self.start_ns, start), np.minimum(self.end_ns, end))
            for start, end in zip(bounds.starts.tolist(), bounds.ends.tolist(), strict=True)
        ]
        if not parts:
            return self.nothing()
        start_ns, end_ns = (np.concatenate(each) for each in zip(*parts, strict=True))
        lasting = np.flatnonzero(end_ns > start_ns)
        lasting = lasting[np.argsort(start_ns[lasting], kind="stable")]
        return Stretches(start_ns[lasting], end_ns[lasting])
