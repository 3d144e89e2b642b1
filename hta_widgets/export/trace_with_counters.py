"""Write queue lengths and memory bandwidths into a copy of the trace, for trace viewers."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

import pandas as pd

from hta_widgets.analyses.memory_bandwidth import memory_bandwidth
from hta_widgets.analyses.queue_length import queue_length
from hta_widgets.errors import ParameterError
from hta_widgets.export.extended_trace import BETWEEN, existing_folder, path_beside, write_extended
from hta_widgets.export.time_series import DEFAULT_SUFFIX, TimeSeriesTypes
from hta_widgets.quantities import exact_microseconds
from hta_widgets.trace.job import Job
from hta_widgets.trace.loaders.kineto.format import is_copy
from hta_widgets.trace.loaders.kineto.load import base_ns
from hta_widgets.trace.remote.urls import PathLike

__all__ = ["DEFAULT_SUFFIX", "TimeSeriesTypes", "write_traces_with_counters"]

QUEUE_COUNTER = "Queue Length"
BANDWIDTH_COUNTER = "Memcpy BW"

_ENDING = (".gz", ".json")
_EVENTS_AT_A_TIME = 20_000
_log = logging.getLogger(__name__)

_AsText: TypeAlias = Callable[[pd.DataFrame, list[str], list[str]], Iterator[str]]


def write_traces_with_counters(
    job: Job,
    time_series: TimeSeriesTypes | None = None,
    ranks: Iterable[int] | None = None,
    output_suffix: str = DEFAULT_SUFFIX,
    output_dir: PathLike | None = None,
) -> list[Path]:
    """Write a copy of each rank's trace with counter tracks.

    The copy is gzipped if the original is compressed; the contents of the original are unchanged. A
    rank without counters gets no copy; the log says so. `open_trace` leaves copies out of a folder
    that has originals.

    Parameters
    ----------
    job : Job
    time_series : TimeSeriesTypes, optional
        By default, both.
    ranks : iterable of int, optional
        By default, all ranks.
    output_suffix : str
        Added to the file name, before ``.json`` or ``.json.gz``; the default if empty.
    output_dir : path, optional
        An existing folder. By default, copies are written next to the traces, or into the current
        folder if the traces were given by URL.

    Returns
    -------
    list of Path
        The written files, by rank.

    Raises
    ------
    UnknownRankError
        If the job lacks a rank.
    ParameterError
        If the suffix is not part of a file name, or a file with that name exists and is not such a
        copy.
    TraceFormatError
        If the trace of a rank is not a Kineto trace.
    WriteError
        If the system refuses to write a copy.
    """
    folder = None if output_dir is None else existing_folder(output_dir)
    chosen = job.select_ranks(ranks)
    wanted = time_series or TimeSeriesTypes.QUEUE_LENGTH | TimeSeriesTypes.MEMCPY_BANDWIDTH
    targets = {rank: _target(job, rank, output_suffix, folder) for rank in chosen}
    if len(set(targets.values())) < len(targets):
        names = ", ".join(sorted({target.name for target in targets.values()}))
        msg = f"several ranks would be written to {names} in this folder; write one rank at a time"
        raise ParameterError(msg)
    return [target for rank, target in targets.items() if _write(job, rank, wanted, target)]


def _target(job: Job, rank: int, suffix: str, folder: Path | None) -> Path:
    for ending in _ENDING:
        suffix = suffix.removesuffix(ending)
    source = job.sources[rank]
    file = source.kineto_file
    if folder is None:
        folder = file.parent if source.remote is None else Path()
    target = path_beside(folder / file.name, suffix or DEFAULT_SUFFIX)
    if target.exists() and not is_copy(target):
        msg = (
            f"{target} exists and was not written by hta_widgets, so it is not overwritten; "
            "give another output_suffix"
        )
        raise ParameterError(msg)
    return target


def _write(job: Job, rank: int, wanted: TimeSeriesTypes, target: Path) -> bool:
    series: list[tuple[pd.DataFrame, _AsText]] = []
    if TimeSeriesTypes.QUEUE_LENGTH in wanted:
        series.append((queue_length(job, [rank]).changes[rank], _queue_events))
    if TimeSeriesTypes.MEMCPY_BANDWIDTH in wanted:
        series.append((memory_bandwidth(job, [rank]).changes[rank], _bandwidth_events))
    if not any(len(changes) for changes, _ in series):
        _log.warning("rank %d has no counters; no file is written for it", rank)
        return False
    trace = job.rank(rank).trace
    shift_ns = trace.origin_ns - base_ns(trace.metadata) - job.offset_ns(rank)
    events = (piece for changes, as_text in series for piece in _pieces(changes, shift_ns, as_text))
    write_extended(job.sources[rank].kineto_file, target, events)
    _log.info("wrote %s", target)
    return True


def _pieces(changes: pd.DataFrame, shift_ns: int, as_text: _AsText) -> Iterator[bytes]:
    """JSON of the changes, with times on the clock of the file, in pieces."""
    for first in range(0, len(changes), _EVENTS_AT_A_TIME):
        part = changes.iloc[first : first + _EVENTS_AT_A_TIME]
        times = [exact_microseconds(ns + shift_ns) for ns in part["time_ns"].tolist()]
        pids = part["pid"].tolist()
        as_json = {pid: json.dumps(pid) for pid in set(pids)}
        texts = as_text(part, [as_json[pid] for pid in pids], times)
        yield BETWEEN.decode().join(texts).encode()


def _queue_events(changes: pd.DataFrame, pids: list[str], times: list[str]) -> Iterator[str]:
    streams, lengths = changes["stream"].tolist(), changes["queue_length"].tolist()
    for pid, ts, stream, length in zip(pids, times, streams, lengths, strict=True):
        yield (
            f'{{"ph": "C", "name": "{QUEUE_COUNTER}", "pid": {pid}, "ts": {ts}, "id": {stream}, '
            f'"args": {{"{QUEUE_COUNTER}": {length}}}}}'
        )


def _bandwidth_events(changes: pd.DataFrame, pids: list[str], times: list[str]) -> Iterator[str]:
    names, values = changes["name"].tolist(), changes["bandwidth_gb_per_s"].tolist()
    for pid, ts, name, value in zip(pids, times, names, values, strict=True):
        yield (
            f'{{"ph": "C", "name": "{name}", "pid": {pid}, "ts": {ts}, '
            f'"args": {{"{BANDWIDTH_COUNTER}": {value!r}}}}}'
        )
