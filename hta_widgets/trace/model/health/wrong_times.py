"""Count times that contradict each other: no GPU works before a launch, or twice on a stream.

::

    host     launch             cudaDeviceSynchronize |------|
    GPU      |== early ==|      |===== overlaps ======|
                                     |===== late: the call returned =====|

The clocks of host and GPU are set, drift and are read wrong, and some profilers cannot tell when a
kernel ended. Contradictions too small to be counted change no step by more than their size.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from hta_widgets.arrays import Int32Array, Int64Array
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import GPU_WORK, LAUNCH_CALLS, Events, Kind

ROUNDING_NS: Final = 1_000
"""How far times of one clock may contradict each other, in addition to twice its resolution."""

MOST_AGAINST_ORDER: Final = 0.01
"""Share of the GPU work that may start before its launch, and of the calls that may return before
what they wait for: none does in any of the shared traces."""

MOST_APART: Final = 0.01
"""Share of a recording that may be wrong if all its GPU work is off by as much as its two clocks
contradict each other: 1.3 µs are nothing next to 700 ms in which a GPU is idle."""

LAUNCH_NS: Final = 20_000
"""How far the clocks may be apart while less than `MOST_APART` is wrong.

A launch may take this long; beyond it, kernels and their launches change places. Ten calls that
returned 12 µs too early made a host that initialised for 113 ms inconclusive.
"""

MOST_OVERLAP: Final = 0.05
"""Share of the GPU-work time in which work on one stream may overlap. It is 0.2 % if each kernel
starts while the previous one ends, which NVIDIA GPUs can do since Hopper."""

STANDSTILL: Final = 0.2
"""Share of a recording in which nothing at all may start or end inside an operator that is usually
short. A pause of that length is rare, and a clock that is set forward looks the same."""

_TIMES_AS_LONG: Final = 10
_FEWEST_OTHERS: Final = 3
"""An operator is usually short if there are at least three others of its name, and each takes at
most a tenth of the time of the one that stands still."""

_WAITS_FOR_GPU: Final = re.compile(r"(Device|Thread|Ctx)Synchronize")
_WAITS_FOR_STREAM: Final = re.compile(r"StreamSynchronize")
_ORDERS_STREAMS: Final = re.compile(r"^(cuda|hip|cu[A-Z])")
_COPIES_AND_WAITS: Final = re.compile(r"Memcpy(?!.*Async)")
_TO_HOST: Final = re.compile(r"DtoH|DeviceToHost")
_NO_COPY: Final = np.iinfo(np.int64).min
_COMPUTES: Final = "aten::"


@dataclass(frozen=True, kw_only=True)
class WrongTimes:
    """Counts of times that contradict others."""

    linked: int = 0
    early: int = 0
    """GPU operations whose launch is in the trace, and how many of them start before it."""
    waits: int = 0
    late: int = 0
    """Calls that wait for the whole GPU after a launch, or for a copy to the host, and how many of
    them return before it is done."""
    apart_ns: int = 0
    """The most that any of these times is off."""
    apart_percent: float = 0.0
    """Share (%) of the recording that is wrong if all linked work is off by that much."""
    overlapping: int = 0
    """GPU operations that start before the previous one on their stream ends, except within one
    graph."""
    overlap_percent: float = 0.0
    """Share (%) of the time of all GPU work in which they overlap."""
    standstill_ns: int = 0
    """The longest time in which nothing starts or ends while an operator runs that is usually
    short; 0 if it is less than `STANDSTILL` of the recording."""

    @property
    def clocks_contradict(self) -> bool:
        """Whether too much is out of order to trust idle time and launches."""
        are_many = (
            self.early > MOST_AGAINST_ORDER * self.linked
            or self.late > MOST_AGAINST_ORDER * self.waits
        )
        is_far = self.apart_ns > LAUNCH_NS or self.apart_percent > 100 * MOST_APART
        return are_many and is_far

    @property
    def kernels_overlap(self) -> bool:
        """Whether too much overlaps to trust the durations of kernels."""
        return self.overlap_percent > 100 * MOST_OVERLAP


def wrong_times(events: Events, launches: Int32Array, resolution_ns: int = 0) -> WrongTimes:
    """Count the times that contradict others.

    `launches` has the row of each event's launch, -1 for none; the resolution is the step of the
    clock (`Trace.resolution_ns`).
    """
    least_ns = ROUNDING_NS + 2 * resolution_ns
    work = events.rows_of(*GPU_WORK)
    linked = work[launches[work] >= 0]
    early_ns = events.start_ns[launches[linked]] - events.start_ns[linked]
    late_ns = _late(events, linked, launches)
    apart_ns = max(int(early_ns.max(initial=0)), int(late_ns.max(initial=0)))
    overlap_ns = _overlaps(events, work, least_ns)
    return WrongTimes(
        linked=linked.size,
        early=int(np.count_nonzero(early_ns > least_ns)),
        waits=late_ns.size,
        late=int(np.count_nonzero(late_ns > least_ns)),
        apart_ns=apart_ns,
        apart_percent=100 * apart_ns * linked.size / max(_length_ns(events, work), 1),
        overlapping=overlap_ns.size,
        overlap_percent=100 * float(overlap_ns.sum() / max(int(events.duration_ns[work].sum()), 1)),
        standstill_ns=_standstill_ns(events),
    )


def _length_ns(events: Events, work: Int64Array) -> int:
    """Time from the first to the last of the GPU work and the calls that launch it."""
    rows = np.concatenate((work, events.rows_of(*LAUNCH_CALLS)))
    if not rows.size:
        return 0
    return int(events.ends_of(rows).max() - events.start_ns[rows].min())


def _late(events: Events, linked: Int64Array, launches: Int32Array) -> Times:
    """How long before the end of what it waits for each waiting call returns (ns).

    A call waits for all work whose launch had returned, on any thread; in a process with several
    GPUs, for the work of one of them, which is not recorded. It is the first unless the program
    chose another: where all work is on another one, and would start before its launch if the clocks
    were that far apart, the call waited for none of it, as the profiler's own call may.

    A call that waits for a stream waits for the copy to the host that its thread launched last, as
    in ``.item()``; other streams are not recorded. Copies to the host that are not asynchronous
    wait for themselves.
    """
    if not linked.size:
        return np.zeros(0, dtype=np.int64)
    linked = linked[np.argsort(events.ends_of(launches[linked]), kind="stable")]
    calls = launches[linked].astype(np.int64)
    waits = _calls(events, _WAITS_FOR_GPU)
    if np.ptp(events.device[linked]):
        waits = waits[:0]
    late_ns = _last_before(events, calls, waits, np.maximum.accumulate(events.ends_of(linked)))
    if events.device[linked].any():
        delay_ns = events.start_ns[linked] - events.start_ns[calls]
        late_ns = late_ns[late_ns <= max(int(delay_ns.min()), 0)]
    found = [late_ns]
    is_copy = events.named(linked, _TO_HOST)
    copied_ns = np.where(is_copy, events.ends_of(linked), _NO_COPY)
    waits_itself = is_copy & events.named(calls, _COPIES_AND_WAITS)
    found.append(copied_ns[waits_itself] - events.ends_of(calls[waits_itself]))
    waits = _calls(events, _WAITS_FOR_STREAM)
    for thread in np.unique(events.tid[waits]):
        own = events.tid[calls] == thread
        of_thread = waits[events.tid[waits] == thread]
        found.append(_last_before(events, calls[own], of_thread, copied_ns[own]))
    return np.concatenate(found)


def _last_before(events: Events, calls: Int64Array, waits: Int64Array, done_ns: Times) -> Times:
    """How long before the end of the work launched last before it each call returns (ns)."""
    place = np.searchsorted(events.ends_of(calls), events.start_ns[waits], side="right") - 1
    waits, done_ns = waits[place >= 0], done_ns[place[place >= 0]]
    known = done_ns != _NO_COPY
    return np.asarray(done_ns[known] - events.ends_of(waits[known]))


def _calls(events: Events, pattern: re.Pattern[str]) -> Int64Array:
    calls = events.rows_of(*LAUNCH_CALLS)
    return calls[events.named(calls, pattern)]


def _overlaps(events: Events, work: Int64Array, least_ns: int) -> Times:
    """How long other work on its stream still runs after each piece of work has started (ns).

    Only CUDA and HIP forbid this; a stream of another API may be several engines.
    """
    work = work[events.stream[work] >= 0]
    calls = events.rows_of(*LAUNCH_CALLS)
    is_other_api = calls.size and not events.named(calls, _ORDERS_STREAMS).any()
    if is_other_api or not work.size:
        return np.zeros(0, dtype=np.int64)
    of_stream = grouped(events.device[work], events.stream[work])
    work, stream = work[of_stream.order], np.sort(of_stream.of_rows)
    start_ns, end_ns = events.start_ns[work], events.ends_of(work)
    apart_ns = stream * (int(end_ns.max()) + 1)  # so that one maximum runs over all streams
    running_ns = np.maximum.accumulate(end_ns + apart_ns)[:-1] - apart_ns[1:]
    overlap_ns = np.minimum(running_ns, end_ns[1:]) - start_ns[1:]
    ids = events.correlation[work]
    of_one_graph = (ids[1:] == ids[:-1]) & (ids[1:] > 0)
    return np.asarray(overlap_ns[(overlap_ns > least_ns) & ~of_one_graph])


def _standstill_ns(events: Events) -> int:
    """The longest time without a start or an end in an operator that is usually short.

    It is 0 before anything has ended: the first operator of a recording waits for the profiler, and
    nothing else would show a clock that is set there. It is also 0 without GPU work: on a GPU that
    the recorder could not see, an optimizer waited for 48 ms.
    """
    rows = events.rows_of(Kind.CPU_OP, Kind.PYTHON, *LAUNCH_CALLS, *GPU_WORK)
    start_ns, end_ns = events.start_ns[rows], events.ends_of(rows)
    if not events.rows_of(*GPU_WORK).size:
        return 0
    least_ns = STANDSTILL * int(end_ns.max() - start_ns[0])
    found_ns = 0
    for place in np.flatnonzero(np.diff(start_ns) > least_ns).tolist():
        begin_ns, next_ns = int(start_ns[place]), int(start_ns[place + 1])
        ends = end_ns[: place + 1]
        if ends.min() > begin_ns:
            continue
        edges = np.sort(np.append(ends[(ends > begin_ns) & (ends < next_ns)], (begin_ns, next_ns)))
        longest = int(np.diff(edges).argmax())
        first_ns, last_ns = int(edges[longest]), int(edges[longest + 1])
        across = rows[: place + 1][ends >= last_ns]
        if last_ns - first_ns > max(least_ns, found_ns) and _holds_short(events, rows, across):
            found_ns = last_ns - first_ns
    return found_ns


def _holds_short(events: Events, rows: Int64Array, across: Int64Array) -> bool:
    """Whether the innermost of the calls, on any thread, is an operator that is usually short.

    Only operators with the same input shapes are compared, if shapes are recorded: one product with
    a vocabulary of 100,000 took 2.2 s, 90 others at most 1.5 ms. The first operator of all does not
    count: the ``empty_strided`` that created the context of a GPU took 3.77 s.
    """
    calls = across[np.isin(events.kind[across], (Kind.CPU_OP, Kind.PYTHON, *LAUNCH_CALLS))]
    innermost = {(events.pid[row], events.tid[row]): row for row in calls.tolist()}
    for row in innermost.values():
        same = rows[events.name.codes[rows] == events.name.codes[row]]
        shapes, _ = events.texts_at("operators", "input_dims", same)
        same = same[shapes == shapes[same == row]]
        others_ns = events.duration_ns[same[same != row]]
        is_short = _TIMES_AS_LONG * others_ns.max(initial=0) <= events.duration_ns[row]
        is_operator = events.names_at(np.array([row]))[0].startswith(_COMPUTES)
        is_first = events.start_ns[row] == events.start_ns[same].min()
        if is_operator and is_short and not is_first and others_ns.size >= _FEWEST_OTHERS:
            return True
    return False
