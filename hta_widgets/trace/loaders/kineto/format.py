"""The format of PyTorch-profiler (Kineto) traces: how one is recognised, and what it states."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any, Final, NamedTuple

from hta_widgets.errors import TraceFormatError
from hta_widgets.progress import OnRead
from hta_widgets.trace.loaders.columns import whole_number
from hta_widgets.trace.loaders.kineto.categories import (
    CATEGORY_KINDS,
    PROFILER_OWN,
    SUFFIX_KINDS,
    kind_of,
)
from hta_widgets.trace.loaders.kineto.details import read_details
from hta_widgets.trace.loaders.kineto.load import BASE_TIME, load_kineto, tool_of
from hta_widgets.trace.loaders.kineto.mark import is_derived
from hta_widgets.trace.loaders.kineto.refusals import other_tool, refuse_xplane
from hta_widgets.trace.loaders.kineto.text import EventText
from hta_widgets.trace.model.events import Kind, Trace
from hta_widgets.trace.model.formats import RANK_LIMIT, Format, FoundRank, Metadata, Stated

_HEADERS_KEPT: Final = 8192
"""Files whose header is remembered: a folder with a thousand ranks and a few cycles each."""


_ON_THE_CPU: Final = {Kind.CPU_OP, Kind.RUNTIME, Kind.DRIVER, Kind.ANNOTATION, Kind.PYTHON}
"""Kinds of events with the system's process id; that of GPU work is its device."""

_EVENTS_READ: Final = 32
_TEXT_READ: Final = 2**16
_EPOCH_US: Final = 10**15
"""Times (µs) from here on count from 1970; a clock that starts later needs 31 years to get here."""

_LATEST_US: Final = 2**63 // 1000
_STEP: Final = re.compile(rb'"ProfilerStep\s*#(\d{1,9})"')
_GPU_WORK: Final = re.compile(
    rb'"cat"\s*:\s*"(?:concurrent_)?(?:kernel|(?:gpu_)?mem(?:cpy|set)|mtia_ccp_events)"',
    re.IGNORECASE,
)
_OURS: Final = re.compile(
    rf'"cat"\s*:\s*"(?:{"|".join((*CATEGORY_KINDS, PROFILER_OWN, "cpu_instant_event"))}'
    rf'|\w*(?:{"|".join(SUFFIX_KINDS)}))"|"(?:\[memory\]|ProfilerStep)'.encode(),
    re.IGNORECASE,
)
"""Text that only the PyTorch profiler writes into events."""

_OUR_KEYS: Final = ("schemaVersion", "deviceProperties", "distributedInfo", BASE_TIME)
_NO_METADATA: Final = re.compile(rb'"ph"\s*:\s*"[^M"]')
_BETWEEN: Final = " \t\r\n,"
_DECODER: Final = json.JSONDecoder(strict=False)


class _Header(NamedTuple):
    """Facts about a file from the metadata before its events, and from the first events."""

    is_trace: bool
    is_copy: bool = False
    is_foreign: bool = False
    stated: Stated = Stated()


def starts_as_trace(file: Path) -> bool:
    """Whether a file starts like a PyTorch-profiler trace; only its start is read."""
    return _header_of(file).is_trace


def _matches(path: Path) -> bool:
    return path.is_file() and starts_as_trace(path)


def is_copy(path: Path) -> bool:
    """Whether hta_widgets wrote a file as a copy of another one."""
    return _header_of(path).is_copy


def _load(path: Path, rank: int, _process: int | None, on_read: OnRead | None) -> Trace:
    return load_kineto(path, rank, on_read)


def _find_ranks(path: Path, _notices: list[str]) -> list[FoundRank]:
    return [FoundRank(path, path.name)]


def _stated_in(path: Path, rest: Callable[[], Metadata]) -> Stated:
    """Facts from the first events and ``distributedInfo``, which is before or after the events."""
    header = _header_of(path)
    if not header.is_trace:
        _refuse(path)
        EventText(path).header()  # raises an error with the reason
    if header.stated.rank is not None:
        return header.stated
    rank, world_size = distributed(rest())
    return header.stated._replace(rank=rank, world_size=world_size)


def _header_of(path: Path) -> _Header:
    state = path.stat()
    return _read_header(path, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=_HEADERS_KEPT)
def _read_header(path: Path, _size: int, _changed_ns: int) -> _Header:
    """Read the metadata before the events; cached while the file is unchanged.

    Opening a folder needs it several times, and reading it from a gzip file takes milliseconds.
    """
    text = EventText(path)
    try:
        metadata, events = text.header_and_events()
        if _is_foreign(path, metadata, events):
            return _Header(is_trace=False, is_foreign=True)
    except TraceFormatError:
        return _Header(is_trace=False)
    return _Header(is_trace=True, is_copy=is_derived(text.head), stated=stated(metadata, events))


def _is_foreign(path: Path, metadata: Metadata, events: bytes) -> bool:
    """Whether another tool wrote the file: it has events, but none from the PyTorch profiler.

    The file is read up to the first event from the PyTorch profiler, which comes early.
    """
    if any(key in metadata for key in _OUR_KEYS) or _OURS.search(events):
        return False
    has_others = any(event.get("ph") != "M" for event in _first_events(events))
    for piece in EventText(path):
        if _OURS.search(piece):
            return False
        has_others = has_others or bool(_NO_METADATA.search(piece))
    return has_others


def _refuse(path: Path) -> None:
    """Refuse a file that is known not to be a PyTorch-profiler trace.

    Raises `TraceFormatError` if it is an XPlane profile, or a trace of another tool.
    """
    refuse_xplane(path)
    if path.is_file() and _header_of(path).is_foreign:
        raise other_tool(path, tool_of(EventText(path)))


def stated(metadata: Metadata, events: bytes) -> Stated:
    """Facts from the metadata before the events, and from the first events, which may be cut."""
    rank, world_size = distributed(metadata)
    base_ns = whole_number(metadata.get(BASE_TIME))
    start_us, process = None, None
    for event in _first_events(events):
        if event.get("ph") != "X":
            continue
        start_us = _time_us(event.get("ts")) if start_us is None else start_us
        category = event.get("cat")
        if isinstance(category, str) and kind_of("X", category) in _ON_THE_CPU:
            process = whole_number(event.get("pid"))
            break
    is_since_epoch = start_us is not None and (base_ns is not None or start_us >= _EPOCH_US)
    step = _STEP.search(events)
    return Stated(
        rank=rank,
        world_size=world_size,
        process=process,
        start_ns=None if start_us is None else start_us * 1000 + (base_ns or 0),
        is_since_epoch=is_since_epoch,
        step=int(step[1]) if step else None,
    )


def distributed(metadata: Metadata) -> tuple[int | None, int | None]:
    """Rank and size of the job in ``distributedInfo``; None for a value that is not stated."""
    info = metadata.get("distributedInfo")
    if not isinstance(info, Mapping):
        return None, None
    rank, size = (whole_number(info.get(key), RANK_LIMIT) for key in ("rank", "world_size"))
    return (
        None if rank is None or rank < 0 else rank,
        None if size is None or size < 1 else size,
    )


def has_gpu_work(path: Path) -> bool:
    """Whether a file has GPU work; it is read up to the first such event, without decoding."""
    return any(_GPU_WORK.search(piece) for piece in EventText(path))


def _first_events(text: bytes) -> Iterator[Mapping[str, Any]]:
    """The first events that are complete and valid JSON."""
    decoded = text[:_TEXT_READ].decode("utf-8", "replace")
    place = 0
    for _ in range(_EVENTS_READ):
        while decoded[place : place + 1] in _BETWEEN and place < len(decoded):
            place += 1
        try:
            event, place = _DECODER.raw_decode(decoded, place)
        except (ValueError, RecursionError):
            return
        if isinstance(event, dict):
            yield event


def _time_us(value: object) -> int | None:
    """A time as a whole number of µs; None if it is not a time, or too large for nanoseconds."""
    try:
        time = float(value) if isinstance(value, int | float | str) else float("nan")
    except (ValueError, OverflowError):
        return None
    return int(time) if isfinite(time) and abs(time) < _LATEST_US else None


KINETO: Final = Format(
    name="KINETO",
    noun="a PyTorch-profiler trace",
    example="a PyTorch-profiler file (*.json, *.json.gz)",
    matches=_matches,
    load=_load,
    find_ranks=_find_ranks,
    refuse=_refuse,
    suffixes=(".json", ".json.gz", ".gz", ".json.xz", ".json.zst"),
    stated_in=_stated_in,
    has_gpu_work=has_gpu_work,
    is_copy=is_copy,
    details=read_details,
)
