"""GPU operations with the calls that launch them, sorted so that cutoffs are cheap to change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.arrays import Int8Array, Int32Array, Int64Array, Mask
from hta_widgets.grouping import reduce_runs
from hta_widgets.intervals import Times
from hta_widgets.trace.cache.derived_columns import Columns
from hta_widgets.trace.model.events import Events, Kind
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.model.links import launch_delays_ns
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

NO_OPERATOR = ""
LAUNCH_DELAY, CPU_DURATION = WORST_BY = ("launch_delay", "cpu_duration")
_OPERATIONS = (
    "operation",
    "call",
    "kernel_type",
    "cpu_duration_ns",
    "gpu_duration_ns",
    "signed_delay_ns",
)
_CALLS = ("first", "operations", "first_delay_ns", "on_free_stream_ns")


class Calls(NamedTuple):
    """Launch calls of one rank, in the order of the file."""

    first: Int64Array
    """Position (in `LaunchedWork`) of the operation that starts first."""
    operations: Int64Array
    """Operations that the call launches; several for a graph."""
    first_delay_ns: Times
    """From the end of the call to the start of its first operation, whatever that is; negative if
    it starts before."""
    on_free_stream_ns: Times
    """How long the stream of that operation had been free when it started, counted from the end of
    the call at the earliest; 0 if it started before."""

    @property
    def delay_ns(self) -> Times:
        """Launch delay of each call: `first_delay_ns`, 0 where work starts before the return."""
        return np.maximum(self.first_delay_ns, 0)

    def keeping(self, kept: Mask) -> Calls:
        """Calls that launch any of the operations kept, given a mask of the operations."""
        operations = reduce_runs(np.add, kept.astype(np.int64), self.first)
        launching = operations > 0
        operations = operations[launching]
        return Calls(
            first=np.cumsum(operations) - operations,
            operations=operations,
            first_delay_ns=self.first_delay_ns[launching],
            on_free_stream_ns=self.on_free_stream_ns[launching],
        )


@dataclass(frozen=True, eq=False)
class LaunchedWork:
    """Operations of one rank whose launch is in the trace, in the order of the calls there."""

    events: Events
    parents: Int32Array
    """`Rank.parents`."""
    operation: Int64Array
    """Row of the events table."""
    call: Int64Array
    """Row of the events table."""
    kernel_type: Int8Array
    cpu_duration_ns: Times
    """Of the call."""
    gpu_duration_ns: Times
    """Of the operation."""
    signed_delay_ns: Times
    """From the end of the call to the start of the operation. Within a graph, it includes the
    operations before it."""
    calls: Calls
    """The calls, each once."""
    without_launch: int
    """Operations left out because their launch is not in the trace."""

    def without_memory_events(self, operations: int) -> LaunchedWork:
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
    def started_before_return(self) -> int:
        """Number of calls whose first operation starts before they return."""
        return int((self.calls.first_delay_ns < 0).sum())

    @property
    def each_call_ns(self) -> Times:
        """Duration of each call."""
        return self.cpu_duration_ns[self.calls.first]

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
        """Durations of the calls that take longer than all that they launch, shortest first."""
        return np.sort(self.each_call_ns[self.each_work_ns < self.each_call_ns])

    @cached_property
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

    @cached_property
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

        The columns of `table`, with the sum of all operations in ``gpu_duration_ns``, and
        ``operations``.
        """
        table = self._described(self.calls.first[calls])
        table["gpu_duration_ns"] = self.each_work_ns[calls]
        table["launch_delay_ns"] = self.calls.delay_ns[calls]
        table["started_before_return"] = self.calls.first_delay_ns[calls] < 0
        table["operations"] = self.calls.operations[calls]
        return table

    def _described(self, chosen: Int64Array) -> pd.DataFrame:
        events = self.events
        types = pd.Index([each.name for each in KernelType], dtype=object)
        texts = pd.Index(events.name.values, dtype=object)
        return pd.DataFrame(
            {
                "correlation": self.correlation[chosen],
                "cpu_duration_ns": self.cpu_duration_ns[chosen],
                "gpu_duration_ns": self.gpu_duration_ns[chosen],
                "launch_api": pd.Categorical.from_codes(self.call_names[chosen], texts),
                "kernel": pd.Categorical.from_codes(
                    events.name.codes[self.operation[chosen]], texts
                ),
                "kernel_type": pd.Categorical.from_codes(self.kernel_type[chosen], types),
                "operator": self._operators(self.call[chosen]),
            }
        )

    def _operators(self, calls: Int64Array) -> pd.Categorical:
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


def launched_work(rank: Rank, *, include_memory_events: bool = True) -> LaunchedWork:
    """Pair operations with their launches, independent of the cutoffs."""
    include = bool(include_memory_events)
    return rank.remember(_launched_work, include)


def _launched_work(rank: Rank, include_memory_events: bool) -> LaunchedWork:  # noqa: FBT001
    if not include_memory_events:
        copies = int((rank.gpu_work.type == KernelType.MEMORY).sum())
        return launched_work(rank).without_memory_events(len(rank.gpu_work) - copies)
    columns = _paired(rank)
    return LaunchedWork(
        events=rank.trace.events,
        parents=rank.parents,
        calls=Calls(*(columns[name] for name in _CALLS)),
        without_launch=len(rank.gpu_work) - columns["call"].size,
        **{name: columns[name] for name in _OPERATIONS},
    )


def _paired(rank: Rank) -> Columns:
    """Columns of `LaunchedWork` and of its `Calls`."""
    work = rank.gpu_work
    order = np.argsort(rank.trace.events.index[work.launch], kind="stable")
    if work.launch.min(initial=0) < 0:
        order = order[work.launch[order] >= 0]
    events, call = rank.trace.events, work.launch[order]
    cpu_duration_ns = events.duration_ns[call]
    call_end_ns = events.start_ns[call] + cpu_duration_ns
    delay_ns = launch_delays_ns(work.start_ns[order], call_end_ns, rank.trace.resolution_ns)
    first = np.flatnonzero(np.diff(call, prepend=-1))
    free_ns = work.start_ns[order[first]] - _stream_free_ns(work)[order[first]]
    return {
        "operation": work.rows[order],
        "call": call,
        "kernel_type": work.type[order],
        "cpu_duration_ns": cpu_duration_ns,
        "gpu_duration_ns": work.duration_ns[order],
        "signed_delay_ns": delay_ns,
        "first": first,
        "operations": np.diff(first, append=call.size),
        "first_delay_ns": delay_ns[first],
        "on_free_stream_ns": np.maximum(np.minimum(free_ns, delay_ns[first]), 0),
    }


def _stream_free_ns(work: GpuWork) -> Times:
    """End of everything that started earlier on the stream of each piece of work."""
    free_ns = np.full(len(work), np.iinfo(np.int64).min // 2)
    for positions in work.streams.parts:
        free_ns[positions[1:]] = np.maximum.accumulate(work.end_ns[positions])[:-1]
    return free_ns
