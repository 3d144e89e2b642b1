"""Why each GPU is idle, and which CPU call the time belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from hta_widgets.analyses.idle_owners.finding import idle_owner_finding, stacks_advice
from hta_widgets.analyses.idle_owners.paths import MergedPaths, merge_tables
from hta_widgets.analyses.idle_owners.rank_tables import RankTables, idle_tables, owner_table
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.lead_in import lead_in_end
from hta_widgets.analyses.time.selection import EVERYTHING, TimeSelection
from hta_widgets.analyses.time.window import NO_STEP, window_of
from hta_widgets.quantities import duration
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.notices import Notice
from hta_widgets.trace.ranks.rank import Rank


@dataclass(frozen=True, kw_only=True, eq=False)
class IdleOwners(Result):
    """Idle time of each GPU by cause, and by the CPU call that it belongs to.

    All times are int64 ns. For each rank and device, the idle time of `causes`, of `owners` and of
    `devices` is the same to the nanosecond, also for each step and part.

    Attributes
    ----------
    devices : DataFrame
        One row per rank and device: ``rank``, ``device``, ``window_ns`` (the analysed
        time: from the first analysed ProfilerStep to the end of the last or of its GPU work;
        without steps, from the first start to the last end of calls and GPU work), ``busy_ns``
        (time with any recorded GPU work), ``idle_ns`` (the rest), ``gaps``
        (uninterrupted idle intervals).
    causes : DataFrame
        One row per rank, device, step, part and cause: ``step`` (number of the ProfilerStep, -1
        before the first, after the last, and without steps), ``part`` (``head``: before the first
        work; ``between``; ``tail``: after the
        last), ``cause`` (see `IDLE_CAUSES`), ``idle_ns``, ``gaps`` (intervals with such time).
    owners : DataFrame
        The same by owner, longest first: ``rank``, ``device``, ``cause``, ``part``, ``step``,
        ``pid``, ``tid`` (thread whose time it is; -1 for none), ``owner`` (name of the innermost
        call, empty for none), ``kind`` (of the call), ``path`` (in `paths`, -1 for none),
        ``idle_ns``, ``pieces`` (uninterrupted stretches).
    paths : DataFrame
        The calls around the owners, one row per path of names: ``path``, ``parent`` (path of the
        call around it, -1 for none), ``name``, ``kind``, ``depth`` (number of calls around it).
    drains : DataFrame
        Blocking calls that let the GPU run dry, by path: ``rank``, ``call``, ``owner_path`` (path
        of the call), ``count`` (calls), ``call_ns`` (sum of their durations), ``idle_behind_ns``
        (time with the cause ``synchronising`` in the idle intervals that they left).
    """

    devices: pd.DataFrame
    causes: pd.DataFrame
    owners: pd.DataFrame
    paths: pd.DataFrame
    drains: pd.DataFrame


def idle_owners(
    job: Job,
    ranks: Iterable[int] | None = None,
    *,
    steps: Iterable[int] | None = None,
    window_ns: Sequence[int] | None = None,
) -> IdleOwners:
    """Find out why each GPU is idle, and which CPU call the time belongs to.

    Every nanosecond in which no work runs on a device has one cause. Until the call that launches
    the next work begins, it is what the launching thread does; then the launch call itself; after
    it, what holds the work back on the GPU. If the launch is not in the trace, it is unknown.

    Parameters
    ----------
    ranks : iterable of int, optional
        All ranks when not given.
    steps : iterable of int, optional
        Only these ProfilerSteps; all that are analysed when not given or empty.
    window_ns : pair of int, optional
        Only the time between these two, in ns since the first event of all ranks. The cause of each
        idle interval is decided as a whole.

    Raises
    ------
    UnknownRankError
        If the job lacks a rank.
    UnknownStepError
        If none of the ranks has one of the steps.
    ParameterError
        If the window has no length.
    """
    chosen = job.select_ranks(ranks)
    selection = TimeSelection.of(job, chosen, steps=steps, window_ns=window_ns)
    each = [*job.reduce(idle_tables, chosen, selection or EVERYTHING).values()]
    devices, causes, owners, drains, merged = _joined(each)
    whole = "the analysed time" if (causes["step"] != NO_STEP).any() else "the recording"
    whole = whole if selection is None else "the selected time"
    paths, finding = merged.table, idle_owner_finding(devices, causes, owners, merged, whole)
    may_have_frames = any(not job.sources[rank].format.lacks for rank in chosen)
    has_frames = any(tables.has_frames for tables in each)
    return IdleOwners(
        devices=devices,
        causes=causes,
        owners=owners,
        paths=paths,
        drains=drains,
        finding=finding,
        notices=(
            *job.notices_for(chosen),
            *job.lacking(chosen, Recorded.KERNELS),
            *job.noticed(_lead_in, chosen),
            *(stacks_advice(causes) if finding and may_have_frames and not has_frames else ()),
        ),
    )


def _lead_in(rank: Rank) -> tuple[Notice, ...]:
    """Time that is none of it: no work is recorded, and the device does what came before."""
    begin_ns = window_of(rank).start_ns
    ends_ns = [rank.remember(lead_in_end, device) for device in rank.gpu_work.devices]
    longest_ns = max((end_ns - begin_ns for end_ns in ends_ns if end_ns is not None), default=0)
    if longest_ns <= 0:
        return ()
    said = (
        f"for the first {duration(longest_ns)}, the GPU was busy with work launched before the "
        "recording: that time is left out"
    )
    return (Notice(said),)


def _joined(
    each: list[RankTables],
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame, MergedPaths]:
    """Tables of all ranks, with the paths of all ranks in one."""
    merged = merge_tables([tables.paths for tables in each])
    drains = [
        tables.drains.assign(owner_path=of_rank[tables.drains["owner_path"].to_numpy()])
        for tables, of_rank in zip(each, merged.of_rank, strict=True)
    ]
    return (
        _stacked([tables.devices for tables in each]),
        _stacked([tables.causes for tables in each]),
        owner_table([tables.owners for tables in each], merged),
        _stacked(drains),
        merged,
    )


def _stacked(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """All rows; tables without rows do not decide the types of columns."""
    if len(tables) == 1:
        return tables[0].copy()
    return pd.concat([table for table in tables if len(table)] or tables[:1], ignore_index=True)
