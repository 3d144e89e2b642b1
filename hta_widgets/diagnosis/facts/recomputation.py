"""Forward operators that run again in the backward pass, as activation checkpointing makes them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.budget.device_steps import DeviceSteps
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.patterns import AUTOGRAD_THREAD
from hta_widgets.intervals import Intervals
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.rank import Rank

_FORWARD: Final = (
    re.compile(r"aten::(?:linear|conv\dd|scaled_dot_product_attention)"),
    re.compile(r"aten::(?:(?:layer|batch|group|rms)_norm|gelu|silu|relu_?|softmax|dropout)"),
)
"""Products, and what stands between them in models. No formula of PyTorch's gradients calls one of
them. A backward pass written by hand may, but not both kinds, unless it computes the same again."""


class Recomputed(NamedTuple):
    """What such operators take in the analysed steps."""

    kernels: int = 0
    gpu_ns: int = 0
    """Of these kernels."""
    host_ns: int = 0
    """In the operators, of those that launch them."""


def recomputed(rank: Rank, steps: DeviceSteps) -> Recomputed:
    """Find the kernels that are computed again; none without proof that they are."""
    calls = calls_of(rank)
    in_backward = calls.named(AUTOGRAD_THREAD.search)
    if not in_backward.any():
        return Recomputed()
    in_backward = calls.forest.at_or_below(in_backward)
    again = [in_backward & calls.named(each.fullmatch) for each in _FORWARD]
    if not all(each.any() for each in again):
        return Recomputed()
    either, work = again[0] | again[1], steps.work
    inside = np.append(calls.forest.at_or_below(either), False)[calls.places_of(work.launch)]
    chosen = inside & steps.are_in(work.start_ns, None) & (work.type == KernelType.COMPUTATION)
    places = np.flatnonzero(either & steps.are_in(calls.start_ns, None))
    spent = Intervals.union(calls.start_ns[places], calls.forest.cut_end_ns[places])
    return Recomputed(
        int(np.count_nonzero(chosen)), int(work.duration_ns[chosen].sum()), spent.length
    )
