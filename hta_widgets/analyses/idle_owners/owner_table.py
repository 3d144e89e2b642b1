"""The idle time of ranks by owner: as numbers, of which little is kept, and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.idle_owners.gaps import PARTS
from hta_widgets.analyses.idle_owners.paths import NO_PATH, MergedPaths
from hta_widgets.analyses.time.causes import CAUSE_NAMES
from hta_widgets.analyses.time.rows import texts_at
from hta_widgets.trace.model.events import Kind

_KINDS: Final = (*(each.name.lower() for each in Kind), "")


class OwnerRows(NamedTuple):
    """Rows of `IdleOwners.owners` of one rank, longest first.

    Attributes
    ----------
    rank : int
    device, step : ndarray of int
        In few bytes, as those that follow.
    cause, part, kind : ndarray of int
        Positions in `CAUSE_NAMES`, `PARTS` and the names of kinds; -1 for no kind.
    thread : ndarray of int
        Position in `pid` and `tid`.
    path : ndarray of int32
        Number that the rank gives to the path, -1 for none.
    idle_ns : ndarray of int64
    pieces : ndarray of int32
    pid, tid : ndarray
        Of each thread; the last of none.
    """

    rank: int
    device: NDArray[np.integer[Any]]
    step: NDArray[np.integer[Any]]
    cause: NDArray[np.integer[Any]]
    part: NDArray[np.integer[Any]]
    kind: NDArray[np.int8]
    thread: NDArray[np.integer[Any]]
    path: NDArray[np.int32]
    idle_ns: NDArray[np.int64]
    pieces: NDArray[np.int32]
    pid: NDArray[Any]
    tid: NDArray[Any]


def owner_table(ranks: Sequence[OwnerRows], merged: MergedPaths) -> pd.DataFrame:
    """Rows of all ranks with the paths of all, longest first.

    Parameters
    ----------
    ranks : sequence of OwnerRows
        At least one.
    merged : MergedPaths
        Of the same ranks, in this order.
    """
    path = _together(
        [of_rank[rows.path] for rows, of_rank in zip(ranks, merged.of_rank, strict=True)]
    )
    idle_ns = _together([rows.idle_ns for rows in ranks])
    columns = {
        "rank": np.repeat([rows.rank for rows in ranks], [rows.path.size for rows in ranks]),
        "device": _together([rows.device for rows in ranks]).astype(np.int64),
        "cause": texts_at(CAUSE_NAMES, _together([rows.cause for rows in ranks])),
        "part": texts_at(PARTS, _together([rows.part for rows in ranks])),
        "step": _together([rows.step for rows in ranks]).astype(np.int64),
        "pid": _together([rows.pid[rows.thread] for rows in ranks]),
        "tid": _together([rows.tid[rows.thread] for rows in ranks]),
        "owner": texts_at([*merged.names, ""], np.append(merged.name, NO_PATH)[path]),
        "kind": texts_at(_KINDS, _together([rows.kind for rows in ranks])),
        "path": path,
        "idle_ns": idle_ns,
        "pieces": _together([rows.pieces for rows in ranks]).astype(np.int64),
    }
    table = pd.DataFrame(columns, copy=False)  # all are new
    if len(ranks) == 1:
        return table
    return table.take(np.argsort(-idle_ns, kind="stable")).reset_index(drop=True)


def _together(columns: list[NDArray[Any]]) -> NDArray[Any]:
    return columns[0] if len(columns) == 1 else np.concatenate(columns)
