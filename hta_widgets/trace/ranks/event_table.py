"""The events of a rank as one table, for questions that no analysis answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Int64Array
from hta_widgets.lazy_modules import pa, pd
from hta_widgets.trace.model.events import Events, Kind, TextColumn
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.iterations import steps_of_events
from hta_widgets.trace.ranks.rank import Rank

_Columns: TypeAlias = dict[str, NDArray[Any] | TextColumn]

_OF_SOME: Final[Mapping[str, Mapping[str, type | None]]] = {
    "transfers": {"bytes": int, "bandwidth_gb_per_s": float},
    "collectives": {
        "collective": None,
        "in_elements": int,
        "out_elements": int,
        "dtype": None,
        "group": None,
        "group_size": int,
    },
    "operators": {"input_dims": None, "input_types": None, "sequence_number": int},
}
"""Columns of side tables, and whether they are numbers or text (None)."""

_MISSING: Final = -1


def event_frame(rank: Rank, offset_ns: int) -> pd.DataFrame:
    """Return the table of events as a pandas copy; see `Job.events`."""
    return pd.DataFrame(
        {
            name: column.to_categorical() if isinstance(column, TextColumn) else column
            for name, column in _columns(rank, offset_ns).items()
        },
        copy=True,
    )


def event_arrow_table(rank: Rank, offset_ns: int) -> pa.Table:
    """Return the table of events as an Arrow copy; see `Job.events`."""
    return pa.table(
        {name: _arrow_array(column) for name, column in _columns(rank, offset_ns).items()}
    )


def _arrow_array(column: NDArray[Any] | TextColumn) -> pa.Array:
    if not isinstance(column, TextColumn):
        # Arrow keeps numpy's memory, which may belong to the cache file.
        return pa.array(column.copy() if column.dtype != np.object_ else list(map(str, column)))
    codes = pa.array(column.codes.astype(np.int32), mask=column.codes < 0)
    return pa.DictionaryArray.from_arrays(codes, pa.array(column.values, type=pa.string()))


def _columns(rank: Rank, offset_ns: int) -> _Columns:
    events = rank.trace.events
    columns: _Columns = {
        "index": events.index.astype(np.int64),
        "kind": TextColumn(events.kind.astype(np.int32), tuple(each.name.lower() for each in Kind)),
        "name": events.name,
        "start_ns": events.start_ns + offset_ns,
        "duration_ns": events.duration_ns,
        "pid": events.ids_in_source(events.pid),
        "tid": events.ids_in_source(events.tid),
        "device": events.device.astype(np.int64),
        "stream": events.stream.astype(np.int64),
        "correlation": events.correlation.astype(np.int64),
        "launch": rank.launches.astype(np.int64),
        "parent": rank.parents.astype(np.int64),
        "step": steps_of_events(rank),
        "analysed": rank.analysed,
        "kernel_type": _kernel_types(rank),
    }
    return columns | _of_some(events)


def _kernel_types(rank: Rank) -> TextColumn:
    codes = np.full(len(rank.trace.events), _MISSING, dtype=np.int32)
    for work in (rank.gpu_work, rank.left_out_work):
        codes[work.rows] = work.type
    names = tuple(each.name for each in sorted(KernelType))
    return TextColumn(codes, names)


def _of_some(events: Events) -> _Columns:
    rows = np.arange(len(events))
    columns: _Columns = {}
    for table, fields in _OF_SOME.items():
        side = events.side.get(table)
        for name, number in fields.items():
            if number is None:
                codes, texts = events.texts_at(table, name, rows)
                columns[name] = _without_empty(codes, texts)
                continue
            missing = np.nan if number is float else _MISSING
            column: NDArray[Any] = np.full(rows.size, missing, dtype=number)
            if side is not None and name in side.columns:
                column[side.rows] = np.asarray(side.columns[name])
            columns[name] = column
    return columns


def _without_empty(codes: Int64Array, texts: tuple[str, ...]) -> TextColumn:
    """A column of texts in which an empty text counts as not recorded."""
    empty = [code for code, text in enumerate(texts) if not text]
    return TextColumn(np.where(np.isin(codes, empty), _MISSING, codes).astype(np.int32), texts)
