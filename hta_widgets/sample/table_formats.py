"""Write a job as CUPTI tables or as a folder of the overlap recipe: samples of these formats."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from hta_widgets.arrays import Int64Array
from hta_widgets.atomic_write import atomic_folder
from hta_widgets.errors import ParameterError
from hta_widgets.intervals import Intervals, distinct_times
from hta_widgets.quantities import exact_microseconds
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.events import Events, Kind
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.remote.urls import PathLike

CUPTI_FILES: Final = {
    "conc_kernel": Kind.KERNEL,
    "cuda_runtime": Kind.RUNTIME,
    "cuda_driver": Kind.DRIVER,
    "gpu_memcpy": Kind.MEMCPY,
    "gpu_memset": Kind.MEMSET,
}
SEGMENTS: Final = ("Empty", "Compute", "Communicate", "Overlap")
"""Types, indexed by what runs: bit 0 is computation, bit 1 is communication."""

_CALLS = (Kind.RUNTIME, Kind.DRIVER)


def write_cupti_tables(job: Job, folder: PathLike) -> list[Path]:
    """Write the kernels, copies, memsets and calls of each rank as a folder of CSV files.

    Parameters
    ----------
    job : Job
    folder : path
        A new folder, which gets a folder ``rank0``, ``rank1``, ... per rank with
        ``conc_kernel.csv``, ``cuda_runtime.csv``, ``cuda_driver.csv``, ``gpu_memcpy.csv`` and
        ``gpu_memset.csv``: times in µs since the Unix epoch, exact to the ns, as `open_trace`
        reads them.

    Returns
    -------
    list of Path
        The folder of each rank.

    Raises
    ------
    ParameterError
        If the folder exists.
    """
    with _new_folder(folder) as partial:
        for rank in job.ranks:
            trace = job.rank(rank).trace
            inside = partial / f"rank{rank}"
            inside.mkdir()
            for name, kind in CUPTI_FILES.items():
                table = _cupti_table(trace.events, name, kind, trace.origin_ns)
                csv.write_csv(table, inside / f"{name}.csv")
    return [Path(folder) / f"rank{rank}" for rank in job.ranks]


def write_overlap_recipe(job: Job, folder: PathLike) -> Path:
    """Write when each rank computes, communicates, does both or neither, as the recipe does.

    Parameters
    ----------
    job : Job
    folder : path
        A new folder, which gets ``files.parquet`` and a ``type_rank0.parquet`` per rank, times in
        ns since the job's origin, ranks aligned.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    ParameterError
        If the folder exists.
    """
    with _new_folder(folder) as partial:
        stems = sorted(f"rank{rank}" for rank in job.ranks)
        parquet.write_table(pa.table({"File": stems}), partial / "files.parquet")
        for rank in job.ranks:
            parquet.write_table(_segments(job, rank), partial / f"type_rank{rank}.parquet")
    return Path(folder)


def _new_folder(folder: PathLike) -> AbstractContextManager[Path]:
    target = Path(folder)
    if target.exists():
        msg = f"{target} already exists and is never overwritten; give a new folder"
        raise ParameterError(msg)
    return atomic_folder(target)


def _cupti_table(events: Events, category: str, kind: Kind, origin_ns: int) -> pa.Table:
    rows = events.rows_of(kind)
    start_ns = events.start_ns[rows] + origin_ns
    columns: dict[str, Int64Array | list[str]] = {
        "start": _microseconds(start_ns),
        "end": _microseconds(start_ns + events.duration_ns[rows]),
        "dur": _microseconds(events.duration_ns[rows]),
        "name": events.names_at(rows),
        "cat": [category] * rows.size,
        "correlation": events.correlation[rows].astype(np.int64),
    }
    places = ("pid", "tid") if kind in _CALLS else ("device", "stream")
    columns |= {place: getattr(events, place)[rows].astype(np.int64) for place in places}
    if kind in (Kind.MEMCPY, Kind.MEMSET):
        columns["bytes"] = _bytes(events, rows)
    return pa.table(columns)


def _bytes(events: Events, rows: Int64Array) -> Int64Array:
    transfers = events.side.get("transfers")
    if transfers is None:
        return np.zeros(rows.size, dtype=np.int64)
    return transfers.to_frame()["bytes"].reindex(rows, fill_value=0).to_numpy()


def _microseconds(times_ns: Int64Array) -> list[str]:
    return [exact_microseconds(ns) for ns in times_ns.tolist()]


def _segments(job: Job, rank: int) -> pa.Table:
    work = job.gpu_work(rank)
    computation = work.busy_by_type[KernelType.COMPUTATION]
    communication = work.busy_by_type[KernelType.COMMUNICATION]
    edges = _edges(computation, communication)
    begins = edges[:-1]
    what = computation.covers(begins) + 2 * communication.covers(begins)
    start, end = (times + job.offset_ns(rank) for times in (begins, edges[1:]))
    names = [SEGMENTS[each] for each in what.tolist()]
    return pa.table({"start": start, "end": end, "OverlapType": names, "duration": end - start})


def _edges(*covers: Intervals) -> Int64Array:
    return distinct_times(*(part for each in covers for part in (each.starts, each.ends)))
