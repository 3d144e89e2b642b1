"""Which rank each trace of a table format is of: from its name, its devices or its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from hta_widgets.errors import number_ranges
from hta_widgets.trace.model.formats import FoundRank

Numbers: TypeAlias = list[int]

_RANK = re.compile(r"rank[_-]?(\d+)", re.IGNORECASE)
_NODE = re.compile(r"node[_-]?(\d+)", re.IGNORECASE)
_PROCESS = re.compile(r"[_.-](?:r|gpu|proc|pid)[_-]?(\d+)", re.IGNORECASE)
_TRAILING = re.compile(r"(\d+)$")


def rank_in_name(name: str) -> int | None:
    """Rank that a name says.

    Examples
    --------
    >>> rank_in_name("rank_0_of_run-rank-3"), rank_in_name("profile")
    (3, None)
    """
    return _last(_RANK, name)


def node_in_name(name: str) -> int | None:
    """Node that a name says.

    Examples
    --------
    >>> node_in_name("profile_4086675_node3_rank31")
    3
    """
    return _last(_NODE, name)


def number_ranks(found: Sequence[FoundRank]) -> tuple[dict[int, FoundRank], str]:
    """Number traces as ranks, each with another number.

    The first that gives each trace a number of its own: ``rank3`` in the name; ``gpu3``, ``proc3``,
    ``pid3`` or ``r3`` in the name; the number at its end; node and rank in the name, node and
    device, or the device, put in order; the order of the traces. A single trace is rank 0 unless
    its name has ``rank3``. Where one file holds several processes, its name is not asked.

    Returns
    -------
    dict of int to FoundRank
    str
        How they were numbered, in words; empty for a single trace.
    """
    if len(found) == 1:
        return {rank_in_name(found[0].stem) or 0: found[0]}, ""
    shared_file = len({each.path for each in found}) < len(found)
    for words, rule in _RULES_OF_PROCESSES if shared_file else _RULES_OF_FILES:
        numbers = rule(found)
        if numbers is not None and len(set(numbers)) == len(found):
            ranks = dict(zip(numbers, found, strict=True))
            return ranks, f"ranks {number_ranges(ranks)} are taken from {words}"
    msg = "the last rule gives every trace a number of its own"
    raise AssertionError(msg)


def _last(pattern: re.Pattern[str], name: str) -> int | None:
    found = pattern.findall(name)
    return int(found[-1]) if found else None


def _named(pattern: re.Pattern[str]) -> Callable[[Sequence[FoundRank]], Numbers | None]:
    def numbers(found: Sequence[FoundRank]) -> Numbers | None:
        named = [_last(pattern, each.stem) for each in found]
        known = [number for number in named if number is not None]
        return known if len(known) == len(named) else None

    return numbers


def _node_and_rank(found: Sequence[FoundRank]) -> Numbers | None:
    return _in_order([(node_in_name(each.stem), rank_in_name(each.stem)) for each in found])


def _device(found: Sequence[FoundRank]) -> Numbers | None:
    """Device of each process, counted on over the nodes where there are several files."""
    if any(len(each.devices) != 1 for each in found):
        return None
    if len({each.path for each in found}) == 1:
        return [each.devices[0] for each in found]
    return _in_order([(node_in_name(each.stem), each.devices[0]) for each in found])


def _order(found: Sequence[FoundRank]) -> Numbers:
    return list(range(len(found)))


def _in_order(keys: Sequence[tuple[int | None, int | None]]) -> Numbers | None:
    """Place of each key among all; None where a part is missing."""
    known = [(first, last) for first, last in keys if first is not None and last is not None]
    if len(known) < len(keys):
        return None
    places = {key: place for place, key in enumerate(sorted(set(known)))}
    return [places[key] for key in known]


_RULES_OF_FILES = (
    ("the file names", _named(_RANK)),
    ("the node and rank in the file names", _node_and_rank),
    ("the file names", _named(_PROCESS)),
    ("the number at the end of the file names", _named(_TRAILING)),
    ("the order of the file names", _order),
)
_RULES_OF_PROCESSES = (
    ("the device of each process", _device),
    ("the order of the process ids", _order),
)
