"""Why GPUs and streams are idle: the host is late, the GPU holds work back, or it is unknown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.idle_time.gaps import (
    IDLE_SPLIT,
    Gaps,
    SplitGaps,
    device_gaps,
    split_device_gaps,
    split_stream_gaps,
    stream_gaps,
)
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.gpu_time import GpuTime, over_steps, span_in_words
from hta_widgets.analyses.time.rows import Columns, joined
from hta_widgets.analyses.time.selection import TimeSelection, remember, selected_times
from hta_widgets.arrays import Float64Array, Int64Array
from hta_widgets.errors import cutoff_ns
from hta_widgets.grouping import grouped
from hta_widgets.quantities import duration, percent
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.notices import Notice
from hta_widgets.trace.ranks.rank import Rank

WORTH_SAYING: Final = 0.03
"""Idle share of the span at which it is worth a sentence."""

PART_WORTH_SAYING: Final = 0.01
"""Share of the idle time at which one of its parts is in the sentence."""

_PHRASES: Final = {
    "host": "before the launch call began (CPU-bound)",
    "launch_call": "in the launch call and its latency (CPU-bound)",
    "between_kernels": "in gaps between kernels",
    "inside_graph": "inside CUDA graphs",
    "dependency": "after the launch, before the next work started",
    "launch_not_recorded": "of unknown cause (launch not recorded)",
}

_UNKNOWN_LAUNCHES = (
    "no launch in the trace for the operation that ends {} of {} idle intervals on streams: their "
    "cause is unknown (HTA's categories call them kernel_wait or other by their length)"
)

IDLE_CATEGORIES = ("host_wait", "kernel_wait", "other")
"""HTA's causes of an idle interval; each interval has one of them."""

_CATEGORIES = {"idle_category": IDLE_CATEGORIES, "split": IDLE_SPLIT}
_QUARTILES = {"q25_ns": 0.25, "median_ns": 0.5, "q75_ns": 0.75}
_NO_NUMBER = float("nan")


def idle_finding(
    streams: pd.DataFrame,
    devices: pd.DataFrame,
    wanted: Collection[int],
    times: Sequence[GpuTime],
    *,
    is_selected: bool = False,
    doubt: str = "",
) -> str:
    """Say how long the GPUs are idle and why; empty below `WORTH_SAYING`.

    If the analysed time is longer than the GPU span, and its idle share differs, a second
    sentence says that share.

    Parameters
    ----------
    streams, devices : DataFrame
        `IdleTime.stream_split` and `IdleTime.device_split`.
    wanted : collection of int
        The streams that were asked for.
    is_selected : bool
        Whether only the part of the GPU spans in the selected time counts.
    doubt : str
        Why they may not have been idle; empty if nothing speaks for it.
    """
    if devices.empty:
        return "No GPU work was recorded on the selected ranks."
    if streams.empty:
        noun = "stream" if len(wanted) == 1 else "streams"
        return f"No selected rank has GPU work on {noun} {', '.join(map(str, sorted(wanted)))}."
    by_part = devices["idle_time_ns"].to_numpy().reshape(-1, len(IDLE_SPLIT)).sum(axis=0)
    span_ns = int(devices["span_ns"].to_numpy()[:: len(IDLE_SPLIT)].sum())
    idle_ns, gpus = int(by_part.sum()), len(devices) // len(IDLE_SPLIT)
    longer = over_steps(times)
    is_worth_saying = idle_ns > 0 and idle_ns >= WORTH_SAYING * span_ns
    if not is_worth_saying and not longer:
        return ""
    who, are = f"The {gpus} GPUs", "look" if doubt else "are"
    if gpus == 1:
        who, are = f"The GPU of rank {devices['rank'].iloc[0]}", "looks" if doubt else "is"
    whole = span_in_words(gpus, is_selected=False) + (" in the selected time" * is_selected)
    why = f": {_causes(by_part.tolist())}" if is_worth_saying else ""
    why = f", but may have been busy: {doubt}" if doubt else why
    return (
        f"{who} {are} idle {percent(100 * idle_ns / span_ns)} of {whole} ({duration(idle_ns)} of "
        f"{duration(span_ns)}){why}.{longer}"
    )


def _causes(by_part: Sequence[int]) -> str:
    """Parts of the idle time in words, the largest first, without those too small to matter."""
    idle_ns = sum(by_part)
    parts = sorted(zip(by_part, IDLE_SPLIT, strict=True), key=lambda part: -part[0])
    said = [
        f"{percent(100 * part_ns / idle_ns)} {_PHRASES[name]}"
        for part_ns, name in parts
        if part_ns >= PART_WORTH_SAYING * idle_ns
    ]
    return ", ".join(said)


@dataclass(frozen=True, kw_only=True, eq=False)
class IdleTime(Result):
    """Idle time by cause.

    Attributes
    ----------
    streams : DataFrame
        Three rows per stream, one for each cause, the streams of a device in the order in which
        they occur in the trace: ``rank``, ``device``, ``stream``, ``idle_category`` (``host_wait``,
        ``kernel_wait``, ``other``), ``idle_time_ns`` (int64 ns), ``idle_percent`` (of the idle time
        of the stream; NaN when it is never idle), ``count`` (intervals), ``mean_ns``, ``std_ns``
        (sample; NaN for fewer than two), ``min_ns``, ``q25_ns``, ``median_ns``, ``q75_ns``,
        ``max_ns`` (float ns, of the intervals; NaN for none), ``unknown_launches`` (intervals whose
        launch is not in the trace), ``span_ns`` (first start to last end on the stream).
    devices : DataFrame
        The same for each device, over the time in which none of its streams is busy; without
        ``stream``.
    stream_split : DataFrame
        The idle time of each stream, split where the call that launches the next operation starts
        and ends. Six rows per stream, in the order of `IDLE_SPLIT`: ``rank``, ``device``,
        ``stream``, ``split``, ``idle_time_ns`` (int64 ns), ``idle_percent`` (of the idle time of
        the stream; NaN when it is never idle), ``count`` (intervals with such time), ``span_ns``.

        ``host``: before the call starts. ``launch_call``: from then until it returns, at least
        15 µs if it started after the interval did. The rest is ``between_kernels`` if the call
        started before the interval, and the interval is shorter than `consecutive_kernel_delay`;
        otherwise it is ``dependency``: launched, and held back. ``inside_graph``: the operations on
        both sides belong to one launched graph. ``launch_not_recorded``: the launch is not in the
        trace.
    device_split : DataFrame
        The same for each device; without ``stream``.
    """

    streams: pd.DataFrame
    devices: pd.DataFrame
    stream_split: pd.DataFrame
    device_split: pd.DataFrame


def idle_time(
    job: Job,
    ranks: Iterable[int] | None = None,
    *,
    streams: Iterable[int] | None = None,
    consecutive_kernel_delay: float = 30,
    steps: Iterable[int] | None = None,
    window_ns: Sequence[int] | None = None,
) -> IdleTime:
    """Break down idle time by its cause.

    An idle interval lies between the end of all earlier operations (of the stream, or of the
    device) and the start of the next one. Its cause is ``host_wait`` if the call that launches the
    next operation starts after the interval does; else ``kernel_wait`` if the interval is shorter
    than `consecutive_kernel_delay`; else ``other``. If the launch is not in the trace, there is no
    evidence that the CPU was late, and the length decides.

    Parameters
    ----------
    ranks : iterable of int, optional
        All ranks when not given.
    streams : iterable of int, optional
        Only these streams; all when not given. Devices always count all their streams.
    consecutive_kernel_delay : float
        Longest time (µs) between two operations that still counts as ``kernel_wait``.
    steps : iterable of int, optional
        Only these ProfilerSteps; all of the time when not given or empty. An interval that crosses
        the edge of a step counts with its part inside, whose length is compared with
        `consecutive_kernel_delay`; whether its launch was late is decided for the whole interval.
        ``span_ns`` is the part inside, too. See `TimeSelection`.
    window_ns : pair of int, optional
        Only the time between these two, in ns since the first event of all ranks.
    """
    delay_ns = cutoff_ns("consecutive_kernel_delay", consecutive_kernel_delay)
    chosen = select_ranks(job, ranks)
    wanted = frozenset(streams or ())
    selection = TimeSelection.of(job, chosen, steps=steps, window_ns=window_ns)
    by_rank = job.reduce(_idle_rows_of_rank, chosen, delay_ns, selection).values()
    streams_of, devices_of, stream_parts, device_parts, times = zip(*by_rank, strict=True)
    of_streams = _of_wanted(_table(streams_of), wanted)
    stream_split = _of_wanted(_table(stream_parts), wanted)
    device_split = _table([_of_devices(of_rank) for of_rank in device_parts])
    return IdleTime(
        streams=of_streams,
        devices=_table([_of_devices(of_rank) for of_rank in devices_of]),
        stream_split=stream_split,
        device_split=device_split,
        finding=idle_finding(
            stream_split,
            device_split,
            wanted,
            [*chain(*times)],
            is_selected=selection is not None,
            doubt=job.doubt_of_idle_time(chosen),
        ),
        notices=(
            *job.notices_for(chosen, Recorded.KERNELS),
            *_unknown_launch_notices(job, of_streams),
        ),
    )


def stream_idle_time(
    job: Job,
    ranks: Iterable[int] | None = None,
    *,
    streams: Iterable[int] | None = None,
    consecutive_kernel_delay: float = 30,
) -> pd.DataFrame:
    """`IdleTime.streams` alone, without the devices."""
    delay_ns = cutoff_ns("consecutive_kernel_delay", consecutive_kernel_delay)
    by_rank = job.reduce(_idle_rows_of_streams, select_ranks(job, ranks), delay_ns)
    return _of_wanted(_table([*by_rank.values()]), frozenset(streams or ()))


def _of_devices(columns: Columns) -> Columns:
    return {name: column for name, column in columns.items() if name != "stream"}


def _of_wanted(table: pd.DataFrame, streams: Collection[int]) -> pd.DataFrame:
    return table[table["stream"].isin(streams)].reset_index(drop=True) if streams else table


def _idle_rows_of_rank(
    rank: Rank, delay_ns: int, selection: TimeSelection | None
) -> tuple[Columns, Columns, Columns, Columns, tuple[GpuTime, ...]]:
    """Rows of the streams and devices of one rank, by category and by part, and times of GPUs."""
    number = rank.trace.rank
    return (
        category_rows(number, remember(rank, stream_gaps, selection), delay_ns),
        category_rows(number, remember(rank, device_gaps, selection), delay_ns),
        split_rows(number, remember(rank, split_stream_gaps, selection), delay_ns),
        split_rows(number, remember(rank, split_device_gaps, selection), delay_ns),
        tuple(remember(rank, selected_times, selection).values()),
    )


def _idle_rows_of_streams(rank: Rank, delay_ns: int) -> Columns:
    return category_rows(rank.trace.rank, remember(rank, stream_gaps, None), delay_ns)


def _table(parts: Sequence[Columns]) -> pd.DataFrame:
    columns = joined(parts)
    for name, values in _CATEGORIES.items():
        if name in columns:
            codes, names = columns[name].astype(np.int8), pd.Index(values, dtype=object)
            columns[name] = pd.Categorical.from_codes(codes, names, ordered=True)
    return pd.DataFrame(columns)


def _unknown_launch_notices(job: Job, streams: pd.DataFrame) -> tuple[str, ...]:
    # With `DataFrame.groupby`, each step of a slider would take 3.5 ms instead of 2.4.
    ranks = grouped(streams["rank"].to_numpy())
    unknown = ranks.reduce(np.add, streams["unknown_launches"].to_numpy()).tolist()
    intervals = ranks.reduce(np.add, streams["count"].to_numpy()).tolist()
    notices = {
        rank: [Notice(_UNKNOWN_LAUNCHES, tuple(counts))]
        for rank, *counts in zip(
            streams["rank"].to_numpy()[ranks.first].tolist(), unknown, intervals, strict=True
        )
        if counts[0]
    }
    return job.merged(notices)


def category_rows(rank: int, gaps: Gaps, delay_ns: int) -> Columns:
    """One row per stream, or device, and cause."""
    edges = gaps.category_edges(delay_ns)
    idle_ns = np.diff(gaps.total_ns[edges])
    return {
        "rank": np.full(idle_ns.size, rank, dtype=np.int64),
        "device": np.repeat(gaps.device, len(IDLE_CATEGORIES)),
        "stream": np.repeat(gaps.stream, len(IDLE_CATEGORIES)),
        "idle_category": np.tile(np.arange(len(IDLE_CATEGORIES), dtype=np.int8), gaps.device.size),
        "idle_time_ns": idle_ns,
        "idle_percent": _share_of_group(idle_ns, len(IDLE_CATEGORIES)),
        **_statistics(gaps, idle_ns, edges),
        "unknown_launches": gaps.unknown_launches(delay_ns),
        "span_ns": np.repeat(gaps.span_ns, len(IDLE_CATEGORIES)),
    }


def split_rows(rank: int, gaps: SplitGaps, delay_ns: int) -> Columns:
    """One row per stream, or device, and part of its idle time."""
    idle_ns, count = gaps.by_part(delay_ns)
    return {
        "rank": np.full(idle_ns.size, rank, dtype=np.int64),
        "device": np.repeat(gaps.device, len(IDLE_SPLIT)),
        "stream": np.repeat(gaps.stream, len(IDLE_SPLIT)),
        "split": np.tile(np.arange(len(IDLE_SPLIT), dtype=np.int8), gaps.device.size),
        "idle_time_ns": idle_ns.ravel(),
        "idle_percent": _share_of_group(idle_ns.ravel(), len(IDLE_SPLIT)),
        "count": count.ravel(),
        "span_ns": np.repeat(gaps.span_ns, len(IDLE_SPLIT)),
    }


def _share_of_group(idle_ns: Int64Array, size: int) -> Float64Array:
    """Share (%) of each row in its group of rows of one stream or device."""
    whole_ns = np.repeat(idle_ns.reshape(-1, size).sum(axis=1), size)
    share = np.full(idle_ns.size, _NO_NUMBER)
    np.divide(100 * idle_ns, whole_ns, out=share, where=whole_ns > 0)
    return share


def _statistics(gaps: Gaps, sum_ns: Int64Array, edges: Int64Array) -> Columns:
    """Statistics of runs of intervals that each ascend in length."""
    count, length_ns = np.diff(edges), gaps.length_ns
    filled = np.flatnonzero(count)
    first, number = edges[:-1][filled], count[filled]
    mean = sum_ns[filled] / number

    def spread(values: Float64Array) -> Float64Array:
        column = np.full(count.size, _NO_NUMBER)
        column[filled] = values
        return column

    return {
        "count": count,
        "mean_ns": spread(mean),
        "std_ns": spread(_deviations(length_ns, mean, first, number)),
        "min_ns": spread(length_ns[first].astype(np.float64)),
        **{
            name: spread(_quantiles(length_ns, first, number, share))
            for name, share in _QUARTILES.items()
        },
        "max_ns": spread(length_ns[first + number - 1].astype(np.float64)),
    }


def _deviations(
    length_ns: Int64Array,
    mean: Float64Array,
    first: Int64Array,
    number: Int64Array,
) -> Float64Array:
    """Sample standard deviation of each run; NaN for single intervals."""
    deviations = np.full(mean.size, _NO_NUMBER)
    for run in np.flatnonzero(number > 1).tolist():
        difference = length_ns[first[run] : first[run] + number[run]] - mean[run]
        # A step of the slider at 1 M kernels takes 7 ms, or 14 to 38 ms with
        # `difference @ difference`, which starts threads. Prefix sums lose short intervals next to
        # long ones to cancellation.
        squares = np.einsum("i,i->", difference, difference)
        deviations[run] = np.sqrt(squares / (number[run] - 1))
    return deviations


def _quantiles(
    length_ns: Int64Array,
    first: Int64Array,
    number: Int64Array,
    share: float,
) -> Float64Array:
    """Quantile of each run, interpolated linearly."""
    place = share * (number - 1)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, number - 1)
    low, high = length_ns[first + below], length_ns[first + above]
    return np.asarray(low + (high - low) * (place - below))
