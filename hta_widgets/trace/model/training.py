"""Tell whether a recording is of training, by the names in it."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from hta_widgets.trace.model.events import Events, Kind

FEWEST_BACKWARD: Final = 5
"""Fewest backward operators of a training recording: a single one may be the name of a user's own
function."""

_OPTIMIZER: Final = re.compile(r"Optimizer\.(step|zero_grad)#|aten::_fused_(?:adam|sgd)")
_BACKWARD_RANGE: Final = re.compile(r"## backward")
_BACKWARD: Final = re.compile(
    r"autograd::engine::evaluate_function|.*Backward\d+$"
    r"|RegisterPostBackwardFunction$|_NoopSaveInputs$",
    re.DOTALL,
)
"""The last two are what FSDP and activation checkpoints do in the forward pass for the backward
pass: a recording of 300 ms on two H100 ended before its backward pass."""


def trains(events: Events) -> bool:
    """Whether an optimizer or a backward pass is recorded."""
    codes = events.name.codes[events.rows_of(Kind.CPU_OP, Kind.ANNOTATION)]
    counts = np.bincount(codes) if codes.size else np.zeros(0, dtype=np.int64)
    names, backward = events.name.values, 0
    for code in np.flatnonzero(counts).tolist():
        name = names[code]
        if _OPTIMIZER.match(name) or _BACKWARD_RANGE.match(name):
            return True
        backward += int(counts[code]) if _BACKWARD.match(name) else 0
    return backward >= FEWEST_BACKWARD
