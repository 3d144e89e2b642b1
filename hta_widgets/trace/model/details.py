"""Bulky fields of a trace: some formats load them, others read them when they are asked for."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.trace.model.events import NO_FIELDS, Events, SideTable, TextColumn
from hta_widgets.trace.model.notices import Notice

MEMORY: Final = "memory"
"""Side table of formats whose loading reads `DetailGroup.MEMORY`: the same columns, with the rows
of instants of any name."""

UNCATEGORISED: Final = "uncategorised_memory"
"""Side table of allocations and frees without a row, in the form of `DetailGroup.MEMORY`."""

LAUNCHES: Final = "launches"
"""Side table of formats whose loading reads `DetailGroup.LAUNCH_CONFIGURATION`."""

CONFIGURATION: Final = "configuration"
"""Its column: the numbers of a launch as a JSON list, in the order of `LAUNCH_COLUMNS`."""

LAUNCH_SIZES: Final = ("grid", "block")
LAUNCH_NUMBERS: Final = ("registers", "shared_bytes")
LAUNCH_SHARES: Final = ("occupancy_percent", "blocks_per_sm", "warps_per_sm")
LAUNCH_COLUMNS: Final = (
    *(f"{size}_{axis}" for size in LAUNCH_SIZES for axis in "xyz"),
    *LAUNCH_NUMBERS,
    *LAUNCH_SHARES,
)

ALLOCATION: Final = "[memory]"
"""Name of allocations and frees."""


class DetailGroup(Enum):
    """Fields that are read together; the value is their name in messages."""

    SYNCHRONISATION = "events that synchronisations wait for"
    """For `Kind.SYNC`: ``wait_on_stream``, ``wait_on_cuda_event_id``,
    ``wait_on_cuda_event_record_corr_id`` (correlation id of the call that recorded the event);
    int64, -1 where not recorded."""

    LAUNCH_CONFIGURATION = "launch configurations of kernels"
    """For kernels, and for launch calls in traces of AMD's profiler: ``grid_x``, ``grid_y``,
    ``grid_z`` (blocks), ``block_x``, ``block_y``, ``block_z`` (threads), ``registers`` (per
    thread), ``shared_bytes`` (per block); int64, -1 where not recorded; ``occupancy_percent``
    (estimated by the profiler), ``blocks_per_sm``, ``warps_per_sm``; float64, NaN where not
    recorded."""

    MEMORY = "memory events"
    """Each allocation and each free, by time. The events table may not have them, so all ``rows``
    are -1. ``time_ns`` (since the trace's origin), ``pid``, ``tid`` (as in the events table),
    ``device_type`` (the profiler's number), ``device`` (-1 for the CPU), ``address``, ``bytes``
    (negative for a free), ``total_allocated``, ``total_reserved`` (of the device, from then on);
    int64, -1 where not recorded."""

    OPERATOR_INPUTS = "inputs of operators"
    """For `Kind.CPU_OP`: ``concrete_inputs`` (JSON list of the values of inputs that are not
    tensors), ``module_hierarchy``, ``kernel_file`` (source of a compiled kernel); text, empty where
    not recorded."""

    LAUNCHED_KERNELS = "names of the kernels that calls launch"
    """For runtime calls in traces of AMD's profiler, including captured launches: ``kernel``;
    text."""

    CPU_SAMPLES = "samples of the CPU"
    """Where threads were, at regular times while they ran, by time. All ``rows`` are -1.
    ``time_ns`` (since the trace's origin), ``pid``, ``tid`` (as in the events table); int64;
    ``function`` (the innermost of the program itself, or else of a library that is not the
    system's, without template arguments and signature); text, empty where not known."""

    OTHER_ARGUMENTS = "arguments that no analysis needs"
    """For events of any kind: ``bytes``, ``external_id``, ``python_id``, ``python_parent_id``,
    ``process_rank``; int64, -1 where not recorded; ``input_dims``, ``input_type``,
    ``input_strides``, ``in_split_size``, ``out_split_size``; JSON text, empty where not
    recorded."""


class Details(NamedTuple):
    """Fields of one group."""

    table: SideTable
    """Empty, without columns, if the source has none or cannot be read."""
    notices: tuple[Notice, ...] = ()
    """Why fields are missing."""

    @classmethod
    def missing(cls, reason: str) -> Details:
        """No fields, with the reason as a notice."""
        words = reason.replace("{", "{{").replace("}", "}}")
        return cls(NO_FIELDS, (Notice(words),))


def may_have_memory(events: Events) -> bool:
    """Whether a source may have memory events, judging by what is loaded of it."""
    return ALLOCATION in events.name.values or UNCATEGORISED in events.side


def loaded(events: Events, group: DetailGroup) -> SideTable | None:
    """Fields of a group that loading has read; None if it read none."""
    if group is DetailGroup.MEMORY:
        return _memory(events)
    if group is DetailGroup.LAUNCH_CONFIGURATION and LAUNCHES in events.side:
        return _launches(events.side[LAUNCHES])
    return None


def _memory(events: Events) -> SideTable | None:
    """Allocations and frees, with and without a row, by time."""
    tables = [_allocations(events, events.side[MEMORY])] if MEMORY in events.side else []
    tables += [events.side[UNCATEGORISED]] if UNCATEGORISED in events.side else []
    if len(tables) < 2:  # noqa: PLR2004
        return tables[0] if tables else None
    order = np.argsort(np.concatenate([each.columns["time_ns"] for each in tables]), kind="stable")
    columns = {
        name: np.concatenate([np.asarray(each.columns[name]) for each in tables])[order]
        for name in tables[0].columns
    }
    return SideTable(np.full(order.size, -1, dtype=np.int64), columns)


def _allocations(events: Events, table: SideTable) -> SideTable:
    """Allocations and frees among events with sizes, each with its time and thread."""
    codes = [code for code, name in enumerate(events.name.values) if name == ALLOCATION]
    chosen = np.flatnonzero(np.isin(events.name.codes[table.rows], codes))
    rows = table.rows[chosen]
    columns = {
        "time_ns": events.start_ns[rows],
        "pid": events.pid[rows].astype(np.int64),
        "tid": events.tid[rows].astype(np.int64),
        **{
            name: np.asarray(column)[chosen].astype(np.int64)
            for name, column in table.columns.items()
        },
    }
    return SideTable(np.full(rows.size, -1, dtype=np.int64), columns)


def _launches(table: SideTable) -> SideTable:
    """The numbers of each launch; many launches share them."""
    column = table.columns[CONFIGURATION]
    if not isinstance(column, TextColumn):
        return SideTable(table.rows[:0], {})
    alike = [json.loads(text) for text in column.values]
    columns: dict[str, NDArray[Any] | TextColumn] = {}
    for place, name in enumerate(LAUNCH_COLUMNS):
        dtype = np.float64 if name in LAUNCH_SHARES else np.int64
        columns[name] = np.array([numbers[place] for numbers in alike], dtype=dtype)[column.codes]
    return SideTable(table.rows, columns)
