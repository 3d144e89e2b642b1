"""Why GPUs and their streams are idle: the host is late, back-to-back kernels, or other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.idle_time.gaps import Gaps, device_gaps, stream_gaps
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.shared.cutoffs import cutoff_ns
from hta_widgets.grouping import grouped
from hta_widgets.quantities import duration, percent
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.notices import Notice, merge_notices
from hta_widgets.trace.ranks.rank import Rank

IDLE_CATEGORIES = ("host_wait", "kernel_wait", "other")
_QUARTILES = {"q25_ns": 0.25, "median_ns": 0.5, "q75_ns": 0.75}
_UNKNOWN_LAUNCHES = (
    "no launch in the trace for the operation that ends {} of {} idle intervals on streams; they "
    "are classified by length as kernel_wait or other, never as host_wait"
)
_NO_NUMBER = float("nan")
_IN_CACHE = 2**13
_Columns = dict[str, NDArray[np.generic]]


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
    """

    streams: pd.DataFrame
    devices: pd.DataFrame


def idle_time(
    job: Job,
    ranks: Iterable[int] | None = None,
    *,
    streams: Iterable[int] | None = None,
    consecutive_kernel_delay: float = 30,
) -> IdleTime:
    """Break down idle time by its cause.

    An idle interval lies between the end of all earlier operations (of the stream, or of the
    device) and the start of the next one. Its cause is ``host_wait`` if the call that launches the
    next operation begins after the interval does; else ``kernel_wait`` if the interval is shorter
    than `consecutive_kernel_delay`; else ``other``. If the launch is not in the trace, there is no
    evidence that the host was late, and the length decides.

    Parameters
    ----------
    job : Job
    ranks : iterable of int, optional
        All ranks when not given.
    streams : iterable of int, optional
        Only these streams; all when not given. Devices always count all their streams.
    consecutive_kernel_delay : float
        Longest time (µs) between two operations that still counts as ``kernel_wait``.

    Returns
    -------
    IdleTime

    Raises
    ------
    UnknownRankError
        If the job lacks a rank.
    ParameterError
        If `consecutive_kernel_delay` is negative or not finite.
    """
    delay_ns = cutoff_ns("consecutive_kernel_delay", consecutive_kernel_delay)
    chosen = job.select_ranks(ranks)
    wanted = frozenset(streams or ())
    by_rank = job.reduce(_idle_rows_of_rank, chosen, delay_ns).values()
    of_streams = _of_wanted(_table([of_rank for of_rank, _ in by_rank]), wanted)
    of_devices = _table([_of_devices(of_rank) for _, of_rank in by_rank])
    return IdleTime(
        streams=of_streams,
        devices=of_devices,
        finding=_idle_finding(of_streams, of_devices, wanted),
        notices=(
            *job.notices_for(chosen),
            *job.lacking(chosen, Recorded.KERNELS),
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
    by_rank = job.reduce(_idle_rows_of_streams, job.select_ranks(ranks), delay_ns)
    return _of_wanted(_table([*by_rank.values()]), frozenset(streams or ()))


def _of_devices(columns: _Columns) -> _Columns:
    return {name: column for name, column in columns.items() if name != "stream"}


def _of_wanted(table: pd.DataFrame, streams: Collection[int]) -> pd.DataFrame:
    return table[table["stream"].isin(streams)].reset_index(drop=True) if streams else table


def _idle_rows_of_rank(rank: Rank, delay_ns: int) -> tuple[_Columns, _Columns]:
    """Rows of the streams and of the devices of one rank."""
    devices = _rows(rank.trace.rank, rank.remember(device_gaps), delay_ns)
    return _idle_rows_of_streams(rank, delay_ns), devices


def _idle_rows_of_streams(rank: Rank, delay_ns: int) -> _Columns:
    return _rows(rank.trace.rank, rank.remember(stream_gaps), delay_ns)


def _table(parts: Sequence[_Columns]) -> pd.DataFrame:
    columns: dict[str, Any] = {
        name: np.concatenate([part[name] for part in parts]) for name in parts[0]
    }
    codes = columns["idle_category"].astype(np.int8)
    names = pd.Index(IDLE_CATEGORIES, dtype=object)
    columns["idle_category"] = pd.Categorical.from_codes(codes, names, ordered=True)
    return pd.DataFrame(columns)


def _rows(rank: int, gaps: Gaps, delay_ns: int) -> _Columns:
    """One row per stream, or device, and cause."""
    edges = gaps.category_edges(delay_ns)
    idle_ns = np.diff(gaps.total_ns[edges])
    whole_ns = np.repeat(
        idle_ns.reshape(-1, len(IDLE_CATEGORIES)).sum(axis=1), len(IDLE_CATEGORIES)
    )
    share = np.divide(100 * idle_ns, whole_ns, out=_undefined(idle_ns.size), where=whole_ns > 0)
    return {
        "rank": np.full(idle_ns.size, rank, dtype=np.int64),
        "device": np.repeat(gaps.device, len(IDLE_CATEGORIES)),
        "stream": np.repeat(gaps.stream, len(IDLE_CATEGORIES)),
        "idle_category": np.tile(np.arange(len(IDLE_CATEGORIES), dtype=np.int8), gaps.device.size),
        "idle_time_ns": idle_ns,
        "idle_percent": share,
        **_statistics(gaps, idle_ns, edges),
        "unknown_launches": gaps.unknown_launches(delay_ns),
        "span_ns": np.repeat(gaps.span_ns, len(IDLE_CATEGORIES)),
    }


def _statistics(gaps: Gaps, sum_ns: NDArray[np.int64], edges: NDArray[np.int64]) -> _Columns:
    """Statistics of runs of intervals that each ascend in length."""
    count, length_ns = np.diff(edges), gaps.length_ns
    filled = np.flatnonzero(count)
    first, number = edges[:-1][filled], count[filled]
    mean = sum_ns[filled] / number

    def spread(values: NDArray[np.float64]) -> NDArray[np.float64]:
        column = _undefined(count.size)
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
    length_ns: NDArray[np.int64],
    mean: NDArray[np.float64],
    first: NDArray[np.int64],
    number: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Sample standard deviation of each run; NaN for single intervals."""
    deviations = np.full(mean.size, _NO_NUMBER)
    for run in np.flatnonzero(number > 1).tolist():
        difference = length_ns[first[run] : first[run] + number[run]] - mean[run]
        # A step of the slider at 1 M kernels: 7 ms; 14 to 38 ms with `difference @ difference`,
        # which starts threads. Prefix sums cancel where short intervals stand beside long ones.
        squares = np.einsum("i,i->", difference, difference)
        deviations[run] = np.sqrt(squares / (number[run] - 1))
    return deviations


def _quantiles(
    length_ns: NDArray[np.int64],
    first: NDArray[np.int64],
    number: NDArray[np.int64],
    share: float,
) -> NDArray[np.float64]:
    """Quantile of each run, linear between its neighbours."""
    place = share * (number - 1)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, number - 1)
    low, high = length_ns[first + below], length_ns[first + above]
    return np.asarray(low + (high - low) * (place - below))


def _undefined(size: int) -> NDArray[np.float64]:
    return np.full(size, _NO_NUMBER)


def _unknown_launch_notices(job: Job, streams: pd.DataFrame) -> list[str]:
    # By `DataFrame.groupby`, each step of a slider would take 3.5 ms instead of 2.4.
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
    return merge_notices(notices, name_ranks=len(job.ranks) > 1)


def _idle_finding(streams: pd.DataFrame, devices: pd.DataFrame, wanted: Collection[int]) -> str:
    if devices.empty:
        return "No GPU work was recorded on the selected ranks."
    if streams.empty:
        noun = "stream" if len(wanted) == 1 else "streams"
        return f"No selected rank has GPU work on {noun} {', '.join(map(str, sorted(wanted)))}."
    by_cause = devices["idle_time_ns"].to_numpy().reshape(-1, len(IDLE_CATEGORIES)).sum(axis=0)
    span_ns = int(devices["span_ns"].to_numpy()[:: len(IDLE_CATEGORIES)].sum())
    idle_ns, gpus = int(by_cause.sum()), len(devices) // len(IDLE_CATEGORIES)
    who = f"The GPU of rank {devices['rank'].iloc[0]} is" if gpus == 1 else f"The {gpus} GPUs are"
    if not idle_ns:
        return f"{who} never idle over {duration(span_ns)}."
    host, kernel, other = (percent(100 * cause_ns / idle_ns) for cause_ns in by_cause.tolist())
    return (
        f"{who} idle {percent(100 * idle_ns / span_ns)} of the time ({duration(idle_ns)} of "
        f"{duration(span_ns)}): {host} host wait, {kernel} kernel wait, {other} other."
    )
