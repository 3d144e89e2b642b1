"""What the operators of one rank take, summed over calls that have the same keys."""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.operators.communication import recorded_operations
from hta_widgets.analyses.operators.operator_calls import (
    CallTimes,
    RankTotals,
    call_times,
    counted_calls,
    may_be_listed,
    rank_totals,
)
from hta_widgets.analyses.operators.shapes import shapes_of
from hta_widgets.analyses.operators.stacks import stacks_of
from hta_widgets.analyses.time.call_sums import sums_at
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.modules import in_modules, phases
from hta_widgets.analyses.time.selection import TimeSelection, remember
from hta_widgets.arrays import Int32Array
from hta_widgets.grouping import grouped
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.ranks.rank import Rank

RowsBy: TypeAlias = Literal["name", "shape", "stack"]

OPERATION: Final = "operation"
"""Key of what a recorded call communicates."""


class CallGroups(NamedTuple):
    """Sums over the calls of each group."""

    keys: dict[str, NDArray[Any]]
    """Codes that tell the groups apart: ``name``, ``phase``, and others."""
    sums: CallTimes

    def by(self, *names: str) -> CallGroups:
        """Put groups together that differ only in other keys."""
        groups = grouped(*(self.keys[name] for name in names))
        sums = CallTimes(*(groups.reduce(np.add, column) for column in self.sums))
        return CallGroups({name: self.keys[name][groups.first] for name in names}, sums)

    def longest_first(self) -> CallGroups:
        """Those with most GPU time first, then those with most CPU time."""
        order = np.lexsort((-self.sums.cpu_self_ns, -self.sums.gpu_self_ns))
        sums = CallTimes(*(column[order] for column in self.sums))
        return CallGroups({name: codes[order] for name, codes in self.keys.items()}, sums)


class _EveryGroup(NamedTuple):
    """The groups that the calls of a rank form."""

    keys: dict[str, NDArray[Any]]
    """As of `CallGroups`."""
    group: Int32Array
    """Group of each call by place, -1 for calls that are not listed."""


def grouped_calls(
    rank: Rank, selection: TimeSelection | None, by: RowsBy, modules: tuple[str, ...]
) -> tuple[CallGroups, RankTotals]:
    """Sums over calls of the same name, phase and shape or stack, and the whole of a rank.

    By name, they are told apart by their shape, too. Of all modules if none is named.
    """
    if modules:
        return _grouped(rank, selection, by, modules)
    return remember(rank, _by_stack if by == "stack" else _by_shape, selection)


def _by_shape(rank: Rank, selection: TimeSelection | None) -> tuple[CallGroups, RankTotals]:
    return _grouped(rank, selection, "shape")


def _by_stack(rank: Rank, selection: TimeSelection | None) -> tuple[CallGroups, RankTotals]:
    return _grouped(rank, selection, "stack")


def _every_group(rank: Rank, by_stack: bool) -> _EveryGroup:  # noqa: FBT001
    calls, operations = calls_of(rank), rank.remember(recorded_operations)
    codes: dict[str, NDArray[Any]] = {"name": calls.name, "phase": phases(rank)}
    if by_stack:
        codes["path"] = stacks_of(rank).code
    else:
        codes |= {name: each.code for name, each in shapes_of(rank).items()}
    if operations is not None:
        codes[OPERATION] = operations
    place = np.flatnonzero(may_be_listed(rank)[0])
    groups = grouped(*(code[place] for code in codes.values()))
    group = np.full(calls.kind.size, NO_PARENT, dtype=np.int32)
    group[place] = groups.of_rows
    first = place[groups.first]
    return _EveryGroup({name: code[first] for name, code in codes.items()}, group)


def _grouped(
    rank: Rank, selection: TimeSelection | None, by: RowsBy, modules: tuple[str, ...] = ()
) -> tuple[CallGroups, RankTotals]:
    """The groups of which anything is counted, without the calls of other modules."""
    every = rank.remember(_every_group, by == "stack")
    place, times = counted_calls(rank, selection).place, call_times(rank, selection)
    if modules:
        inside = np.flatnonzero(in_modules(rank, modules)[place])
        place, times = place[inside], CallTimes(*(column[inside] for column in times))
    group, size = every.group[place], next(iter(every.keys.values())).size
    sums = [sums_at(group, column, size) for column in times]
    row = np.flatnonzero(np.any([each != 0 for each in sums], axis=0))
    keys = {name: code[row] for name, code in every.keys.items()}
    return CallGroups(keys, CallTimes(*(each[row] for each in sums))), rank_totals(rank, selection)
