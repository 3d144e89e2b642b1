"""The format of PyTorch-profiler (Kineto) traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from hta_widgets.errors import TraceFormatError
from hta_widgets.progress import OnRead
from hta_widgets.trace.loaders.columns import whole_number
from hta_widgets.trace.loaders.kineto.details import read_details
from hta_widgets.trace.loaders.kineto.load import load_kineto
from hta_widgets.trace.loaders.kineto.mark import is_derived
from hta_widgets.trace.loaders.kineto.text import EventText
from hta_widgets.trace.loaders.xplane import refuse_xplane
from hta_widgets.trace.model.events import Trace
from hta_widgets.trace.model.formats import RANK_LIMIT, Format, FoundRank, Metadata


class _Header(NamedTuple):
    """Facts about a file from the metadata before its events."""

    is_trace: bool
    is_copy: bool = False
    rank: int | None = None


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


def _rank_in(path: Path, rest: Callable[[], Metadata]) -> int | None:
    """Rank in ``distributedInfo``, which is before the events or after them."""
    header = _header_of(path)
    if not header.is_trace:
        EventText(path).header()  # raises an error with the reason
    return _distributed_rank(rest()) if header.rank is None else header.rank


def _distributed_rank(metadata: Metadata) -> int | None:
    info = metadata.get("distributedInfo")
    rank = info.get("rank") if isinstance(info, Mapping) else None
    number = whole_number(rank, RANK_LIMIT)
    return None if number is None or number < 0 else number


def _header_of(path: Path) -> _Header:
    state = path.stat()
    return _read_header(path, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=1024)
def _read_header(path: Path, _size: int, _changed_ns: int) -> _Header:
    """Read the metadata before the events; cached while the file is unchanged.

    Opening a folder needs it several times, and a gzip file takes milliseconds.
    """
    text = EventText(path)
    try:
        metadata = text.header()
    except TraceFormatError:
        return _Header(is_trace=False)
    return _Header(is_trace=True, is_copy=is_derived(text.head), rank=_distributed_rank(metadata))


KINETO: Final = Format(
    name="KINETO",
    noun="a PyTorch-profiler trace",
    example="a PyTorch-profiler file (*.json, *.json.gz)",
    matches=_matches,
    load=_load,
    find_ranks=_find_ranks,
    refuse=refuse_xplane,
    suffixes=(".json", ".json.gz", ".gz", ".json.xz", ".json.zst"),
    rank_in=_rank_in,
    is_copy=_is_copy,
    details=read_details,
)
