"""Collectives over ranks: who waits, who is late, how long the transfer takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from hta_widgets.analyses.clocks.aligned import JobClocks, job_clocks
from hta_widgets.analyses.collectives.owners import rank_owners
from hta_widgets.analyses.collectives.tables import (
    group_table,
    kernel_table,
    match_table,
)
from hta_widgets.analyses.collectives.waits import Waits, waits
from hta_widgets.analyses.result import Result
from hta_widgets.quantities import counted, duration, percent
from hta_widgets.trace.job import Job
from hta_widgets.trace.ranks.facts import world_size_among, world_size_of


@dataclass(frozen=True, kw_only=True, eq=False)
class Collectives(Result):
    """Communication kernels, and the collectives of several ranks that they are part of.

    Kernels of several ranks are one collective if they are the k-th of the same name in the same
    process group, of the same send and receive, or, without recorded fields, of the same kernel
    name. Sends and receives whose partners are not recorded are one if they end together, none
    before all have begun, and more often than by chance. Their time is split on aligned clocks
    (`clocks`): **wait** until the last member has begun, **transfer** from then on. A value is
    missing where this cannot be told.

    Attributes
    ----------
    kernels : DataFrame
        One row per communication kernel, ascending by rank and start: ``rank``, ``device``,
        ``stream``; ``start_ns`` (int64, since the first event of all ranks, on aligned clocks),
        ``duration_ns`` (int64, as recorded); ``collective`` (as recorded, else the name of the
        kernel), ``dtype``, ``bytes`` (the larger of input and output; of several kernels with one
        record, those of the longest, 0 for the others); ``group`` (description of the process
        group, else its name), ``group_ranks`` (such as ``0-7``; of a send, ``0 to 1``),
        ``group_size``; ``match`` (row in `matched`; -1 if none); ``wait_ns`` (before the last known
        arrival), ``unexplained_wait_ns`` (after it, but longer than the transfer takes elsewhere:
        the trace of the rank that it waits for is missing), ``transfer_ns``; the three add up to
        the duration; ``algbw_gb_per_s`` (bytes ÷ time), ``busbw_gb_per_s`` (× 2(n-1)/n for
        all-reduce, (n-1)/n for all-gather, reduce-scatter and all-to-all: comparable with the speed
        of a link), ``bandwidth_of`` (``transfer``, or ``duration``: waiting included);
        ``exposed_ns`` (int64; time without computation, counted for the kernel that started first
        of those that run: they add up to the exposed communication of `overlap`); ``late_rank``
        (arrives last, by more than the clocks are uncertain); ``class`` of the collective
        (``transfer-dominated`` or ``arrival-skew-dominated``: at least 80 % of its mean duration;
        ``mixed``; ``inconclusive``); ``module`` (names of the modules around the launch call, or
        around the forward operator that it differentiates, from the outermost, joined by " › "),
        ``phase`` (``forward``, ``backward``, ``optimizer``, ``other``; missing where the launch is
        not recorded).
    matched : DataFrame
        One row per collective with kernels on at least two ranks or devices of the whole job:
        ``match``, ``collective``, ``dtype``, ``bytes``, ``group``, ``group_ranks``, ``group_size``,
        ``ordinal`` (place among those of its kind in the group), ``members`` (number of kernels);
        ``first_arrival_ns``, ``last_arrival_ns``, ``end_ns`` (int64, as ``start_ns``; the end is
        the median of the members); ``lateness_ns`` (from the median arrival to the last),
        ``transfer_ns`` (from the last arrival to the end), ``late_rank``, ``class``.
    groups : DataFrame
        One row per collective, type, size and process group of the kernels, the most time first:
        ``collective``, ``dtype``, ``bytes``, ``group``, ``group_ranks``; ``count``, ``total_ns``,
        ``median_ns`` (of the durations); ``wait_ns``, ``unexplained_wait_ns``, ``transfer_ns``
        (sums over the matched kernels, missing without any), ``exposed_ns`` (sum);
        ``algbw_gb_per_s``, ``busbw_gb_per_s`` (medians), ``bandwidth_of`` (``transfer``,
        ``duration``: waiting included, or ``both``, by kernel); ``share_percent`` (of the time of
        all kernels).
    """

    kernels: pd.DataFrame
    matched: pd.DataFrame
    groups: pd.DataFrame


def collectives(job: Job, ranks: Iterable[int] | None = None) -> Collectives:
    """Match the communication kernels of all ranks, and split their time into wait and transfer.

    Parameters
    ----------
    ranks : iterable of int, optional
        Ranks whose kernels are listed, all when not given. They are matched with those of all ranks
        of the job in any case.

    Raises
    ------
    UnknownRankError
        If the job lacks a rank.
    """
    chosen = job.select_ranks(ranks)
    whole = job.remember(_whole_job)
    kernels = whole.kernels
    if len(chosen) < len(job.ranks):
        kernels = kernels[kernels["rank"].isin(chosen)].reset_index(drop=True)
    return Collectives(
        kernels=kernels,
        matched=whole.matched,
        groups=group_table(kernels),
        finding=_collectives_finding(kernels),
        notices=(*job.notices_for(chosen), *whole.notices),
    )


class _WholeJob(NamedTuple):
    """Tables of all ranks."""

    kernels: pd.DataFrame
    matched: pd.DataFrame
    notices: tuple[str, ...]


def _whole_job(job: Job) -> _WholeJob:
    clocks, split = job_clocks(job), job_waits(job)
    owners = [*job.reduce(rank_owners, job.ranks).values()]
    return _WholeJob(
        kernel_table(clocks, split, owners),
        match_table(split),
        (*clocks.notices, *split.notices, *_unmatched_notices(clocks, split)),
    )


def job_waits(job: Job) -> Waits:
    """Waiting and transfer of all matched collectives of a job, worked out once."""
    return job.remember(_job_waits)


def _job_waits(job: Job) -> Waits:
    world = world_size_among(job.reduce(world_size_of, job.ranks))
    return waits(job_clocks(job), world)


def _unmatched_notices(clocks: JobClocks, split: Waits) -> list[str]:
    """Notice on kernels whose partners cannot be known."""
    kernels = clocks.matches.kernels
    if len(kernels.ranks) == 1 or not len(kernels):
        return []
    unknown = int((kernels.series < 0).sum())
    notices = []
    if unknown:
        notices.append(
            f"{counted(unknown, 'communication kernel')} of {len(kernels):,} cannot be matched: "
            "which ranks take part is not recorded (sends, receives and broadcasts without "
            "collective fields)"
        )
    alone = len(kernels) - unknown - len(split.matches.rows)
    if alone:
        notices.append(
            f"{counted(alone, 'communication kernel')} of {len(kernels):,} have no partner on "
            "another rank"
        )
    return notices


def _collectives_finding(kernels: pd.DataFrame) -> str:
    if kernels.empty:
        return (
            "No communication kernels were recognised on the selected ranks. If there are any, add "
            "a rule: kernel_rules={'COMMUNICATION': ['part_of_the_name']}."
        )
    total_ns = int(kernels["duration_ns"].sum())
    split = kernels[kernels["wait_ns"].notna()]
    split_ns = int(split["duration_ns"].sum())
    if not split_ns:
        return (
            f"{duration(total_ns)} of communication on the selected ranks; waiting and transfer "
            "cannot be told apart, because no collective was matched with another rank."
        )
    waiting_ns = int(split["wait_ns"].sum() + split["unexplained_wait_ns"].sum())
    undivided = ""
    if split_ns < total_ns:
        undivided = (
            f"{percent(100 - 100 * split_ns / total_ns)} of the {duration(total_ns)} of "
            "communication cannot be divided into waiting and transfer. "
        )
    return (
        f"{undivided}{percent(100 * waiting_ns / split_ns)} of the {duration(split_ns)} in "
        "collectives is waiting for ranks that arrive later, "
        f"{percent(100 - 100 * waiting_ns / split_ns)} is transfer."
    )
