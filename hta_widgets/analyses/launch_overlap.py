"""Launches that start before an earlier kernel has ended, and the launch time that this hides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.rows import Columns, joined, joined_table, table_of_columns
from hta_widgets.analyses.time.window import lead_in_end
from hta_widgets.arrays import Int64Array
from hta_widgets.grouping import distinct, grouped
from hta_widgets.intervals import Intervals, Times
from hta_widgets.names.shorten import api_name
from hta_widgets.quantities import counted, duration, percent
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.model.events import Events, Kind, TextColumn, Trace
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.links import launch_delays_ns
from hta_widgets.trace.model.notices import Notice
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

WORTH_SAYING: Final = 0.05
"""Share of the launch time not hidden by kernels that copies must cover to be mentioned: on two
GPUs that copied all the time, 99.6 % was "not hidden". Also share of the launch time of which it is
not known whether kernels hide it."""

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
    copying : Intervals
        Time in which a copy or memset runs.
    unknown : Intervals
        Time in which a GPU is busy with, or blocked on, work from before the recording.
    launched : GpuWork
        Kernels and graphs whose launch is in the trace.
    calls : ndarray of int64
        Rows of the launches, ascending by start.
    first_start_ns : ndarray of int64
        Start of the first operation of each launch, which in a graph may be a copy.
    """

    trace: Trace
    kernels: GpuWork
    copying: Intervals
    unknown: Intervals
    launched: GpuWork
    calls: Int64Array
    first_start_ns: Times

    @classmethod
    def of(cls, rank: Rank) -> KernelLaunches:
        """Find the launches of a rank."""
        events, work = rank.trace.events, rank.gpu_work
        is_kernel = np.isin(events.kind[work.rows], (Kind.KERNEL, Kind.GRAPH))
        kernels, copies = (work.take(np.flatnonzero(x)) for x in (is_kernel, ~is_kernel))
        launched = kernels.take(np.flatnonzero(kernels.launch >= 0))
        is_launch = np.zeros(len(events), dtype=bool)
        is_launch[launched.launch] = True
        calls = np.flatnonzero(is_launch)
        return cls(
            trace=rank.trace,
            kernels=kernels,
            copying=Intervals.union(copies.start_ns, copies.end_ns),
            unknown=_lead_in(rank),
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
        """Time from the end of each launch to the start of its first operation; may be negative."""
        call_end_ns = self.events.start_ns[self.calls] + self.events.duration_ns[self.calls]
        return launch_delays_ns(self.first_start_ns, call_end_ns, self.trace.resolution_ns)

    def by_process(self) -> list[Int64Array]:
        """Positions in `calls` of the launches of each process, ascending."""
        return grouped(self.events.pid[self.calls]).parts

    def by_thread(self) -> list[Int64Array]:
        """Positions in `calls` of the launches of each thread, by process and thread."""
        return grouped(self.events.pid[self.calls], self.events.tid[self.calls]).parts

    def overlapping(self, own: Int64Array) -> int:
        """Number of these launches that start before a kernel of an earlier one has ended."""
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

    def beside_copies_ns(self, calls: Intervals) -> int:
        """Time (ns) of these intervals in which copies or memsets run, and surely no kernel."""
        return int(((calls & self.copying) - self.busy - self.unknown).length)

    def unknown_ns(self, calls: Intervals) -> int:
        """Time (ns) of these intervals in which only kernels that are not recorded may run."""
        return int(((calls & self.unknown) - self.busy).length)


def _lead_in(rank: Rank) -> Intervals:
    """Time in which a GPU of the rank is busy with what was launched before the recording."""
    ends_ns = [lead_in_end(rank, device) for device in rank.gpu_work.devices]
    last_ns = max((end_ns for end_ns in ends_ns if end_ns is not None), default=0)
    return Intervals.union([min(last_ns, 0)], [last_ns])


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
        ``call_time_ns`` (time in launches, summed over threads), ``hidden_ns`` (the part of it in
        which any kernel of the rank runs), ``exposed_ns`` (the rest without ``unknown_ns``; all
        int64 ns), ``beside_copies_ns`` (the part of ``exposed_ns`` in which a copy or memset runs),
        ``unknown_ns`` (the part without a recorded kernel in which a GPU is busy with, or blocked
        on, work from before the recording), ``kernels``, ``without_launch`` (kernels whose launch
        is not in the trace).
    threads : DataFrame
        One row per process and thread with launches, ascending: ``rank``, ``pid``, ``tid``, then as
        in `ranks` up to ``unknown_ns``; for ``overlapping``, earlier launches are the thread's own.
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
    """Columns of the tables of one rank, and what its row of `ranks` has besides sums of threads.

    All ranks are joined before pandas makes tables, which would take 20 ms for each rank.
    """

    threads: Columns
    launch_apis: Columns
    apis_by_kernel: Columns
    overlapping: int
    kernels: int
    without_launch: int


def launch_overlap(job: Job, ranks: Iterable[int] | None = None) -> LaunchOverlap:
    """Find the launches that start before an earlier kernel has ended, and what launches kernels.

    Parameters
    ----------
    ranks : iterable of int, optional
        All ranks when not given.
    """
    chosen = select_ranks(job, ranks)
    each = [job.rank(rank).remember(_launches_of_rank) for rank in chosen]
    summary = _summary(chosen, each)
    without = summary["rank"][summary["without_launch"] > 0].tolist()
    return LaunchOverlap(
        ranks=summary,
        threads=_with_rest(joined_table([of_rank.threads for of_rank in each])),
        launch_apis=joined_table([of_rank.launch_apis for of_rank in each]),
        apis_by_kernel=_over_ranks(joined([of_rank.apis_by_kernel for of_rank in each])),
        finding=_launch_overlap_finding(summary),
        notices=(
            *job.notices_for(chosen, Recorded.KERNELS),
            *job.merged({rank: [Notice(_WITHOUT_LAUNCH)] for rank in without}),
        ),
    )


def _launches_of_rank(rank: Rank) -> _RankLaunches:
    number = rank.trace.rank
    launches = KernelLaunches.of(rank)
    apis = _Apis.of(launches)
    return _RankLaunches(
        threads=_threads(number, launches),
        launch_apis=_launch_apis(number, launches, apis),
        apis_by_kernel=_apis_by_kernel(launches, apis),
        overlapping=sum(map(launches.overlapping, launches.by_process())),
        kernels=len(launches.kernels),
        without_launch=len(launches.kernels) - len(launches.launched),
    )


def _threads(rank: int, launches: KernelLaunches) -> Columns:
    threads = launches.by_thread()
    first = launches.calls[np.array([own[0] for own in threads], dtype=np.int64)]
    calls = [launches.call_time(own) for own in threads]
    events = launches.events
    return {
        "rank": np.full(len(threads), rank),
        "pid": events.ids_in_source(events.pid[first]),
        "tid": events.ids_in_source(events.tid[first]),
        "launches": _integers(own.size for own in threads),
        "overlapping": _integers(map(launches.overlapping, threads)),
        "call_time_ns": _integers(each.length for each in calls),
        "hidden_ns": _integers(map(launches.hidden_ns, calls)),
        "beside_copies_ns": _integers(map(launches.beside_copies_ns, calls)),
        "unknown_ns": _integers(map(launches.unknown_ns, calls)),
    }


def _integers(values: Iterable[int]) -> Int64Array:
    return np.fromiter(values, dtype=np.int64)


def _summary(chosen: Sequence[int], each: Sequence[_RankLaunches]) -> pd.DataFrame:
    counts = ("launches", "overlapping")
    names = (*counts, "call_time_ns", "hidden_ns", "beside_copies_ns", "unknown_ns")
    sums = {name: _integers(int(own.threads[name].sum()) for own in each) for name in names}
    sums["overlapping"] = _integers(of_rank.overlapping for of_rank in each)
    table = _with_rest(pd.DataFrame({"rank": _integers(chosen), **sums}))
    table["kernels"] = _integers(of_rank.kernels for of_rank in each)
    table["without_launch"] = _integers(of_rank.without_launch for of_rank in each)
    return table


def _with_rest(table: pd.DataFrame) -> pd.DataFrame:
    """Add the columns that follow from the others."""
    launches = table["launches"]
    share = 100 * table["overlapping"] / launches.where(launches > 0)
    table.insert(list(table.columns).index("call_time_ns"), "overlapping_percent", share)
    exposed_ns = table["call_time_ns"] - table["hidden_ns"] - table["unknown_ns"]
    table.insert(list(table.columns).index("beside_copies_ns"), "exposed_ns", exposed_ns)
    return table


class _Apis(NamedTuple):
    """Launch APIs of a rank, by name; each launches something."""

    names: list[str]
    of_calls: Int64Array
    """Position of the API of each call."""
    of_kernels: Int64Array
    """Position of the API of each launched kernel."""

    @classmethod
    def of(cls, launches: KernelLaunches) -> _Apis:
        """Write each distinct name once."""
        name = launches.events.name
        calls, kernels = name.codes[launches.calls], name.codes[launches.launched.launch]
        apis = {code: api_name(name.values[code]) for code in distinct(calls).tolist()}
        names = sorted({*apis.values()})
        place = np.zeros(len(name.values), dtype=np.int64)
        place[[*apis]] = [names.index(each) for each in apis.values()]
        return cls(names, place[calls], place[kernels])


def _launch_apis(rank: int, launches: KernelLaunches, apis: _Apis) -> Columns:
    delay_ns, work = launches.delay_ns, grouped(apis.of_kernels)
    calls = grouped(apis.of_calls)
    late = calls.reduce(np.add, (delay_ns >= 0).astype(np.int64))
    with np.errstate(invalid="ignore"):
        mean_ns = calls.reduce(np.add, np.maximum(delay_ns, 0)) / late
    time_ns = work.reduce(np.add, launches.launched.duration_ns)
    longest_first = np.argsort(-time_ns, kind="stable")
    return {
        "rank": np.full(len(apis.names), rank),
        "launch_api": TextColumn(longest_first, (*apis.names,)),
        "launches": calls.sizes[longest_first],
        "kernels": work.sizes[longest_first],
        "kernel_time_ns": time_ns[longest_first],
        "mean_launch_delay_ns": mean_ns[longest_first],
        "started_before_return": (calls.sizes - late)[longest_first],
    }


def _apis_by_kernel(launches: KernelLaunches, apis: _Apis) -> Columns:
    kernels = launches.launched
    groups = grouped(kernels.name, apis.of_kernels)
    return {
        "kernel": TextColumn.of(
            kernels.names[code] for code in kernels.name[groups.first].tolist()
        ),
        "launch_api": TextColumn(apis.of_kernels[groups.first], (*apis.names,)),
        "kernels": groups.sizes,
        "kernel_time_ns": groups.reduce(np.add, kernels.duration_ns),
    }


def _over_ranks(columns: Columns) -> pd.DataFrame:
    """Sums by kernel and API, longest first."""
    keys = ["kernel", "launch_api"]
    groups = grouped(*(columns[key].codes for key in keys))
    sums = table_of_columns(
        {key: columns[key].take(groups.first) for key in keys}
        | {key: groups.reduce(np.add, columns[key]) for key in ("kernels", "kernel_time_ns")}
    )
    order = ["kernel_time_ns", *keys]
    return sums.sort_values(order, ascending=[False, True, True], ignore_index=True)


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
    copying_ns = int(total["beside_copies_ns"])
    if copying_ns >= WORTH_SAYING * exposed_ns > 0:
        exposed += f", {percent(100 * copying_ns / exposed_ns)} of that while copies or memsets ran"
    least, most = duration(summary["exposed_ns"].min()), duration(summary["exposed_ns"].max())
    exposed += "" if least == most else f", {least} to {most} on each rank"
    unknown_ns = int(total["unknown_ns"])
    if unknown_ns < WORTH_SAYING * call_ns:
        return f"{exposed}."
    return (
        f"{exposed if exposed_ns else overlapping}; the trace cannot tell whether a kernel hid "
        f"{percent(100 * unknown_ns / call_ns)} of the launch time ({duration(unknown_ns)}): a GPU "
        "was busy with, or blocked on, work launched before the recording."
    )
