"""GPU operations with the calls that launch them, sorted so that cutoffs are cheap to change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.intervals import Times
from hta_widgets.trace.cache.derived_columns import Columns
from hta_widgets.trace.model.events import Codes, Events, Kind
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.model.links import launch_delays_ns
from hta_widgets.trace.ranks.rank import Rank

NO_OPERATOR = ""
LAUNCH_DELAY, CPU_DURATION = WORST_BY = ("launch_delay", "cpu_duration")
_COLUMNS = (
    "operation",
    "call",
    "kernel_type",
    "cpu_duration_ns",
    "gpu_duration_ns",
    "signed_delay_ns",
)


@dataclass(frozen=True, eq=False)
class Calls:
    """Launch calls of one rank, in the order of the file.

    Attributes
    ----------
    rows : ndarray of int64
        Row of each call in the events table.
    first : ndarray of int64
        Position (in `LaunchedWork`) of the operation that starts first.
    operations : ndarray of int64
        Operations that the call launches; several for a graph.
    """

    rows: NDArray[np.int64]
    first: NDArray[np.int64]
    operations: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LaunchedWork:
    """Operations of one rank whose launch is in the trace, in the order of the calls in the file.

    Attributes
    ----------
    events : Events
    parents : ndarray of int32
        `Rank.parents`.
    operation, call : ndarray of int64
        Rows of the events table.
    kernel_type : ndarray of int8
    cpu_duration_ns, gpu_duration_ns : ndarray of int64
        Durations of the call and of the operation.
    signed_delay_ns : ndarray of int64
        From the end of the call to the start of the operation.
    without_launch : int
        Operations left out because their launch is not in the trace.
    """

    events: Events
    parents: NDArray[np.int32]
    operation: NDArray[np.int64]
    call: NDArray[np.int64]
    kernel_type: NDArray[np.int8]
    cpu_duration_ns: Times
    gpu_duration_ns: Times
    signed_delay_ns: Times
    without_launch: int

    def without_memory_events(self, operations: int) -> LaunchedWork:
        """Leave out copies and memsets, given the number of other operations in the trace."""
        kept = np.flatnonzero(self.kernel_type != KernelType.MEMORY)
        columns = {name: getattr(self, name)[kept] for name in _COLUMNS}
        return replace(self, without_launch=operations - kept.size, **columns)

    @property
    def correlation(self) -> NDArray[np.int64]:
        """Correlation id of each operation."""
        return self.events.correlation[self.operation]

    @cached_property
    def launch_delay_ns(self) -> Times:
        """Delay of each operation, 0 when it starts before its call returns."""
        return np.maximum(self.signed_delay_ns, 0)

    @cached_property
    def started_before_return(self) -> NDArray[np.bool_]:
        """Mask of the operations that start before their launch call returns."""
        return np.asarray(self.signed_delay_ns < 0)

    @cached_property
    def number_started_before_return(self) -> int:
        """Number of operations that start before their call returns."""
        return int(self.started_before_return.sum())

    @cached_property
    def calls(self) -> Calls:
        """The calls, each once."""
        first = np.flatnonzero(np.diff(self.call, prepend=-1))
        operations = np.diff(first, append=self.call.size)
        return Calls(rows=self.call[first], first=first, operations=operations)

    @cached_property
    def call_durations_ns(self) -> Times:
        """Durations of the calls, shortest first."""
        return np.sort(self.cpu_duration_ns[self.calls.first])

    @cached_property
    def delays_ns(self) -> Times:
        """Launch delays of the operations, shortest first."""
        return np.sort(self.launch_delay_ns)

    @cached_property
    def short_kernel_calls_ns(self) -> Times:
        """Call durations of the operations shorter than their call, shortest first."""
        return np.sort(self.cpu_duration_ns[self.gpu_duration_ns < self.cpu_duration_ns])

    def worst_calls(self, worst_by: str, number: int) -> NDArray[np.int64]:
        """Positions of the calls with the longest delay or duration, longest first."""
        of_operations = self.cpu_duration_ns if worst_by == CPU_DURATION else self.launch_delay_ns
        times = of_operations[self.calls.first]
        worst = np.arange(times.size)
        if 0 < number < times.size:
            worst = np.flatnonzero(times >= np.partition(times, -number)[-number])
        return worst[np.argsort(-times[worst], kind="stable")][:number]

    @cached_property
    def call_names(self) -> Codes:
        """Name code of the call of each operation."""
        return self.events.name.codes[self.call]

    def table(self, positions: NDArray[np.int64] | None = None) -> pd.DataFrame:
        """Describe some of the operations, or all: see `LaunchStats.launches`."""
        chosen = np.arange(self.call.size) if positions is None else positions
        events = self.events
        types = pd.Index([each.name for each in KernelType], dtype=object)
        texts = pd.Index(events.name.values, dtype=object)
        return pd.DataFrame(
            {
                "correlation": self.correlation[chosen],
                "cpu_duration_ns": self.cpu_duration_ns[chosen],
                "gpu_duration_ns": self.gpu_duration_ns[chosen],
                "launch_delay_ns": self.launch_delay_ns[chosen],
                "started_before_return": self.started_before_return[chosen],
                "launch_api": pd.Categorical.from_codes(self.call_names[chosen], texts),
                "kernel": pd.Categorical.from_codes(
                    events.name.codes[self.operation[chosen]], texts
                ),
                "kernel_type": pd.Categorical.from_codes(self.kernel_type[chosen], types),
                "operator": self._operators(self.call[chosen]),
            }
        )

    def _operators(self, calls: NDArray[np.int64]) -> pd.Categorical:
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
    columns = rank.derive(_paired)
    return LaunchedWork(
        events=rank.trace.events,
        parents=rank.parents,
        without_launch=len(rank.gpu_work) - columns["call"].size,
        **columns,
    )


def _paired(rank: Rank) -> Columns:
    work = rank.gpu_work
    order = np.argsort(rank.trace.events.index[work.launch], kind="stable")
    if work.launch.min(initial=0) < 0:
        order = order[work.launch[order] >= 0]
    events, call = rank.trace.events, work.launch[order]
    cpu_duration_ns = events.duration_ns[call]
    return {
        "operation": work.rows[order],
        "call": call,
        "kernel_type": work.type[order],
        "cpu_duration_ns": cpu_duration_ns,
        "gpu_duration_ns": work.duration_ns[order],
        "signed_delay_ns": launch_delays_ns(
            work.start_ns[order], events.start_ns[call] + cpu_duration_ns, rank.trace.resolution_ns
        ),
    }
