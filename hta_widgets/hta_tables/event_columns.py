"""Events with the columns, units and defaults of HTA's frames."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Float64Array, Int64Array
from hta_widgets.lazy_modules import pd
from hta_widgets.quantities import NS_PER_US
from hta_widgets.trace.loaders.kineto.categories import CATEGORIES
from hta_widgets.trace.model.details import DetailGroup
from hta_widgets.trace.model.events import GPU_SIDE, NO_FIELDS, Kind, KindSet, SideTable, TextColumn
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.ranks.iterations import iterations
from hta_widgets.trace.ranks.rank import Rank

NONE: Final = -1
NOT_RECORDED: Final = 0
"""``index_correlation`` of an event with a correlation id whose other side is missing."""

CATEGORY_NAMES: Final = np.array([CATEGORIES[kind] for kind in Kind], dtype=object)
"""Category names, by value of `Kind`."""

_LISTS: Final = (
    *("input_dims", "input_type", "input_strides"),
    *("in_split_size", "out_split_size"),
)
_NO_SHAPE: Final = "-1"
_LINKED: Final = KindSet(set(GPU_SIDE) - {Kind.GPU_ANNOTATION})
_Arrays = dict[str, NDArray[Any]]


def event_columns(rank: Rank, rows: Int64Array, codes: Int64Array, offset_ns: int) -> _Arrays:
    """Columns of HTA's frame for some rows, in its order.

    `codes` are the numbers of the rank's names, then of `CATEGORY_NAMES`; the offset is added to
    the start of each event. Columns: ``index`` (position in the source), ``cat`` and ``name``
    (numbers), ``pid``, ``tid``, ``ts``, ``dur``, ``end`` (float µs), ``stream``, ``correlation``,
    ``bytes``, ``memory_bw_gbps``, ``wait_on_stream``, ``wait_on_cuda_event_record_corr_id``,
    ``input_dims``, ``input_type``, ``input_strides``, ``external_id``, ``python_id``,
    ``python_parent_id``, ``collective_name``, ``in_msg_nelems``, ``out_msg_nelems``, ``msg_dtype``,
    ``group_size``, ``process_rank``, ``in_split_size``, ``out_split_size``, ``index_correlation``,
    ``iteration``. What an event lacks has HTA's default.
    """
    events = rank.trace.events
    start_ns = events.start_ns[rows] + offset_ns
    duration_ns = events.duration_ns[rows]
    names = len(events.name.values)
    return {
        "index": events.index[rows].astype(np.int64),
        "cat": codes[names + events.kind[rows].astype(np.int64)],
        "name": codes[events.name.codes[rows]],
        "pid": events.ids_in_source(events.pid[rows]),
        "tid": events.ids_in_source(events.tid[rows]),
        "ts": start_ns / NS_PER_US,
        "dur": duration_ns / NS_PER_US,
        "end": (start_ns + duration_ns) / NS_PER_US,
        "stream": events.stream[rows].astype(np.int64),
        "correlation": events.correlation[rows].astype(np.int64),
        **_arguments(rank, rows),
        "index_correlation": _linked(rank)[rows],
        "iteration": iterations(rank)[rows],
    }


def event_frame(columns: Mapping[str, NDArray[Any]]) -> pd.DataFrame:
    """Return a frame of these and other columns; lists are in object columns on every rank."""
    lists = {name: pd.Series(columns[name], dtype=object) for name in _LISTS if name in columns}
    return pd.DataFrame({**columns, **lists})


def counter_columns(rank: Rank, rows: Int64Array) -> _Arrays:
    """A column per performance counter of the profiled kernels; -1 for events without it."""
    events = rank.trace.events
    ranges = events.rows_of(Kind.PROFILER_RANGE)
    table = events.side.get("counters")
    if table is None or not ranges.size:
        return {}
    counter, value = table.columns["counter"], np.asarray(table.columns["value"], dtype=float)
    if not isinstance(counter, TextColumn):
        return {}
    place = np.full(len(events), NONE, dtype=np.int64)
    place[rows] = np.arange(rows.size)
    of_range = np.isin(table.rows, ranges) & (place[table.rows] >= 0)
    found: _Arrays = {}
    for code in np.unique(counter.codes[of_range]).tolist():
        chosen = np.flatnonzero(of_range & (counter.codes == code))
        column = np.full(rows.size, float(NONE))
        column[place[table.rows[chosen]]] = value[chosen]
        found[counter.values[code]] = as_whole(column)
    return found


def as_whole(values: Float64Array) -> Float64Array | Int64Array:
    """The values as integers, if all are whole numbers that a float represents exactly."""
    whole = np.isfinite(values) & (np.abs(values) <= 2**53) & (np.trunc(values) == values)
    return values.astype(np.int64) if whole.all() else values


def decoded(codes: NDArray[Any], texts: Sequence[object]) -> NDArray[np.object_]:
    """The text of each code; -1 stands for the last text."""
    values = np.empty(len(texts), dtype=object)
    values[:] = texts
    return np.asarray(values[codes])


def _arguments(rank: Rank, rows: Int64Array) -> _Arrays:
    side = rank.trace.events.side
    waits = _details(rank, DetailGroup.SYNCHRONISATION)
    more = _details(rank, DetailGroup.OTHER_ARGUMENTS)
    transfers, collectives = side.get("transfers"), side.get("collectives")
    bandwidth = _numbers(transfers, "bandwidth_gb_per_s", rows, 0.0)
    return {
        "bytes": np.maximum(
            _numbers(transfers, "bytes", rows, NONE), _numbers(more, "bytes", rows, NONE)
        ),
        "memory_bw_gbps": np.where(np.isfinite(bandwidth), bandwidth, 0.0),
        "wait_on_stream": _numbers(waits, "wait_on_stream", rows, NONE),
        "wait_on_cuda_event_record_corr_id": _numbers(
            waits, "wait_on_cuda_event_record_corr_id", rows, NONE
        ),
        "input_dims": _values(more, "input_dims", rows, _NO_SHAPE),
        "input_type": _values(more, "input_type", rows, _NO_SHAPE),
        "input_strides": _values(more, "input_strides", rows, _NO_SHAPE),
        "external_id": _numbers(more, "external_id", rows, NONE),
        "python_id": _numbers(more, "python_id", rows, NONE),
        "python_parent_id": _numbers(more, "python_parent_id", rows, NONE),
        "collective_name": _texts(collectives, "collective", rows),
        "in_msg_nelems": np.maximum(_numbers(collectives, "in_elements", rows, 0), 0),
        "out_msg_nelems": np.maximum(_numbers(collectives, "out_elements", rows, 0), 0),
        "msg_dtype": _texts(collectives, "dtype", rows),
        "group_size": np.maximum(_numbers(collectives, "group_size", rows, 0), 0),
        "process_rank": _numbers(more, "process_rank", rows, NONE),
        "in_split_size": _values(more, "in_split_size", rows, "[]"),
        "out_split_size": _values(more, "out_split_size", rows, "[]"),
    }


def _details(rank: Rank, group: DetailGroup) -> SideTable | None:
    if group is DetailGroup.SYNCHRONISATION and not rank.trace.events.rows_of(Kind.SYNC).size:
        return None  # the source need not be read for them
    return rank.details(group).table


def _numbers(
    table: SideTable | None, column: str, rows: Int64Array, default: float
) -> NDArray[Any]:
    if table is None or column not in table.columns:
        return np.full(rows.size, default)
    values = np.asarray(table.columns[column])
    return np.append(values, np.array([default], dtype=values.dtype))[table.places_of(rows)]


def _texts(
    table: SideTable | None, column: str, rows: Int64Array, default: str = ""
) -> NDArray[np.object_]:
    codes, texts = (table or NO_FIELDS).texts_at(column, rows)
    return decoded(codes, [*texts, default])


def _values(
    table: SideTable | None, column: str, rows: Int64Array, default: str
) -> NDArray[np.object_]:
    """Values of JSON texts; each distinct text is decoded once."""
    codes, texts = (table or NO_FIELDS).texts_at(column, rows)
    return decoded(codes, [*(_value(text, default) for text in texts), default])


def _value(text: str, default: str) -> object:
    try:
        return json.loads(text) if text else default
    except (ValueError, RecursionError):
        return text


@asked_once
def _linked(rank: Rank) -> Int64Array:
    """``index_correlation`` of each event: position in the source of the other side of its launch.

    For a call that launches several operations, such as a graph, it is that of the last one.
    """
    events, launch = rank.trace.events, rank.launches
    found = np.where(events.correlation >= 0, NOT_RECORDED, NONE).astype(np.int64)
    on_gpu = np.flatnonzero(_LINKED.among(events.kind) & (launch >= 0))
    found[on_gpu] = events.index[launch[on_gpu]]
    np.maximum.at(found, launch[on_gpu], events.index[on_gpu])
    return found
