"""What each operator takes, on the CPU and on the GPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd

from hta_widgets.analyses.operators.finding import operators_finding
from hta_widgets.analyses.operators.grouped_calls import RowsBy
from hta_widgets.analyses.operators.operator_calls import RankTotals
from hta_widgets.analyses.operators.rank_table import OperatorRows, operator_rows
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.excerpt import Excerpt, place_of
from hta_widgets.analyses.time.modules import PHASES
from hta_widgets.errors import ParameterError
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Recorded

ROWS_BY: Final[tuple[RowsBy, ...]] = ("name", "shape", "stack")

NO_OPERATORS: Final = (
    "no operators were recorded (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] records "
    "them)"
)
LAUNCH_CALLS_INSTEAD: Final = "the calls that launch GPU work are listed in place of operators"
NO_SHAPES: Final = "no shapes were recorded (record_shapes=True records them)"
NO_STACKS: Final = "no Python frames were recorded (with_stack=True records them)"


@dataclass(frozen=True, kw_only=True, eq=False)
class OperatorTable(Result):
    """CPU and GPU time of the operators of each rank.

    All times are int64 ns. GPU times are durations of kernels, copies and memsets, so that work
    which runs at the same time on several streams adds up. On each rank, the sum of
    ``gpu_self_ns``, ``outside_operators_ns`` and ``launch_not_recorded_ns`` is ``gpu_ns``, and that
    of ``idle_ns`` and ``idle_outside_operators_ns`` is the idle time of `IdleOwners`.

    Attributes
    ----------
    operators : DataFrame
        One row per rank, operator and phase, most GPU time first: ``rank``, ``operator``,
        ``collectives`` (of ``record_param_comms``, as PyTorch names the launch of any collective:
        which these are, that with most GPU time first; else empty), ``phase`` (one of `PHASES`),
        ``calls``, ``cpu_self_ns`` (without the operators inside), ``cpu_total_ns`` (with them),
        ``gpu_self_ns`` (work launched in it, but in no operator inside), ``gpu_total_ns`` (all work
        launched in it), ``gpu_work`` (pieces of work of ``gpu_self_ns``), ``kernels_per_call``
        (kernels among these, per call; float, NaN without calls), ``tensor_core_ns`` (part of
        ``gpu_self_ns`` in kernels that use tensor cores, by their names), ``tensor_core_percent``
        (of the time in kernels of which it is known; float, NaN without any), ``eligible`` (whether
        the operator could use tensor cores: it multiplies matrices or convolves),
        ``backward_gpu_ns`` (work of the backward operators that differentiate it, by sequence
        number), ``idle_ns`` (time in which a GPU waits for what the operator itself does, also in
        the step that is left out).

        By shape also ``input_dims`` and ``input_types`` (JSON on one line, empty where not
        recorded); by stack also ``path`` (Python frames around it, see `stacks.FRAMES`).

        Of calls inside a call of the same name, totals count each nanosecond once, for the
        innermost: rows of a name add up, whatever tells them apart, and no total is less than the
        self time.
    launch_calls : DataFrame
        The same of ranks without operators, of the calls that launch GPU work.
    ranks : DataFrame
        One row per rank: ``rank``, ``gpu_ns`` (durations of all GPU work that is counted),
        ``outside_operators_ns`` (launched in no operator), ``launch_not_recorded_ns``,
        ``idle_ns``, ``idle_outside_operators_ns`` (that belongs to no operator).
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
    """Sum up what operators take, on the CPU and on the GPU.

    Parameters
    ----------
    job : Job
    ranks : iterable of int, optional
        All ranks when not given.
    by : {"name", "shape", "stack"}
        What tells rows of a rank apart besides the phase: the name, also the shapes and types of
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
        Only the time between these two, in ns since the first event of all ranks. Calls count where
        they start, times with their part inside.

    Returns
    -------
    OperatorTable

    Raises
    ------
    UnknownRankError
        If the job lacks a rank.
    UnknownStepError
        If none of the ranks has one of the steps.
    ParameterError
        If `by` or `phase` is none of these, or the window has no length.
    """
    if by not in ROWS_BY:
        msg = f"by must be one of {', '.join(ROWS_BY)}, got {by!r}"
        raise ParameterError(msg)
    if phase is not None and phase not in PHASES:
        msg = f"phase must be one of {', '.join(PHASES)}, or None for all, got {phase!r}"
        raise ParameterError(msg)
    chosen = job.select_ranks(ranks)
    excerpt = Excerpt.of(job, chosen, steps=steps, window_ns=window_ns)
    by_rank = job.reduce(operator_rows, chosen, excerpt, by, tuple(sorted({*modules})))
    of_operators = [rows.table for rows in by_rank.values() if rows.are_operators]
    of_launches = [rows.table for rows in by_rank.values() if not rows.are_operators]
    some = next(iter(by_rank.values())).table.iloc[:0]
    table, launch_calls = (
        _stacked(tables or [some], phase) for tables in (of_operators, of_launches)
    )
    totals = _totals({rank: rows.totals for rank, rows in by_rank.items()})
    return OperatorTable(
        operators=table,
        launch_calls=launch_calls,
        ranks=totals,
        finding=operators_finding(table, launch_calls, totals, place_of(excerpt)),
        notices=(
            *job.notices_for(chosen),
            *job.lacking(chosen, Recorded.KERNELS),
            *_missing(job, by_rank, by),
        ),
    )


def _stacked(tables: Sequence[pd.DataFrame], phase: str | None) -> pd.DataFrame:
    """Rows of all ranks, most GPU time first, then most CPU time, as those of each are."""
    filled = [table for table in tables if len(table)] or tables[:1]
    if phase is not None:
        filled = [table[table["phase"] == phase] for table in filled]
    if len(filled) == 1:
        return filled[0].reset_index(drop=True)
    order = ["gpu_self_ns", "cpu_self_ns"]
    table = pd.concat(filled, ignore_index=True)
    return table.sort_values(order, ascending=False, kind="stable", ignore_index=True)


def _totals(by_rank: Mapping[int, RankTotals]) -> pd.DataFrame:
    table = pd.DataFrame([*by_rank.values()], columns=RankTotals._fields, dtype="int64")
    table.insert(0, "rank", [*by_rank])
    return table


def _missing(job: Job, rows: Mapping[int, OperatorRows], by: RowsBy) -> tuple[str, ...]:
    """Notices on what was not recorded, with the option that records it if the format can."""
    by_profiler = [
        rank for rank in rows if Recorded.OPERATORS not in job.sources[rank].format.lacks
    ]
    listed = [each for each in rows.values() if each.are_operators]
    if not listed:
        said = (NO_OPERATORS,) if by_profiler else job.lacking(rows, Recorded.OPERATORS)
        has_launches = any(len(each.table) for each in rows.values())
        return (*said, *((LAUNCH_CALLS_INSTEAD,) if has_launches else ()))
    if by == "shape" and by_profiler and not any(each.has_shapes for each in listed):
        return (NO_SHAPES,)
    if by == "stack" and by_profiler and not any(each.has_frames for each in listed):
        return (NO_STACKS,)
    return ()
