"""Traces that were read before, kept as Arrow files in the user's cache folder."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from hta_widgets.trace.cache.derived_columns import Shelf
from hta_widgets.trace.cache.files import (
    SUFFIX,
    URL_FILE,
    CacheEntry,
    appearing_when_whole,
    cache_folder,
    prune,
    size_limit,
    stem_of,
)
from hta_widgets.trace.cache.trace_file import StoredTrace, read_key, read_trace, write_trace
from hta_widgets.trace.ranks.source import RankSource

SCHEMA_VERSION: Final = 7
"""Counts up when a loader, what is derived or a layout changes: older files are not used then."""

WORTH_KEEPING: Final = 2**20
"""Bytes of a trace below which reading it again is as fast."""

_TRAILER_BYTES: Final = 8
_UNKNOWN: Final = "of another version, or damaged"


def wanted(source: RankSource) -> bool:
    """Tell whether a rank is to be kept: if fetching or reading it again takes time."""
    if cache_folder() is None:
        return False
    return source.origin is not None or source.size >= WORTH_KEEPING


def stored(source: RankSource, rank: int, folder: Path | None = None) -> StoredTrace | None:
    """Open what the cache, or another folder, has of a rank, if its files are as they were."""
    folder = folder or cache_folder()
    if folder is None or not folder.is_dir():
        return None
    key = _key(source, rank)
    file = folder / f"{stem_of(key)}{SUFFIX}"
    found = read_trace(file, key) if file.exists() else None
    if found is None:
        return None
    with suppress(OSError):
        os.utime(file)
    return found._replace(shelf=Shelf(folder, key))


def store(
    source: RankSource, rank: int, trace: StoredTrace, folder: Path | None = None
) -> StoredTrace:
    """Keep a rank in the cache or another folder; failing to is no error.

    The oldest files of the cache go where there is no room.

    Returns
    -------
    StoredTrace
        The trace, with a shelf where it is kept.
    """
    folder = folder or cache_folder()
    if folder is None:
        return trace
    with suppress(OSError):
        key = _key(source, rank)
        file = folder / f"{stem_of(key)}{SUFFIX}"
        folder.mkdir(parents=True, exist_ok=True)
        with appearing_when_whole(file) as partial:
            write_trace(trace, key, partial)
        if folder == cache_folder():
            prune(folder, size_limit())
        if file.exists():
            return trace._replace(shelf=Shelf(folder, key))
    return trace


def trace_of(entry: CacheEntry) -> str:
    """Say of which trace a file of the cache is, or from which URL a copy was fetched.

    Of a file of the cache only its first page is read.
    """
    if entry.path.is_dir():
        with suppress(OSError, UnicodeError):
            return (entry.path / URL_FILE).read_text(encoding="utf-8")
        return _UNKNOWN
    try:
        about = json.loads(read_key(entry.path))
        return f"{about['path']} (rank {about['rank']})"
    except (ValueError, KeyError, TypeError):
        return _UNKNOWN


def _key(source: RankSource, rank: int) -> str:
    """What has to be unchanged: the files, how they are read, and this software."""
    about: dict[str, Any] = {
        "schema": SCHEMA_VERSION,
        "format": source.format.name,
        "process": source.process,
        "rank": rank,
        "path": source.name if source.origin else str(source.path.resolve()),
        "files": source.origin.files if source.origin else _states(source.path),
    }
    return json.dumps(about, sort_keys=True)


def _states(path: Path) -> list[list[str | int]]:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [_state(file) for file in files if file.is_file()]


def _state(file: Path) -> list[str | int]:
    """Name, size, time of change and last bytes: of a gzip file, its checksum and length."""
    state = file.stat()
    with file.open("rb") as content:
        content.seek(-min(_TRAILER_BYTES, state.st_size), os.SEEK_END)
        return [file.name, state.st_size, state.st_mtime_ns, content.read().hex()]
