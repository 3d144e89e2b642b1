"""Process groups as traces record them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from hta_widgets.trace.loaders.columns import whole_number
from hta_widgets.trace.model.formats import RANK_LIMIT

MOST_MEMBERS: Final = 2**20
"""A greater number of ranks in a group is an error of the trace."""


class Group(NamedTuple):
    """A process group of one rank.

    Attributes
    ----------
    name : str
        As in the trace; sibling groups may have the same.
    description : str
        Such as ``DATA_PARALLEL_GROUP``; empty if not recorded.
    ranks : tuple of int
        Global ranks in the order of their places in the group; empty if not recorded.
    size : int
        Number of ranks; 0 if not recorded.
    """

    name: str
    description: str = ""
    ranks: tuple[int, ...] = ()
    size: int = 0

    def global_rank(self, number: int) -> int:
        """Global rank of a peer, which some traces record as its place in the group."""
        if number in self.ranks or not 0 <= number < len(self.ranks):
            return number
        return self.ranks[number]


@lru_cache(maxsize=1024)
def ranks_in(text: str) -> tuple[int, ...]:
    """Ranks of a group from the JSON text of a trace; none if it is shortened or is no list.

    Examples
    --------
    >>> ranks_in('"[0, 4]"'), ranks_in("[0, 4]"), ranks_in('"[0, 1, ..., 63]"')
    ((0, 4), (0, 4), ())
    """
    value: Any = text
    for _ in range(2):
        if not isinstance(value, str):
            break
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return ()
    return _as_ranks(value)


def configured_groups(metadata: Mapping[str, object]) -> dict[str, tuple[int, ...]]:
    """Ranks of each group by its name, from ``distributedInfo.pg_config``.

    PyTorch writes an empty list for a group of all ranks. A name that stands for different groups
    is left out.
    """
    info = metadata.get("distributedInfo")
    entries = info.get("pg_config") if isinstance(info, Mapping) else None
    if isinstance(entries, str):
        try:
            entries = json.loads(entries)
        except (ValueError, RecursionError):
            return {}
    found: dict[str, set[tuple[int, ...]]] = {}
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, Mapping) and isinstance(info, Mapping):
            name = str(entry.get("pg_name", ""))
            found.setdefault(name, set()).add(_configured_ranks(entry, info.get("world_size")))
    return {name: next(iter(ranks)) for name, ranks in found.items() if len(ranks) == 1}


def _configured_ranks(entry: Mapping[str, Any], world_size: object) -> tuple[int, ...]:
    ranks = entry.get("ranks")
    if isinstance(ranks, str):
        return ranks_in(ranks)
    if ranks:
        return _as_ranks(ranks)
    world = whole_number(world_size, MOST_MEMBERS) or 0
    size = whole_number(entry.get("group_size", entry.get("pg_size")), MOST_MEMBERS)
    return tuple(range(world)) if size in (None, world) else ()


def _as_ranks(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not 0 < len(value) <= MOST_MEMBERS:
        return ()
    numbers = [whole_number(each, RANK_LIMIT) for each in value]
    ranks = tuple(number for number in numbers if number is not None and number >= 0)
    return ranks if len(ranks) == len(set(ranks)) == len(value) else ()
