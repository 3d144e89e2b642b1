"""Write a window of time as small traces, for trace viewers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from hta_widgets.analyses.clocks.aligned import common_offsets_ns
from hta_widgets.analyses.time.selection import checked_window
from hta_widgets.arrays import Int64Array
from hta_widgets.atomic_write import atomic_write
from hta_widgets.errors import ParameterError, write_errors
from hta_widgets.export.extended_trace import existing_folder, require_no_trace
from hta_widgets.quantities import exact_microseconds
from hta_widgets.trace.job import Job
from hta_widgets.trace.loaders.kineto.categories import CATEGORIES
from hta_widgets.trace.loaders.kineto.load import BASE_TIME, base_ns
from hta_widgets.trace.loaders.kineto.mark import add_mark
from hta_widgets.trace.model.events import GPU_SIDE, Events, Kind, KindSet, Trace
from hta_widgets.trace.model.formats import UNPROFILED_STEP
from hta_widgets.trace.ranks.rank import Rank
from hta_widgets.trace.remote.urls import PathLike

_LARGEST_ID: Final = 2**31
"""Perfetto reads 32-bit ids, and all others as 0; half of them are left for new tracks."""


class Line(NamedTuple):
    """Position of a slice in the source."""

    pid: int | str
    tid: int | str
    """Thread id, as in the source."""
    device: int
    """-1 for slices that are not on a GPU. Exports have one process for several devices."""


@dataclass
class Track:
    """A line of the written trace."""

    pid: int | str
    tid: int
    name: str | None
    """Name of the track, if its number does not say it."""
    _open_ends: list[int] = field(default_factory=list)

    def takes(self, start_ns: int, end_ns: int) -> bool:
        """Whether a slice crosses no earlier one on this track; if so, it is put here."""
        ends = self._open_ends
        while ends and ends[-1] <= start_ns:
            ends.pop()
        fits = not ends or end_ns <= ends[-1]
        if fits:
            ends.append(end_ns)
        return fits


class Tracks:
    """Puts each slice on the first track of its line where it crosses no other.

    New tracks do not use the thread ids of the source.

    Examples
    --------
    >>> tracks, stream = Tracks({7}), Line(0, 7, 0)
    >>> [tracks.place(stream, *slice).tid for slice in [(0, 10), (5, 12), (6, 9), (12, 20)]]
    [7, 8, 7, 7]
    >>> [track.name for track in tracks]
    ['stream 7', 'stream 7 (2)']
    """

    def __init__(self, own_ids: Collection[int]) -> None:
        self._of_line: dict[Line, list[Track]] = {}
        self._reserved = set(own_ids)
        self._used: set[tuple[int | str, int]] = set()

    def __iter__(self) -> Iterator[Track]:
        """All tracks; those of one line are together."""
        return (track for tracks in self._of_line.values() for track in tracks)

    def place(self, line: Line, start_ns: int, end_ns: int) -> Track:
        """Track of a slice; slices must come by start, longer ones before shorter ones."""
        tracks = self._of_line.setdefault(line, [])
        for track in tracks:
            if track.takes(start_ns, end_ns):
                return track
        tracks.append(self._track(line, len(tracks) + 1))
        tracks[-1].takes(start_ns, end_ns)
        return tracks[-1]

    def _track(self, line: Line, number: int) -> Track:
        tid = line.tid if isinstance(line.tid, int) and 0 <= line.tid < _LARGEST_ID else 0
        # Perfetto reads thread 0 of process 5 as thread 5.
        is_readable = tid == line.tid and (tid > 0 or line.pid == 0)
        if number > 1 or not is_readable or (line.pid, tid) in self._used:
            tid = next(each for each in count(tid + 1) if each not in self._reserved)
            self._reserved.add(tid)
        self._used.add((line.pid, tid))
        return Track(line.pid, tid, _track_name(line, number, is_renamed=tid != line.tid))


def _track_name(line: Line, number: int, *, is_renamed: bool) -> str | None:
    """Name of a track; None for a CPU thread, whose number is its name."""
    which = f" ({number})" if number > 1 else ""
    if line.device >= 0 and isinstance(line.tid, int):
        return f"stream {line.tid}{which}"
    if isinstance(line.tid, str):
        return f"{line.tid}{which}"
    return f"thread {line.tid}{which}" if is_renamed else None


_WRITTEN: Final = KindSet(set(Kind) - {Kind.COUNTER, Kind.INSTANT, Kind.PROFILER_RANGE})
_CATEGORIES: Final = {**CATEGORIES, Kind.BUSY: "kernel", Kind.GRAPH: "kernel"}
"""Category that each kind is written with."""

_KEPT: Final = ("schemaVersion", "distributedInfo", "deviceProperties", UNPROFILED_STEP)
"""Metadata of a Kineto trace that an excerpt keeps."""

_SUFFIX: Final = ".json.gz"
_COMPRESSION_LEVEL: Final = 3
_DAY_NS: Final = 86_400_000_000_000


def write_excerpt(
    job: Job,
    window_ns: Sequence[int],
    ranks: Iterable[int] | None = None,
    *,
    output_dir: PathLike,
) -> list[Path]:
    """Write all events that overlap a window, as a gzipped Kineto trace for each rank.

    Files are named ``<name of the trace>_<start>-<end>us.json.gz``, with the window in µs since the
    first event of all ranks. Times are on the rank's own clock, to the ns; events that cross the
    edges of the window are whole. Arrows lead from launch calls to their work. Slices that cross
    another one on their stream or thread are on an extra track, ``stream 7 (2)``. Other fields of
    the events (shapes, grids, sizes) are not written.

    Parameters
    ----------
    job : Job
    window_ns : pair of int
        Start and end (ns) since the first event of all ranks, on the common clock.
    ranks : iterable of int, optional
        By default, all ranks.
    output_dir : path
        An existing folder.

    Returns
    -------
    list of Path
        The written files, by rank; older files with their names are replaced.

    Raises
    ------
    ParameterError
        If the window has no length, the folder is not writable, or a file would replace a trace of
        this job.
    UnknownRankError
        If the job lacks a rank.
    WriteError
        If the system refuses to write a file.
    """
    window = checked_window(window_ns)
    if window is None:
        msg = "window_ns must be (start, end) with start < end, got None"
        raise ParameterError(msg)
    chosen, folder = job.select_ranks(ranks), existing_folder(output_dir)
    targets = {rank: folder / _name(job, rank, window) for rank in chosen}
    for target in targets.values():
        require_no_trace(job, target)
    offsets_ns = common_offsets_ns(job)
    for rank, target in targets.items():
        start, end = (edge - offsets_ns[rank] for edge in window)
        _write(job.rank(rank), start, end, target)
    return [*targets.values()]


def _name(job: Job, rank: int, window: tuple[int, int]) -> str:
    name = job.sources[rank].path.name
    for ending in (".gz", ".zst", ".xz", ".json", ".sqlite"):
        name = name.removesuffix(ending)
    several = sum(each.path == job.sources[rank].path for each in job.sources.values()) > 1
    which = f"_rank{rank}" if several else ""
    start, end = (f"{edge / 1_000:.0f}" for edge in window)
    return f"{name}{which}_{start}-{end}us{_SUFFIX}"


def _write(rank: Rank, start_ns: int, end_ns: int, target: Path) -> None:
    with (
        write_errors(target),
        atomic_write(target) as partial,
        gzip.open(partial, "wb", compresslevel=_COMPRESSION_LEVEL) as out,
    ):
        for part in _parts(rank, start_ns, end_ns):
            out.write(part.encode(errors="replace"))


def overlapping_rows(events: Events, start_ns: int, end_ns: int) -> Int64Array:
    """Rows of the events that overlap a window, or are inside it if they have no length."""
    last = int(np.searchsorted(events.start_ns, end_ns, side="left"))
    ends = events.start_ns[:last] + events.duration_ns[:last]
    inside = (ends > start_ns) | (events.start_ns[:last] >= start_ns)
    written = _WRITTEN.among(events.kind[:last])
    return np.flatnonzero(inside & written)


def _parts(rank: Rank, start_ns: int, end_ns: int) -> Iterator[str]:
    trace, events = rank.trace, rank.trace.events
    rows = overlapping_rows(events, start_ns, end_ns)
    rows = rows[np.lexsort((-events.duration_ns[rows], events.start_ns[rows]))]
    base = _base_ns(trace)
    yield _head(trace, base)
    shift_ns = trace.origin_ns - base
    lines = _lines(events, rows)
    tracks = Tracks({line.tid for line in lines if isinstance(line.tid, int)})
    track_of: dict[int, Track] = {}
    between = "\n"
    for row, line in zip(rows.tolist(), lines, strict=True):
        start = int(events.start_ns[row])
        track = track_of[row] = tracks.place(line, start, start + int(events.duration_ns[row]))
        yield between + _event(events, row, track, shift_ns)
        between = ",\n"
    for row, launch in zip(rows.tolist(), rank.launches[rows].tolist(), strict=True):
        if launch in track_of:
            ends = [(track_of[each], int(events.start_ns[each])) for each in (launch, row)]
            yield between + _arrow(row, ends, shift_ns)
    yield from (between + name for name in _names(tracks))
    yield "\n]}\n"


def _base_ns(trace: Trace) -> int:
    """Zero of the written times: the file's own, or else the start of the day of the trace.

    Viewers read times as floating-point numbers, which cannot hold ns since 1970.
    """
    return base_ns(trace.metadata) or trace.origin_ns - trace.origin_ns % _DAY_NS


def _head(trace: Trace, base: int) -> str:
    kept = {name: trace.metadata[name] for name in _KEPT if name in trace.metadata}
    kept[BASE_TIME] = base
    kept.setdefault("distributedInfo", {"rank": trace.rank})
    text = json.dumps(kept, default=str)
    return add_mark(text.encode(), Path(trace.source).name).decode()[:-1] + ', "traceEvents": ['


def _event(events: Events, row: int, track: Track, shift_ns: int) -> str:
    kind = Kind(int(events.kind[row]))
    arguments = {
        name: int(column[row])
        for name, column in (
            ("device", events.device),
            ("stream", events.stream),
            ("correlation", events.correlation),
        )
        if column[row] >= 0
    }
    fields: dict[str, Any] = {
        "ph": "X",
        "cat": _CATEGORIES[kind],
        "name": events.name.values[events.name.codes[row]],
        "pid": track.pid,
        "tid": track.tid,
    }
    times = (
        f'"ts": {exact_microseconds(int(events.start_ns[row]) + shift_ns)}, '
        f'"dur": {exact_microseconds(int(events.duration_ns[row]))}'
    )
    return f'{json.dumps(fields)[:-1]}, {times}, "args": {json.dumps(arguments)}}}'


def _lines(events: Events, rows: Int64Array) -> list[Line]:
    """Process, thread and device as in the source, or device and stream if it has none."""
    pids, tids = (events.ids_in_source(ids[rows]).tolist() for ids in (events.pid, events.tid))
    devices, streams = events.device[rows].tolist(), events.stream[rows].tolist()
    is_on_gpu = KindSet(GPU_SIDE).among(events.kind[rows]).tolist()
    return [
        Line(device if pid == -1 else pid, stream if tid == -1 else tid, device if on_gpu else -1)
        for pid, tid, device, stream, on_gpu in zip(
            pids, tids, devices, streams, is_on_gpu, strict=True
        )
    ]


def _arrow(number: int, ends: Sequence[tuple[Track, int]], shift_ns: int) -> str:
    written = []
    for phase, (track, time_ns) in zip("sf", ends, strict=True):
        where = {"pid": track.pid, "tid": track.tid}
        fields = {"ph": phase, "id": number, "cat": "ac2g", "name": "ac2g", **where}
        binding = ', "bp": "e"' if phase == "f" else ""
        ts = exact_microseconds(time_ns + shift_ns)
        written.append(f'{json.dumps(fields)[:-1]}, "ts": {ts}{binding}}}')
    return ",\n".join(written)


def _names(tracks: Iterable[Track]) -> Iterator[str]:
    for track in tracks:
        if track.name is not None:
            where = {"pid": track.pid, "tid": track.tid, "args": {"name": track.name}}
            yield json.dumps({"ph": "M", "name": "thread_name", **where})
