"""Which communication kernels of several ranks are one collective.

The k-th collective of a series on one rank belongs to the k-th of the others::

    rank 0   |-- all_reduce, dp --|   |-- all_gather, tp --|      |-- all_reduce, dp --|
    rank 1       |-- all_reduce, dp --|                         |-- all_reduce, dp --|
                       k = 0                                            k = 1

If recordings do not start together, the numbers of a rank are shifted::

    rank 0   |--a--|  |--b--|      |--c--|  |-d-|        0  1  2  3
    rank 1            |--b--|      |--c--|  |-d-|           0  1  2     shift -1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.communication.kernels import P2P, JobCollectives, Series
from hta_widgets.analyses.communication.recorded import MEETING
from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.grouping import grouped, reduce_runs
from hta_widgets.intervals import Times
from hta_widgets.quantities import counted, number_ranges

MOST_SHIFTED: Final = 8
"""Most collectives by which the starts of recordings of one job are taken to differ."""

FEWEST_PAIRS: Final = 8
"""Fewer pairs may agree by chance."""

TIMES_BETTER: Final = 5
"""How many times better another shift must be, so that similar steps are not confused."""

EXACT_NS: Final = 10_000
"""Ends of one collective differ by less; if they already agree, nothing is shifted."""

_MOST_UNEQUAL = 0.2

MOST_DIFFERENT: Final = 0.2
"""Share of a group's collectives that may differ between ranks. If more do, the ranks issue
different collectives, and none of the group is matched."""


_ALL_REDUCE = "all_reduce"


def shift_of(ends: Times, other_ends: Times, sizes: Times, other_sizes: Times) -> int:
    """Number to add to the ordinals of a rank so that they agree with those of another rank.

    If the right collectives are compared, their ends differ by the same time for all, whatever the
    clocks. 0 unless another shift is far better.

    Parameters
    ----------
    ends, other_ends : ndarray of int64
        End (ns) of each collective in launch order, on the other rank and on the rank to shift.
    sizes, other_sizes : ndarray of int64
        Elements of each collective; -1 if not recorded.
    """
    at_zero = _spread(ends, other_ends, sizes, other_sizes, 0)
    if at_zero <= EXACT_NS:
        return 0
    tried = sorted(range(-MOST_SHIFTED, MOST_SHIFTED + 1), key=abs)
    spreads = [_spread(ends, other_ends, sizes, other_sizes, shift) for shift in tried]
    best = int(np.argmin(spreads))
    return tried[best] if spreads[best] * TIMES_BETTER < at_zero else 0


def _spread(ends: Times, other_ends: Times, sizes: Times, other_sizes: Times, shift: int) -> float:
    """Median deviation (ns) of the differences between ends; infinite if the collectives differ."""
    first = max(shift, 0)
    count = min(ends.size - first, other_ends.size - max(-shift, 0))
    if count < (FEWEST_PAIRS if shift else 1):
        return np.inf
    own, other = slice(first, first + count), slice(first - shift, first - shift + count)
    if np.mean(sizes[own] != other_sizes[other]) > _MOST_UNEQUAL:
        return np.inf
    apart = ends[own] - other_ends[other]
    apart = apart - apart[0]
    return float(np.median(np.abs(apart - np.median(apart))))


def shifts(runs: Sequence[Int64Array], end_ns: Times, elements: Int64Array) -> list[int]:
    """Number to add to the ordinals of each run, so that all agree with those of the longest.

    A run holds the kernels of one series on a rank, in launch order, as positions in the other
    arrays.
    """
    reference = max(runs, key=len)
    ends, sizes = end_ns[reference], elements[reference]
    return [
        0 if run is reference else shift_of(ends, end_ns[run], sizes, elements[run]) for run in runs
    ]


@dataclass(frozen=True, eq=False)
class Matches:
    """Collectives with kernels on at least two ranks or devices."""

    kernels: JobCollectives
    rows: Int64Array
    """Kernels, collective by collective; within each, by rank, then by device."""
    edges: Int64Array
    """Collective ``c`` is ``rows[edges[c]:edges[c + 1]]``."""
    series: Int64Array
    """Position of each collective's series."""
    ordinal: Int64Array
    """Ordinal of each collective in its series; negative before the longest recording starts."""
    notices: tuple[str, ...]
    """What was not matched, and why."""

    def __len__(self) -> int:
        """Number of collectives."""
        return int(self.series.size)

    @cached_property
    def members(self) -> Int64Array:
        """Number of kernels of each collective."""
        return np.diff(self.edges)

    @cached_property
    def of_row(self) -> Int64Array:
        """Collective of each of `rows`."""
        return np.repeat(np.arange(len(self)), self.members)

    @cached_property
    def meets(self) -> Mask:
        """Whether no member of a collective can finish before all have started."""
        by_series = [each.operation in MEETING for each in self.kernels.all_series]
        return np.array([*by_series, False], dtype=bool)[self.series]

    def least(self, values: NDArray[Any]) -> NDArray[Any]:
        """Least value of each collective, given one for each of `rows`."""
        return reduce_runs(np.minimum, values, self.edges[:-1])

    def most(self, values: NDArray[Any]) -> NDArray[Any]:
        """Greatest value of each collective, given one for each of `rows`."""
        return reduce_runs(np.maximum, values, self.edges[:-1])

    def without(self, dropped: Mask, *notices: str) -> Matches:
        """Leave collectives out."""
        kept = np.flatnonzero(~dropped)
        edges = np.concatenate(([0], np.cumsum(self.members[kept])))
        return Matches(
            kernels=self.kernels,
            rows=self.rows[~dropped[self.of_row]],
            edges=edges,
            series=self.series[kept],
            ordinal=self.ordinal[kept],
            notices=(*self.notices, *notices),
        )


def match(kernels: JobCollectives) -> Matches:
    """Match the communication kernels of all ranks."""
    rows = np.flatnonzero(kernels.series >= 0)
    rows = rows[np.lexsort((kernels.device[rows], kernels.place[rows]))]
    ordinal = _ordinals(kernels, rows)
    found = grouped(kernels.series[rows], ordinal)
    matched = np.flatnonzero(found.sizes > 1)
    in_order = rows[found.order]
    keep = np.repeat(found.sizes > 1, found.sizes)
    first = found.first[matched]
    matches = Matches(
        kernels=kernels,
        rows=in_order[keep],
        edges=np.concatenate(([0], np.cumsum(found.sizes[matched]))),
        series=kernels.series[rows[first]],
        ordinal=ordinal[first],
        notices=(),
    )
    return _only_alike(_only_possible(matches))


def _ordinals(kernels: JobCollectives, rows: Int64Array) -> Int64Array:
    """Ordinal of each kernel in its series."""
    runs = grouped(kernels.series[rows], kernels.place[rows], kernels.device[rows])
    ordinal = np.empty(rows.size, dtype=np.int64)
    ordinal[runs.order] = np.arange(rows.size) - np.repeat(runs.edges[:-1], runs.sizes)
    series_of_run = kernels.series[rows[runs.first]]
    fielded_ns = _first_fielded_ns(kernels)
    for series, of_series in _runs_of_series(series_of_run):
        operation = kernels.all_series[series].operation
        if len(of_series) < 2 or operation not in MEETING:  # noqa: PLR2004
            continue
        parts = [runs.order[runs.edges[run] : runs.edges[run + 1]] for run in of_series]
        if kernels.all_series[series].kernel and all(
            kernels.end_ns[rows[part[-1]]] <= fielded_ns[kernels.place[rows[part[-1]]]]
            for part in parts
        ):
            for part in parts:
                ordinal[part] -= part.size
            continue
        sizes = kernels.elements if operation == _ALL_REDUCE else np.zeros_like(kernels.elements)
        moved = shifts([rows[part] for part in parts], kernels.end_ns, sizes)
        for part, shift in zip(parts, moved, strict=True):
            if shift:
                ordinal[part] += shift
    return ordinal


def _first_fielded_ns(kernels: JobCollectives) -> Int64Array:
    """When the first kernel with recorded fields starts on each rank; never without any.

    Earlier kernels have no fields, as they were launched before the recording started: their GPUs
    lag by different amounts, so the last of these kernels correspond, not the first.
    """
    first_ns = np.full(len(kernels.ranks), np.iinfo(np.int64).min)
    by_name = np.array([bool(each.kernel) for each in kernels.all_series] + [True])
    chosen = np.flatnonzero(~by_name[kernels.series])
    begins = grouped(kernels.place[chosen])
    place = kernels.place[chosen[begins.first]]
    first_ns[place] = begins.reduce(np.minimum, kernels.start_ns[chosen])
    return first_ns


def _runs_of_series(series_of_run: Int64Array) -> Iterator[tuple[int, range]]:
    """Each series, with the positions of its runs, which are adjacent."""
    edges = [0, *(np.flatnonzero(np.diff(series_of_run)) + 1).tolist(), series_of_run.size]
    for first, last in pairwise(edges):
        if last > first:
            yield int(series_of_run[first]), range(first, last)


def _only_possible(matches: Matches) -> Matches:
    """Leave out collectives with more members than their group, which are several in one."""
    size = np.array([each.size for each in matches.kernels.all_series], dtype=np.int64)
    too_many = (size[matches.series] > 0) & (matches.members > size[matches.series])
    if not too_many.any():
        return matches
    names = sorted({matches.kernels.all_series[code].group for code in matches.series[too_many]})
    return matches.without(
        too_many,
        f"{counted(int(too_many.sum()), 'collective')} of several process groups with one name "
        f"({', '.join(names)}), whose ranks are not recorded, are not matched",
    )


class _Difference(NamedTuple):
    """Collectives whose members differ in something that must be equal."""

    what: str
    differs: Mask
    values: NDArray[Any]


def _only_alike(matches: Matches) -> Matches:
    """Leave out collectives that differ between ranks, and groups in which many do."""
    differences = list(_differences(matches))
    differs = np.zeros(len(matches), dtype=bool)
    for each in differences:
        differs |= each.differs
    if not differs.any():
        return matches
    groups = _group_numbers(matches)
    share = np.bincount(groups, differs) / np.maximum(np.bincount(groups), 1)
    is_apart = share > MOST_DIFFERENT
    notices = [
        _desync_notice(matches, differences, np.flatnonzero(differs & (groups == group)))
        for group in np.flatnonzero(is_apart).tolist()
    ]
    few = differs & ~is_apart[groups]
    if few.any():
        notices.append(
            f"{counted(int(few.sum()), 'collective')} that differ between ranks in name, type or "
            "size are not matched"
        )
    return matches.without(differs | is_apart[groups], *notices)


def _differences(matches: Matches) -> Iterator[_Difference]:
    kernels, rows = matches.kernels, matches.rows
    operations = np.array([each.operation for each in kernels.all_series] or [""], dtype=object)
    operation = operations[matches.series]
    by_name = np.array([bool(each.kernel) for each in kernels.all_series] or [False])
    recorded = ~by_name[matches.series]
    columns: dict[str, tuple[NDArray[Any], Mask]] = {
        "name": (kernels.name.codes, recorded & (operation != P2P)),
        "dtype": (kernels.dtype.codes, recorded),
        "group size": (kernels.group_size, recorded & (operation != P2P)),
        "elements": (kernels.elements, recorded & (operation == _ALL_REDUCE)),
    }
    for what, (column, must_be_equal) in columns.items():
        values = column[rows]
        differs = must_be_equal & (matches.least(values) != matches.most(values))
        yield _Difference(what, differs, values)


def _group_numbers(matches: Matches) -> Int64Array:
    """Number of the process group of each collective."""
    known: dict[tuple[str, tuple[int, ...]], int] = {}
    by_series = [
        known.setdefault((each.group, each.ranks), len(known))
        for each in matches.kernels.all_series
    ]
    return np.array(by_series, dtype=np.int64)[matches.series]


def _desync_notice(
    matches: Matches, differences: list[_Difference], collectives: Int64Array
) -> str:
    """Where two ranks first issue different collectives in a group."""
    kernels = matches.kernels
    starts = kernels.start_ns[matches.rows[matches.edges[collectives]]]
    first = int(collectives[np.argmin(starts)])
    difference = next(each for each in differences if each.differs[first])
    members = slice(matches.edges[first], matches.edges[first + 1])
    values = difference.values[members]
    other = int(np.flatnonzero(values != values[0])[0])
    ranks = sorted(kernels.ranks[kernels.place[matches.rows[members][at]]] for at in (0, other))
    series: Series = kernels.all_series[matches.series[first]]
    return (
        f"ranks {number_ranges(ranks)} issue different collectives in process group "
        f"{series.group!r}, first at {series.operation} {int(matches.ordinal[first])} "
        f"({difference.what}); nothing of this group is matched"
    )
