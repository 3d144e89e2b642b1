"""Launch configurations of kernels, from the kernels or from the calls that launch them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Int64Array
from hta_widgets.trace.model.details import LAUNCH_SHARES, DetailGroup
from hta_widgets.trace.model.events import SideTable
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

NOT_RECORDED: Final = -1


def launch_configuration(
    rank: Rank, work: GpuWork, names: Sequence[str]
) -> dict[str, NDArray[Any]]:
    """Some columns of `DetailGroup.LAUNCH_CONFIGURATION`, for each piece of work.

    Some versions of AMD's profiler write grid and block only for the launch call, and all versions
    write the shared memory there. Values that are not recorded are -1 in int64 columns, NaN in
    float64 columns.
    """
    table = rank.details(DetailGroup.LAUNCH_CONFIGURATION).table
    own, of_call = table.places_of(work.rows), table.places_of(work.launch)
    found: dict[str, NDArray[Any]] = {}
    for name in names:
        values, said = _at(table, name, own), _at(table, name, of_call)
        unknown = np.isnan(values) if name in LAUNCH_SHARES else values == NOT_RECORDED
        found[name] = np.where(unknown, said, values)
    return found


def _at(table: SideTable, name: str, place: Int64Array) -> NDArray[Any]:
    missing = np.float64(np.nan) if name in LAUNCH_SHARES else np.int64(NOT_RECORDED)
    column = table.columns.get(name)
    if not isinstance(column, np.ndarray) or not column.size:
        return np.full(place.size, missing)
    return np.where(place >= 0, column[place], missing).astype(type(missing))
