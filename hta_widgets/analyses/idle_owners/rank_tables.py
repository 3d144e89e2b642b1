"""The idle time of one rank as tables."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.idle_owners.counted_time import CountedTime, counted_time
from hta_widgets.analyses.idle_owners.gaps import PARTS, busy_time, gaps_of
from hta_widgets.analyses.idle_owners.innermost import NOBODY
from hta_widgets.analyses.idle_owners.lines import lines_of_paths
from hta_widgets.analyses.idle_owners.owned_time import owned_time
from hta_widgets.analyses.idle_owners.owner_table import OwnerRows
from hta_widgets.analyses.idle_owners.paths import Nodes, Paths, PathTable, paths_of
from hta_widgets.analyses.shared.attribution.calls import Mask, calls_of
from hta_widgets.analyses.shared.attribution.causes import CAUSE_NAMES, CODE
from hta_widgets.analyses.shared.attribution.counted import sums_at
from hta_widgets.analyses.shared.attribution.launch_split import NO_CALL
from hta_widgets.analyses.shared.excerpt import Excerpt
from hta_widgets.analyses.shared.rows import texts_at
from hta_widgets.grouping import distinct, grouped
from hta_widgets.trace.cache.derived_columns import Columns
from hta_widgets.trace.ranks.rank import Rank

Rows = NDArray[np.int64]

_OF_CAUSES: Final = ("device", "step", "part", "cause")


class RankTables(NamedTuple):
    """Tables of `IdleOwners` of one rank, with the rank's own numbers of paths."""

    devices: pd.DataFrame
    causes: pd.DataFrame
    owners: OwnerRows
    drains: pd.DataFrame
    paths: PathTable


class _Alike(NamedTuple):
    """Pieces that are told apart by the same numbers, as one row each.

    Attributes
    ----------
    keys : dict of str to ndarray
    row : ndarray of int
        Row of each piece of the rank.
    """

    keys: dict[str, NDArray[Any]]
    row: NDArray[np.unsignedinteger[Any]]


def idle_tables(rank: Rank, excerpt: Excerpt) -> RankTables:
    """Idle time of a rank by cause and owner, in some of its time."""
    counted = counted_time(rank, excerpt)
    owners, drains = _Owners.of(rank, counted), _drains(rank, counted)
    nodes, drain_nodes = owners.keys["node"], drains["owner_path"].to_numpy()
    names = rank.trace.events.name.values
    paths, number = PathTable.of(
        _all_paths(rank),
        rank.remember(_lines),
        distinct(np.concatenate((nodes, drain_nodes))),
        names,
    )
    drains["owner_path"] = number[drain_nodes]
    return RankTables(
        devices=_devices(rank, excerpt, counted),
        causes=_causes(rank, counted),
        owners=owners.rows(rank, number[nodes]),
        drains=drains,
        paths=paths,
    )


def _alike(rank: Rank, *names: str) -> _Alike:
    owned, gaps = rank.remember(owned_time), rank.remember(gaps_of)
    gap, owner = owned.pieces.gap, owned.pieces.owner
    columns: dict[str, NDArray[Any]] = {
        "device": gaps.device[gap],
        "cause": owned.cause,
        "part": gaps.part[gap],
        "step": owned.step,
        "thread": owned.thread,
    }
    if "node" in names:
        columns["node"] = np.append(_node_of_place(rank), NOBODY)[owner]
    groups = grouped(*(columns[name] for name in names))
    keys = {name: columns[name][groups.first] for name in names}
    return _Alike(keys, groups.of_rows.astype(np.min_scalar_type(groups.sizes.size)))


def _all_paths(rank: Rank) -> Paths:
    return Paths(**{name: column for name, column in _path_columns(rank).items() if name != "node"})


def _lines(rank: Rank) -> Nodes:
    return lines_of_paths(_all_paths(rank), rank.trace.events.name.values)


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


def _devices(rank: Rank, excerpt: Excerpt, counted: CountedTime) -> pd.DataFrame:
    rows = []
    gap = counted.gap
    each_gap = np.append(gap[:1], gap[1:][gap[1:] != gap[:-1]])
    device_of_gap = rank.remember(gaps_of).device[each_gap]
    for device in rank.gpu_work.devices:
        time, busy = excerpt.time(rank, device), busy_time(rank, device)
        before_ns = busy.covered_until(np.stack((time.starts, time.ends)))
        busy_ns = int((before_ns[1] - before_ns[0]).sum())
        rows.append(
            {
                "rank": rank.trace.rank,
                "device": device,
                "window_ns": time.length,
                "busy_ns": busy_ns,
                "idle_ns": time.length - busy_ns,
                "gaps": int(np.count_nonzero(device_of_gap == device)),
            }
        )
    names = ("rank", "device", "window_ns", "busy_ns", "idle_ns", "gaps")
    return pd.DataFrame(rows, columns=names, dtype=np.int64)


def _causes(rank: Rank, counted: CountedTime) -> pd.DataFrame:
    alike = rank.remember(_alike, *_OF_CAUSES)
    row, size = alike.row[counted.at], alike.keys["cause"].size
    idle_ns = sums_at(row, counted.length_ns, size)
    there = np.flatnonzero(idle_ns)
    keys = {name: column[there] for name, column in alike.keys.items()}
    return pd.DataFrame(
        {
            "rank": rank.trace.rank,
            "device": keys["device"],
            "step": keys["step"],
            "part": texts_at(PARTS, keys["part"]),
            "cause": texts_at(CAUSE_NAMES, keys["cause"]),
            "idle_ns": idle_ns[there],
            "gaps": np.bincount(row[_opens(rank, row, counted)], minlength=size)[there],
        }
    )


def _opens(rank: Rank, row: NDArray[np.unsignedinteger[Any]], counted: CountedTime) -> Mask:
    """Which pieces are the first of their row in an interval."""
    opens: Mask = rank.remember(_opens_in_whole)[counted.at]
    cut = counted.in_cut_gaps(rank)
    if not cut.size:
        return opens
    found = opens.copy()
    found[cut] = _first_of_pairs(counted.gap[cut], row[cut])
    return found


def _opens_in_whole(rank: Rank) -> Mask:
    gap = rank.remember(owned_time).pieces.gap
    return _first_of_pairs(gap, rank.remember(_alike, *_OF_CAUSES).row)


def _first_of_pairs(gap: Rows, row: NDArray[np.unsignedinteger[Any]]) -> Mask:
    """Which pieces are the first of their row in their interval; the intervals ascend.

    Neighbours of a row are told by a look; only intervals in which a row may come again after
    another one are sorted.
    """
    found = np.ones(gap.size, dtype=np.bool_)
    found[1:] = (gap[1:] != gap[:-1]) | (row[1:] != row[:-1])
    begins = np.flatnonzero(found)
    of_gap = gap[begins]
    mixed = distinct(of_gap[2:][of_gap[2:] == of_gap[:-2]])
    again = begins[np.isin(of_gap, mixed)]
    found[again] = False
    found[again[grouped(gap[again], row[again]).first]] = True
    return found


class _Owners(NamedTuple):
    """Idle time by what `_alike` tells apart, longest first."""

    keys: dict[str, NDArray[Any]]
    idle_ns: Rows
    pieces: Rows

    @classmethod
    def of(cls, rank: Rank, counted: CountedTime) -> _Owners:
        """Sum up pieces of idle time."""
        alike = rank.remember(_alike, "device", "cause", "part", "step", "thread", "node")
        row, size = alike.row[counted.at], alike.keys["node"].size
        idle_ns = sums_at(row, counted.length_ns, size)
        there = np.flatnonzero(idle_ns)
        there = there[np.argsort(-idle_ns[there], kind="stable")]
        keys = {name: column[there] for name, column in alike.keys.items()}
        return cls(keys, idle_ns[there], np.bincount(row, minlength=size)[there])

    def rows(self, rank: Rank, path: Nodes) -> OwnerRows:
        """The same with the paths of a table."""
        calls, keys = calls_of(rank), self.keys
        ids = [(each.pid, each.tid) for each in calls.threads] + [(NOBODY, NOBODY)]
        pid, tid = map(calls.events.ids_in_source, np.array(ids, dtype=np.int64).T)
        return OwnerRows(
            rank=rank.trace.rank,
            device=keys["device"],
            step=keys["step"],
            cause=keys["cause"].astype(np.int8),
            part=keys["part"].astype(np.int8),
            kind=np.append(_all_paths(rank).kind, np.int8(NOBODY))[keys["node"]],
            thread=keys["thread"].astype(np.int32),
            path=path.astype(np.int32),
            idle_ns=self.idle_ns,
            pieces=self.pieces.astype(np.int32),
            pid=pid,
            tid=tid,
        )


def _drains(rank: Rank, counted: CountedTime) -> pd.DataFrame:
    """Blocking calls by path with the time that passes after them."""
    calls, drain = calls_of(rank), rank.remember(owned_time).drain
    behind = counted.among(rank.remember(_behind_drains))
    place = drain[counted.gap[behind]].astype(np.int64)
    calls_of_node = grouped(_node_of_place(rank)[place], place)
    each = place[calls_of_node.first]
    behind_ns = calls_of_node.reduce(np.add, counted.length_ns[behind])
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
    )


def _behind_drains(rank: Rank) -> Rows:
    """Pieces of idle time that pass after a blocking call, because of it."""
    owned = rank.remember(owned_time)
    drained = owned.drain[owned.pieces.gap] != NO_CALL
    return np.flatnonzero(drained & (owned.cause == CODE["synchronising"]))
