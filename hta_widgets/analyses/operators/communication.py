"""Which collectives the calls named ``record_param_comms`` stand for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.communication.operations import OPERATIONS, operation_of
from hta_widgets.analyses.time.calls import Calls, calls_of
from hta_widgets.arrays import Int8Array, Int64Array, Mask
from hta_widgets.trace.model.events import TextColumn
from hta_widgets.trace.ranks.rank import Rank

RECORD: Final = "record_param_comms"
UNKNOWN: Final = -1

_OPERATOR_AROUND: Final = re.compile(r"_?c10d(_functional)?::")
_ANNOTATION_INSIDE: Final = re.compile(r"(\w*ccl|gloo|mpi|ucc):")


def recorded_operations(rank: Rank) -> Int8Array | None:
    """What the calls of a rank communicate, by place; None if none of them is a record.

    PyTorch gives the operator that launches any collective one name. What it is stands in the
    fields that are recorded with it, since 2023; before, in the annotation inside it
    (``nccl:all_reduce``) or in the name of the operator around it (``c10d::allreduce_``).

    Returns
    -------
    ndarray of int8, optional
        Positions in `OPERATIONS`, `UNKNOWN` for other calls.
    """
    calls = calls_of(rank)
    is_record = calls.named(RECORD.__eq__)
    if not is_record.any():
        return None
    found = np.full(is_record.size, UNKNOWN, dtype=np.int8)
    for places, operations in (
        _around(calls, is_record),
        _inside(calls, is_record),
        _beside(calls, is_record),
    ):
        known = operations != UNKNOWN
        found[places[known]] = operations[known]
    return found


def collectives_in(rows: pd.DataFrame) -> str:
    """Name each of the collectives of some rows of `OperatorTable.operators` once."""
    names = (name for text in rows["collectives"].unique() for name in text.split(", ") if name)
    return ", ".join(dict.fromkeys(names))


_Operations = tuple[Int64Array, Int8Array]
"""Places of records, and what they communicate."""


def _around(calls: Calls, is_record: Mask) -> _Operations:
    """By the operator that a record lies in."""
    around = calls.forest.parent
    is_inside = is_record & (around >= 0) & calls.named(_OPERATOR_AROUND.match)[around]
    names = calls.name[around[is_inside]]
    return np.flatnonzero(is_inside), _operations(names, calls.events.name.values)


def _inside(calls: Calls, is_record: Mask) -> _Operations:
    """By the annotation that lies in a record."""
    inside = np.flatnonzero(calls.named(_ANNOTATION_INSIDE.match))
    places = calls.forest.parent[inside].astype(np.int64)
    is_inside = (places >= 0) & is_record[places]
    return places[is_inside], _operations(calls.name[inside[is_inside]], calls.events.name.values)


def _beside(calls: Calls, is_record: Mask) -> _Operations:
    """By the fields of a record."""
    table = calls.events.side.get("collectives")
    column = None if table is None else table.columns.get("collective")
    if table is None or not isinstance(column, TextColumn):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int8)
    places = calls.places_of(table.rows.astype(np.int64))
    is_beside = (places >= 0) & is_record[places] & (column.codes >= 0)
    return places[is_beside], _operations(column.codes[is_beside], column.values)


def _operations(codes: NDArray[Any], names: Sequence[str]) -> Int8Array:
    """Operations that names stand for; each distinct name is looked at once."""
    distinct, of = np.unique(codes, return_inverse=True)
    operations = [operation_of(names[code]) for code in distinct.tolist()]
    found = [OPERATIONS.index(each) if each else UNKNOWN for each in operations]
    return np.array(found, dtype=np.int8)[of]
