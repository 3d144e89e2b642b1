"""Tell whether a recording is of training, by the names in it."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from hta_widgets.grouping import distinct
from hta_widgets.trace.model.events import Events, Kind

FEWEST_BACKWARD: Final = 5
"""Fewest backward operators of a training recording: a single one may be the name of a user's own
function."""

_SURE: Final = re.compile(
    r"^autograd::engine::|Optimizer\.(step|zero_grad)#|aten::_fused_(?:adam|sgd)"
)
"""What a single call of shows it: autograd's engine, and optimizers of PyTorch."""

_BACKWARD: Final = re.compile(
    r".*Backward\d+$|RegisterPostBackwardFunction$|_NoopSaveInputs$", re.DOTALL
)
"""The last two are what FSDP and activation checkpoints do in the forward pass for the backward
pass: a recording of 300 ms on two H100 ended before its backward pass."""

BACKWARD_RANGE: Final = re.compile(r"(?<![^\W_])backward(?![^\W_])|transpose\(jvp\(", re.IGNORECASE)
"""Part of the name of a range: ``## backward ##``, ``backward_pass``, ``loss.backward()``, and what
JAX calls it."""

OPTIMIZER_RANGE: Final = re.compile(
    r"\A(?:opt(?:im(?:izer)?)?[ _.-]?step(?:\(\))?|optim(?:izer)?)\Z", re.IGNORECASE
)
"""Names of a program's own ranges around the step of its optimizer, such as ``opt.step()``."""

KERNELS_OF_TRAINING: Final = re.compile(
    r"backward|Backward|bwd|Bwd|wgrad|\b(?:Fused)?Adam[A-Z_W]|\badamw?_"
)
"""Kernels of a backward pass or an optimizer, where no operators are recorded, as in most exports
of Nsight Systems. ``dgrad`` is no sign of one: cuDNN's transposed convolutions have that name."""


def trains(events: Events) -> bool:
    """Whether an optimizer or a backward pass is recorded."""
    names, codes = events.name.values, events.name.codes
    operators, ranges = (codes[events.rows_of(each)] for each in (Kind.CPU_OP, Kind.ANNOTATION))
    counts, backward = np.bincount(np.append(operators, ranges)), 0
    of_ranges = {*distinct(ranges).tolist()}
    for code in np.flatnonzero(counts).tolist():
        name = names[code]
        if _SURE.match(name):
            return True
        if code in of_ranges and (BACKWARD_RANGE.search(name) or OPTIMIZER_RANGE.search(name)):
            return True
        backward += int(counts[code]) if _BACKWARD.match(name) else 0
    if operators.size:
        return backward >= FEWEST_BACKWARD
    kernels = events.rows_of(Kind.KERNEL)
    return bool(events.named(kernels, KERNELS_OF_TRAINING).any())
