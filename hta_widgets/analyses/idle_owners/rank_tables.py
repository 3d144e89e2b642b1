"""The idle time of one rank as tables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.idle_owners.gaps import PARTS, busy_time
from hta_widgets.analyses.idle_owners.idle_blocks import CountedBlocks, counted_blocks, idle_blocks
from hta_widgets.analyses.idle_owners.innermost import NOBODY
from hta_widgets.analyses.idle_owners.owned_time import owned_time
from hta_widgets.analyses.idle_owners.owner_table import OwnerRows
from hta_widgets.analyses.idle_owners.paths import Nodes, PathTable
from hta_widgets.analyses.idle_owners.rank_paths import all_lines, all_paths, node_of_place
from hta_widgets.analyses.idle_owners.row_sums import OF_CAUSES, OF_OWNERS, Sums, idle_sums
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.causes import CAUSE_NAMES, CODE, NO_CALL
from hta_widgets.analyses.time.excerpt import Excerpt
from hta_widgets.analyses.time.rows import texts_at
from hta_widgets.grouping import counted_up, distinct, grouped
from hta_widgets.trace.ranks.rank import Rank

Rows = NDArray[np.int64]


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


def idle_tables(rank: Rank, excerpt: Excerpt) -> RankTables:
    """Idle time of a rank by cause and owner, in some of its time."""
    counted = counted_blocks(rank, excerpt)
    owners = idle_sums(rank, counted, OF_OWNERS, "pieces")
    drains = _drains(rank, counted)
    nodes, drain_nodes = owners.keys["node"], drains["owner_path"].to_numpy()
    names = rank.trace.events.name.values
    paths, number = PathTable.of(
        all_paths(rank), all_lines(rank), distinct(np.concatenate((nodes, drain_nodes))), names
    )
    drains["owner_path"] = number[drain_nodes]
    return RankTables(
        devices=_devices(rank, excerpt, counted),
        causes=_causes(rank, counted),
        owners=_owner_rows(rank, owners, number[nodes]),
        drains=drains,
        paths=paths,
        has_frames=calls_of(rank).has_frames,
    )


def _devices(rank: Rank, excerpt: Excerpt, counted: CountedBlocks) -> pd.DataFrame:
    rows = []
    for device in rank.gpu_work.devices:
        time, busy = excerpt.time(rank, device), busy_time(rank, device)
        before_ns = busy.covered_until(np.stack((time.starts, time.ends)))
        busy_ns = int((before_ns[1] - before_ns[0]).sum())
        gaps = counted.gaps_of(rank, device)
        rows.append((device, time.length, busy_ns, time.length - busy_ns, gaps))
    numbers = np.array(rows, dtype=np.int64).reshape(-1, 5)
    names = ("device", "window_ns", "busy_ns", "idle_ns", "gaps")
    columns = dict(zip(names, numbers.T, strict=True))
    return pd.DataFrame({"rank": np.full(len(rows), rank.trace.rank), **columns})


def _causes(rank: Rank, counted: CountedBlocks) -> pd.DataFrame:
    keys, idle_ns, intervals = idle_sums(rank, counted, OF_CAUSES, "intervals")
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


def _owner_rows(rank: Rank, sums: Sums, path: Nodes) -> OwnerRows:
    """Idle time by owner with the paths of a table."""
    calls, keys = calls_of(rank), sums.keys
    ids = [(each.pid, each.tid) for each in calls.threads] + [(NOBODY, NOBODY)]
    pid, tid = map(calls.events.ids_in_source, np.array(ids, dtype=np.int64).T)
    return OwnerRows(
        rank=rank.trace.rank,
        device=keys["device"],
        step=keys["step"],
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


def _drains(rank: Rank, counted: CountedBlocks) -> pd.DataFrame:
    """Blocking calls by path with the time that passes after them."""
    calls = calls_of(rank)
    place, length_ns = _behind_drains(rank, counted)
    by_call = grouped(place)
    each, behind_ns = place[by_call.first], by_call.reduce(np.add, length_ns)
    groups = grouped(node_of_place(rank)[each])
    idle_behind_ns = groups.reduce(np.add, behind_ns)
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


def _behind_drains(rank: Rank, counted: CountedBlocks) -> tuple[Rows, Rows]:
    """Time that passes after blocking calls because of them: place of each call, and length."""
    owned, behind = rank.remember(owned_time), rank.remember(_all_behind_drains)
    others, whole = counted.others.among(behind), behind[:0]
    if counted.whole.size:
        edges = np.searchsorted(behind, rank.remember(idle_blocks).edges)
        whole = behind[counted_up(edges[counted.whole], edges[counted.whole + 1])]
    gap = np.concatenate((counted.others.gap[others], owned.pieces.gap[whole]))
    of_whole = owned.pieces.end_ns[whole] - owned.pieces.start_ns[whole]
    length_ns = np.concatenate((counted.others.length_ns[others], of_whole))
    return owned.drain[gap].astype(np.int64), length_ns


def _all_behind_drains(rank: Rank) -> Rows:
    """All pieces of idle time that pass after a blocking call, because of it."""
    owned = rank.remember(owned_time)
    drained = owned.drain[owned.pieces.gap] != NO_CALL
    return np.flatnonzero(drained & (owned.cause == CODE["synchronising"]))
