"""CPU and GPU time of each operator."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.communication.recorded import OPERATIONS
from hta_widgets.analyses.operators.operator_calls import (
    OPERATION,
    SHAPES,
    UNKNOWN,
    CallGroups,
    RankTotals,
    RowsBy,
    collectives_in,
    grouped_calls,
    listed_calls,
    shapes_of,
    stacks_of,
)
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.modules import PHASES, has_modules, phases
from hta_widgets.analyses.time.rows import Columns, joined_table, largest_first, of_largest_sum
from hta_widgets.analyses.time.selection import TimeSelection, place_of
from hta_widgets.arrays import Float64Array, Int64Array, narrowed
from hta_widgets.errors import ParameterError, check_choice
from hta_widgets.grouping import numbered
from hta_widgets.names.shorten import short_name
from hta_widgets.quantities import counted, duration, percent
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.model.events import Kind, TextColumn
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.ranks.rank import Rank
from hta_widgets.trace.ranks.replayed_calls import graph_replay_notices, with_replayed_calls

Weight: TypeAlias = Literal["gpu", "cpu", "idle"]
"""Kind of time: self GPU time, self CPU time, or GPU idle time."""

_TIMES: Final = ("cpu_self_ns", "cpu_total_ns", "gpu_self_ns", "gpu_total_ns", "gpu_work")

MAY_USE_TENSOR_CORES: Final = re.compile(
    r"^aten::_?_?(scaled_mm|(add)?(mm|bmm|mv)|baddbmm|addr|matmul|linear|einsum"
    r"|(cudnn|miopen|mkldnn|thnn|slow)?_?conv(?!ert)\w*|chain_matmul|linalg_multi_dot"
    r"|(scaled_dot_product|flash|efficient)\w*attention\w*|\w*(lstm|gru|rnn_tanh|rnn_relu)\w*)$"
)
"""Operators that multiply matrices or convolve."""

UNATTRIBUTED_WORTH_SAYING: Final = 0.1
"""Share of the GPU time at which the part without an operator is in the sentence."""

NAME_WIDTH: Final = 60

_UNATTRIBUTED: Final[Mapping[Weight, Mapping[str, str]]] = {
    "gpu": {
        "launch_not_recorded_ns": "has no recorded launch",
        "outside_operators_ns": "was launched outside operators",
    },
    "cpu": {},
    "idle": {"idle_outside_operators_ns": "belongs to no operator"},
}
"""Columns of `OperatorTable.ranks` with time of no operator, with words for it, by kind of time."""

ROWS_BY: Final[tuple[RowsBy, ...]] = ("name", "shape", "stack")

NO_OPERATORS: Final = (
    "no operators were recorded (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] records "
    "them)"
)

LAUNCH_CALLS_INSTEAD: Final = "the calls that launch GPU work are listed in place of operators"

NO_SHAPES: Final = "no shapes were recorded (record_shapes=True records them)"

NO_STACKS: Final = "no Python frames were recorded (with_stack=True records them)"


def may_tell_phase(rank: Rank, phase: str) -> bool:
    """Whether calls of a phase would be known: some are, or what tells them is recorded.

    That is modules for the forward and backward pass, operators for the optimizer.
    """
    rank = with_replayed_calls(rank)
    if PHASES.index(phase) in phases(rank):
        return True
    is_operator = calls_of(rank).kind == Kind.CPU_OP
    return bool(is_operator.any()) if phase == "optimizer" else has_modules(rank)


class OperatorRows(NamedTuple):
    """Rows of one rank."""

    columns: Columns
    """Columns of `OperatorTable.operators`."""
    are_operators: bool
    """Whether the rows are operators; otherwise they are calls that launch GPU work."""
    totals: RankTotals
    has_shapes: bool
    """Whether shapes were recorded."""
    has_frames: bool
    """Whether Python frames were recorded."""


def operator_rows(
    rank: Rank, selection: TimeSelection | None, by: RowsBy, modules: tuple[str, ...] = ()
) -> OperatorRows:
    """The operators of a rank in some of its time; those of all modules if none is named."""
    rank = with_replayed_calls(rank)
    listed = listed_calls(rank)
    parts, totals = grouped_calls(rank, selection, by, modules)
    keys = ["name", "phase"] if by == "name" else [key for key in parts.keys if key != OPERATION]
    groups = (parts if keys == [*parts.keys] else parts.by(*keys)).longest_first()
    return OperatorRows(
        columns=_columns(rank, groups, by, _collectives(parts, groups)),
        are_operators=listed.are_operators,
        totals=totals,
        has_shapes=any(shapes_of(rank)[SHAPES[0]].texts),
        has_frames=calls_of(rank).has_frames or (by == "stack" and any(stacks_of(rank).texts)),
    )


def _collectives(parts: CallGroups, groups: CallGroups) -> TextColumn:
    """The collectives of each group, the one with the most GPU time first."""
    if OPERATION not in parts.keys:
        return TextColumn.of([""] * groups.sums.calls.size)
    keys, sums = parts.by(*groups.keys, OPERATION)
    known = np.flatnonzero(keys[OPERATION] != UNKNOWN)
    known = known[np.lexsort((-sums.calls[known], -sums.gpu_self_ns[known]))]
    found: dict[tuple[int, ...], list[str]] = {}
    for *key, operation in zip(*(codes[known].tolist() for codes in keys.values()), strict=True):
        found.setdefault((*key,), []).append(OPERATIONS[operation])
    every = zip(*(codes.tolist() for codes in groups.keys.values()), strict=True)
    return TextColumn.of(", ".join(found.get(key, ())) for key in every)


def _columns(rank: Rank, groups: CallGroups, by: RowsBy, collectives: TextColumn) -> Columns:
    sums, keys = groups.sums, groups.keys
    known_ns = sums.tensor_core_ns + sums.no_tensor_core_ns
    operators = _used(rank.trace.events.name.values, keys["name"])
    may_use = np.array([_may_use_tensor_cores(name) for name in operators.values], dtype=np.bool_)
    columns: Columns = {
        "rank": np.full(sums.calls.size, rank.trace.rank),
        "operator": operators,
        "collectives": collectives,
        "phase": TextColumn(keys["phase"], PHASES),
        "calls": sums.calls,
        **{name: getattr(sums, name) for name in _TIMES},
        "kernels_per_call": _ratio(sums.kernels, sums.calls),
        "tensor_core_ns": sums.tensor_core_ns,
        "tensor_core_percent": 100 * _ratio(sums.tensor_core_ns, known_ns),
        "eligible": may_use[operators.codes] | (known_ns > 0),
        "backward_gpu_ns": sums.backward_gpu_ns,
        "idle_ns": sums.idle_ns,
    }
    if by == "shape":
        columns |= {name: _used(of.texts, keys[name]) for name, of in shapes_of(rank).items()}
    if by == "stack":
        columns["path"] = _used(stacks_of(rank).texts, keys["path"])
    return columns


def _used(texts: Sequence[str], codes: NDArray[Any]) -> TextColumn:
    used, of_rows = numbered(codes)
    return TextColumn(narrowed(of_rows), tuple(texts[code] for code in used.tolist()))


@lru_cache(maxsize=1 << 16)
def _may_use_tensor_cores(operator: str) -> bool:
    return MAY_USE_TENSOR_CORES.search(operator) is not None


def _ratio(part: Int64Array, whole: Int64Array) -> Float64Array:
    return part / np.where(whole != 0, whole, np.nan)


def operators_finding(
    operators: pd.DataFrame,
    launch_calls: pd.DataFrame,
    ranks: pd.DataFrame,
    *,
    place: str,
    phase: str | None,
) -> str:
    """Sentence on the operator with the most GPU time, or the most CPU time without GPU work."""
    listed = operators if len(operators) else launch_calls
    if listed.empty:
        of = f" of the phase {phase}" if phase else ""
        return f"No operators or launch calls{of} were recorded {place}."
    weight: Weight = "gpu" if listed["gpu_self_ns"].any() else "cpu"
    return sentence_of_time(listed, ranks, weight, are_operators=len(operators) > 0)


def sentence_of_time(
    listed: pd.DataFrame, ranks: pd.DataFrame, weight: Weight, *, are_operators: bool = True
) -> str:
    """Sentence on the row with the most time of a kind; empty if there is none of it."""
    time = "idle_ns" if weight == "idle" else f"{weight}_self_ns"
    where = "GPU idle" if weight == "idle" else weight.upper()
    whole_ns = int(listed[time].sum() if weight == "cpu" else ranks[f"{weight}_ns"].sum())
    if not listed[time].any():
        return ""
    of_name = listed[of_largest_sum(listed["operator"], listed[time])]
    name, own_ns = str(of_name["operator"].iloc[0]), int(of_name[time].sum())
    calls = int(of_name["calls"].sum())
    began = f" in {counted(calls, 'call')}" if calls else ""
    which = collectives_in(of_name)
    does = "keeps the GPU waiting longest" if weight == "idle" else "takes the most"
    most = (
        f"{short_name(name, NAME_WIDTH)}{f' ({which})' * bool(which)} {does}: "
        f"{duration(own_ns)} "
        f"({percent(100 * own_ns / whole_ns)}){began}"
    )
    others = _unattributed(ranks, whole_ns, weight) if are_operators else []
    clauses = [text for _, text in others]
    largest = max((ns for ns, _ in others), default=0)
    said = [*clauses, most] if largest > own_ns else [most, *clauses]
    return f"Of {duration(whole_ns)} of {where} time, {'; '.join(said)}."


def _unattributed(ranks: pd.DataFrame, whole_ns: int, weight: Weight) -> list[tuple[int, str]]:
    """Time (ns) that is known to belong to no operator, with words for it."""
    times = [(int(ranks[name].sum()), said) for name, said in _UNATTRIBUTED[weight].items()]
    return [
        (ns, f"{percent(100 * ns / whole_ns)} {said}")
        for ns, said in times
        if ns >= UNATTRIBUTED_WORTH_SAYING * whole_ns
    ]


@dataclass(frozen=True, kw_only=True, eq=False)
class OperatorTable(Result):
    """CPU and GPU time of the operators of each rank.

    All times are int64 ns. GPU times are durations of kernels, copies and memsets; work
    that runs at the same time on several streams adds up. On each rank, the sum of
    ``gpu_self_ns``, ``outside_operators_ns`` and ``launch_not_recorded_ns`` is ``gpu_ns``, and the
    sum of ``idle_ns`` and ``idle_outside_operators_ns`` is the idle time of `IdleOwners`.

    Attributes
    ----------
    operators : DataFrame
        One row per rank, operator and phase, most GPU time first: ``rank``, ``operator``,
        ``collectives`` (for ``record_param_comms``, PyTorch's name for the launch of any
        collective: which collectives these are, the one with the most GPU time first; else empty),
        ``phase`` (one of `PHASES`), ``calls``, ``cpu_self_ns`` (without the operators inside),
        ``cpu_total_ns`` (with them), ``gpu_self_ns`` (work launched in it, but in no operator
        inside), ``gpu_total_ns`` (all work launched in it), ``gpu_work`` (pieces of work of
        ``gpu_self_ns``), ``kernels_per_call`` (kernels among these, per call; float, NaN without
        calls), ``tensor_core_ns`` (part of ``gpu_self_ns`` in kernels that use tensor cores, by
        their names), ``tensor_core_percent`` (of the time in kernels for which this is known;
        float, NaN without any), ``eligible`` (whether the operator could use tensor cores: it
        multiplies matrices or convolves), ``backward_gpu_ns`` (work of the backward operators that
        differentiate it, by sequence number), ``idle_ns`` (time in which a GPU waits for what the
        operator itself does, including the step that is left out).

        With ``by="shape"``, also ``input_dims`` and ``input_types`` (JSON on one line, empty if not
        recorded); with ``by="stack"``, also ``path`` (Python frames around it, see
        `operator_calls.FRAMES`).

        For calls inside a call of the same name, totals count each nanosecond once, for the
        innermost call: rows of one name add up, whatever distinguishes them, and no total is less
        than the self time.
    launch_calls : DataFrame
        The same columns for the calls that launch GPU work, on ranks without operators.
    ranks : DataFrame
        One row per rank: ``rank``, ``gpu_ns`` (durations of all GPU work that is counted),
        ``outside_operators_ns`` (launched in no operator), ``launch_not_recorded_ns``,
        ``idle_ns``, ``idle_outside_operators_ns`` (idle time that belongs to no operator).
    """

    operators: pd.DataFrame
    launch_calls: pd.DataFrame
    ranks: pd.DataFrame

    @property
    def rows(self) -> pd.DataFrame:
        """The operators, or the launch calls if no rank has operators."""
        return self.launch_calls if self.operators.empty else self.operators


def operators(
    job: Job,
    ranks: Iterable[int] | None = None,
    *,
    by: RowsBy = "name",
    phase: str | None = None,
    modules: Iterable[str] = (),
    steps: Iterable[int] | None = None,
    window_ns: Sequence[int] | None = None,
) -> OperatorTable:
    """Sum up the CPU and GPU time of operators.

    Parameters
    ----------
    ranks : iterable of int, optional
        All ranks when not given.
    by : {"name", "shape", "stack"}
        What distinguishes rows of a rank besides the phase: the name, also the shapes and types of
        the inputs, or also the Python frames around it.
    phase : {"forward", "backward", "optimizer", "other"}, optional
        Only rows of this phase; all when not given. The numbers of `OperatorTable.ranks` stay.
    modules : iterable of str
        Only calls that belong to one of these modules, or to a module inside it: paths of names
        joined by " › ", with or without the numbers of instances (``Net_0 › Linear_1``, ``Net ›
        Linear``). A backward operator belongs to the module of its forward operator.
    steps : iterable of int, optional
        Only these ProfilerSteps; all that are analysed when not given or empty. On the CPU, a step
        lasts from the start of its mark to the start of the next.
    window_ns : pair of int, optional
        Only the time between these two, in ns since the first event of all ranks. Calls count if
        they start inside, and times with their part inside.
    """
    check_choice("by", by, ROWS_BY)
    if phase is not None and phase not in PHASES:
        msg = f"phase must be one of {', '.join(PHASES)}, or None for all, got {phase!r}"
        raise ParameterError(msg)
    chosen = select_ranks(job, ranks)
    selection = TimeSelection.of(job, chosen, steps=steps, window_ns=window_ns)
    by_rank = job.reduce(operator_rows, chosen, selection, by, tuple(sorted({*modules})))
    listed: dict[bool, list[Columns]] = {}
    for rows in by_rank.values():
        listed.setdefault(rows.are_operators, []).append(rows.columns)
    tables = {are: _stacked(columns, phase) for are, columns in listed.items()}
    nothing = next(iter(tables.values())).iloc[:0]
    table, launch_calls = (tables.get(are, nothing) for are in (True, False))
    every = [rows.totals for rows in by_rank.values()]
    totals = pd.DataFrame(every, columns=RankTotals._fields, dtype="int64")
    totals.insert(0, "rank", [*by_rank])
    return OperatorTable(
        operators=table,
        launch_calls=launch_calls,
        ranks=totals,
        finding=operators_finding(
            table, launch_calls, totals, place=place_of(selection), phase=phase
        ),
        notices=(
            *job.notices_for(chosen, Recorded.KERNELS),
            *job.noticed(graph_replay_notices, chosen),
            *_missing(job, by_rank, by),
        ),
    )


def _stacked(ranks: Sequence[Columns], phase: str | None) -> pd.DataFrame:
    """Rows of all ranks, most GPU time first, then most CPU time."""
    table = joined_table(ranks)
    if phase is not None:
        table = table[table["phase"] == phase]
    return largest_first(table, ["gpu_self_ns", "cpu_self_ns"])


def _missing(job: Job, rows: Mapping[int, OperatorRows], by: RowsBy) -> tuple[str, ...]:
    """Notices on what was not recorded, with the option that records it if the format can."""
    by_profiler = [
        rank for rank in rows if Recorded.OPERATORS not in job.sources[rank].format.lacks
    ]
    listed = [each for each in rows.values() if each.are_operators]
    if not listed:
        said = (NO_OPERATORS,) if by_profiler else job.lacking(rows, Recorded.OPERATORS)
        has_launches = any(each.columns["rank"].size for each in rows.values())
        return (*said, *((LAUNCH_CALLS_INSTEAD,) if has_launches else ()))
    missing = {
        "shape": "" if any(each.has_shapes for each in listed) else NO_SHAPES,
        "stack": "" if any(each.has_frames for each in listed) else NO_STACKS,
    }.get(by)
    if not missing:
        return ()
    return (missing if by_profiler else missing.partition(" (")[0],)  # its options are in brackets
