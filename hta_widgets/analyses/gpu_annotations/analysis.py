"""What user annotations take, on the GPU and on the CPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import pandas as pd

from hta_widgets.analyses.gpu_annotations.rank_table import annotation_rows
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.excerpt import Excerpt, place_of
from hta_widgets.analyses.time.rows import of_largest_sum
from hta_widgets.errors import ParameterError
from hta_widgets.names.shorten import short_name
from hta_widgets.quantities import counted, duration, percent
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Recorded

On: TypeAlias = Literal["gpu", "cpu"]

TIMES: Final = {"gpu": "gpu_ns", "cpu": "cpu_sum_ns"}
"""Column of the time of annotations on the GPU and on the CPU."""

NO_ANNOTATIONS: Final = (
    "no user annotations were recorded (torch.profiler.record_function, or NVTX ranges)"
)
_NAME_WIDTH: Final = 60


@dataclass(frozen=True, kw_only=True, eq=False)
class GpuAnnotations(Result):
    """CPU and GPU time of the user annotations of each rank.

    All times are int64 ns. On each rank, the sum of ``gpu_self_ns``, ``outside_annotations_ns`` and
    ``launch_not_recorded_ns`` is ``gpu_ns`` of the rank.

    Attributes
    ----------
    annotations : DataFrame
        One row per rank and name, longest first: ``rank``, ``annotation``, ``calls``,
        ``cpu_sum_ns`` (durations of the calls, without those inside another of the same name),
        ``gpu_work`` (pieces of work launched in them, on their threads), ``gpu_ns`` (their
        durations), ``gpu_busy_ns`` (time in which any of them runs, of each device),
        ``gpu_span_ns`` (from the first start to the last end of the work of each call, idle time
        included), ``gpu_self_ns`` (the part of ``gpu_ns`` that lies in no other annotation inside),
        ``idle_ns`` (time in which a GPU waits for what runs in them, also in the step that is left
        out), ``recorded_ranges``, ``recorded_range_ns`` (ranges on the GPU as the profiler writes
        them, one per stream: number and sum of durations; all of them, also of the step that is
        left out). ProfilerSteps are not listed.
    ranks : DataFrame
        One row per rank: ``rank``, ``gpu_ns`` (durations of all GPU work that is counted),
        ``outside_annotations_ns``, ``launch_not_recorded_ns``.
    """

    annotations: pd.DataFrame
    ranks: pd.DataFrame


def gpu_annotations(
    job: Job,
    ranks: Iterable[int] | None = None,
    *,
    on: On = "gpu",
    steps: Iterable[int] | None = None,
    window_ns: Sequence[int] | None = None,
) -> GpuAnnotations:
    """Sum up what runs in user annotations.

    Parameters
    ----------
    job : Job
    ranks : iterable of int, optional
        All ranks when not given.
    on : {"gpu", "cpu"}
        Whose time orders the rows, and is in the finding.
    steps : iterable of int, optional
        Only these ProfilerSteps; all that are analysed when not given or empty.
    window_ns : pair of int, optional
        Only the time between these two, in ns since the first event of all ranks.

    Returns
    -------
    GpuAnnotations

    Raises
    ------
    UnknownRankError
        If the job lacks a rank.
    UnknownStepError
        If none of the ranks has one of the steps.
    ParameterError
        If `on` is none of these, or the window has no length.
    """
    if on not in TIMES:
        msg = f"on must be one of {', '.join(TIMES)}, got {on!r}"
        raise ParameterError(msg)
    chosen = job.select_ranks(ranks)
    excerpt = Excerpt.of(job, chosen, steps=steps, window_ns=window_ns)
    by_rank = job.reduce(annotation_rows, chosen, excerpt)
    tables = [rows.table for rows in by_rank.values()]
    filled = [table for table in tables if len(table)] or tables[:1]
    table = pd.concat(filled, ignore_index=True).sort_values(
        TIMES[on], ascending=False, kind="stable", ignore_index=True
    )
    totals = pd.DataFrame(
        [(rank, *rows.totals) for rank, rows in by_rank.items()],
        columns=("rank", "gpu_ns", "outside_annotations_ns", "launch_not_recorded_ns"),
        dtype="int64",
    )
    return GpuAnnotations(
        annotations=table,
        ranks=totals,
        finding=_finding(table, totals, on, place_of(excerpt)),
        notices=(
            *job.notices_for(chosen),
            *job.lacking(chosen, Recorded.KERNELS),
            *([NO_ANNOTATIONS] if table.empty else ()),
        ),
    )


def _finding(table: pd.DataFrame, totals: pd.DataFrame, on: On, place: str) -> str:
    """Sentence on the annotation with most time."""
    if table.empty:
        return f"No user annotations were recorded {place}."
    of_name = table[of_largest_sum(table["annotation"], table[TIMES[on]])]
    most_ns = int(of_name[TIMES[on]].sum())
    if not most_ns:
        return ""
    name = short_name(str(of_name["annotation"].iloc[0]), _NAME_WIDTH)
    calls = int(of_name["calls"].sum())
    called = f"{name} ({counted(calls, 'call')})" if calls else name
    if on == "cpu":
        return f"The longest user annotation is {called}: {duration(most_ns)} on the CPU."
    whole_ns = int(totals["gpu_ns"].sum())
    outside_ns = int(totals["outside_annotations_ns"].sum())
    share = percent(100 * outside_ns / whole_ns)
    rest = f"; {share} is launched outside user annotations" if outside_ns else ""
    return (
        f"Of {duration(whole_ns)} of GPU time, {duration(most_ns)} "
        f"({percent(100 * most_ns / whole_ns)}) is launched in {called}{rest}."
    )
