"""Which part of the program launches each communication kernel: its module and its phase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.communication.kernels import JobCollectives
from hta_widgets.analyses.time.calls import Calls, calls_of, nearest_above
from hta_widgets.analyses.time.modules import (
    MODULE,
    PHASES,
    module_places,
    phases,
)
from hta_widgets.arrays import Int8Array, Int64Array
from hta_widgets.trace.model.events import Kind, TextColumn
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.rank import Rank

SEPARATOR: Final = " › "
"""Between the names of modules, from the outermost to the innermost."""

_NONE: Final = -1


class RankOwners(NamedTuple):
    """Owners of the communication kernels of a rank."""

    row: Int64Array
    """Rows of the kernels, ascending."""
    module: TextColumn
    """Names of the modules around the launch call, or around the forward operator that it
    differentiates; code -1 for none."""
    phase: Int8Array
    """Position in `PHASES`; -1 where the launch is not recorded."""


def rank_owners(rank: Rank) -> RankOwners:
    """Owners of the communication kernels of a rank."""
    work = rank.gpu_work
    positions = np.flatnonzero(work.type == KernelType.COMMUNICATION)
    positions = positions[np.argsort(work.rows[positions], kind="stable")]
    calls = calls_of(rank)
    launches = calls.places_of(work.launch[positions].astype(np.int64))
    places = np.append(module_places(rank), _NONE)[launches]
    phase = np.append(phases(rank), np.int8(_NONE))[launches]
    return RankOwners(work.rows[positions], _module_paths(calls, places), phase)


def _module_paths(calls: Calls, places: Int64Array) -> TextColumn:
    """Path of the module frame at each place."""
    around = nearest_above(calls.forest, (calls.kind == Kind.PYTHON) & calls.named(MODULE.search))
    names = calls.events.name.values
    distinct, which = np.unique(places, return_inverse=True)
    codes: dict[str, int] = {}
    code = np.full(distinct.size, _NONE, dtype=np.int32)
    for position, innermost in enumerate(distinct.tolist()):
        path, place = [], innermost
        while place != _NONE:
            path.append(MODULE.sub("", names[calls.name[place]]))
            place = int(around[place])
        if path:
            code[position] = codes.setdefault(SEPARATOR.join(reversed(path)), len(codes))
    return TextColumn(code[which].astype(np.int32), tuple(codes))


def owner_columns(kernels: JobCollectives, owners: Sequence[RankOwners]) -> dict[str, object]:
    """The columns ``module`` and ``phase`` of all ranks' kernels.

    Parameters
    ----------
    owners : sequence of RankOwners
        One for each of ``kernels.ranks``.
    """
    known: dict[str, int] = {}
    module = np.full(len(kernels), _NONE, dtype=np.int32)
    phase = np.full(len(kernels), _NONE, dtype=np.int8)
    for place, each in enumerate(owners):
        codes = [known.setdefault(path, len(known)) for path in each.module.values]
        here = np.flatnonzero(kernels.place == place)
        at = np.searchsorted(each.row, kernels.row[here])
        module[here] = np.array([*codes, _NONE], dtype=np.int32)[each.module.codes[at]]
        phase[here] = each.phase[at]
    return {
        "module": pd.Categorical.from_codes(module, pd.Index(list(known), dtype=object)),
        "phase": pd.Categorical.from_codes(phase, pd.Index(PHASES, dtype=object)),
    }
