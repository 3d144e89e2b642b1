"""Mark a critical path in a copy of the trace, with arrows where it moves to another line."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from hta_widgets.errors import write_errors
from hta_widgets.export.extended_trace import (
    BETWEEN,
    add_argument,
    atomic_open,
    closing,
    existing_folder,
    name_of_copy,
    require_no_trace,
    rewritten,
)
from hta_widgets.quantities import exact_microseconds
from hta_widgets.trace.job import Job
from hta_widgets.trace.loaders.kineto.decode import Fields
from hta_widgets.trace.loaders.kineto.load import base_ns
from hta_widgets.trace.loaders.kineto.text import EventText
from hta_widgets.trace.remote.urls import PathLike

PREFIX: Final = "overlaid_critical_path_"
CRITICAL: Final = "critical"
"""Argument of events on the path, and the word to search for in a trace viewer."""

_ARROWS: Final = "critical_path"
_COMPLETE: Final = b'"X"'
_STAYING: Final = (b'"user_annotation"', b'"python_function"')
_YES: Final = msgspec.Raw(b"1")
_NOTHING: Final = msgspec.Raw(b"null")


class ArrowEnd(NamedTuple):
    """Where an arrow starts or ends."""

    event: int
    """Position of the event in the file."""
    time_ns: int
    """Time on the clock of the rank."""
    is_start: bool
    """Whether this is the start of the event, or its end."""


class Arrow(NamedTuple):
    """An arrow from one event to another."""

    begin: ArrowEnd
    end: ArrowEnd
    weight_us: float
    type: str
    is_critical: bool


def write_critical_path(
    job: Job,
    rank: int,
    critical: Collection[int],
    arrows: Sequence[Arrow],
    output_dir: PathLike,
    *,
    only_critical: bool = True,
    within_lines: bool = False,
) -> Path:
    """Write ``overlaid_critical_path_<name of the trace>``.

    The events of the path get an argument ``critical: 1``. An arrow is a pair of events (``ph`` s
    and f, ``name`` and ``cat`` critical_path) with the arguments ``weight`` (µs), ``critical`` and
    ``type``. An arrow at the end of an event is placed in its last ns, where viewers find it.

    The copy is gzipped if the original is compressed; the original is never overwritten.
    `open_trace` leaves copies out of a folder that has originals.

    Parameters
    ----------
    job : Job
    rank : int
    critical : collection of int
        Positions, in the file, of the events on the path.
    arrows : sequence of Arrow
    output_dir : path
        Created if it does not exist.
    only_critical : bool
        Leave out all other complete events except annotations and Python frames.
    within_lines : bool
        Also draw arrows between events of one line (process and thread, or device and stream).

    Returns
    -------
    Path
        The file written; an older one of that name is replaced.

    Raises
    ------
    ParameterError
        If the folder is a file or not writable, or the copy would replace a trace of this job.
    WriteError
        If the system refuses to write the copy.
    TraceFormatError
        If the trace of the rank is not a Kineto trace.
    """
    source, wanted = job.sources[rank].kineto_file, Path(output_dir).expanduser()
    if not wanted.exists():
        with write_errors(wanted):
            wanted.mkdir(parents=True)
    target = existing_folder(wanted) / f"{PREFIX}{name_of_copy(source.name)}"
    require_no_trace(job, target)
    trace, text = job.rank(rank).trace, EventText(source)
    shift_ns = trace.origin_ns - base_ns(trace.metadata)
    marked = _Marked(critical, arrows, only_critical=only_critical)
    with atomic_open(target, compressed_like=source) as out:
        for part in rewritten(text, marked.change):
            out.write(part)
        for event in marked.arrows(shift_ns, within_lines=within_lines):
            out.write(BETWEEN + event)
        out.write(b"\n" + closing(text).lstrip())
    return target


class _Marked:
    """Marks events, and remembers the lines of the events at which arrows start or end."""

    def __init__(
        self, critical: Collection[int], arrows: Sequence[Arrow], *, only_critical: bool
    ) -> None:
        self._critical, self._arrows = set(critical), arrows
        self._only_critical = only_critical
        self._asked = {end.event for arrow in arrows for end in (arrow.begin, arrow.end)}
        self._line: dict[int, tuple[bytes, bytes]] = {}

    def change(self, position: int, event: Fields) -> bool:
        """Mark an event of the path; return whether it stays."""
        if position in self._asked:
            pid, tid = event.get("pid", _NOTHING), event.get("tid", _NOTHING)
            self._line[position] = bytes(pid), bytes(tid)
        if position in self._critical:
            add_argument(event, CRITICAL, _YES)
            return True
        is_complete = bytes(event.get("ph", b"")) == _COMPLETE
        stays = not is_complete or bytes(event.get("cat", b"")) in _STAYING
        return stays or not self._only_critical

    def arrows(self, shift_ns: int, *, within_lines: bool) -> Iterator[bytes]:
        """JSON of the arrows, after all events were marked."""
        number = 0
        for arrow in self._arrows:
            lines = [self._line.get(end.event) for end in (arrow.begin, arrow.end)]
            if None in lines or (lines[0] == lines[1] and not within_lines):
                continue
            of_edge = {
                "weight": arrow.weight_us,
                "critical": arrow.is_critical,
                "type": arrow.type,
            }
            for phase, line, end in zip("sf", lines, (arrow.begin, arrow.end), strict=True):
                inside_ns = end.time_ns if end.is_start else end.time_ns - 1
                yield _arrow_event(phase, number, line or (), inside_ns + shift_ns, of_edge)
            number += 1


def _arrow_event(
    phase: str, number: int, line: Sequence[bytes], time_ns: int, args: dict[str, object]
) -> bytes:
    pid, tid = (each.decode() for each in line)
    binding = ', "bp": "e"' if phase == "f" else ""
    return (
        f'{{"ph": "{phase}", "id": {number}, "pid": {pid}, "tid": {tid}, '
        f'"ts": {exact_microseconds(time_ns)}, "cat": "{_ARROWS}", "name": "{_ARROWS}"{binding}, '
        f'"args": {json.dumps(args)}}}'
    ).encode()
