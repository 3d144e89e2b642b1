"""The idle time of one rank as tables, and its owners on all ranks in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.idle_owners.gaps import PARTS, busy_time, gaps_of
from hta_widgets.analyses.idle_owners.innermost import NOBODY
from hta_widgets.analyses.idle_owners.lines import all_lines
from hta_widgets.analyses.idle_owners.owned_time import owned_time
from hta_widgets.analyses.idle_owners.paths import (
    KINDS,
    NO_PATH,
    MergedPaths,
    PathTable,
    all_paths,
    node_of_place,
)
from hta_widgets.analyses.idle_owners.sums import (
    BY_CAUSE,
    BY_OWNER,
    SelectedTime,
    Sums,
    idle_sums,
    selected_time,
)
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.causes import CAUSE_NAMES, CODE, NO_CALL
from hta_widgets.analyses.time.rows import texts_at
from hta_widgets.analyses.time.selection import TimeSelection
from hta_widgets.arrays import Int8Array, Int32Array, Int64Array
from hta_widgets.grouping import distinct, grouped
from hta_widgets.trace.ranks.rank import Rank


class OwnerRows(NamedTuple):
    """Rows of `IdleOwners.owners` of one rank, longest first."""

    rank: int
    device: NDArray[np.integer[Any]]
    """In few bytes, as those that follow."""
    step: NDArray[np.integer[Any]]
    cause: NDArray[np.integer[Any]]
    """Position in `CAUSE_NAMES`."""
    part: NDArray[np.integer[Any]]
    """Position in `PARTS`."""
    kind: Int8Array
    """Position in the names of kinds, -1 for no kind."""
    thread: NDArray[np.integer[Any]]
    """Position in `pid` and `tid`."""
    path: Int32Array
    """Number that the rank gives to the path, -1 for none."""
    idle_ns: Int64Array
    pieces: Int32Array
    pid: NDArray[Any]
    """Of each thread; the last of none."""
    tid: NDArray[Any]
    """The same."""


class RankTables(NamedTuple):
    """Tables of `IdleOwners` of one rank, with the rank's own numbers of paths.

    Whether Python frames were recorded holds for all of its time.
    """

    devices: pd.DataFrame
    causes: pd.DataFrame
    owners: OwnerRows
    drains: pd.DataFrame
    paths: PathTable
    has_frames: bool


def idle_tables(rank: Rank, selection: TimeSelection) -> RankTables:
    """Idle time of a rank by cause and owner, in some of its time."""
    selected = selected_time(rank, selection)
    owners = idle_sums(rank, selected, BY_OWNER)
    drains = _drains(rank, selected)
    nodes, drain_nodes = owners.keys["node"], drains["owner_path"].to_numpy()
    names = rank.trace.events.name.values
    paths, number = PathTable.of(
        all_paths(rank), all_lines(rank), distinct(np.concatenate((nodes, drain_nodes))), names
    )
    drains["owner_path"] = number[drain_nodes]
    return RankTables(
        devices=_devices(rank, selection, selected),
        causes=_causes(rank, selected),
        owners=_owner_rows(rank, owners, number[nodes]),
        drains=drains,
        paths=paths,
        has_frames=calls_of(rank).has_frames,
    )


def _devices(rank: Rank, selection: TimeSelection, selected: SelectedTime) -> pd.DataFrame:
    rows = []
    gap_device = rank.remember(gaps_of).device[distinct(selected.segments.gap)]
    for device in rank.gpu_work.devices:
        time, busy = selection.time(rank, device), busy_time(rank, device)
        before_ns = busy.covered_until(np.stack((time.starts, time.ends)))
        busy_ns = int((before_ns[1] - before_ns[0]).sum())
        gaps = np.count_nonzero(gap_device == device)
        rows.append((device, time.length, busy_ns, time.length - busy_ns, gaps))
    numbers = np.array(rows, dtype=np.int64).reshape(-1, 5)
    names = ("device", "window_ns", "busy_ns", "idle_ns", "gaps")
    columns = dict(zip(names, numbers.T, strict=True))
    return pd.DataFrame({"rank": np.full(len(rows), rank.trace.rank), **columns})


def _causes(rank: Rank, selected: SelectedTime) -> pd.DataFrame:
    keys, idle_ns, intervals = idle_sums(rank, selected, BY_CAUSE)
    return pd.DataFrame(
        {
            "rank": np.full(idle_ns.size, rank.trace.rank),
            "device": keys["device"].astype(np.int64),
            "step": keys["step"].astype(np.int64),
            "part": texts_at(PARTS, keys["part"]),
            "cause": texts_at(CAUSE_NAMES, keys["cause"]),
            "idle_ns": idle_ns,
            "gaps": intervals,
        }
    )


def _owner_rows(rank: Rank, sums: Sums, path: Int64Array) -> OwnerRows:
    """Idle time by owner with the paths of a table."""
    calls, keys = calls_of(rank), sums.keys
    ids = [(each.pid, each.tid) for each in calls.threads] + [(NOBODY, NOBODY)]
    pid, tid = map(calls.events.ids_in_source, np.array(ids, dtype=np.int64).T)
    return OwnerRows(
        rank=rank.trace.rank,
        device=keys["device"].astype(np.int32),
        step=keys["step"].astype(np.int32),
        cause=keys["cause"],
        part=keys["part"],
        kind=np.append(all_paths(rank).kind, np.int8(NOBODY))[keys["node"]],
        thread=keys["thread"],
        path=path.astype(np.int32),
        idle_ns=sums.idle_ns,
        pieces=sums.counts.astype(np.int32),
        pid=pid,
        tid=tid,
    )


def _drains(rank: Rank, selected: SelectedTime) -> pd.DataFrame:
    """Blocking calls by path with the time that passes after them."""
    calls = calls_of(rank)
    place, length_ns = _after_drains(rank, selected)
    by_call = grouped(place)
    each, after_ns = place[by_call.first], by_call.reduce(np.add, length_ns)
    groups = grouped(node_of_place(rank)[each])
    idle_behind_ns = groups.reduce(np.add, after_ns)
    by_time = np.argsort(-idle_behind_ns, kind="stable")
    nodes = node_of_place(rank)[each[groups.first]][by_time].astype(np.int64)
    call_ns = groups.reduce(np.add, calls.events.duration_ns[calls.forest.rows[each]])
    names, codes = rank.trace.events.name.values, all_paths(rank).name
    return pd.DataFrame(
        {
            "rank": np.full(nodes.size, rank.trace.rank, dtype=np.int64),
            "call": [names[code] for code in codes[nodes].tolist()],
            "owner_path": nodes,
            "count": groups.sizes[by_time],
            "call_ns": call_ns[by_time],
            "idle_behind_ns": idle_behind_ns[by_time],
        }
    )


def _after_drains(rank: Rank, selected: SelectedTime) -> tuple[Int64Array, Int64Array]:
    """Time that passes after blocking calls because of them: place of each call, and length."""
    owned, segments = rank.remember(owned_time), selected.segments
    drain = owned.drain[segments.gap]
    after = (drain != NO_CALL) & (owned.cause[selected.at] == CODE["synchronising"])
    return drain[after].astype(np.int64), segments.length_ns()[after]


def owner_table(ranks: Sequence[OwnerRows], merged: MergedPaths) -> pd.DataFrame:
    """Rows of all ranks with the paths of all, longest first.

    Parameters
    ----------
    ranks : sequence of OwnerRows
        At least one.
    merged : MergedPaths
        Of the same ranks, in this order.
    """
    path = _concatenated(
        [of_rank[rows.path] for rows, of_rank in zip(ranks, merged.of_rank, strict=True)]
    )
    idle_ns = _concatenated([rows.idle_ns for rows in ranks])
    columns = {
        "rank": np.repeat([rows.rank for rows in ranks], [rows.path.size for rows in ranks]),
        "device": _concatenated([rows.device for rows in ranks]).astype(np.int64),
        "cause": texts_at(CAUSE_NAMES, _concatenated([rows.cause for rows in ranks])),
        "part": texts_at(PARTS, _concatenated([rows.part for rows in ranks])),
        "step": _concatenated([rows.step for rows in ranks]).astype(np.int64),
        "pid": _concatenated([rows.pid[rows.thread] for rows in ranks]),
        "tid": _concatenated([rows.tid[rows.thread] for rows in ranks]),
        "owner": texts_at([*merged.names, ""], np.append(merged.name, NO_PATH)[path]),
        "kind": texts_at(KINDS, _concatenated([rows.kind for rows in ranks])),
        "path": path,
        "idle_ns": idle_ns,
        "pieces": _concatenated([rows.pieces for rows in ranks]).astype(np.int64),
    }
    table = pd.DataFrame(columns, copy=False)  # all are new
    if len(ranks) == 1:
        return table
    return table.take(np.argsort(-idle_ns, kind="stable")).reset_index(drop=True)


def _concatenated(columns: list[NDArray[Any]]) -> NDArray[Any]:
    return columns[0] if len(columns) == 1 else np.concatenate(columns)
