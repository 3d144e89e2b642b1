"""What the operators of one rank take, summed over calls that have the same keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.operators.communication import recorded_operations
from hta_widgets.analyses.operators.operator_calls import (
    CallTimes,
    RankTotals,
    call_times,
    counted_calls,
    rank_totals,
)
from hta_widgets.analyses.operators.shapes import shapes_of
from hta_widgets.analyses.operators.stacks import stacks_of
from hta_widgets.analyses.shared.attribution.blocks import sums_of_parts
from hta_widgets.analyses.shared.attribution.calls import calls_of
from hta_widgets.analyses.shared.attribution.module_paths import in_modules
from hta_widgets.analyses.shared.attribution.modules import phases
from hta_widgets.analyses.shared.excerpt import Excerpt, remember
from hta_widgets.grouping import grouped
from hta_widgets.trace.ranks.rank import Rank

RowsBy: TypeAlias = Literal["name", "shape", "stack"]

OPERATION: Final = "operation"
"""Key of what a recorded call communicates."""


class CallGroups(NamedTuple):
    """Sums over the calls of each group.

    Attributes
    ----------
    keys : dict of str to ndarray
        Codes that tell the groups apart: ``name``, ``phase``, and others.
    sums : CallTimes
    """

    keys: dict[str, NDArray[Any]]
    sums: CallTimes

    def by(self, *names: str) -> CallGroups:
        """Put groups together that differ only in other keys."""
        groups = grouped(*(self.keys[name] for name in names))
        sums = CallTimes(*(groups.reduce(np.add, column) for column in self.sums))
        return CallGroups({name: self.keys[name][groups.first] for name in names}, sums)

    @classmethod
    def together(cls, parts: Sequence[CallGroups]) -> CallGroups:
        """The groups of several times."""
        if len(parts) == 1:
            return parts[0]
        keys = {name: np.concatenate([each.keys[name] for each in parts]) for name in parts[0].keys}
        columns = zip(*(each.sums for each in parts), strict=True)
        return cls(keys, CallTimes(*map(np.concatenate, columns))).by(*keys)


class CallSums(NamedTuple):
    """What belongs to groups of calls, and the whole of a rank."""

    groups: CallGroups
    totals: RankTotals

    @classmethod
    def together(cls, parts: Sequence[CallSums]) -> CallSums:
        """The sums of several times."""
        totals = zip(*(each.totals for each in parts), strict=True)
        groups = CallGroups.together([each.groups for each in parts])
        return cls(groups, RankTotals(*map(sum, totals)))


def grouped_calls(
    rank: Rank, excerpt: Excerpt | None, by: RowsBy, modules: tuple[str, ...]
) -> CallSums:
    """Sums over calls of the same name, phase and shape or stack; of all modules if none is named.

    By name, they are told apart by their shape, too.
    """
    if modules:
        make = _part_by_stack if by == "stack" else _part_by_shape
        return make(rank, excerpt, modules)
    return remember(rank, _by_stack if by == "stack" else _by_shape, excerpt)


def _by_shape(rank: Rank, excerpt: Excerpt | None) -> CallSums:
    return CallSums.together(sums_of_parts(rank, _part_by_shape, excerpt))


def _by_stack(rank: Rank, excerpt: Excerpt | None) -> CallSums:
    return CallSums.together(sums_of_parts(rank, _part_by_stack, excerpt))


def _part_by_shape(rank: Rank, excerpt: Excerpt | None, modules: tuple[str, ...] = ()) -> CallSums:
    codes = {name: each.code for name, each in shapes_of(rank).items()}
    return _of_calls(rank, excerpt, modules, codes)


def _part_by_stack(rank: Rank, excerpt: Excerpt | None, modules: tuple[str, ...] = ()) -> CallSums:
    return _of_calls(rank, excerpt, modules, {"path": stacks_of(rank).code})


def _times_in(rank: Rank, excerpt: Excerpt | None, modules: tuple[str, ...]) -> CallTimes:
    """Times of the counted calls, 0 for those of other modules."""
    times = call_times(rank, excerpt)
    if not modules:
        return times
    inside = in_modules(rank, modules)[counted_calls(rank, excerpt).place]
    return CallTimes(*(np.where(inside, column, 0) for column in times))


def _of_calls(
    rank: Rank,
    excerpt: Excerpt | None,
    modules: tuple[str, ...],
    others: Mapping[str, NDArray[Any]],
) -> CallSums:
    """Sums of the calls of which anything is counted, by codes that are given by place."""
    times = _times_in(rank, excerpt, modules)
    counted = _not_zero(times)
    place = counted_calls(rank, excerpt).place[counted]
    codes: dict[str, NDArray[Any]] = {"name": calls_of(rank).name, "phase": phases(rank), **others}
    operations = rank.remember(recorded_operations)
    if operations is not None:
        codes[OPERATION] = operations
    keys = {name: code[place] for name, code in codes.items()}
    groups = CallGroups(keys, CallTimes(*(column[counted] for column in times))).by(*keys)
    holds = _not_zero(groups.sums)
    of_some = CallGroups(
        {name: code[holds] for name, code in groups.keys.items()},
        CallTimes(*(column[holds] for column in groups.sums)),
    )
    return CallSums(of_some, rank_totals(rank, excerpt))


def _not_zero(times: CallTimes) -> NDArray[np.int64]:
    """Positions where any of the numbers is not 0."""
    found = times.calls != 0
    for column in times:
        found |= column != 0
    return np.flatnonzero(found)
