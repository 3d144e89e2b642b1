"""Paths of names from the outermost to the innermost call, as a tree, with their Python lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from hta_widgets.analyses.budget.idle_gaps import owned_time
from hta_widgets.analyses.time.calls import Calls, at_or_around, calls_of
from hta_widgets.analyses.time.causes import as_counted
from hta_widgets.analyses.time.rows import largest_first, texts_at
from hta_widgets.arrays import Int8Array, Int32Array, Int64Array, IntArray, narrowed
from hta_widgets.grouping import grouped
from hta_widgets.trace.cache.derived_columns import Columns
from hta_widgets.trace.model.cut_forest import depths
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.nesting import places_of
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.ranks.rank import Rank

NO_PATH = -1

KINDS: Final = (*(each.name.lower() for each in Kind), "")
"""Names of the kinds of calls; the last one is for no call."""

_FRAME: Final = re.compile(r"\.py\(\d+\): ")

_OF_OTHERS: Final = re.compile(
    r"(?:^|/)torch/|^<|(?:^|/)(?:abc|asyncio/\w+|codecs|collections/\w+|concurrent/.+|contextlib|copy"
    r"|copyreg|dataclasses|enum|functools|importlib/\w+|inspect|json/\w+|logging/\w+"
    r"|multiprocessing/\w+|posixpath|queue|re/\w+|runpy|selectors|sre_\w+|subprocess|threading"
    r"|typing|warnings|weakref)\.py\("
)
"""Frames of PyTorch and of helper modules of Python: the line is that of their caller."""

Name = TypeVar("Name", int, str)
"""A name, or its code."""


class Paths(NamedTuple):
    """A tree of names; every node stands after its parent."""

    parent: Int64Array
    """Node of the path without its last name, -1 for paths of one name."""
    name: Int64Array
    """Code of the last name."""
    kind: Int8Array
    """Value of `Kind` of the first call with this path."""
    depth: Int64Array
    """Number of names before the last one."""
    first: Int64Array
    """Place of the first call with this path."""


def all_paths(rank: Rank) -> Paths:
    """The paths of all calls of a rank that idle time may belong to."""
    return Paths(**{name: column for name, column in _path_columns(rank).items() if name != "node"})


def node_of_place(rank: Rank) -> IntArray:
    """Node of the path of each call by place, -1 for those without idle time and for place -1."""
    return _path_columns(rank)["node"]


@asked_once
def _path_columns(rank: Rank) -> Columns:
    return rank.derive(_paths)


def _paths(rank: Rank) -> Columns:
    calls, owned = calls_of(rank), owned_time(rank)
    owners = np.zeros(calls.kind.size + 1, dtype=np.bool_)
    owners[owned.segments.owner] = True
    owners[owned.drain] = True
    paths, node = paths_of(calls, np.flatnonzero(owners[:-1]))
    return {**paths._asdict(), "node": narrowed(node)}


def paths_of(calls: Calls, owners: Int64Array) -> tuple[Paths, Int32Array]:
    """Paths of some calls, given by place, and of all calls around them.

    Also returns the node of each call by place, -1 for other calls and for place -1.
    """
    forest = calls.forest
    chosen = at_or_around(forest.parent, owners)
    places = np.flatnonzero(chosen)
    before = np.cumsum(np.append(False, chosen), dtype=np.int32)  # how many are before each place
    depth = depths(before[forest.ends[places]])
    around = forest.parent[places]
    parent = np.where(around >= 0, before[around], np.int32(NO_PATH))
    node, of_node = merged(parent, calls.name[places], depth)
    of_parent = np.append(node, np.int32(NO_PATH))[parent[of_node]].astype(np.int64)
    first = places[of_node]
    name, kind = calls.name[first].astype(np.int64), calls.kind[first]
    paths = Paths(of_parent, name, kind, depth[of_node].astype(np.int64), first)
    return paths, by_place(calls, places, node)


def by_place(calls: Calls, places: Int64Array, values: IntArray) -> Int32Array:
    """Values of some calls by place, -1 for other calls and for place -1."""
    found = np.full(calls.kind.size + 1, NO_PATH, dtype=np.int32)
    found[places] = values
    return found


def with_calls_around(calls: Calls, places: Int64Array) -> Int64Array:
    """Places of some calls and of all calls around them, ascending."""
    return np.flatnonzero(at_or_around(calls.forest.parent, places))


def merged(parent: IntArray, name: IntArray, depth: IntArray) -> tuple[IntArray, Int64Array]:
    """Give nodes with the same path one number, level by level; `parent` is -1 for none.

    Returns the number of each node, and the position of the first node with each number.
    """
    number = np.full(parent.size + 1, NO_PATH, dtype=np.int32)
    first: list[Int64Array] = [np.zeros(0, dtype=np.int64)]
    count = 0
    for level in grouped(depth).parts:
        paths = grouped(number[parent[level]], name[level])
        number[level] = count + paths.of_rows
        first.append(level[paths.first])
        count += paths.first.size
    return number[:-1], np.concatenate(first)


class PathTable(NamedTuple):
    """The paths of one rank by name."""

    paths: Paths
    """Paths, with codes into `names`."""
    line: Int64Array
    """Code of the line of Python that each path is in, -1 for none."""
    names: list[str]

    @classmethod
    def of(
        cls, paths: Paths, line: Int64Array, nodes: Int64Array, names: Sequence[str]
    ) -> tuple[PathTable, Int64Array]:
        """Keep some nodes and those above them; also returns the new number of each old node."""
        kept = np.flatnonzero(at_or_around(paths.parent, nodes))
        number = places_of(kept, paths.parent.size + 1).astype(np.int64)
        codes, code = np.unique(paths.name[kept], return_inverse=True)
        kept_paths = Paths(
            number[paths.parent[kept]],
            code,
            *(paths.kind[kept], paths.depth[kept], paths.first[kept]),
        )
        line = line[kept]
        known = np.where(line != NO_PATH, np.searchsorted(codes, line), NO_PATH)
        return cls(kept_paths, known, [names[each] for each in codes.tolist()]), number


class MergedPaths(NamedTuple):
    """The paths of several ranks."""

    table: pd.DataFrame
    """Columns ``path``, ``parent``, ``name``, ``kind``, ``depth``."""
    of_rank: list[Int64Array]
    """For each rank, the path of each of its nodes; the last is `NO_PATH`."""
    name: Int64Array
    """Position in `names` of the last name of each path."""
    line: Int64Array
    """Position in `names` of the line of Python that it is in, -1 for none."""
    names: list[str]
    """Distinct names, in order."""


def merge_tables(tables: Sequence[PathTable]) -> MergedPaths:
    """Put the paths of several ranks into one table."""
    sizes = [table.paths.parent.size for table in tables]
    offsets = [0, *accumulate(sizes)]
    names = sorted({name for table in tables for name in table.names})
    number_of = {name: number for number, name in enumerate(names)}
    code_of = [
        np.array([number_of[name] for name in table.names], dtype=np.int64) for table in tables
    ]
    parts = [
        (
            np.where(table.paths.parent >= 0, table.paths.parent + offset, NO_PATH),
            codes[table.paths.name],
            table.paths.depth,
            table.paths.kind,
            np.append(codes, NO_PATH)[table.line],
        )
        for table, codes, offset in zip(tables, code_of, offsets, strict=False)
    ]
    parent, name, depth, kind, line = (np.concatenate(each) for each in zip(*parts, strict=True))
    if len(tables) == 1:
        number: IntArray = np.arange(parent.size)
        first = np.arange(parent.size)
    else:
        number, first = merged(parent, name, depth)
    above = np.append(number, NO_PATH)[parent[first]]
    table = pd.DataFrame(
        {
            "path": np.arange(first.size),
            "parent": above,
            "name": texts_at([*names, ""], name[first]),
            "kind": texts_at(KINDS, kind[first]),
            "depth": depth[first],
        }
    )
    of_rank = [np.append(each, NO_PATH) for each in np.split(number, offsets[1:-1])]
    return MergedPaths(table, of_rank, name[first], line[first], names)


def with_lines(owners: pd.DataFrame, paths: pd.DataFrame) -> pd.DataFrame:
    """The owners of `IdleOwners` with ``line``: the line of Python that each is in, empty for none.

    It is the innermost Python frame on the path that belongs neither to PyTorch nor to a helper
    module of Python (`contextlib`, `functools`, …), such as ``train.py(12): step``, where 12
    is the line on which the function starts.
    """
    lines = _lines(paths["parent"].tolist(), paths["name"].tolist(), _is_line, "")
    found = np.array([*lines, ""], dtype=object)[owners["path"].to_numpy()]
    return owners.assign(line=pd.Series(found, index=owners.index, dtype=object))


@asked_once
def all_lines(rank: Rank) -> Int64Array:
    """Code of the name of the line of Python that each of `all_paths` is in, -1 for none."""
    paths, texts = all_paths(rank), rank.trace.events.name.values
    codes = paths.name.tolist()
    lines = _lines(paths.parent.tolist(), codes, lambda code: _is_line(texts[code]), NO_PATH)
    return np.array(lines, dtype=np.int64)


def _lines(
    parents: list[int], names: list[Name], is_line: Callable[[Name], bool], none: Name
) -> list[Name]:
    """Line of each path, given the last name of each."""
    lines: list[Name] = []
    for parent, name in zip(parents, names, strict=True):
        around = lines[parent] if parent != NO_PATH else none
        lines.append(name if is_line(name) else around)
    return lines


def owners_by_line(owners: pd.DataFrame, paths: pd.DataFrame) -> pd.DataFrame:
    """Sum `IdleOwners.owners` by cause and line of Python, longest first.

    ``rank``, ``device``, ``cause``, ``line`` (see `with_lines`), ``idle_ns`` (int64),
    ``idle_percent`` (of the idle time of the device), ``pieces``.
    """
    return sums_by(["rank", "device", "cause", "line"], with_lines(owners, paths))


def sums_by(keys: list[str], owners: pd.DataFrame) -> pd.DataFrame:
    """Sum ``idle_ns`` and ``pieces`` by some keys, longest first.

    ``idle_percent`` is the share of the idle time of the device.
    """
    groups = as_counted(owners).groupby(keys, as_index=False, sort=False)
    table = largest_first(groups[["idle_ns", "pieces"]].sum(), "idle_ns")
    whole_ns = table.groupby(["rank", "device"])["idle_ns"].transform("sum")
    table.insert(len(keys) + 1, "idle_percent", 100 * table["idle_ns"] / whole_ns)
    return table


@lru_cache(maxsize=1 << 16)
def _is_line(name: str) -> bool:
    return _FRAME.search(name) is not None and _OF_OTHERS.search(name) is None
