"""The paths of all calls of a rank that idle time may belong to."""

from __future__ import annotations

import numpy as np

from hta_widgets.analyses.idle_owners.lines import lines_of_paths
from hta_widgets.analyses.idle_owners.owned_time import owned_time
from hta_widgets.analyses.idle_owners.paths import Nodes, Paths, paths_of
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.trace.cache.derived_columns import Columns
from hta_widgets.trace.ranks.rank import Rank


def all_paths(rank: Rank) -> Paths:
    """The paths, whatever time is counted."""
    return Paths(**{name: column for name, column in _path_columns(rank).items() if name != "node"})


def all_lines(rank: Rank) -> Nodes:
    """Code of the name of the line of Python that each of these is in, -1 for none."""
    return rank.remember(_lines)


def node_of_place(rank: Rank) -> Nodes:
    """Which path each call has, -1 for calls that no idle time belongs to."""
    return _path_columns(rank)["node"]


def _lines(rank: Rank) -> Nodes:
    return lines_of_paths(all_paths(rank), rank.trace.events.name.values)


def _path_columns(rank: Rank) -> Columns:
    return rank.remember(_derived_paths)


def _derived_paths(rank: Rank) -> Columns:
    return rank.derive(_paths)


def _paths(rank: Rank) -> Columns:
    calls, owned = calls_of(rank), rank.remember(owned_time)
    owners = np.zeros(calls.kind.size + 1, dtype=np.bool_)
    owners[owned.segments.owner] = True
    owners[owned.drain] = True
    paths, node = paths_of(calls, owners[:-1])
    return {**paths._asdict(), "node": node}
