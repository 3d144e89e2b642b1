"""Sends and receives whose ranks are not recorded, as collectives, where their ends show them.

The kernels of one all-to-all, or of a send and its receive, end at once, and none ends before all
have begun; whom a kernel sends to, its name does not say::

    rank 0   |------ wait ------|--|          |---- wait ----|--|
    rank 1     |----- wait -----|--|                         |--|
    rank 2                      |--|            |--- wait ---|--|
                                   one                          another
    rank 3        |---|                            ends alone: not divided

On clocks that are apart, the ends are apart as well, so that nothing is found.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.communication.kernels import JobCollectives, Series
from hta_widgets.analyses.communication.matching import MOST_DIFFERENT, Matches
from hta_widgets.analyses.communication.operations import SEND_RECEIVE
from hta_widgets.arrays import Float64Array, Int64Array, Mask
from hta_widgets.errors import number_ranges
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Times
from hta_widgets.quantities import counted, duration

TOGETHER_NS: Final = 20_000
"""Longest time between the first and the last end of one collective; those of eight GPUs of a node
are 8 µs apart."""

MOST_CHANCE: Final = 1e-3
"""Chance that unrelated kernels end together as often, above which they are not taken for one."""

_WORDS = ("send", "recv", "coalesced")
"""In the names of what sends or receives; who does not wait for all, as in a broadcast, is left."""


class Lanes(NamedTuple):
    """Kernels in the streams of all ranks."""

    lane: Int64Array
    """Number of the stream of each kernel, over all ranks and devices."""
    device: Int64Array
    """Number of its device, over all ranks."""
    start_ns: Times
    end_ns: Times
    """As the start, on the common clock."""


def with_ends_together(
    matches: Matches, start_ns: Times, end_ns: Times, is_usable: Mask
) -> Matches:
    """Add the collectives of sends and receives whose ranks are not recorded.

    Parameters
    ----------
    matches : Matches
        What is known by fields and names.
    start_ns, end_ns : ndarray of int64
        Of each of ``matches.kernels``, on the common clock.
    is_usable : ndarray of bool
        Whether the clock of each rank contradicts no other.
    """
    kernels = matches.kernels
    names = [any(word in name.lower() for word in _WORDS) for name in kernels.name.values]
    sends = np.array([*names, False])[kernels.name.codes]
    rows = np.flatnonzero((kernels.series < 0) & sends & is_usable[kernels.place])
    lanes = Lanes(
        grouped(kernels.place[rows], kernels.device[rows], kernels.stream[rows]).of_rows,
        grouped(kernels.place[rows], kernels.device[rows]).of_rows,
        start_ns[rows],
        end_ns[rows],
    )
    found = [rows[each] for each in ending_together(lanes)]
    return _with(matches, found, end_ns) if found else matches


def ending_together(lanes: Lanes) -> list[Int64Array]:
    """Kernels that end together, one from each of at least two devices, in the order of their ends.

    Only those of streams that do so with each other more often than by chance, and with others or
    these in nearly all of their kernels.
    """
    by_lanes: dict[tuple[int, ...], list[Int64Array]] = {}
    for members in _candidates(lanes):
        by_lanes.setdefault(tuple(lanes.lane[members].tolist()), []).append(members)
    chances = _chances(lanes)
    kept = {
        key: own
        for key, own in by_lanes.items()
        if chances[[*key]].max() ** len(own) <= MOST_CHANCE
    }
    counts = np.bincount(lanes.lane)
    while True:
        inside = np.zeros_like(counts)
        for key, own in kept.items():
            inside[[*key]] += len(own)
        alone = {*np.flatnonzero(inside < (1 - MOST_DIFFERENT) * counts).tolist()}
        left = {key: own for key, own in kept.items() if not alone.intersection(key)}
        if len(left) == len(kept):
            break
        kept = left
    every = [members for own in kept.values() for members in own]
    return sorted(every, key=lambda members: int(lanes.end_ns[members].max()))


def _candidates(lanes: Lanes) -> list[Int64Array]:
    """Kernels that may be one collective, by their lanes.

    No other one runs from the last start of these to their first end: it may be a member that ends
    later, as of an all-to-all in which one rank gets more.
    """
    start_ns, end_ns = lanes.start_ns, lanes.end_ns
    in_order = np.sort(end_ns)
    begins = in_order[1:][np.diff(in_order) > TOGETHER_NS]
    found = grouped(np.searchsorted(begins, end_ns, side="right"))
    first_ns, last_ns = found.reduce(np.minimum, end_ns), found.reduce(np.maximum, start_ns)
    devices = grouped(found.of_rows, lanes.device)
    of_cluster = found.of_rows[devices.first]
    is_once = found.sizes == np.bincount(of_cluster, minlength=found.sizes.size)
    running = np.searchsorted(np.sort(start_ns), first_ns)
    running -= np.searchsorted(in_order, last_ns, side="right")
    is_one = (found.sizes > 1) & is_once & (last_ns < first_ns) & (running == found.sizes)
    is_one &= found.reduce(np.maximum, end_ns) - first_ns <= TOGETHER_NS
    parts = found.parts
    chosen = (parts[number] for number in np.flatnonzero(is_one).tolist())
    return [members[np.argsort(lanes.lane[members])] for members in chosen]


def _chances(lanes: Lanes) -> Float64Array:
    """Chance that a kernel of an unrelated stream ends together with one of each stream.

    It does as often as the time around an end fits between two ends.
    """
    by_lane = grouped(lanes.lane)
    span_ns = by_lane.reduce(np.maximum, lanes.end_ns) - by_lane.reduce(np.minimum, lanes.end_ns)
    found = np.zeros(int(lanes.lane.max(initial=-1)) + 1)
    often = by_lane.sizes / np.maximum(span_ns, 1)
    found[lanes.lane[by_lane.first]] = np.minimum(2 * TOGETHER_NS * often, 1)
    return found


def _with(matches: Matches, found: list[Int64Array], end_ns: Times) -> Matches:
    kernels = matches.kernels
    known = {each: number for number, each in enumerate(kernels.all_series)}
    members = [rows[np.lexsort((kernels.device[rows], kernels.place[rows]))] for rows in found]
    series = np.array([known.setdefault(_series(kernels, rows), len(known)) for rows in members])
    by_series = grouped(series)
    members = [members[number] for number in by_series.order.tolist()]
    sizes = np.array([rows.size for rows in members])
    rows = np.concatenate(members)
    of_kernel = kernels.series.copy()
    of_kernel[rows] = np.repeat(series[by_series.order], sizes)
    ordinals = [np.arange(size, dtype=np.int64) for size in by_series.sizes.tolist()]
    apart_ns = max(int(np.ptp(end_ns[each])) for each in members)
    return Matches(
        kernels=replace(kernels, series=of_kernel, all_series=tuple(known)),
        rows=np.concatenate([matches.rows, rows]),
        edges=np.concatenate([matches.edges, matches.edges[-1] + np.cumsum(sizes)]),
        series=np.concatenate([matches.series, series[by_series.order]]),
        ordinal=np.concatenate([matches.ordinal, *ordinals]),
        notices=(*matches.notices, _notice(kernels, rows, len(members), apart_ns)),
    )


def _series(kernels: JobCollectives, rows: Int64Array) -> Series:
    return Series(SEND_RECEIVE, ranks=tuple(sorted(_ranks(kernels, rows))), size=rows.size)


def _ranks(kernels: JobCollectives, rows: Int64Array) -> set[int]:
    return {kernels.ranks[place] for place in kernels.place[rows].tolist()}


def _notice(kernels: JobCollectives, rows: Int64Array, count: int, apart_ns: int) -> str:
    return (
        f"{counted(rows.size, 'send or receive', 'sends and receives')} whose partners are not "
        f"recorded are taken for {counted(count, 'collective')} of ranks "
        f"{number_ranges(sorted(_ranks(kernels, rows)))}, as they end together, to "
        f"{duration(apart_ns)}, each time"
    )
