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
from hta_widgets.analyses.time.calls import Mask
from hta_widgets.analyses.time.counted import sums_at
from hta_widgets.grouping import counted_up, distinct, grouped
from hta_widgets.trace.ranks.rank import Rank

Counting: TypeAlias = Literal["pieces", "intervals"]


class By(NamedTuple):
    """What tells pieces apart.

    Attributes
    ----------
    keys : tuple of str
        Of ``device``, ``step``, ``part``, ``cause``, ``thread``, ``node``.
    longest_first : bool
        Else the rows are sorted by these, in this order.
    """

    keys: tuple[str, ...]
    longest_first: bool


OF_CAUSES: Final = By(("device", "step", "part", "cause"), longest_first=False)
OF_OWNERS: Final = By(("device", "cause", "part", "step", "thread", "node"), longest_first=True)


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


def idle_sums(rank: Rank, counted: CountedBlocks, by: By, counting: Counting) -> Sums:
    """Sum up the idle time that is counted, by what tells it apart; rows without any are left out.

    Parameters
    ----------
    rank : Rank
    counted : CountedBlocks
    by : By
    counting : {"pieces", "intervals"}
    """
    alike, others = rank.remember(_alike, by), counted.others
    row, size = alike.row[others.at], alike.keys["cause"].size
    counts = row if counting == "pieces" else row[_opens(rank, row, others, by)]
    idle_ns = sums_at(row, others.length_ns, size)
    count = np.bincount(counts, minlength=size)
    if counted.whole.size:
        known = rank.remember(_of_blocks, counting, by)
        at = counted_up(known.edges[counted.whole], known.edges[counted.whole + 1])
        np.add.at(idle_ns, known.row[at], known.idle_ns[at])
        np.add.at(count, known.row[at], known.counts[at])
    there = np.flatnonzero(idle_ns)
    if by.longest_first:
        there = _longest_first(there, idle_ns[there])
    found = {name: column[there] for name, column in alike.keys.items()}
    return Sums(found, idle_ns[there], count[there])


def _longest_first(rows: Rows, idle_ns: Rows) -> Rows:
    """Rows by their time, most of which are in this order: they have all that they have at all."""
    if not (idle_ns[1:] > idle_ns[:-1]).any():
        return rows
    return np.asarray(rows[np.argsort(-idle_ns, kind="stable")])


def _alike(rank: Rank, by: By) -> _Alike:
    owned, gaps = rank.remember(owned_time), rank.remember(gaps_of)
    gap, owner = owned.pieces.gap, owned.pieces.owner
    columns: dict[str, NDArray[Any]] = {
        "device": gaps.device[gap],
        "cause": owned.cause,
        "part": gaps.part[gap],
        "step": owned.step,
        "thread": owned.thread,
    }
    if "node" in by.keys:
        columns["node"] = np.append(node_of_place(rank), NOBODY)[owner]
    groups = grouped(*(columns[name] for name in by.keys))
    row, order = groups.of_rows, np.arange(groups.sizes.size)
    if by.longest_first:
        order = np.argsort(-groups.reduce(np.add, owned.pieces.length_ns()), kind="stable")
        number = np.empty_like(order)
        number[order] = np.arange(order.size)
        row = number[row]
    first = groups.first[order]
    keys = {name: _in_few_bytes(columns[name][first]) for name in by.keys}
    return _Alike(keys, row.astype(np.min_scalar_type(order.size)))


def _in_few_bytes(numbers: NDArray[Any]) -> NDArray[Any]:
    """The same numbers, of which some are chosen faster."""
    edges = [np.min_scalar_type(edge(initial=0)) for edge in (numbers.min, numbers.max)]
    return numbers.astype(np.result_type(*edges))


def _of_blocks(rank: Rank, counting: Counting, by: By) -> _OfBlocks:
    edges = rank.remember(idle_blocks).edges
    row = rank.remember(_alike, by).row
    count = edges.size - 1
    block = np.repeat(np.arange(count), np.diff(edges))
    groups = grouped(block, row)
    counted = groups.sizes
    if counting == "intervals":
        counted = groups.reduce(np.add, rank.remember(_opens_in_whole, by).astype(np.int64))
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
    by: By,
) -> Mask:
    """Which pieces are the first of their row in an interval."""
    opens: Mask = rank.remember(_opens_in_whole, by)[counted.at]
    cut = counted.in_cut_gaps(rank)
    if not cut.size:
        return opens
    found = opens.copy()
    found[cut] = _first_of_pairs(counted.gap[cut], row[cut])
    return found


def _opens_in_whole(rank: Rank, by: By) -> Mask:
    gap = rank.remember(owned_time).pieces.gap
    return _first_of_pairs(gap, rank.remember(_alike, by).row)


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
