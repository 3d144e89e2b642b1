"""Results of analyses as HTA's tables: its columns, their order, the row order, units (µs)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.clocks import clocks
from hta_widgets.analyses.cupti_counters import CuptiCounters
from hta_widgets.analyses.kernel_breakdown import KernelBreakdown
from hta_widgets.analyses.kernel_sequences import KernelSequences
from hta_widgets.analyses.launch_stats import LaunchedOperations
from hta_widgets.analyses.memory_bandwidth import UNIT
from hta_widgets.analyses.overlap import Overlap
from hta_widgets.analyses.queue_length import QueueLength
from hta_widgets.analyses.temporal_breakdown import TemporalBreakdown
from hta_widgets.analyses.time.step_statistics import PER_CHANGE
from hta_widgets.arrays import Int64Array
from hta_widgets.diagnosis import diagnosis
from hta_widgets.diagnosis.limits import Limits
from hta_widgets.hta_tables.event_columns import as_whole
from hta_widgets.quantities import NS_PER_US
from hta_widgets.trace.cache.derived_columns import Columns
from hta_widgets.trace.job import Job
from hta_widgets.trace.ranks.iterations import iterations
from hta_widgets.trace.ranks.rank import Rank

_DESCRIBED = ("count", "mean", "std", "min", "25%", "50%", "75%", "max")


def _tables_of(columns: Mapping[int, Columns]) -> dict[int, pd.DataFrame]:
    """Make a table of each rank's columns, without copying them.

    All columns are computed first: numpy work between two tables makes each take seven times as
    long, as it evicts pandas from the CPU's caches.
    """
    return {rank: pd.DataFrame(of_rank, copy=False) for rank, of_rank in columns.items()}


def _device_column(table: pd.DataFrame) -> dict[str, pd.Series]:
    """Column ``device``, only for jobs with several devices on a rank."""
    several = table[["rank", "device"]].drop_duplicates()["rank"].duplicated().any()
    return {"device": table["device"]} if several else {}


def _statistics_table(
    table: pd.DataFrame, keys: Sequence[str], columns: Sequence[str], of: str
) -> pd.DataFrame:
    """Columns with the eight statistics, shaped like ``groupby(keys)[[of]].describe()``."""
    shown = table.set_index(list(keys))[list(columns)].astype(np.float64)
    shown.columns = pd.MultiIndex.from_product([[of], _DESCRIBED])
    return shown


_PARTS = ("idle_time", "compute_time", "non_compute_time")


def temporal_breakdown(result: TemporalBreakdown) -> pd.DataFrame:
    """Return the columns that `TraceAnalysis.get_temporal_breakdown` documents."""
    table = result.ranks.assign(
        non_compute_time_ns=result.ranks["non_compute_time_ns"] + result.ranks["graph_time_ns"]
    )
    whole = table["kernel_time_ns"].where(table["kernel_time_ns"] > 0)
    columns = {"rank": table["rank"]}
    columns |= {f"{part}(us)": table[f"{part}_ns"] / NS_PER_US for part in (*_PARTS, "kernel_time")}
    columns |= {f"{part}_pctg": (100 * table[f"{part}_ns"] / whole).round(2) for part in _PARTS}
    return pd.DataFrame(columns | _device_column(table))


def overlap(result: Overlap) -> pd.DataFrame:
    """Return the columns that `TraceAnalysis.get_comm_comp_overlap` documents."""
    table = result.ranks
    columns = {
        "rank": table["rank"],
        "comp_comm_overlap_pctg": table["overlap_percent"].round(2),
    }
    return pd.DataFrame(columns | _device_column(table))


_ALWAYS = "other"
_INTERVAL_STATISTICS = {
    "mean_ns": "mean",
    "std_ns": "std",
    "min_ns": "min",
    "q25_ns": "25%",
    "median_ns": "50%",
    "q75_ns": "75%",
    "max_ns": "max",
}


def idle_time(streams: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of the first table of `TraceAnalysis.get_idle_time_breakdown`."""
    table = _rows_of_hta(streams)
    columns = {
        "rank": table["rank"],
        **_device_column(table),
        "stream": table["stream"],
        "idle_category": table["idle_category"].astype(str),
        "idle_time": (table["idle_time_ns"] / NS_PER_US).round(2),
        "idle_time_ratio": (table["idle_percent"] / 100).round(2),
    }
    return pd.DataFrame(columns).set_index(_place_on_rank(table["rank"].to_numpy()))


def idle_interval_statistics(streams: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of the second table of `TraceAnalysis.get_idle_time_breakdown`."""
    table = _rows_of_hta(streams)
    columns = {
        "rank": table["rank"],
        **_device_column(table),
        "stream": table["stream"],
        "count": table["count"].astype(float),
        **{name: (table[ours] / NS_PER_US).round(2) for ours, name in _INTERVAL_STATISTICS.items()},
    }
    index = pd.Index(table["idle_category"].astype(str), name="idle_category")
    return pd.DataFrame(columns).set_index(index)


def _rows_of_hta(streams: pd.DataFrame) -> pd.DataFrame:
    """Drop causes that do not occur on a stream, except `other`."""
    kept = (streams["count"] > 0) | (streams["idle_category"] == _ALWAYS)
    return streams[kept].reset_index(drop=True)


def _place_on_rank(rank: Int64Array) -> Int64Array:
    """Number the rows of each rank from 0; rows of a rank are contiguous."""
    first = np.flatnonzero(np.diff(rank, prepend=-1))
    return np.arange(rank.size) - np.repeat(first, np.diff(first, append=rank.size))


_KERNEL_STATISTICS = {
    "sum_ns": "sum (us)",
    "max_ns": "max (us)",
    "min_ns": "min (us)",
    "stddev_ns": "stddev",
    "mean_ns": "mean (us)",
}


def kernel_breakdown(result: KernelBreakdown) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the columns that `TraceAnalysis.get_gpu_kernel_breakdown` documents."""
    types = pd.DataFrame(
        {
            "kernel_type": result.types["kernel_type"],
            "sum": result.types["sum_ns"] / NS_PER_US,
            "percentage": result.types["percentage"].round(1),
        }
    )
    table = result.kernels
    columns = {
        _KERNEL_STATISTICS.get(name, name): table[name].to_numpy(np.float64) / NS_PER_US
        if name in _KERNEL_STATISTICS
        else table[name]
        for name in table.columns
        if name != "folded"
    }
    return types, pd.DataFrame(columns)


def kernel_sequences(result: KernelSequences) -> pd.DataFrame:
    """Return the columns that `TraceAnalysis.get_frequent_cuda_kernel_sequences` documents."""
    table = result.patterns
    return pd.DataFrame(
        {
            "pattern": table["pattern"],
            "count": table["count"],
            "GPU kernel duration (us)": table["gpu_time_ns"] / NS_PER_US,
            "CPU op duration (us)": table["cpu_time_ns"] / NS_PER_US,
        }
    )


CATEGORY = "cuda_profiler_range"
_PLACE = ["index", "cat", "name", "pid", "tid", "ts", "dur"]
_OPERATORS = ["index_runtime", "op_stack", "top_level_op", "bottom_level_op"]


def cupti_counters(result: CuptiCounters) -> list[pd.DataFrame]:
    """Return the tables that `TraceAnalysis.get_cupti_counter_data_with_operators` documents."""
    ranges = result.ranges
    table = ranges.assign(
        cat=CATEGORY, ts=ranges["start_ns"] / NS_PER_US, dur=ranges["duration_ns"] / NS_PER_US
    )
    of_ranks = [of_rank for _, of_rank in table.groupby("rank", sort=False)]
    return [_with_whole_counters(of_rank, result.counters) for of_rank in of_ranks]


def _with_whole_counters(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """The table of a rank, with whole-number counters as integers, as in the trace."""
    counters = [name for name in names if table[name].notna().any()]
    whole = {name: as_whole(table[name].to_numpy(dtype=float)) for name in counters}
    return table[[*_PLACE, *counters, *_OPERATORS]].assign(**whole).reset_index(drop=True)


def launch_stats(launched: Mapping[int, LaunchedOperations]) -> dict[int, pd.DataFrame]:
    """Return the columns that `TraceAnalysis.get_cuda_kernel_launch_stats` documents."""
    columns = {
        rank: {
            "correlation": work.correlation,
            "cpu_duration": work.cpu_duration_ns / NS_PER_US,
            "gpu_duration": work.gpu_duration_ns / NS_PER_US,
            "launch_delay": np.maximum(work.signed_delay_ns, 0) / NS_PER_US,
        }
        for rank, work in launched.items()
    }
    return _tables_of(columns)


def memory_bw_time_series(changes: Mapping[int, Columns]) -> dict[int, pd.DataFrame]:
    """Return the tables that `TraceAnalysis.get_memory_bw_time_series` documents."""
    columns = {
        rank: {
            "ts": each["time_ns"] / NS_PER_US,
            "pid": each["pid"].copy(),
            "name": each["name"].copy(),
            "memory_bw_gbps": each["bandwidth_gb_per_s"].copy(),
        }
        for rank, each in changes.items()
        if each["pid"].size
    }
    return _tables_of(columns)


def memory_bw_summary(transfers: pd.DataFrame) -> pd.DataFrame | None:
    """Return the table that `TraceAnalysis.get_memory_bw_summary` documents."""
    if transfers.empty:
        return None
    moving = transfers[transfers["count"] > 0]
    columns = ["count", *(f"{name}{UNIT}" for name in PER_CHANGE[1:])]
    return _statistics_table(moving, ["rank", "name"], columns, "memory_bw_gbps")


def queue_length_time_series(changes: Mapping[int, Columns]) -> dict[int, pd.DataFrame]:
    """Return the tables that `TraceAnalysis.get_queue_length_time_series` documents."""
    columns = {rank: _queue_columns(each) for rank, each in changes.items() if each["event"].size}
    indexes = {rank: changes[rank]["event"].copy() for rank in columns}
    tables = _tables_of(columns)
    for rank, table in tables.items():
        table.index = pd.Index(indexes[rank], name="index")
    return tables


def queue_length_summary(result: QueueLength) -> pd.DataFrame | None:
    """Return the table that `TraceAnalysis.get_queue_length_summary` documents."""
    streams = result.streams
    if streams.empty:
        return None
    several = streams.groupby("rank")["device"].nunique().max() > 1
    keys = ["rank", "stream", *(["device"] if several else [])]
    return _statistics_table(streams.sort_values(keys), keys, PER_CHANGE, "queue_length")


def _queue_columns(changes: Columns) -> dict[str, NDArray[Any]]:
    device = changes["device"]
    several = device.min() != device.max()
    copied = ("pid", "tid", "stream", "queue_length", *(("device",) if several else ()))
    columns = {"ts": changes["time_ns"] / NS_PER_US}
    return columns | {name: changes[name].copy() for name in copied}


_KEYS: Final = ("rank", "stream")
BLOCKED: Final = (
    *_KEYS,
    "duration_at_max_queue_length",
    "relative_duration_at_max_queue_length",
    "blocked_calls",
    "blocked (us)",
)


def summary_of_series(series: Mapping[int, pd.DataFrame]) -> pd.DataFrame | None:
    """Return the table that `get_queue_length_summary_from_time_series` documents."""
    frames = [
        frame[[*_stream_keys(frame), "queue_length"]].assign(rank=rank)
        for rank, frame in series.items()
    ]
    if not frames:
        return None
    every = pd.concat(frames, ignore_index=True)
    every["rank"] = pd.Categorical(every["rank"], categories=[*series], ordered=True)
    keys = ["rank", *_stream_keys(every)]
    described = every.groupby(keys, observed=True)[["queue_length"]].describe()
    ranks = described.index.get_level_values("rank").astype("int64")
    described.index = pd.MultiIndex.from_arrays(
        [ranks, *(described.index.get_level_values(key).astype("int64") for key in keys[1:])],
        names=keys,
    )
    return described


def _stream_keys(frame: pd.DataFrame) -> list[str]:
    return ["stream", *(["device"] if "device" in frame else [])]


def time_at_full_queue(
    series: Mapping[int, pd.DataFrame],
    max_queue_length: float,
    span_us: Callable[[int], float],
    held_up: Callable[[int], Mapping[tuple[int, int | None], tuple[int, float]]],
) -> pd.DataFrame:
    """Return the table that `get_time_spent_blocked_on_full_queue` documents.

    `span_us` returns the length of a rank's recording. `held_up` returns the launch calls of a rank
    that a full queue delays, and by how much (µs), by stream and device, or by stream only (None).
    """
    rows = []
    for rank, frame in series.items():
        blocked = held_up(rank)
        for key, of_stream in frame.groupby(_stream_keys(frame), sort=False):
            ids = [int(number) for number in np.atleast_1d(np.array(key))]
            stream, device = ids[0], ids[1] if len(ids) > 1 else None
            full_us = _time_at_least(of_stream, max_queue_length)
            calls, us = blocked.get((stream, device), (0, 0.0))
            if full_us > 0 or calls:
                of_device = {} if device is None else {"device": device}
                numbers = (rank, stream, full_us, full_us / span_us(rank), calls, us)
                rows.append(dict(zip(BLOCKED, numbers, strict=True)) | of_device)
    columns = [*BLOCKED, *(["device"] if any("device" in row for row in rows) else [])]
    table = pd.DataFrame(rows, columns=columns)
    whole = ("rank", "stream", "blocked_calls")
    types = {name: "int64" if name in whole else "float64" for name in BLOCKED}
    return table.astype(types)


def _time_at_least(of_stream: pd.DataFrame, length: float) -> float:
    """Total time (µs) during which the queue is at least that long."""
    until_next = np.diff(of_stream["ts"].to_numpy(dtype=np.float64))
    is_full = of_stream["queue_length"].to_numpy()[:-1] >= length
    return round(float(until_next[is_full].sum()), 3)


def recorded_us(rank: Rank) -> float:
    """Time (µs) from the first start to the last end of the analysed events."""
    events, analysed = rank.trace.events, rank.analysed
    start, end = events.start_ns[analysed], events.end_ns[analysed]
    return float(end.max() - start.min()) / NS_PER_US if start.size else np.nan


IN_STEPS: Final = 0.5
"""Minimum share of the steps in which a straggler takes longer than the others."""


def stragglers(job: Job, steps: Collection[int], num_candidates: int) -> tuple[list[int], str]:
    """Ranks that take longer than the others, and a text on what limits the answer.

    There are at most `num_candidates`, the slowest first. The text is empty without limitations.
    """
    if len(job.ranks) < 2:  # noqa: PLR2004
        return [], "a single rank has no other ranks that wait for it"
    components = clocks(job).ranks["component"].tolist()
    if len(set(components)) > 1:
        return [], (
            "the collectives of the ranks do not end together or cannot be matched, so it is "
            "unknown which rank waits for which"
        )
    found = diagnosis(job, steps=steps or None)
    own = found.steps.pivot_table(index="rank", columns="step", values="own_ns").astype(float)
    excess = own - own.median(axis=0)
    limit_ns = Limits().least_percent / 100 * found.period_ns
    often = (excess > limit_ns).mean(axis=1) >= IN_STEPS
    usual = excess.mean(axis=1)[often].sort_values(ascending=False, kind="stable")
    few = own.shape[1] == 1 and len(usual)
    said = "one recorded step is too few to tell a slow rank from a random delay" if few else ""
    return [int(rank) for rank in usual.index[:num_candidates]], said


def candidate_frame(job: Job, ranks: Collection[int]) -> tuple[pd.DataFrame, list[str]]:
    """GPU work of all ranks for a user's own implementation, and the names by code."""
    frames: list[pd.DataFrame] = []
    names: dict[str, int] = {}
    for number in ranks:
        rank = job.rank(number)
        work = rank.gpu_work
        texts = [work.names[code] for code in work.name.tolist()]
        codes = [names.setdefault(text, len(names)) for text in texts]
        shift = job.offset_ns(number)
        frames.append(
            pd.DataFrame(
                {
                    "rank": number,
                    "name": np.array(codes, dtype=np.int64),
                    "s_name": np.array(texts, dtype=object),
                    "stream": work.stream,
                    "device": work.device,
                    "iteration": iterations(rank)[work.rows],
                    "ts": (work.start_ns + shift) / NS_PER_US,
                    "dur": work.duration_ns / NS_PER_US,
                }
            )
        )
    return pd.concat(frames, ignore_index=True), [*names]
