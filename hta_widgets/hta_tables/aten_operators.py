"""ATen operators, the kernels they launch, and their delays, as HTA's table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.time.calls import calls_of, nearest_at_or_above
from hta_widgets.analyses.time.patterns import GRAPH_LAUNCH
from hta_widgets.arrays import Int64Array
from hta_widgets.errors import ParameterError
from hta_widgets.grouping import grouped
from hta_widgets.quantities import NS_PER_US
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.ranks.rank import Rank

PREFIX: Final = "aten::"
SEPARATOR: Final = " -> "
COLUMNS: Final = (
    *("aten_op_name", "kernel_sequence", "occurrence_count"),
    *("avg_aten_op_launch_delay", "avg_runtime_delay", "kernels", "gpu time (us)"),
)
_IN_US: Final = ("avg_aten_op_launch_delay", "avg_runtime_delay", "gpu time (us)")
_TEXTS: Final = ("aten_op_name", "kernel_sequence")


def aten_operators(
    rank: Rank, *, sort_by: Sequence[str], include_memory_events: bool
) -> pd.DataFrame:
    """Return the table that `TraceAnalysis.get_aten_op_kernels_and_delay` documents."""
    unknown = [name for name in sort_by if name not in COLUMNS]
    if unknown:
        msg = f"sort_by must be columns of {', '.join(COLUMNS)}, got {', '.join(unknown)}"
        raise ParameterError(msg)
    found: dict[tuple[str, str], list[tuple[int, int, int, int]]] = defaultdict(list)
    for name, sequence, numbers in _occurrences(rank, include_memory_events=include_memory_events):
        found[name, sequence].append(numbers)
    rows = []
    for (name, sequence), each in found.items():
        launch_delay, runtime_delay, _, gpu_ns = np.array(each, dtype=np.int64).T
        rows.append(
            {
                "aten_op_name": name,
                "kernel_sequence": sequence,
                "occurrence_count": len(each),
                "avg_aten_op_launch_delay": round(float(launch_delay.mean()) / NS_PER_US, 3),
                "avg_runtime_delay": round(float(runtime_delay.mean()) / NS_PER_US, 3),
                "kernels": each[0][2],
                "gpu time (us)": int(gpu_ns.sum()) / NS_PER_US,
            }
        )
    table = pd.DataFrame(rows, columns=COLUMNS).astype(
        {"occurrence_count": "int64", "kernels": "int64"} | dict.fromkeys(_IN_US, "float64")
    )
    order = [*sort_by, *(name for name in _TEXTS if name not in sort_by)]
    ascending = [name in _TEXTS for name in order]
    return table.sort_values(order, ascending=ascending, kind="stable", ignore_index=True)


def _occurrences(
    rank: Rank, *, include_memory_events: bool
) -> Iterator[tuple[str, str, tuple[int, int, int, int]]]:
    """Name, sequence and times (ns) of each operator call that launches work itself."""
    calls, work, events = calls_of(rank), rank.gpu_work, rank.trace.events
    start_ns = calls.start_ns  # of all calls, gathered each time
    is_aten = (calls.kind == Kind.CPU_OP) & calls.named(lambda name: name.startswith(PREFIX))
    kept = work.launch >= 0
    if not include_memory_events:
        kept &= ~np.isin(events.kind[work.rows], (Kind.MEMCPY, Kind.MEMSET))
    piece = np.flatnonzero(kept)
    launch = calls.places_of(work.launch[piece])
    operator = nearest_at_or_above(calls.forest, is_aten)[launch]
    held = operator != NO_PARENT
    piece, launch, operator = piece[held], launch[held], operator[held]
    order = np.lexsort((work.start_ns[piece], launch))
    piece, launch, operator = piece[order], launch[order], operator[order]
    launches = np.append(np.flatnonzero(np.diff(launch, prepend=-1)), launch.size)
    items = [
        _item(rank, launch[first], piece[first:last]) for first, last in pairwise(launches.tolist())
    ]
    of_launch = grouped(operator[launches[:-1]])
    gpu_ns = np.concatenate(([0], np.cumsum(work.duration_ns[piece])))
    names = events.name.values
    for each in of_launch.parts:
        first, last = launches[each], launches[each + 1]
        place, call_ns = int(operator[first[0]]), int(start_ns[launch[first[0]]])
        yield (
            names[calls.name[place]],
            SEPARATOR.join([items[number] for number in each.tolist()]),
            (
                call_ns - int(start_ns[place]),
                int(work.start_ns[piece[first[0]]]) - call_ns,
                int((last - first).sum()),
                int((gpu_ns[last] - gpu_ns[first]).sum()),
            ),
        )


def _item(rank: Rank, launch: int, pieces: Int64Array) -> str:
    """The kernels of one launch call; a graph is one item."""
    calls, work = calls_of(rank), rank.gpu_work
    if pieces.size > 1 and GRAPH_LAUNCH.search(calls.events.name.values[calls.name[launch]]):
        return f"graph ({pieces.size} kernels)"
    return SEPARATOR.join([work.names[code] for code in work.name[pieces].tolist()])
