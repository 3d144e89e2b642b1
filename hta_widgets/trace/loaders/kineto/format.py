"""The format of PyTorch-profiler (Kineto) traces."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from hta_widgets.errors import TraceFormatError
from hta_widgets.progress import OnRead
from hta_widgets.trace.loaders.kineto.details import read_details
from hta_widgets.trace.loaders.kineto.load import load_kineto
from hta_widgets.trace.loaders.kineto.mark import is_derived
from hta_widgets.trace.loaders.kineto.stated import distributed, has_gpu_work, stated
from hta_widgets.trace.loaders.kineto.text import EventText
from hta_widgets.trace.loaders.xplane import refuse_xplane
from hta_widgets.trace.model.events import Trace
from hta_widgets.trace.model.formats import Format, FoundRank, Metadata, Stated

_HEADERS_KEPT: Final = 8192
"""Files of a folder: a thousand ranks with a few cycles each."""


class _Header(NamedTuple):
    """Facts about a file from the metadata before its events, and from the first of these."""

    is_trace: bool
    is_copy: bool = False
    stated: Stated = Stated()


def starts_as_trace(file: Path) -> bool:
    """Whether a file starts like a PyTorch-profiler trace; the rest is not read."""
    return _header_of(file).is_trace


def _matches(path: Path) -> bool:
    return path.is_file() and starts_as_trace(path)


def _is_copy(path: Path) -> bool:
    return _header_of(path).is_copy


def _load(path: Path, rank: int, _process: int | None, on_read: OnRead | None) -> Trace:
    return load_kineto(path, rank, on_read)


def _find_ranks(path: Path, _notices: list[str]) -> list[FoundRank]:
    return [FoundRank(path, path.name)]


def _stated_in(path: Path, rest: Callable[[], Metadata]) -> Stated:
    """Facts of the first events and of ``distributedInfo``, which is before the events or after."""
    header = _header_of(path)
    if not header.is_trace:
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

    Opening a folder needs it several times, and a gzip file takes milliseconds.
    """
    text = EventText(path)
    try:
        metadata, events = text.header_and_events()
    except TraceFormatError:
        return _Header(is_trace=False)
    return _Header(is_trace=True, is_copy=is_derived(text.head), stated=stated(metadata, events))


KINETO: Final = Format(
    name="KINETO",
    noun="a PyTorch-profiler trace",
    example="a PyTorch-profiler file (*.json, *.json.gz)",
    matches=_matches,
    load=_load,
    find_ranks=_find_ranks,
    refuse=refuse_xplane,
    suffixes=(".json", ".json.gz", ".gz", ".json.xz", ".json.zst"),
    stated_in=_stated_in,
    has_gpu_work=has_gpu_work,
    is_copy=_is_copy,
    details=read_details,
)
