"""Times of each operator call of a rank, and sums over calls of one name, shape or stack."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.communication.recorded import OPERATIONS, operation_of
from hta_widgets.analyses.idle_owners.sums import idle_by_call
from hta_widgets.analyses.plain_text import one_line
from hta_widgets.analyses.time.call_sums import (
    SubForest,
    cpu_times,
    host_time,
    launched_work,
    sums_at,
)
from hta_widgets.analyses.time.calls import Calls, calls_of, nearest_above, nearest_at_or_above
from hta_widgets.analyses.time.modules import SEPARATOR, forward_around, in_modules, phases
from hta_widgets.analyses.time.selection import EVERYTHING, TimeSelection, remember
from hta_widgets.analyses.time.tensor_cores import TensorCores, tensor_cores_of
from hta_widgets.arrays import Int8Array, Int32Array, Int64Array, IntArray, Mask, narrowed
from hta_widgets.grouping import grouped
from hta_widgets.trace.model.events import Kind, SideTable, TextColumn
from hta_widgets.trace.model.nesting import NO_PARENT, places_of
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.ranks.rank import Rank

RowsBy: TypeAlias = Literal["name", "shape", "stack"]

OPERATION: Final = "operation"
"""Key of what a recorded call communicates."""

RECORD: Final = "record_param_comms"
UNKNOWN: Final = -1
_OPERATOR_AROUND: Final = re.compile(r"_?c10d(_functional)?::")
_ANNOTATION_INSIDE: Final = re.compile(r"(\w*ccl|gloo|mpi|ucc):")

_Operations = tuple[Int64Array, Int8Array]
"""Places of records, and the operations that they communicate."""

SHAPES: Final = ("input_dims", "input_types")

NOT_OF_THE_USER: Final = re.compile(r"^<built-in|(^|/)torch/")
"""Frames that are left out of stacks: built-in functions, and those of PyTorch itself."""

FRAMES: Final = 5
"""Innermost frames that distinguish stacks, as in ``key_averages(group_by_stack_n=5)``."""


class Listed(NamedTuple):
    """The calls that are listed."""

    are_operators: bool
    """Whether they are operators; if none were recorded, they are the calls that launch GPU
    work."""
    tree: SubForest
    forward: Int32Array
    """For each call, position of the forward operator that the innermost backward operator at or
    around it differentiates, -1 for none."""


class CallTimes(NamedTuple):
    """Times (ns) and counts of each listed call."""

    calls: IntArray
    """1 for a call that starts in the counted time."""
    cpu_self_ns: IntArray
    cpu_total_ns: IntArray
    gpu_self_ns: IntArray
    gpu_total_ns: IntArray
    """Like all totals, without what lies in another call of the same name inside."""
    gpu_work: IntArray
    """Pieces of GPU work that count for ``gpu_self_ns``."""
    kernels: IntArray
    """How many of them are kernels."""
    tensor_core_ns: IntArray
    """Part of ``gpu_self_ns`` in kernels with tensor cores."""
    no_tensor_core_ns: IntArray
    """Part of ``gpu_self_ns`` in kernels without tensor cores; for other kernels it is unknown."""
    backward_gpu_ns: IntArray
    idle_ns: IntArray


class RankTotals(NamedTuple):
    """Totals of a rank, and the parts that belong to no operator, in ns."""

    gpu_ns: int
    outside_operators_ns: int
    launch_not_recorded_ns: int
    idle_ns: int
    idle_outside_operators_ns: int


@asked_once
def listed_calls(rank: Rank) -> Listed:
    """The calls of a rank that are listed if anything of them is counted."""
    calls = calls_of(rank)
    chosen, has_operators = may_be_listed(rank)
    tree = SubForest.of(calls, chosen)
    position = places_of(tree.place, chosen.size + 1)
    forward = position[forward_around(rank)[tree.place]]
    return Listed(are_operators=has_operators, tree=tree, forward=forward)


def may_be_listed(rank: Rank) -> tuple[Mask, bool]:
    """Which calls are listed in any selection, and whether they are operators."""
    calls = calls_of(rank)
    is_operator = calls.kind == Kind.CPU_OP
    has_operators = bool(is_operator.any())
    return is_operator if has_operators else _launching(rank, calls), has_operators


def _launching(rank: Rank, calls: Calls) -> Mask:
    launching = np.zeros(calls.kind.size + 1, dtype=np.bool_)
    launching[calls.places_of(rank.launches[rank.launches >= 0].astype(np.int64))] = True
    return launching[:-1]


def counted_calls(rank: Rank, selection: TimeSelection | None) -> SubForest:
    """The listed calls of which anything may be counted."""
    return remember(rank, _counted_calls, selection)


def _counted_calls(rank: Rank, selection: TimeSelection | None) -> SubForest:
    listed = listed_calls(rank)
    tree = listed.tree
    if selection is None:
        return tree
    owner = tree.at(launched_work(rank, selection).place)
    forward = np.append(listed.forward, NO_PARENT)[owner]
    idle, counted = tree.at(idle_by_call(rank, selection).place), host_time(rank, selection)
    return tree.with_around(
        np.concatenate((tree.open_in(calls_of(rank), counted), owner, forward, idle))
    )


def call_times(rank: Rank, selection: TimeSelection | None) -> CallTimes:
    """Times of each of `counted_calls` in the counted time."""
    tree = counted_calls(rank, selection)
    work, place = launched_work(rank, selection)
    owner = tree.at(place)
    gpu_self = tree.own(owner, work.duration_ns)
    state = tensor_cores_of(work.name, work.names)
    kinds = rank.trace.events.kind[work.rows]
    first = np.flatnonzero((selection or EVERYTHING).counts(work))
    cpu, idle = cpu_times(rank, tree, selection), idle_by_call(rank, selection)
    forward: IntArray = listed_calls(rank).forward
    if tree.whole is not None:
        forward = tree.of_whole(forward[tree.whole])
    return CallTimes(
        calls=cpu.calls,
        cpu_self_ns=cpu.inside_ns - tree.own(tree.parent, cpu.inside_ns),
        cpu_total_ns=cpu.inside_ns - tree.own(tree.same_name, cpu.inside_ns),
        gpu_self_ns=gpu_self,
        gpu_total_ns=tree.totals(gpu_self),
        gpu_work=_counts(owner[first], tree.size),
        kernels=_counts(owner[first[kinds[first] == Kind.KERNEL]], tree.size),
        tensor_core_ns=tree.own(owner, work.duration_ns * (state == TensorCores.YES)),
        no_tensor_core_ns=tree.own(owner, work.duration_ns * (state == TensorCores.NO)),
        backward_gpu_ns=tree.own(forward, gpu_self),
        idle_ns=tree.own(tree.at(idle.place), idle.ns),
    )


def _counts(positions: Int64Array, size: int) -> Int64Array:
    return np.bincount(positions[positions >= 0], minlength=size).astype(np.int64)


def rank_totals(rank: Rank, selection: TimeSelection | None) -> RankTotals:
    """Totals of a rank, and the parts that belong to no operator."""
    listed, idle = listed_calls(rank), idle_by_call(rank, selection)
    work, place = launched_work(rank, selection)
    unrecorded = place == NO_PARENT
    outside, idle_outside = (
        (listed.tree.at(each) == NO_PARENT) | (not listed.are_operators)
        for each in (place, idle.place)
    )
    return RankTotals(
        gpu_ns=int(work.duration_ns.sum()),
        outside_operators_ns=int(work.duration_ns[~unrecorded & outside].sum()),
        launch_not_recorded_ns=int(work.duration_ns[unrecorded].sum()),
        idle_ns=int(idle.ns.sum()),
        idle_outside_operators_ns=int(idle.ns[idle_outside].sum()),
    )


class CallGroups(NamedTuple):
    """Sums over the calls of each group."""

    keys: dict[str, NDArray[Any]]
    """Codes that distinguish the groups: ``name``, ``phase``, and others."""
    sums: CallTimes

    def by(self, *names: str) -> CallGroups:
        """Merge groups that differ only in other keys."""
        groups = grouped(*(self.keys[name] for name in names))
        sums = CallTimes(*(groups.reduce(np.add, column) for column in self.sums))
        return CallGroups({name: self.keys[name][groups.first] for name in names}, sums)

    def longest_first(self) -> CallGroups:
        """The groups sorted by GPU time, then by CPU time, longest first."""
        order = np.lexsort((-self.sums.cpu_self_ns, -self.sums.gpu_self_ns))
        sums = CallTimes(*(column[order] for column in self.sums))
        return CallGroups({name: codes[order] for name, codes in self.keys.items()}, sums)


def grouped_calls(
    rank: Rank, selection: TimeSelection | None, by: RowsBy, modules: tuple[str, ...]
) -> tuple[CallGroups, RankTotals]:
    """Sums over calls of the same name, phase and shape or stack, and the totals of a rank.

    By name, calls are distinguished by their shape, too. Groups of which nothing is counted are
    left out, and if modules are named, so are calls of other modules.
    """
    if by == "stack" or modules:
        found = _grouped(rank, selection, modules, by_stack=by == "stack")
    else:
        keys, sums = remember(rank, _by_shape, selection)
        found = CallGroups(keys, CallTimes(*(each.astype(np.int64) for each in sums)))
    return found, rank_totals(rank, selection)


def _by_shape(rank: Rank, selection: TimeSelection | None) -> CallGroups:
    keys, sums = _grouped(rank, selection, (), by_stack=False)
    return CallGroups(keys, CallTimes(*map(narrowed, sums)))


def _grouped(
    rank: Rank, selection: TimeSelection | None, modules: tuple[str, ...], *, by_stack: bool
) -> CallGroups:
    every_key, every_group = rank.remember(_every_group, by_stack)
    place, times = counted_calls(rank, selection).place, call_times(rank, selection)
    if modules:
        inside = np.flatnonzero(in_modules(rank, modules)[place])
        place, times = place[inside], CallTimes(*(column[inside] for column in times))
    group, size = every_group[place], next(iter(every_key.values())).size
    sums = [sums_at(group, column, size) for column in times]
    row = np.flatnonzero(np.any([each != 0 for each in sums], axis=0))
    keys = {name: code[row] for name, code in every_key.items()}
    return CallGroups(keys, CallTimes(*(each[row] for each in sums)))


def _every_group(rank: Rank, by_stack: bool) -> tuple[dict[str, NDArray[Any]], IntArray]:  # noqa: FBT001
    """Keys of all groups, as in `CallGroups`; group of each call by place, -1 for none."""
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
    return {name: code[first] for name, code in codes.items()}, narrowed(group)


def recorded_operations(rank: Rank) -> Int8Array | None:
    """Operation that each call of a rank communicates, by place; None if no call is a record.

    PyTorch has one name for the operator that launches any collective. Since 2023, recorded fields
    say which one it is; before, the annotation inside it (``nccl:all_reduce``) or the name of the
    operator around it (``c10d::allreduce_``) does. The result is a position in `OPERATIONS`,
    `UNKNOWN` for other calls.
    """
    calls = calls_of(rank)
    is_record = calls.named(RECORD.__eq__)
    if not is_record.any():
        return None
    found = np.full(is_record.size, UNKNOWN, dtype=np.int8)
    for places, operations in (
        _around(calls, is_record),
        _inside(calls, is_record),
        _beside(calls, is_record),
    ):
        known = operations != UNKNOWN
        found[places[known]] = operations[known]
    return found


def collectives_in(rows: pd.DataFrame) -> str:
    """Name each of the collectives of some rows of `OperatorTable.operators` once."""
    names = (name for text in rows["collectives"].unique() for name in text.split(", ") if name)
    return ", ".join(dict.fromkeys(names))


def _around(calls: Calls, is_record: Mask) -> _Operations:
    """Operations by the operator around a record."""
    around = calls.forest.parent
    is_inside = is_record & (around >= 0) & calls.named(_OPERATOR_AROUND.match)[around]
    names = calls.name[around[is_inside]]
    return np.flatnonzero(is_inside), _operations(names, calls.events.name.values)


def _inside(calls: Calls, is_record: Mask) -> _Operations:
    """Operations by the annotation inside a record."""
    inside = np.flatnonzero(calls.named(_ANNOTATION_INSIDE.match))
    places = calls.forest.parent[inside].astype(np.int64)
    is_inside = (places >= 0) & is_record[places]
    return places[is_inside], _operations(calls.name[inside[is_inside]], calls.events.name.values)


def _beside(calls: Calls, is_record: Mask) -> _Operations:
    """Operations by the fields of a record."""
    table = calls.events.side.get("collectives")
    column = None if table is None else table.columns.get("collective")
    if table is None or not isinstance(column, TextColumn):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int8)
    places = calls.places_of(table.rows.astype(np.int64))
    is_beside = (places >= 0) & is_record[places] & (column.codes >= 0)
    return places[is_beside], _operations(column.codes[is_beside], column.values)


def _operations(codes: NDArray[Any], names: Sequence[str]) -> Int8Array:
    """Operations that names stand for; each distinct name is looked at once."""
    distinct, of = np.unique(codes, return_inverse=True)
    operations = [operation_of(names[code]) for code in distinct.tolist()]
    found = [OPERATIONS.index(each) if each else UNKNOWN for each in operations]
    return np.array(found, dtype=np.int8)[of]


class Shapes(NamedTuple):
    """Shapes or types of the inputs of operators."""

    code: IntArray
    """Position in `texts` for each call, by place."""
    texts: tuple[str, ...]
    """JSON on one line; the first one is empty."""


@asked_once
def shapes_of(rank: Rank) -> dict[str, Shapes]:
    """Shapes and types of the inputs of each call, by the names in `SHAPES`."""
    table = rank.trace.events.side.get("operators")
    return {name: _one_of_the_shapes(rank, table, name) for name in SHAPES}


def with_shapes(rank: Rank, shapes: Collection[str]) -> Mask:
    """Mask by place of the calls whose inputs have one of some shapes."""
    code, texts = shapes_of(rank)[SHAPES[0]]
    wanted = np.array([text in shapes for text in texts], dtype=np.bool_)
    return np.asarray(wanted[code])


def _one_of_the_shapes(rank: Rank, table: SideTable | None, name: str) -> Shapes:
    events, rows = rank.trace.events, calls_of(rank).forest.rows
    column = None if table is None else table.columns.get(name)
    if table is None or not isinstance(column, TextColumn):
        return Shapes(np.zeros(rows.size, dtype=np.int64), ("",))
    texts = ["", *map(one_line, column.values)]
    number = {text: code for code, text in enumerate(dict.fromkeys(texts))}
    code = np.zeros(len(events), dtype=np.int32)
    code[table.rows] = np.array([number[text] for text in (*texts[1:], "")])[column.codes]
    return Shapes(narrowed(code)[rows], tuple(number))


class Stacks(NamedTuple):
    """The stacks of a rank."""

    code: Int64Array
    """Position in `texts` of the stack around each call, by place."""
    texts: list[str]
    """Names of the frames from the outermost to the innermost; empty for none."""


def stacks_of(rank: Rank) -> Stacks:
    """The stack around each call.

    Traces of 2021 and 2022 have no frames, but may have a text with the stack of each operator.
    """
    return rank.remember(_of_frames if calls_of(rank).has_frames else _of_texts)


def _of_texts(rank: Rank) -> Stacks:
    calls = calls_of(rank)
    table = calls.events.side.get("operators")
    column = None if table is None else table.columns.get("call_stack")
    if table is None or not isinstance(column, TextColumn):
        return Stacks(np.zeros(calls.kind.size, dtype=np.int64), [""])
    texts = {"": 0}
    known = [texts.setdefault(_stack(text), len(texts)) for text in column.values]
    code_of_row = np.zeros(len(calls.events), dtype=np.int64)
    code_of_row[table.rows] = np.array([*known, 0])[column.codes]
    return Stacks(code_of_row[calls.forest.rows], [*texts])


def _stack(recorded: str) -> str:
    """The innermost frames that count, from JSON text with the innermost frame first.

    Examples
    --------
    >>> _stack('"/torch/nn/linear.py(96): forward;model.py(7): forward;train.py(3): main"')
    'train.py(3): main › model.py(7): forward'
    >>> _stack(""), _stack('["not a text"]'), _stack("[" * 100_000)
    ('', '', '')
    """
    try:
        text = json.loads(recorded or "null")
    except (ValueError, RecursionError):
        text = None
    frames = [frame.strip() for frame in text.split(";")] if isinstance(text, str) else []
    counted = [frame for frame in frames if frame and not NOT_OF_THE_USER.search(frame)]
    return SEPARATOR.join(reversed(counted[:FRAMES]))


def _of_frames(rank: Rank) -> Stacks:
    calls = calls_of(rank)
    frames = calls.kind == Kind.PYTHON
    frames &= ~calls.named(NOT_OF_THE_USER.search)
    nearest = nearest_at_or_above(calls.forest, frames)
    above = np.append(nearest_above(calls.forest, frames), NO_PARENT)
    chosen = np.zeros(frames.size + 1, dtype=np.bool_)
    chosen[nearest] = True
    innermost = np.flatnonzero(chosen)
    levels = [innermost]
    for _ in range(FRAMES - 1):
        levels.append(above[levels[-1]])
    names = np.append(calls.name, NO_PARENT)
    stacks = [names[level] for level in reversed(levels)]
    alike = grouped(*stacks)
    code = np.zeros(chosen.size, dtype=np.int64)
    code[innermost] = alike.of_rows
    values = calls.events.name.values
    rows = np.stack([names[alike.first] for names in stacks], axis=1).tolist()
    texts = [SEPARATOR.join([values[name] for name in row if name >= 0]) for row in rows]
    return Stacks(code[nearest], texts or [""])
