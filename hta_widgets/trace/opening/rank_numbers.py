"""Number the traces of table formats as ranks: by name, device or order."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from hta_widgets.quantities import number_ranges
from hta_widgets.trace.model.formats import RANK_LIMIT, FoundRank

Numbers: TypeAlias = list[int]

_RANK = re.compile(r"rank[_-]?(\d+)", re.IGNORECASE)
_WORKER = re.compile(r"(?<![a-z])worker[_-]?(\d+)", re.IGNORECASE)
_PARALLEL = re.compile(r"(?<![a-z])(?:TP|DP|PP|EP|CP)[_-]?(\d+)", re.IGNORECASE)
"""Position in one kind of parallelism: SGLang names files ``1732611000.1-TP-0.trace.json.gz``."""

_NODE = re.compile(r"node[_-]?(\d+)", re.IGNORECASE)
_PROCESS = re.compile(r"[_.-](?:r|gpu|proc|pid)[_-]?(\d+)", re.IGNORECASE)
_TRAILING = re.compile(r"(\d+)$")


def rank_in_name(name: str) -> int | None:
    """Rank in the name of a file or folder; None if it has none.

    Examples
    --------
    >>> rank_in_name("rank_0_of_run-rank-3"), rank_in_name("profile")
    (3, None)
    """
    return _last_number(_RANK, name)


def rank_in_file_name(name: str) -> int | None:
    """Rank in a file name: ``rank3``, or else ``worker3``, or else a single ``TP-3``.

    Examples
    --------
    >>> rank_in_file_name("worker3.17.pt.trace.json"), rank_in_file_name("1.5-TP-3.trace.json.gz")
    (3, 3)
    >>> rank_in_file_name("1.5-TP-3-DP-1.trace.json.gz")
    """
    for pattern in (_RANK, _WORKER):
        number = _last_number(pattern, name)
        if number is not None:
            return number
    return _last_number(_PARALLEL, name) if len(_PARALLEL.findall(name)) == 1 else None


def node_in_name(name: str) -> int | None:
    """Node in the name of a file or folder; None if it has none.

    Examples
    --------
    >>> node_in_name("profile_4086675_node3_rank31")
    3
    """
    return _last_number(_NODE, name)


def number_ranks(found: Sequence[FoundRank]) -> tuple[dict[int, FoundRank], str]:
    """Give each trace a distinct rank; a notice names the rule (empty for a single trace).

    The first rule that gives every trace a different number is used. For files: ``rank3`` in the
    name; the order of node and rank in the name; ``gpu3``, ``proc3``, ``pid3`` or ``r3`` in the
    name; the number at the end of the name; the order of the names. For files with several
    processes: the device of each process (after its node, with several files); the order of the
    process ids. A single trace is rank 0 unless its name has ``rank3``.
    """
    if len(found) == 1:
        return {rank_in_name(found[0].stem) or 0: found[0]}, ""
    shared_file = len({each.path for each in found}) < len(found)
    for words, rule in _PROCESS_RULES if shared_file else _FILE_RULES:
        numbers = rule(found)
        if numbers is not None and len(set(numbers)) == len(found):
            ranks = dict(zip(numbers, found, strict=True))
            return ranks, f"ranks {number_ranges(ranks)} are taken from {words}"
    msg = "the last rule numbers all traces differently"
    raise AssertionError(msg)


def _last_number(pattern: re.Pattern[str], name: str) -> int | None:
    found = [number for number in map(int, pattern.findall(name)) if number < RANK_LIMIT]
    return found[-1] if found else None


def _number_in_name(pattern: re.Pattern[str]) -> Callable[[Sequence[FoundRank]], Numbers | None]:
    def numbers(found: Sequence[FoundRank]) -> Numbers | None:
        named = [_last_number(pattern, each.stem) for each in found]
        known = [number for number in named if number is not None]
        return known if len(known) == len(named) else None

    return numbers


def _node_and_rank(found: Sequence[FoundRank]) -> Numbers | None:
    return _positions_of([(node_in_name(each.stem), rank_in_name(each.stem)) for each in found])


def _node_and_device(found: Sequence[FoundRank]) -> Numbers | None:
    """Device of each process, or with several files, the position of its node and device."""
    if any(len(each.devices) != 1 for each in found):
        return None
    if len({each.path for each in found}) == 1:
        return [each.devices[0] for each in found]
    return _positions_of([(node_in_name(each.stem), each.devices[0]) for each in found])


def _position(found: Sequence[FoundRank]) -> Numbers:
    return list(range(len(found)))


def _positions_of(keys: Sequence[tuple[int | None, int | None]]) -> Numbers | None:
    """Position of each key in sorted order; None if a part of any key is missing."""
    known = [(first, last) for first, last in keys if first is not None and last is not None]
    if len(known) < len(keys):
        return None
    positions = {key: position for position, key in enumerate(sorted(set(known)))}
    return [positions[key] for key in known]


_FILE_RULES = (
    ("the file names", _number_in_name(_RANK)),
    ("the node and rank in the file names", _node_and_rank),
    ("the file names", _number_in_name(_PROCESS)),
    ("the number at the end of the file names", _number_in_name(_TRAILING)),
    ("the order of the file names", _position),
)
_PROCESS_RULES = (
    ("the device of each process", _node_and_device),
    ("the order of the process ids", _position),
)
