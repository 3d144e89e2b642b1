"""Cost of launching GPU work: duration of the calls, and delay until the work starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.rows import Columns, joined_table, largest_first
from hta_widgets.analyses.time.window import lead_in_end
from hta_widgets.arrays import Int8Array, Int32Array, Int64Array, IntArray, Mask, narrowed
from hta_widgets.errors import check_choice, check_least, cutoff_ns
from hta_widgets.grouping import grouped, reduce_runs
from hta_widgets.intervals import Times
from hta_widgets.quantities import counted, duration, percent
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.model.events import Events, Kind, TextColumn
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.model.links import launch_delays_ns
from hta_widgets.trace.model.notices import Notice
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

FREE_STREAM_OUTLIERS: Final = "free_stream_outliers"

_SUMMED = (
    *("calls", "operations", "short_kernels", "runtime_outliers"),
    *("launch_delay_outliers", FREE_STREAM_OUTLIERS),
)

_LEADING_DIGITS = (1, 2, 5)
SHORT_KERNELS = "short_kernels"
RUNTIME_OUTLIERS = "runtime_outliers"
LAUNCH_DELAY_OUTLIERS = "launch_delay_outliers"
DISTRIBUTIONS = (SHORT_KERNELS, RUNTIME_OUTLIERS, LAUNCH_DELAY_OUTLIERS)
_BINS_AT_MOST = {SHORT_KERNELS: 100, RUNTIME_OUTLIERS: 300, LAUNCH_DELAY_OUTLIERS: 300}

_WITHOUT_LAUNCH = (
    "GPU operations without a launch in the trace are left out of the launch statistics"
)

_TEXTS: Final = ("operator", "launch_api", "kernel")
_NUMBERS: Final = (
    *("operations", "cpu_duration_ns", "gpu_duration_ns", "launch_delay_ns"),
    *("started_before_return", "correlation"),
)
"""With `_TEXTS`, the columns of `LaunchStats.worst` after the rank."""

_Summary = dict[str, Any]
NO_OPERATOR = ""
CPU_DURATION = "cpu_duration"
WORST_BY = ("launch_delay", CPU_DURATION)

_OPERATIONS = ("operation", "call", "kernel_type", "signed_delay_ns")


def launch_stats_finding(ranks: Sequence[Mapping[str, Any]], runtime_ns: int, delay_ns: int) -> str:
    """Summarise the calls of some ranks, rows of `LaunchStats.ranks`; the cutoffs are in ns."""
    total = Counter[str]()
    for row in ranks:
        total.update({name: row[name] for name in _SUMMED})
    if not total["operations"]:
        return "No launches of GPU work were recorded on the selected ranks."
    where = f"rank {ranks[0]['rank']}" if len(ranks) == 1 else f"{len(ranks)} ranks"
    launched = (
        f"On {where}, {counted(total['calls'], 'call')} launched "
        f"{counted(total['operations'], 'operation')}."
    )
    return f"{launched} {_calls(total, runtime_ns)} {_delays(total, delay_ns)}"


def _calls(total: Mapping[str, int], runtime_ns: int) -> str:
    """Calls longer than the cutoff, and how many of the others are longer than their work."""
    calls, short, long = (total[name] for name in ("calls", "short_kernels", "runtime_outliers"))
    longer = f"took more than {duration(runtime_ns)}"
    if long == calls:
        return f"{'It' if calls == 1 else 'All of them'} {longer}."
    share = f" ({percent(100 * short / (calls - long))})" if short else ""
    than_work = f"{share} took longer than the work launched"
    if long:
        others = f"{short:,} of the others" if short else "none of the others"
        return f"{counted(long, 'call')} {longer}; {others}{than_work}."
    return f"{f'{short:,}' if short else 'None'}{than_work}, and none {longer}."


def _delays(total: Mapping[str, int], delay_ns: int) -> str:
    """Calls whose work started late, and how many of them had a free stream."""
    late, free = total["launch_delay_outliers"], total[FREE_STREAM_OUTLIERS]
    if not late:
        return f"No work started more than {duration(delay_ns)} after its call."
    said = (
        f"The work of {counted(late, 'call')} ({percent(100 * late / total['calls'])}) started "
        f"more than {duration(delay_ns)} after the call"
    )
    if not free:
        return f"{said}, behind earlier work of its stream."
    if free == late:
        return f"{said}, although its stream was free."
    return f"{said}, {free:,} of them although the stream was free, the others behind earlier work."


def histogram(parts: Sequence[Times], lowest: int, bins_at_most: int) -> tuple[Times, Int64Array]:
    """Count times in bins of equal width.

    Parameters
    ----------
    parts : sequence of ndarray of int64
        Times (ns), each part ascending, none below `lowest`.
    lowest : int
        Lower edge of the first bin.
    bins_at_most : int
        Maximum number of bins. Their width is the smallest possible of 1, 2 or 5 times a
        power of ten, so that whole µs fall evenly into the bins.

    Returns
    -------
    edges : ndarray of int64
        Edges of the bins, which are half-open; one more than there are bins.
    counts : ndarray of int64
        Empty when there are no times.

    Examples
    --------
    >>> edges, counts = histogram([np.array([3, 4, 11])], 0, 4)
    >>> edges.tolist(), counts.tolist()
    ([0, 5, 10, 15], [2, 0, 1])
    """
    filled = [times for times in parts if times.size]
    if not filled:
        return np.array([lowest], dtype=np.int64), np.zeros(0, dtype=np.int64)
    highest = max(int(times[-1]) for times in filled)
    width = _nice_width((highest - lowest + 1) / bins_at_most)
    bins = (highest - lowest) // width + 1
    edges = lowest + width * np.arange(bins + 1, dtype=np.int64)
    counts = sum(np.diff(np.searchsorted(times, edges)) for times in filled)
    return edges, np.asarray(counts, dtype=np.int64)


def _nice_width(least: float) -> int:
    widths = (digit * 10**power for power in count() for digit in _LEADING_DIGITS)
    return int(next(width for width in widths if width >= least))


def by_api(of_rank: Rank, *, include_memory: bool) -> tuple[Columns, Columns]:
    """Columns of `LaunchStats.apis` and `LaunchStats.launched` of one rank."""
    rank = of_rank.trace.rank
    work = launched_operations(of_rank, include_memory_events=include_memory)
    texts, names, calls = work.events.name.values, work.call_names, work.calls
    by_type = grouped(names, work.kernel_type)
    apis_of_types = names[by_type.first]
    launched = {
        "launch_api": apis_of_types,
        "kernel_type": TextColumn(
            work.kernel_type[by_type.first], tuple(each.name for each in KernelType)
        ),
        "operations": by_type.sizes,
        "gpu_duration_ns": by_type.reduce(np.add, work.gpu_duration_ns),
    }
    first_type = np.flatnonzero(np.diff(apis_of_types, prepend=-1))
    by_api = grouped(names[calls.first])
    call_ns, delay_ns = work.each_call_ns, calls.delay_ns
    apis = {
        "launch_api": apis_of_types[first_type],
        "calls": by_api.sizes,
        "operations": reduce_runs(np.add, by_type.sizes, first_type),
        "mean_cpu_duration_ns": by_api.reduce(np.add, call_ns) / by_api.sizes,
        "max_cpu_duration_ns": by_api.reduce(np.maximum, call_ns),
        "median_launch_delay_ns": np.array([np.median(delay_ns[each]) for each in by_api.parts]),
    }
    return _named(rank, texts, apis), _named(rank, texts, launched)


def _named(rank: int, names: Sequence[str], columns: Columns) -> Columns:
    """Columns of APIs by name, with the rank in front, most operations first."""
    apis = [names[code] for code in columns["launch_api"].tolist()]
    keys = [*zip((-columns["operations"]).tolist(), apis, strict=True)]
    order = np.array(sorted(range(len(apis)), key=keys.__getitem__), dtype=np.intp)
    named = {"rank": np.full(len(apis), rank), **columns, "launch_api": TextColumn.of(apis)}
    return {name: column.take(order) for name, column in named.items()}


@dataclass(frozen=True, kw_only=True, eq=False)
class LaunchStats(Result):
    """Calls that launch GPU work, and the operations that they launch.

    Attributes
    ----------
    ranks : DataFrame
        One row per rank: ``rank``, ``calls``, ``operations`` (launched by them), ``without_launch``
        (operations whose launch is not in the trace; not included in any other number),
        ``started_before_return`` (calls whose work starts before they return), ``short_kernels``
        (calls up to the cutoff that take longer than all operations that they launch together),
        ``runtime_outliers`` (calls longer than the cutoff), ``launch_delay_outliers`` (calls whose
        work starts later than the cutoff), ``free_stream_outliers`` (those of them whose stream had
        been free for longer than the cutoff: nothing in the queue explains the delay),
        ``median_launch_delay_ns`` (of the calls; float ns; NaN for none).
    apis : DataFrame
        One row per rank and launch API, most operations first: ``rank``, ``launch_api``,
        ``calls``, ``operations``, ``mean_cpu_duration_ns`` (float ns), ``max_cpu_duration_ns``
        (int64 ns), ``median_launch_delay_ns`` (of the calls, float ns).
    launched : DataFrame
        What each API launches: ``rank``, ``launch_api``, ``kernel_type``, ``operations``,
        ``gpu_duration_ns`` (sum, int64 ns).
    distributions : DataFrame
        Histograms of the calls of all ranks: ``distribution`` (``short_kernels`` and
        ``runtime_outliers`` by duration, ``launch_delay_outliers`` by delay), ``start_ns``,
        ``end_ns`` (of the bin, half-open, int64 ns), ``count``.
    worst : DataFrame
        The calls with the longest delay, or the longest ones: ``rank``, ``operator``,
        ``launch_api``, ``kernel`` (of its operation that starts first), ``operations``,
        ``cpu_duration_ns``, ``gpu_duration_ns`` (of all its operations, summed),
        ``launch_delay_ns``, ``started_before_return``, ``correlation``.
    runtime_cutoff_ns, launch_delay_cutoff_ns : int
        Cutoffs of the outliers.
    """

    ranks: pd.DataFrame
    apis: pd.DataFrame
    launched: pd.DataFrame
    distributions: pd.DataFrame
    worst: pd.DataFrame
    runtime_cutoff_ns: int
    launch_delay_cutoff_ns: int
    work: Mapping[int, LaunchedOperations] = field(repr=False)

    @cached_property
    def launches(self) -> dict[int, pd.DataFrame]:
        """A table per rank with one row per launched operation, in the file's order of the calls.

        ``correlation``, ``cpu_duration_ns`` (of the call), ``gpu_duration_ns``,
        ``launch_delay_ns`` (end of the call to start of its first operation, 0 if that starts
        before; missing for the other operations of a graph), ``started_before_return`` (whether the
        operation did), ``launch_api``, ``kernel``, ``kernel_type``, ``operator`` (innermost around
        the call, empty for none). All times are whole ns.
        """
        return {rank: work.table() for rank, work in self.work.items()}


class _RankLaunchStats(NamedTuple):
    """Launches of one rank; `beyond` has the times of each distribution, shortest first."""

    work: LaunchedOperations
    beyond: dict[str, Times]
    summary: _Summary
    apis: Columns
    launched: Columns
    worst: Columns


def launch_stats(
    job: Job,
    ranks: Iterable[int] | None = None,
    *,
    runtime_cutoff: float = 50,
    launch_delay_cutoff: float = 100,
    include_memory_events: bool = True,
    worst_by: str = "launch_delay",
    num_worst: int = 20,
) -> LaunchStats:
    """Pair GPU operations with the calls that launch them.

    The delay of a call is that of the operation that starts first: later operations of a graph wait
    for each other, not for their launch.

    Parameters
    ----------
    ranks : iterable of int, optional
        All ranks when not given.
    runtime_cutoff : float
        Calls longer than this (µs) are outliers.
    launch_delay_cutoff : float
        Delays longer than this (µs) are outliers.
    include_memory_events : bool
        Include copies and memsets.
    worst_by : {"launch_delay", "cpu_duration"}
        How `worst` is ranked.
    num_worst : int
        Number of calls in `worst`.
    """
    runtime_ns = cutoff_ns("runtime_cutoff", runtime_cutoff)
    delay_ns = cutoff_ns("launch_delay_cutoff", launch_delay_cutoff)
    cutoffs = dict(zip(DISTRIBUTIONS, (runtime_ns, runtime_ns, delay_ns), strict=True))
    check_choice("worst_by", worst_by, WORST_BY)
    check_least("num_worst", num_worst, 0)
    chosen = select_ranks(job, ranks)
    by_rank = {
        rank: _launch_stats_of_rank(
            job.rank(rank), cutoffs, worst_by, num_worst, include_memory=include_memory_events
        )
        for rank in chosen
    }
    parts = [*by_rank.values()]
    summary = [each.summary for each in parts]
    without = [each["rank"] for each in summary if each["without_launch"]]
    return LaunchStats(
        ranks=pd.DataFrame(summary),
        apis=joined_table([each.apis for each in parts]),
        launched=joined_table([each.launched for each in parts]),
        distributions=_distributions([each.beyond for each in parts], cutoffs),
        worst=_worst([each.worst for each in parts], worst_by, num_worst),
        runtime_cutoff_ns=runtime_ns,
        launch_delay_cutoff_ns=delay_ns,
        work={rank: each.work for rank, each in by_rank.items()},
        finding=launch_stats_finding(summary, runtime_ns, delay_ns),
        notices=(
            *job.notices_for(chosen, Recorded.KERNELS, Recorded.OPERATORS),
            *job.merged({rank: [Notice(_WITHOUT_LAUNCH)] for rank in without}),
        ),
    )


def _launch_stats_of_rank(
    rank: Rank,
    cutoffs: Mapping[str, int],
    worst_by: str,
    num_worst: int,
    *,
    include_memory: bool,
) -> _RankLaunchStats:
    number = rank.trace.rank
    work = launched_operations(rank, include_memory_events=include_memory)
    beyond = _beyond(work, cutoffs)
    summary = _summary(number, work, beyond, cutoffs[LAUNCH_DELAY_OUTLIERS])
    apis, launched = rank.remember(by_api, include_memory=include_memory)
    worst = rank.remember(_worst_of_rank, worst_by, num_worst, include_memory=include_memory)
    return _RankLaunchStats(work, beyond, summary, apis, launched, worst)


def _beyond(work: LaunchedOperations, cutoffs: Mapping[str, int]) -> dict[str, Times]:
    """Times of each distribution, shortest first."""
    short, calls, delays = work.calls_longer_than_work_ns, work.call_durations_ns, work.delays_ns
    return {
        SHORT_KERNELS: short[: _up_to(short, cutoffs[SHORT_KERNELS])],
        RUNTIME_OUTLIERS: calls[_up_to(calls, cutoffs[RUNTIME_OUTLIERS]) :],
        LAUNCH_DELAY_OUTLIERS: delays[_up_to(delays, cutoffs[LAUNCH_DELAY_OUTLIERS]) :],
    }


def _up_to(times: Times, cutoff_ns: int) -> int:
    """Number of ascending times that are not longer than a cutoff."""
    return int(np.searchsorted(times, cutoff_ns, side="right"))


def _summary(
    rank: int, work: LaunchedOperations, beyond: Mapping[str, Times], delay_ns: int
) -> _Summary:
    free_ns = work.delays_on_free_streams_ns
    return {
        "rank": rank,
        "calls": work.calls.first.size,
        "operations": work.call.size,
        "without_launch": work.without_launch,
        "started_before_return": work.started_before_return,
        **{distribution: times.size for distribution, times in beyond.items()},
        FREE_STREAM_OUTLIERS: free_ns.size - _up_to(free_ns, delay_ns),
        "median_launch_delay_ns": _median_of_sorted(work.delays_ns),
    }


def _median_of_sorted(times: Times) -> float:
    middle = times[(times.size - 1) // 2 : times.size // 2 + 1]
    return float(middle.mean()) if times.size else float("nan")


def _distributions(
    beyond: Sequence[Mapping[str, Times]], cutoffs: Mapping[str, int]
) -> pd.DataFrame:
    bins = {
        distribution: histogram(
            [times[distribution] for times in beyond],
            0 if distribution == SHORT_KERNELS else cutoffs[distribution],
            _BINS_AT_MOST[distribution],
        )
        for distribution in DISTRIBUTIONS
    }
    return pd.DataFrame(
        {
            "distribution": [name for name, (_, counts) in bins.items() for _ in counts],
            "start_ns": np.concatenate([edges[:-1] for edges, _ in bins.values()]),
            "end_ns": np.concatenate([edges[1:] for edges, _ in bins.values()]),
            "count": np.concatenate([counts for _, counts in bins.values()]),
        }
    )


def _worst(of_ranks: Sequence[Columns], worst_by: str, number: int) -> pd.DataFrame:
    """The worst calls of all ranks, given the worst of each rank."""
    table = joined_table(of_ranks).astype(dict.fromkeys(_TEXTS, str))
    return largest_first(table, f"{worst_by}_ns").head(number)


def _worst_of_rank(rank: Rank, worst_by: str, number: int, *, include_memory: bool) -> Columns:
    work = launched_operations(rank, include_memory_events=include_memory)
    table = work.table_of_calls(work.worst_calls(worst_by, number))
    return {
        "rank": np.full(len(table), rank.trace.rank),
        **{name: TextColumn.of(table[name]) for name in _TEXTS},
        **{name: table[name].to_numpy() for name in _NUMBERS},
    }


class LaunchCalls(NamedTuple):
    """Launch calls of one rank, in the order of the file."""

    first: IntArray
    """Position (in `LaunchedOperations`) of the operation that starts first."""
    operations: IntArray
    """Operations that the call launches; several for a graph."""
    first_delay_ns: Times
    """From the end of the call to the start of its first operation; negative if that starts
    before."""
    on_free_stream_ns: Times
    """How long the stream of that operation had been free when it started, counted from the end of
    the call at the earliest; 0 if the operation started before that."""

    @property
    def delay_ns(self) -> Times:
        """Launch delay of each call: `first_delay_ns`, 0 where work starts before the return."""
        return np.maximum(self.first_delay_ns, 0)

    def keeping(self, kept: Mask) -> LaunchCalls:
        """Calls that launch any of the kept operations, given a mask of the operations."""
        operations = reduce_runs(np.add, kept.astype(np.int64), self.first)
        launching = operations > 0
        operations = operations[launching]
        return LaunchCalls(
            first=np.cumsum(operations) - operations,
            operations=operations,
            first_delay_ns=self.first_delay_ns[launching],
            on_free_stream_ns=self.on_free_stream_ns[launching],
        )


@dataclass(frozen=True, eq=False)
class LaunchedOperations:
    """Operations of one rank whose launch is in the trace, in the order of the calls in it."""

    events: Events
    parents: Int32Array
    """`Rank.parents`."""
    operation: IntArray
    """Row of each operation in the events table."""
    call: IntArray
    """Row of its call in the events table."""
    kernel_type: Int8Array
    signed_delay_ns: Times
    """From the end of the call to the start of the operation. Within a graph, it includes the
    operations before it."""
    calls: LaunchCalls
    """The calls, each once."""
    without_launch: int
    """Operations left out because their launch is not in the trace."""

    def without_memory_events(self, operations: int) -> LaunchedOperations:
        """Leave out copies and memsets, given the number of other operations in the trace."""
        kept = self.kernel_type != KernelType.MEMORY
        columns = {name: getattr(self, name)[kept] for name in _OPERATIONS}
        return replace(
            self,
            without_launch=operations - columns["call"].size,
            calls=self.calls.keeping(kept),
            **columns,
        )

    @property
    def correlation(self) -> Int64Array:
        """Correlation id of each operation."""
        return self.events.correlation[self.operation].astype(np.int64)

    @property
    def cpu_duration_ns(self) -> Times:
        """Duration of the call of each operation."""
        return self.events.duration_ns[self.call]

    @property
    def gpu_duration_ns(self) -> Times:
        """Duration of each operation."""
        return self.events.duration_ns[self.operation]

    @property
    def started_before_return(self) -> int:
        """Number of calls whose first operation starts before they return."""
        return int((self.calls.first_delay_ns < 0).sum())

    @property
    def each_call_ns(self) -> Times:
        """Duration of each call."""
        return self.events.duration_ns[self.call[self.calls.first]]

    @cached_property
    def call_durations_ns(self) -> Times:
        """Durations of the calls, shortest first."""
        return np.sort(self.each_call_ns)

    @cached_property
    def delays_ns(self) -> Times:
        """Launch delays of the calls, shortest first; 0 where work starts before they return."""
        return np.sort(self.calls.delay_ns)

    @cached_property
    def delays_on_free_streams_ns(self) -> Times:
        """Parts of the delays in which the stream had nothing else to do, shortest first."""
        return np.sort(self.calls.on_free_stream_ns)

    @cached_property
    def calls_longer_than_work_ns(self) -> Times:
        """Durations of the calls that take longer than everything they launch, shortest first."""
        call_ns = self.each_call_ns
        return np.sort(call_ns[self.each_work_ns < call_ns])

    @property
    def each_work_ns(self) -> Times:
        """Total duration of the operations of each call."""
        return reduce_runs(np.add, self.gpu_duration_ns, self.calls.first)

    def worst_calls(self, worst_by: str, number: int) -> Int64Array:
        """Positions of the calls with the longest delay or duration, longest first."""
        times = self.each_call_ns if worst_by == CPU_DURATION else self.calls.delay_ns
        worst = np.arange(times.size)
        if 0 < number < times.size:
            worst = np.flatnonzero(times >= np.partition(times, -number)[-number])
        return worst[np.argsort(-times[worst], kind="stable")][:number]

    @property
    def call_names(self) -> Int32Array:
        """Name code of the call of each operation."""
        return self.events.name.codes[self.call]

    def table(self) -> pd.DataFrame:
        """Describe all operations: see `LaunchStats.launches`."""
        is_first = np.zeros(self.call.size, dtype=bool)
        is_first[self.calls.first] = True
        delay_ns = np.zeros(self.call.size, dtype=np.int64)
        delay_ns[self.calls.first] = self.calls.delay_ns
        table = self._described(np.arange(self.call.size))
        measured_ns = pd.arrays.IntegerArray(delay_ns, ~is_first)
        table.insert(3, "launch_delay_ns", pd.Series(measured_ns))
        table.insert(4, "started_before_return", self.signed_delay_ns < 0)
        return table

    def table_of_calls(self, calls: Int64Array) -> pd.DataFrame:
        """Describe some calls, given their positions, by the operation that starts first.

        It has the columns of `table`, with the sum of all operations in ``gpu_duration_ns``, and
        ``operations``.
        """
        table = self._described(self.calls.first[calls])
        table["gpu_duration_ns"] = self.each_work_ns[calls]
        table["launch_delay_ns"] = self.calls.delay_ns[calls]
        table["started_before_return"] = self.calls.first_delay_ns[calls] < 0
        table["operations"] = self.calls.operations[calls].astype(np.int64)
        return table

    def _described(self, chosen: IntArray) -> pd.DataFrame:
        events, call, operation = self.events, self.call[chosen], self.operation[chosen]
        types = pd.Index([each.name for each in KernelType], dtype=object)
        texts = pd.Index(events.name.values, dtype=object)
        return pd.DataFrame(
            {
                "correlation": events.correlation[operation].astype(np.int64),
                "cpu_duration_ns": events.duration_ns[call],
                "gpu_duration_ns": events.duration_ns[operation],
                "launch_api": pd.Categorical.from_codes(events.name.codes[call], texts),
                "kernel": pd.Categorical.from_codes(events.name.codes[operation], texts),
                "kernel_type": pd.Categorical.from_codes(self.kernel_type[chosen], types),
                "operator": self._operators(call),
            }
        )

    def _operators(self, calls: IntArray) -> pd.Categorical:
        """Name the innermost operator around each call; empty where there is none."""
        names = self.events.name
        around = self.parents[calls]
        while (climbing := (around >= 0) & (self.events.kind[around] != Kind.CPU_OP)).any():
            around = np.where(climbing, self.parents[around], around)
        codes = np.where(around >= 0, names.codes[around], len(names.values))
        found, place = np.unique(codes, return_inverse=True)
        known = [*names.values, NO_OPERATOR]
        texts = [known[code] for code in found.tolist()]
        return pd.Categorical(pd.Index(texts, dtype=object).take(place.reshape(-1)))


def launched_operations(rank: Rank, *, include_memory_events: bool = True) -> LaunchedOperations:
    """Pair operations with their launches, independently of the cutoffs."""
    include = bool(include_memory_events)
    return rank.remember(_launched_operations, include)


def _launched_operations(rank: Rank, include_memory_events: bool) -> LaunchedOperations:  # noqa: FBT001
    if not include_memory_events:
        copies = int((rank.gpu_work.type == KernelType.MEMORY).sum())
        return launched_operations(rank).without_memory_events(len(rank.gpu_work) - copies)
    events, work = rank.trace.events, rank.gpu_work
    order = np.argsort(events.index[work.launch], kind="stable")
    if work.launch.min(initial=0) < 0:
        order = order[work.launch[order] >= 0]
    call = work.launch[order]
    call_end_ns = events.start_ns[call] + events.duration_ns[call]
    delay_ns = launch_delays_ns(work.start_ns[order], call_end_ns, rank.trace.resolution_ns)
    first = np.flatnonzero(np.diff(call, prepend=-1))
    free_ns = work.start_ns[order[first]] - _stream_free_ns(rank, work)[order[first]]
    return LaunchedOperations(
        events=events,
        parents=rank.parents,
        operation=narrowed(work.rows[order]),
        call=narrowed(call),
        kernel_type=work.type[order],
        signed_delay_ns=delay_ns,
        calls=LaunchCalls(
            first=narrowed(first),
            operations=narrowed(np.diff(first, append=call.size)),
            first_delay_ns=delay_ns[first],
            on_free_stream_ns=np.maximum(np.minimum(free_ns, delay_ns[first]), 0),
        ),
        without_launch=len(work) - call.size,
    )


def _stream_free_ns(rank: Rank, work: GpuWork) -> Times:
    """End of everything that started earlier on the stream of each piece of work, recorded or not.

    A device may be busy with work launched before the recording, for which a copy waited 149 ms.
    """
    free_ns = np.full(len(work), np.iinfo(np.int64).min // 2)
    for device in rank.gpu_work.devices:
        if (busy_ns := lead_in_end(rank, device)) is not None:
            free_ns[work.device == device] = busy_ns
    for positions in work.streams.parts:
        until_ns = np.maximum.accumulate(work.end_ns[positions])[:-1]
        free_ns[positions[1:]] = np.maximum(free_ns[positions[1:]], until_ns)
    return free_ns
