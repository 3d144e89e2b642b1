"""Launches that start before an earlier kernel has ended, and the launch time that this hides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.result import Result
from hta_widgets.arrays import Int32Array, Int64Array
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Intervals, Times
from hta_widgets.quantities import counted, duration, percent
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.api_names import api_name
from hta_widgets.trace.model.events import Events, Kind, Trace
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.links import launch_delays_ns
from hta_widgets.trace.model.notices import Notice, merge_notices
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

_WITHOUT_LAUNCH = (
    "kernels without a launch in the trace hide launch time, but belong to no launch API"
)


@dataclass(frozen=True, eq=False)
class KernelLaunches:
    """Calls of one rank that launch kernels or graphs; copies and memsets do not count.

    Attributes
    ----------
    events : Events
    kernels : GpuWork
        All kernels and graphs after the step filter, ascending by start.
    launched : GpuWork
        Those whose launch is in the trace.
    calls : ndarray of int64
        Int64Array of the launches, ascending by start.
    first_start_ns : ndarray of int64
        Start of the first operation of each launch: of a graph, that may be a copy.
    """

    trace: Trace
    kernels: GpuWork
    launched: GpuWork
    calls: Int64Array
    first_start_ns: Times

    @classmethod
    def of(cls, rank: Rank) -> KernelLaunches:
        """Find the launches of a rank."""
        events, work = rank.trace.events, rank.gpu_work
        is_kernel = np.isin(events.kind[work.rows], (Kind.KERNEL, Kind.GRAPH))
        kernels = work.take(np.flatnonzero(is_kernel))
        launched = kernels.take(np.flatnonzero(kernels.launch >= 0))
        is_launch = np.zeros(len(events), dtype=bool)
        is_launch[launched.launch] = True
        calls = np.flatnonzero(is_launch)
        return cls(
            trace=rank.trace,
            kernels=kernels,
            launched=launched,
            calls=calls,
            first_start_ns=_first_starts_ns(work, calls),
        )

    @cached_property
    def busy(self) -> Intervals:
        """Time in which any kernel of the rank runs."""
        return Intervals.union(self.kernels.start_ns, self.kernels.end_ns)

    @cached_property
    def last_end_ns(self) -> Times:
        """End of the last kernel of each launch."""
        ends = np.full(self.calls.size, np.iinfo(np.int64).min)
        np.maximum.at(ends, np.searchsorted(self.calls, self.launched.launch), self.launched.end_ns)
        return ends

    @property
    def events(self) -> Events:
        """Events of the rank."""
        return self.trace.events

    @property
    def delay_ns(self) -> Times:
        """Time from the end of each launch to the start of its first operation, of any sign."""
        call_end_ns = self.events.start_ns[self.calls] + self.events.duration_ns[self.calls]
        return launch_delays_ns(self.first_start_ns, call_end_ns, self.trace.resolution_ns)

    def by_process(self) -> list[Int64Array]:
        """Positions in `calls` of the launches of each process, ascending."""
        return grouped(self.events.pid[self.calls]).parts

    def by_thread(self) -> list[Int64Array]:
        """Positions in `calls` of the launches of each thread, by process and thread."""
        return grouped(self.events.pid[self.calls], self.events.tid[self.calls]).parts

    def overlapping(self, own: Int64Array) -> int:
        """Number of those launches that start before a kernel of an earlier one has ended."""
        reached = np.maximum.accumulate(self.last_end_ns[own])
        return int((reached[:-1] > self.events.start_ns[self.calls[own]][1:]).sum())

    def call_time(self, own: Int64Array) -> Intervals:
        """Time in which a thread is in one of its launches."""
        rows = self.calls[own]
        return Intervals.union(self.events.start_ns[rows], self.events.end_ns[rows])

    def hidden_ns(self, calls: Intervals) -> int:
        """Time (ns) of these intervals in which any kernel of the rank runs."""
        covered = self.busy.covered_until
        return int((covered(calls.ends) - covered(calls.starts)).sum())


def _first_starts_ns(work: GpuWork, calls: Int64Array) -> Times:
    """Start of the first operation that each of these calls launches."""
    launched = np.isin(work.launch, calls)
    first_ns = np.full(calls.size, np.iinfo(np.int64).max)
    place = np.searchsorted(calls, work.launch[launched])
    np.minimum.at(first_ns, place, work.start_ns[launched])
    return first_ns


@dataclass(frozen=True, kw_only=True, eq=False)
class LaunchOverlap(Result):
    """Launches of kernels, those that start before an earlier kernel has ended, and their APIs.

    A launch is a call that launches kernels or a graph, not one that launches only copies or
    memsets. It overlaps if a kernel of an earlier launch ends after it starts.

    Attributes
    ----------
    ranks : DataFrame
        One row per rank: ``rank``, ``launches``, ``overlapping`` (earlier launches being those of
        all threads of the process), ``overlapping_percent`` (of the launches; NaN for none),
        ``call_time_ns`` (time in launches, summed over threads), ``hidden_ns`` (of it, while any
        kernel of the rank runs), ``exposed_ns`` (the rest; all int64 ns), ``kernels``,
        ``without_launch`` (kernels whose launch is not in the trace).
    threads : DataFrame
        One row per process and thread with launches, ascending: ``rank``, ``pid``, ``tid``, then as
        in `ranks` up to ``exposed_ns``; for ``overlapping``, earlier launches are the thread's own.
    launch_apis : DataFrame
        One row per rank and launch API, longest kernel time first: ``rank``, ``launch_api``
        (name without version), ``launches``, ``kernels``, ``kernel_time_ns`` (sum of their
        durations, int64 ns), ``mean_launch_delay_ns`` (from the end of the call to the start of its
        first operation, float ns; over the launches whose work starts after the call returns; NaN
        for none), ``started_before_return`` (launches whose work starts earlier; they are not in
        the mean).
    apis_by_kernel : DataFrame
        What launches each kernel, over all the ranks, longest first: ``kernel``, ``launch_api``,
        ``kernels``, ``kernel_time_ns`` (int64 ns).
    """

    ranks: pd.DataFrame
    threads: pd.DataFrame
    launch_apis: pd.DataFrame
    apis_by_kernel: pd.DataFrame


class _RankLaunches(NamedTuple):
    """Tables of one rank, and what its row of `ranks` has besides sums over its threads."""

    threads: pd.DataFrame
    launch_apis: pd.DataFrame
    apis_by_kernel: pd.DataFrame
    overlapping: int
    kernels: int
    without_launch: int


def launch_overlap(job: Job, ranks: Iterable[int] | None = None) -> LaunchOverlap:
    """Find the launches that start before an earlier kernel has ended, and what launches kernels.

    Parameters
    ----------
    job : Job
    ranks : iterable of int, optional
        All ranks when not given.

    Returns
    -------
    LaunchOverlap

    Raises
    ------
    UnknownRankError
        If the job lacks a rank.
    """
    chosen = job.select_ranks(ranks)
    each = [job.rank(rank).remember(_launches_of_rank) for rank in chosen]
    summary = _summary(chosen, each)
    return LaunchOverlap(
        ranks=summary,
        threads=pd.concat([of_rank.threads for of_rank in each], ignore_index=True),
        launch_apis=pd.concat([of_rank.launch_apis for of_rank in each], ignore_index=True),
        apis_by_kernel=_over_ranks([of_rank.apis_by_kernel for of_rank in each]),
        finding=_launch_overlap_finding(summary),
        notices=(
            *job.notices_for(chosen),
            *job.lacking(chosen, Recorded.KERNELS),
            *_without_launch_notices(job, summary),
        ),
    )


def _launches_of_rank(rank: Rank) -> _RankLaunches:
    number = rank.trace.rank
    launches = KernelLaunches.of(rank)
    kernels = _kernels(launches)
    return _RankLaunches(
        threads=_threads(number, launches),
        launch_apis=_launch_apis(number, launches, kernels),
        apis_by_kernel=_apis_by_kernel(kernels),
        overlapping=sum(map(launches.overlapping, launches.by_process())),
        kernels=len(launches.kernels),
        without_launch=len(launches.kernels) - len(launches.launched),
    )


def _threads(rank: int, launches: KernelLaunches) -> pd.DataFrame:
    threads = launches.by_thread()
    first = launches.calls[np.array([own[0] for own in threads], dtype=np.int64)]
    calls = [launches.call_time(own) for own in threads]
    events = launches.events
    return _with_rest(
        pd.DataFrame(
            {
                "rank": np.full(len(threads), rank),
                "pid": events.ids_in_source(events.pid[first]),
                "tid": events.ids_in_source(events.tid[first]),
                "launches": _integers(own.size for own in threads),
                "overlapping": _integers(map(launches.overlapping, threads)),
                "call_time_ns": _integers(each.length for each in calls),
                "hidden_ns": _integers(map(launches.hidden_ns, calls)),
            }
        )
    )


def _integers(values: Iterable[int]) -> Int64Array:
    return np.fromiter(values, dtype=np.int64)


def _summary(chosen: Sequence[int], each: Sequence[_RankLaunches]) -> pd.DataFrame:
    threads = [of_rank.threads for of_rank in each]
    table = pd.DataFrame(
        {
            "rank": _integers(chosen),
            "launches": _integers(int(own["launches"].sum()) for own in threads),
            "overlapping": _integers(of_rank.overlapping for of_rank in each),
            "call_time_ns": _integers(int(own["call_time_ns"].sum()) for own in threads),
            "hidden_ns": _integers(int(own["hidden_ns"].sum()) for own in threads),
        }
    )
    table = _with_rest(table)
    table["kernels"] = _integers(of_rank.kernels for of_rank in each)
    table["without_launch"] = _integers(of_rank.without_launch for of_rank in each)
    return table


def _with_rest(table: pd.DataFrame) -> pd.DataFrame:
    """Add the columns that follow from the others."""
    launches = table["launches"]
    share = 100 * table["overlapping"] / launches.where(launches > 0)
    table.insert(list(table.columns).index("call_time_ns"), "overlapping_percent", share)
    table["exposed_ns"] = table["call_time_ns"] - table["hidden_ns"]
    return table


def _kernels(launches: KernelLaunches) -> pd.DataFrame:
    """One row per kernel whose launch is in the trace."""
    names = launches.events.name
    return pd.DataFrame(
        {
            "launch_api": _texts(names.codes[launches.launched.launch], names.values, api_name),
            "kernel": _texts(launches.launched.name, names.values),
            "kernel_time_ns": launches.launched.duration_ns,
        }
    )


def _texts(
    codes: Int32Array, values: Sequence[str], write: Callable[[str], str] = str
) -> pd.Categorical:
    """Texts of name codes; each distinct name is written once."""
    number, names = pd.factorize(codes)
    texts = [write(values[code]) for code in names.tolist()]
    distinct = sorted(set(texts))
    places = np.array([distinct.index(text) for text in texts], dtype=np.int64)
    return pd.Categorical.from_codes(places[number], pd.Index(distinct, dtype=object))


def _launch_apis(rank: int, launches: KernelLaunches, kernels: pd.DataFrame) -> pd.DataFrame:
    names, delay_ns = launches.events.name, launches.delay_ns
    calls = pd.DataFrame(
        {
            "launch_api": _texts(names.codes[launches.calls], names.values, api_name),
            "launch_delay_ns": np.where(delay_ns >= 0, delay_ns, np.nan),
            "started_before_return": delay_ns < 0,
        }
    )
    by_api = calls.groupby("launch_api", observed=True)
    work = kernels.groupby("launch_api", observed=True)["kernel_time_ns"]
    table = pd.DataFrame(
        {
            "launches": by_api.size(),
            "kernels": work.size(),
            "kernel_time_ns": work.sum(),
            "mean_launch_delay_ns": by_api["launch_delay_ns"].mean(),
            "started_before_return": by_api["started_before_return"].sum(),
        }
    ).reset_index(names="launch_api")
    table = _in_words(table, "launch_api")
    table.insert(0, "rank", rank)
    return _longest_first(table, "launch_api")


def _apis_by_kernel(kernels: pd.DataFrame) -> pd.DataFrame:
    keys = ["kernel", "launch_api"]
    table = kernels.groupby(keys, as_index=False, observed=True).agg(
        kernels=("kernel_time_ns", "size"), kernel_time_ns=("kernel_time_ns", "sum")
    )
    return _in_words(table, *keys)


def _in_words(table: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Turn categories into texts."""
    return table.assign(**{name: table[name].tolist() for name in columns})


def _over_ranks(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    keys = ["kernel", "launch_api"]
    every: pd.DataFrame = pd.concat(tables, ignore_index=True)
    return _longest_first(every.groupby(keys, as_index=False).sum(), *keys)


def _longest_first(table: pd.DataFrame, *names: str) -> pd.DataFrame:
    ascending = [False, *(True for _ in names)]
    return table.sort_values(["kernel_time_ns", *names], ascending=ascending, ignore_index=True)


def _without_launch_notices(job: Job, summary: pd.DataFrame) -> list[str]:
    columns = (summary[name].tolist() for name in ("rank", "without_launch"))
    notices = {
        rank: [Notice(_WITHOUT_LAUNCH)] for rank, without in zip(*columns, strict=True) if without
    }
    return merge_notices(notices, name_ranks=len(job.ranks) > 1)


def _launch_overlap_finding(summary: pd.DataFrame) -> str:
    total = summary.sum()
    launches = int(total["launches"])
    if not launches:
        return "No kernel launches were recorded on the selected ranks."
    where = f"rank {summary['rank'].iloc[0]}" if len(summary) == 1 else f"{len(summary)} ranks"
    call_ns, exposed_ns = int(total["call_time_ns"]), int(total["exposed_ns"])
    overlapping = (
        f"On {where}, {percent(100 * int(total['overlapping']) / launches)} of "
        f"{counted(launches, 'launch', 'launches')} started before an earlier kernel had ended"
    )
    if not call_ns:
        return f"{overlapping}."
    exposed = (
        f"{overlapping}; {percent(100 * exposed_ns / call_ns)} of the launch time was not hidden "
        f"behind a kernel ({duration(exposed_ns)} of {duration(call_ns)})"
    )
    least, most = duration(summary["exposed_ns"].min()), duration(summary["exposed_ns"].max())
    return f"{exposed}." if least == most else f"{exposed}, {least} to {most} on each rank."
