"""The module and the phase that each call belongs to."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.time.ancestors import nearest_at_or_above
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.forward_links import forward_places
from hta_widgets.analyses.time.patterns import AUTOGRAD_THREAD
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.ranks.rank import Rank

MODULE: Final = re.compile(r"^nn\.Module: ")
OPTIMIZER: Final = re.compile(r"^Optimizer\.")
NO_REGION: Final = re.compile(r"^(Optimizer\.|enumerate\(DataLoader\)|nccl:)")

PHASES: Final = ("forward", "backward", "optimizer", "other")
"""What a call is a part of, by code."""

_FORWARD, _BACKWARD, _OPTIMIZER, _OTHER = range(len(PHASES))

Places = NDArray[np.int64]


def module_frames(rank: Rank) -> NDArray[np.bool_]:
    """Which calls are frames of modules, by place."""
    return rank.remember(_module_frames)


def region_marks(rank: Rank) -> NDArray[np.bool_]:
    """Which calls are annotations of the program itself, by place.

    Annotations that PyTorch makes around optimizers, data loaders and collectives are none.
    """
    return rank.remember(_region_marks)


def module_places(rank: Rank) -> Places:
    """Place of the module frame that each call belongs to, by place; -1 for none.

    It is the innermost frame ``nn.Module: X`` at or around the call. Without one, below a backward
    operator, it is that of the forward operator that this one differentiates.
    """
    return rank.remember(_places, module_frames)


def region_places(rank: Rank) -> Places:
    """Place of the region that each call belongs to, found like its module."""
    return rank.remember(_places, region_marks)


def phases(rank: Rank) -> NDArray[np.int8]:
    """Position in `PHASES` of the phase of each call, by place.

    Backward is what runs below ``autograd::engine::…``, or has its module from the forward operator
    that it differentiates; forward is what has a module of its own; optimizer is what runs below
    ``Optimizer.…``.
    """
    return rank.remember(_phases)


def _module_frames(rank: Rank) -> NDArray[np.bool_]:
    calls = calls_of(rank)
    return np.asarray((calls.kind == Kind.PYTHON) & calls.named(MODULE.search))


def _region_marks(rank: Rank) -> NDArray[np.bool_]:
    calls = calls_of(rank)
    return np.asarray((calls.kind == Kind.ANNOTATION) & ~calls.named(NO_REGION.search))


def _innermost(rank: Rank, of: Callable[[Rank], NDArray[np.bool_]]) -> Places:
    return nearest_at_or_above(calls_of(rank).forest, of(rank))


def _places(rank: Rank, of: Callable[[Rank], NDArray[np.bool_]]) -> Places:
    own = rank.remember(_innermost, of)
    forward = forward_places(rank)
    linked = nearest_at_or_above(calls_of(rank).forest, forward != NO_PARENT)
    of_forward = np.append(own, NO_PARENT)[np.append(forward, NO_PARENT)[linked]]
    return np.where(own != NO_PARENT, own, of_forward)


def _phases(rank: Rank) -> NDArray[np.int8]:
    calls = calls_of(rank)
    own, module = rank.remember(_innermost, module_frames), module_places(rank)
    phase = np.full(own.size, _OTHER, dtype=np.int8)
    phase[calls.forest.at_or_below(calls.named(OPTIMIZER.search))] = _OPTIMIZER
    phase[module != NO_PARENT] = _FORWARD
    in_autograd = calls.forest.at_or_below(
        (calls.kind == Kind.CPU_OP) & calls.named(AUTOGRAD_THREAD.search)
    )
    phase[in_autograd | ((module != NO_PARENT) & (own == NO_PARENT))] = _BACKWARD
    return phase
