"""The idle time of one rank as tables."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.idle_owners.gaps import PARTS, busy_time, gaps_of
from hta_widgets.analyses.idle_owners.innermost import NOBODY, Pieces
from hta_widgets.analyses.idle_owners.owned_time import counted_time, owned_time
from hta_widgets.analyses.idle_owners.paths import Nodes, Paths, PathTable, paths_of
from hta_widgets.analyses.shared.attribution.calls import calls_of
from hta_widgets.analyses.shared.attribution.causes import CAUSE_NAMES, CODE
from hta_widgets.analyses.shared.attribution.launch_split import NO_CALL
from hta_widgets.analyses.shared.excerpt import Excerpt
from hta_widgets.grouping import Groups, grouped
from hta_widgets.trace.cache.derived_columns import Columns
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.ranks.rank import Rank

Rows = NDArray[np.int64]


class RankTables(NamedTuple):
    """Tables of `IdleOwners` of one rank, with the rank's own numbers of paths."""

    devices: pd.DataFrame
    causes: pd.DataFrame
    owners: pd.DataFrame
    drains: pd.DataFrame
    paths: PathTable


class _Chosen(NamedTuple):
    """The pieces of some steps and of a window, with what is known of their intervals."""

    pieces: Pieces
    cause: NDArray[np.int8]
    thread: NDArray[np.int32]
    node: Nodes
    device: Rows
    part: NDArray[np.int8]
    step: Rows

    @property
    def idle_ns(self) -> Rows:
        return self.pieces.length_ns()


def idle_tables(rank: Rank, excerpt: Excerpt) -> RankTables:
    """Idle time of a rank by cause and owner, in some of its time."""
    chosen = _chosen(rank, excerpt)
    owners, nodes = _owners(rank, chosen)
    drains, drain_nodes = _drains(rank, chosen)
    names = rank.trace.events.name.values
    paths, number = PathTable.of(
        _all_paths(rank), np.unique(np.concatenate((nodes, drain_nodes))), names
    )
    owners["path"] = number[nodes]
    drains["owner_path"] = number[drain_nodes]
    return RankTables(
        devices=_devices(rank, excerpt, chosen),
        causes=_causes(rank, chosen),
        owners=owners,
        drains=drains,
        paths=paths,
    )


def _chosen(rank: Rank, excerpt: Excerpt) -> _Chosen:
    gaps, counted = rank.remember(gaps_of), counted_time(rank, excerpt)
    pieces = counted.pieces
    return _Chosen(
        pieces=pieces,
        cause=counted.cause,
        thread=counted.thread,
        node=np.append(_node_of_place(rank), NOBODY)[pieces.owner],
        device=gaps.device[pieces.gap],
        part=gaps.part[pieces.gap],
        step=counted.step,
    )


def _all_paths(rank: Rank) -> Paths:
    return Paths(**{name: column for name, column in _path_columns(rank).items() if name != "node"})


def _node_of_place(rank: Rank) -> Nodes:
    return _path_columns(rank)["node"]


def _path_columns(rank: Rank) -> Columns:
    return rank.remember(_derived_paths)


def _derived_paths(rank: Rank) -> Columns:
    return rank.derive(_paths)


def _paths(rank: Rank) -> Columns:
    calls, owned = calls_of(rank), rank.remember(owned_time)
    owners = np.zeros(calls.kind.size + 1, dtype=np.bool_)
    owners[owned.pieces.owner] = True
    owners[owned.drain] = True
    paths, node = paths_of(calls, owners[:-1])
    return {**paths._asdict(), "node": node}


def _devices(rank: Rank, excerpt: Excerpt, chosen: _Chosen) -> pd.DataFrame:
    rows = []
    for device in rank.gpu_work.devices:
        counted, busy = excerpt.time(rank, device), busy_time(rank, device)
        before_ns = busy.covered_until(np.stack((counted.starts, counted.ends)))
        busy_ns = int((before_ns[1] - before_ns[0]).sum())
        rows.append(
            {
                "rank": rank.trace.rank,
                "device": device,
                "window_ns": counted.length,
                "busy_ns": busy_ns,
                "idle_ns": counted.length - busy_ns,
                "gaps": _count_distinct(chosen.pieces.gap[chosen.device == device]),
            }
        )
    names = ("rank", "device", "window_ns", "busy_ns", "idle_ns", "gaps")
    return pd.DataFrame(rows, columns=names, dtype=np.int64)


def _count_distinct(ascending: Rows) -> int:
    return int(np.count_nonzero(np.diff(ascending, prepend=-1)))


def _causes(rank: Rank, chosen: _Chosen) -> pd.DataFrame:
    groups = grouped(chosen.device, chosen.step, chosen.part, chosen.cause)
    first = groups.first
    return pd.DataFrame(
        {
            "rank": rank.trace.rank,
            "device": chosen.device[first],
            "step": chosen.step[first],
            "part": [PARTS[part] for part in chosen.part[first].tolist()],
            "cause": [CAUSE_NAMES[cause] for cause in chosen.cause[first].tolist()],
            "idle_ns": groups.reduce(np.add, chosen.idle_ns),
            "gaps": _distinct_in_groups(groups, chosen.pieces.gap),
        }
    )


def _distinct_in_groups(groups: Groups, values: Rows) -> Rows:
    """Number of different values in each group; equal ones of a group stand side by side."""
    in_order = values[groups.order]
    is_new = np.diff(in_order, prepend=-1) != 0
    is_new[groups.edges[:-1]] = True
    before = np.concatenate(([0], np.cumsum(is_new)))
    return np.diff(before[groups.edges])


def _owners(rank: Rank, chosen: _Chosen) -> tuple[pd.DataFrame, Nodes]:
    """Idle time by owner, and the node of each row."""
    groups = grouped(
        chosen.device, chosen.cause, chosen.part, chosen.step, chosen.thread, chosen.node
    )
    idle_ns = groups.reduce(np.add, chosen.idle_ns)
    by_time = np.argsort(-idle_ns, kind="stable")
    first = groups.first[by_time]
    node = chosen.node[first]
    paths = _all_paths(rank)
    kinds, names = [*_KINDS, ""], [*rank.trace.events.name.values, ""]
    has_owner = node != NOBODY
    owner = np.where(has_owner, np.append(paths.name, 0)[node], len(names) - 1)
    kind = np.where(has_owner, np.append(paths.kind, 0)[node], len(kinds) - 1)
    return pd.DataFrame(
        {
            "rank": rank.trace.rank,
            "device": chosen.device[first],
            "cause": [CAUSE_NAMES[cause] for cause in chosen.cause[first].tolist()],
            "part": [PARTS[part] for part in chosen.part[first].tolist()],
            "step": chosen.step[first],
            **_thread_columns(rank, chosen.thread[first]),
            "owner": [names[code] for code in owner.tolist()],
            "kind": [kinds[code] for code in kind.tolist()],
            "path": node,
            "idle_ns": idle_ns[by_time],
            "pieces": groups.sizes[by_time],
        }
    ), node


_KINDS = [each.name.lower() for each in Kind]


def _thread_columns(rank: Rank, thread: NDArray[np.int32]) -> dict[str, NDArray[Any]]:
    calls = calls_of(rank)
    ids = [(each.pid, each.tid) for each in calls.threads] + [(NOBODY, NOBODY)]
    pid, tid = np.array(ids, dtype=np.int64).T
    in_source = calls.events.ids_in_source
    return {"pid": in_source(pid)[thread], "tid": in_source(tid)[thread]}


def _drains(rank: Rank, chosen: _Chosen) -> tuple[pd.DataFrame, Nodes]:
    """Blocking calls by path with the time that passes after them, and the node of each row."""
    calls, drain = calls_of(rank), rank.remember(owned_time).drain[chosen.pieces.gap]
    behind = np.flatnonzero((drain != NO_CALL) & (chosen.cause == CODE["synchronising"]))
    place = drain[behind].astype(np.int64)
    calls_of_node = grouped(_node_of_place(rank)[place], place)
    each = place[calls_of_node.first]
    behind_ns = calls_of_node.reduce(np.add, chosen.idle_ns[behind])
    groups = grouped(_node_of_place(rank)[each])
    idle_behind_ns = groups.reduce(np.add, behind_ns)
    by_time = np.argsort(-idle_behind_ns, kind="stable")
    nodes = _node_of_place(rank)[each[groups.first]][by_time].astype(np.int64)
    call_ns = groups.reduce(np.add, calls.events.duration_ns[calls.forest.rows[each]])
    names, codes = rank.trace.events.name.values, _all_paths(rank).name
    return pd.DataFrame(
        {
            "rank": np.full(nodes.size, rank.trace.rank, dtype=np.int64),
            "call": [names[code] for code in codes[nodes].tolist()],
            "owner_path": nodes,
            "count": groups.sizes[by_time],
            "call_ns": call_ns[by_time],
            "idle_behind_ns": idle_behind_ns[by_time],
        }
    ), nodes
