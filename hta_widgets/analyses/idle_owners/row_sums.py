"""Idle time summed up by what tells its pieces apart."""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.idle_owners.counted_time import CountedTime, Rows
from hta_widgets.analyses.idle_owners.gaps import gaps_of
from hta_widgets.analyses.idle_owners.idle_blocks import CountedBlocks, idle_blocks
from hta_widgets.analyses.idle_owners.innermost import NOBODY
from hta_widgets.analyses.idle_owners.owned_time import owned_time
from hta_widgets.analyses.idle_owners.rank_paths import node_of_place
from hta_widgets.analyses.shared.attribution.calls import Mask
from hta_widgets.analyses.shared.attribution.counted import sums_at
from hta_widgets.grouping import counted_up, distinct, grouped
from hta_widgets.trace.ranks.rank import Rank

Counting: TypeAlias = Literal["pieces", "intervals"]

OF_CAUSES: Final = ("device", "step", "part", "cause")
OF_OWNERS: Final = ("device", "cause", "part", "step", "thread", "node")


class Sums(NamedTuple):
    """Idle time by row: pieces that are told apart by the same numbers are one.

    Attributes
    ----------
    keys : dict of str to ndarray of int
        These numbers, in few bytes.
    idle_ns : ndarray of int64
    counts : ndarray of int64
        Number of pieces, or of idle intervals with any such piece.
    """

    keys: dict[str, NDArray[Any]]
    idle_ns: Rows
    counts: Rows


class _Alike(NamedTuple):
    """Which row each piece of the idle time of a rank is of, and the numbers of each row."""

    keys: dict[str, NDArray[Any]]
    row: NDArray[np.unsignedinteger[Any]]


class _OfBlocks(NamedTuple):
    """Sums of each block; those of one are from ``edges[block]`` up to ``edges[block + 1]``."""

    edges: Rows
    row: Rows
    idle_ns: Rows
    counts: Rows


def idle_sums(
    rank: Rank,
    counted: CountedBlocks,
    keys: tuple[str, ...],
    counting: Counting,
    *,
    longest_first: bool = False,
) -> Sums:
    """Sum up the idle time that is counted, by what tells it apart; rows without any are left out.

    Parameters
    ----------
    rank : Rank
    counted : CountedBlocks
    keys : tuple of str
        Of ``device``, ``step``, ``part``, ``cause``, ``thread``, ``node``: by these, in this order.
    counting : {"pieces", "intervals"}
    longest_first : bool
        Else the rows are sorted by their keys.
    """
    alike, others = rank.remember(_alike, *keys), counted.others
    row, size = alike.row[others.at], alike.keys["cause"].size
    counts = row if counting == "pieces" else row[_opens(rank, row, others, keys)]
    idle_ns = sums_at(row, others.length_ns, size)
    count = np.bincount(counts, minlength=size)
    if counted.whole.size:
        known = rank.remember(_of_blocks, counting, *keys)
        at = counted_up(known.edges[counted.whole], known.edges[counted.whole + 1])
        np.add.at(idle_ns, known.row[at], known.idle_ns[at])
        np.add.at(count, known.row[at], known.counts[at])
    there = _longest_first(rank, keys, idle_ns) if longest_first else np.flatnonzero(idle_ns)
    found = {name: column[there] for name, column in alike.keys.items()}
    return Sums(found, idle_ns[there], count[there])


def _longest_first(rank: Rank, keys: tuple[str, ...], idle_ns: Rows) -> Rows:
    """The rows with any time; sorted fast, as most have their time as a whole or none."""
    order = rank.remember(_longest_of_all_first, *keys)
    there = order[idle_ns[order] != 0]
    return np.asarray(there[np.argsort(-idle_ns[there], kind="stable")])


def _longest_of_all_first(rank: Rank, *keys: str) -> Rows:
    alike, length_ns = rank.remember(_alike, *keys), rank.remember(owned_time).pieces.length_ns()
    whole_ns = sums_at(alike.row, length_ns, alike.keys["cause"].size)
    return np.argsort(-whole_ns, kind="stable")


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
        columns["node"] = np.append(node_of_place(rank), NOBODY)[owner]
    groups = grouped(*(columns[name] for name in names))
    keys = {name: _in_few_bytes(columns[name][groups.first]) for name in names}
    return _Alike(keys, groups.of_rows.astype(np.min_scalar_type(groups.sizes.size)))


def _in_few_bytes(numbers: NDArray[Any]) -> NDArray[Any]:
    """The same numbers, of which some are chosen faster."""
    edges = [np.min_scalar_type(edge(initial=0)) for edge in (numbers.min, numbers.max)]
    return numbers.astype(np.result_type(*edges))


def _of_blocks(rank: Rank, counting: Counting, *keys: str) -> _OfBlocks:
    edges, row = rank.remember(idle_blocks).edges, rank.remember(_alike, *keys).row
    count = edges.size - 1
    block = np.repeat(np.arange(count), np.diff(edges))
    groups = grouped(block, row)
    counted = groups.sizes
    if counting == "intervals":
        counted = groups.reduce(np.add, rank.remember(_opens_in_whole, *keys).astype(np.int64))
    return _OfBlocks(
        np.searchsorted(block[groups.first], np.arange(count + 1)),
        row[groups.first].astype(np.int64),
        groups.reduce(np.add, rank.remember(owned_time).pieces.length_ns()),
        counted,
    )


def _opens(
    rank: Rank,
    row: NDArray[np.unsignedinteger[Any]],
    counted: CountedTime,
    keys: tuple[str, ...],
) -> Mask:
    """Which pieces are the first of their row in an interval."""
    opens: Mask = rank.remember(_opens_in_whole, *keys)[counted.at]
    cut = counted.in_cut_gaps(rank)
    if not cut.size:
        return opens
    found = opens.copy()
    found[cut] = _first_of_pairs(counted.gap[cut], row[cut])
    return found


def _opens_in_whole(rank: Rank, *keys: str) -> Mask:
    gap = rank.remember(owned_time).pieces.gap
    return _first_of_pairs(gap, rank.remember(_alike, *keys).row)


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
