"""Where the time of each step goes, in classes that add up to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.budget.classes import BUDGET_CLASSES, CLASS_OF
from hta_widgets.analyses.budget.device_steps import GAPS, HostGaps, host_gaps
from hta_widgets.analyses.collectives import rank_splits
from hta_widgets.analyses.communication.partition import PARTS, Partition, RankSplit
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.causes import CAUSE_NAMES
from hta_widgets.analyses.time.rows import joined_table
from hta_widgets.analyses.time.selection import EVERYTHING, TimeSelection
from hta_widgets.analyses.time.window import NO_STEP, Window, window_of
from hta_widgets.arrays import Int64Array
from hta_widgets.intervals import Intervals, Times
from hta_widgets.quantities import duration, named_numbers, percent
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.rank import Rank

_COMMUNICATION: Final = ("transfer", "communication", "waiting")

_KEYS: Final = ("rank", "device", "step", "start_ns", "end_ns", "period_ns", "cpu_ns")
_COUNTS: Final = ("gpu_work", "kernels", "launches")
STEP_COLUMNS: Final = (
    *_KEYS,
    *(f"{name}_ns" for name in BUDGET_CLASSES),
    "hidden_communication_ns",
    *_COUNTS,
    *(f"idle_{cause}_ns" for cause in CAUSE_NAMES),
)
"""Columns of `StepTable.steps` that depend on one rank only."""

Columns = dict[str, Int64Array]


LEAST_STEPS: Final = 3
"""Fewest steps of a device among which a slow one can be recognised."""

DEVIATIONS: Final = 3.5 * 1.4826
"""Median absolute deviations above the median beyond which a step is slow: 3.5 sigma if normal."""

LONGER_BY: Final = 0.05
"""Least part of the median by which a slow step takes longer."""

_ROW: Final = ["rank", "device", "step"]

CLASS_WORTH_SAYING: Final = 0.01

_PHRASES: Final = {
    "compute": "computing",
    "copies": "copies and memsets alone",
    "transfer": "transfer alone",
    "communication": "communication alone, which may be waiting",
    "waiting": "waiting for other ranks",
    "late_launching": "waiting for launches of the CPU",
    "late_synchronising": "waiting for the CPU after a blocking call",
    "data_loading": "waiting for data",
    "other_idle": "otherwise idle",
}


def steps_of_rank(rank: Rank, split: RankSplit, selection: TimeSelection = EVERYTHING) -> Columns:
    """Rows of `StepTable.steps` of one rank, by column: the part of each step that is selected."""
    window = window_of(rank)
    parts = [
        _steps_of_device(rank, split, window, device, selection) for device in rank.gpu_work.devices
    ]
    none = np.zeros(0, dtype=np.int64)
    return {name: np.concatenate([none, *(part[name] for part in parts)]) for name in STEP_COLUMNS}


def _steps_of_device(
    rank: Rank, split: RankSplit, window: Window, device: int, selection: TimeSelection
) -> Columns:
    edges = window.step_edges(rank, device)
    count = window.steps.size
    chosen = np.isin(window.steps, selection.steps or window.steps)
    limits = selection.window_of(rank)
    if limits is not None:
        edges = np.clip(edges, *limits)
        chosen &= np.diff(edges) > 0
    work = rank.all_work(device)
    gaps = rank.remember(host_gaps, device, *_ends_of(window.step_edges(rank, device)))
    gaps = gaps.clip(*_ends_of(edges))
    times = dict(zip(PARTS, Partition.of(work, split).in_bins(edges), strict=True))
    times |= dict(zip(GAPS, gaps.in_bins(edges), strict=True))
    columns = {
        "rank": np.full(count, rank.trace.rank, dtype=np.int64),
        "device": np.full(count, device, dtype=np.int64),
        "step": window.steps.astype(np.int64),
        "start_ns": edges[:-1],
        "end_ns": edges[1:],
        "period_ns": np.diff(edges),
        "cpu_ns": window.step_length_ns,
        **_by_class(times),
        **_counts(rank, window, device),
        **_by_cause(gaps, edges),
    }
    talks = work.type == KernelType.COMMUNICATION
    all_ns = Intervals.union(work.start_ns[talks], work.end_ns[talks]).length_in_bins(edges)
    exposed_ns = np.sum([columns[f"{name}_ns"] for name in _COMMUNICATION], axis=0)
    columns["hidden_communication_ns"] = all_ns - exposed_ns
    return {name: column[chosen] for name, column in columns.items()}


def _ends_of(edges: Times) -> tuple[int, int]:
    return int(edges[0]), int(edges[-1])


def _by_class(times: Columns) -> Columns:
    """Sum the parts that a diagnosis distinguishes into the classes of the budget."""
    found = {f"{name}_ns": np.zeros_like(times["compute"]) for name in BUDGET_CLASSES}
    for part, name in CLASS_OF.items():
        found[f"{name}_ns"] += times[part]
    return found


def _by_cause(gaps: HostGaps, edges: Times) -> Columns:
    step = np.searchsorted(edges, gaps.segments.start_ns, side="right") - 1
    sums = np.zeros((len(CAUSE_NAMES), edges.size - 1), dtype=np.int64)
    np.add.at(sums, (gaps.cause, step), gaps.segments.length_ns)
    return {f"idle_{cause}_ns": of for cause, of in zip(CAUSE_NAMES, sums, strict=True)}


def _counts(rank: Rank, window: Window, device: int) -> Columns:
    """GPU work that each step launches, the kernels among it, and the calls that launch it."""
    work, kind = rank.gpu_work.by_device()[device], rank.trace.events.kind
    launched = (work.launch >= 0) & window.is_of_a_step(rank, work)
    work = work.take(np.flatnonzero(launched))
    step = window.step_of(rank, work)
    _, launching = np.unique(work.launch, return_index=True)
    count = window.steps.size
    return {
        "gpu_work": np.bincount(step, minlength=count),
        "kernels": np.bincount(step[kind[work.rows] == Kind.KERNEL], minlength=count),
        "launches": np.bincount(step[launching], minlength=count),
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class StepTable(Result):
    """Where the time of each step goes.

    Attributes
    ----------
    steps : DataFrame
        One row per rank, device and analysed ProfilerStep; without steps, one per rank and device.
        All times are int64 ns.

        ``rank``, ``device``, ``step`` (-1 without steps); ``start_ns``, ``end_ns`` (on the rank's
        clock, since its first event) and ``period_ns``, their difference. A step ends with the last
        computing kernel launched in it, and the next step starts there. The first step starts
        with its mark, or when the work launched before it is computed. ``cpu_ns``: length of its
        mark on the CPU.

        The classes of the budget of a diagnosis add up to the period exactly: ``compute_ns``
        (computation, CUDA graphs or work of unknown type run), ``copies_ns`` (copies and
        memsets run without these); communication without any of these, divided into
        ``transfer_ns`` (from the last arrival on; see `Collectives`), ``communication_ns`` (not
        matched with other ranks: it may be waiting) and ``waiting_ns`` (until the last rank
        arrives); and the time in which no work runs, divided into ``late_launching_ns``,
        ``late_synchronising_ns``, ``data_loading_ns`` and ``other_idle_ns`` (see
        `hta_widgets.diagnosis.budget`).

        ``hidden_communication_ns`` (communication while other work runs); ``gpu_work``,
        ``kernels`` (launched in the step), ``launches`` (calls that launch them);
        ``idle_<cause>_ns`` (idle time by cause, see `IdleOwners`); ``slow`` (the step takes longer
        than the others of the device), ``warm_up`` (it is slow, and so are all steps before it).
    """

    steps: pd.DataFrame


def step_table(
    job: Job,
    ranks: Iterable[int] | None = None,
    *,
    steps: Iterable[int] | None = None,
    window_ns: Sequence[int] | None = None,
) -> StepTable:
    """List where the time of each step goes.

    Parameters
    ----------
    ranks : iterable of int, optional
        All ranks when not given. What they wait for is always decided with all ranks of the job.
    steps : iterable of int, optional
        Only the rows of these ProfilerSteps; all when not given or empty.
    window_ns : pair of int, optional
        Only the parts of the steps between these two, in ns since the first event of all ranks;
        ``cpu_ns``, the counts and ``slow`` stay those of the whole step.
    """
    chosen = select_ranks(job, ranks)
    selection = TimeSelection.of(job, chosen, steps=steps, window_ns=window_ns)
    by_rank = job.remember(_steps_of, job.ranks, EVERYTHING)
    table = _with_slow(joined_table([by_rank[rank] for rank in chosen]))
    if selection is not None:
        table = _cut(job, chosen, table, selection)
    return StepTable(
        steps=table,
        finding=_steps_finding(table, is_cut=window_ns is not None),
        notices=(*job.notices_for(chosen, Recorded.KERNELS), *_undivided_notices(table)),
    )


def _cut(
    job: Job, ranks: tuple[int, ...], whole: pd.DataFrame, selection: TimeSelection
) -> pd.DataFrame:
    """Rows of a selection; ranks are not analysed again for a choice of steps."""
    if not selection.windows_ns:
        return whole[whole["step"].isin(selection.steps)].reset_index(drop=True)
    by_rank = job.remember(_steps_of, ranks, selection)
    inside = joined_table([by_rank[rank] for rank in ranks])
    return inside.merge(whole[[*_ROW, "slow", "warm_up"]], on=_ROW, how="left")


def _with_slow(steps: pd.DataFrame) -> pd.DataFrame:
    slow = steps.groupby(["rank", "device"])["period_ns"].transform(_is_slow).astype(bool)
    warm_up = slow.groupby([steps["rank"], steps["device"]]).cummin()
    return steps.assign(slow=slow, warm_up=warm_up.astype(bool))


def _steps_of(job: Job, ranks: tuple[int, ...], selection: TimeSelection) -> dict[int, Columns]:
    splits = rank_splits(job)
    return job.reduce_each(steps_of_rank, {rank: (splits[rank], selection) for rank in ranks})


def _undivided_notices(steps: pd.DataFrame) -> list[str]:
    """Notice on communication that may be waiting."""
    undivided_ns = int(steps["communication_ns"].sum())
    if not undivided_ns:
        return []
    whole_ns = sum(int(steps[f"{name}_ns"].sum()) for name in _COMMUNICATION)
    share = percent(100 * undivided_ns / whole_ns)
    notice = (
        f"{share} of the exposed communication cannot be divided into transfer and waiting: its "
        "kernels are not matched with those of another rank"
    )
    return [notice]


def _is_slow(period_ns: pd.Series[int]) -> pd.Series[bool]:
    middle = period_ns.median()
    deviation = (period_ns - middle).abs().median()
    limit = max(middle + DEVIATIONS * deviation, middle * (1 + LONGER_BY))
    return (period_ns > limit) & (len(period_ns) >= LEAST_STEPS)


def _steps_finding(steps: pd.DataFrame, *, is_cut: bool) -> str:
    """Sentence on the classes of the mean step, and on the steps that are slow."""
    if steps.empty:
        where = " in the window" if is_cut else ""
        return f"No GPU work was recorded on the selected ranks{where}."
    whole_ns = int(steps["period_ns"].sum())
    if not whole_ns:
        return ""
    by_class = {name: int(steps[f"{name}_ns"].sum()) for name in BUDGET_CLASSES}
    parts = sorted(by_class.items(), key=lambda part: -part[1])
    said = ", ".join(
        f"{percent(100 * ns / whole_ns)} {_PHRASES[name]}"
        for name, ns in parts
        if ns >= CLASS_WORTH_SAYING * whole_ns
    )
    has_steps = bool((steps["step"] != NO_STEP).any())
    what = "The mean step" if has_steps else "The GPU span"
    if is_cut:
        what = "The mean part of a step in the window" if has_steps else "The window"
    sentence = f"{what} takes {duration(whole_ns / len(steps))}: {said}"
    slow = sorted(set(steps.loc[steps["slow"], "step"].tolist()))
    if not slow:
        return f"{sentence}."
    return f"{sentence}; {named_numbers('step', slow)} took longer than the others."
