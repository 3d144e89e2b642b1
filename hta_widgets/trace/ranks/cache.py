"""Ranks that were loaded before, kept as Arrow files in the user's cache folder."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from hta_widgets.atomic_write import atomic_write
from hta_widgets.trace.cache.code_version import LOADING, code_version
from hta_widgets.trace.cache.derived_columns import DerivedColumnCache
from hta_widgets.trace.cache.files import (
    SUFFIX,
    URL_FILE,
    CacheEntry,
    cache_folder,
    prune,
    size_limit,
    stem_of,
)
from hta_widgets.trace.cache.trace_file import StoredTrace, read_key, read_trace, write_trace
from hta_widgets.trace.ranks.source import RankSource

WORTH_KEEPING: Final = 2**20
"""Bytes of a trace below which reading it again is as fast."""

_TRAILER_BYTES: Final = 8
_UNKNOWN: Final = "damaged, or written by another version"


def should_cache(source: RankSource) -> bool:
    """Whether a rank is kept: if fetching or reading it again takes time."""
    if cache_folder() is None:
        return False
    return source.origin is not None or source.size >= WORTH_KEEPING


def load(source: RankSource, rank: int, folder: Path | None = None) -> StoredTrace | None:
    """Open what the cache, or another folder, has of a rank, if its files are as they were."""
    folder = folder or cache_folder()
    if folder is None or not folder.is_dir():
        return None
    files = _files(folder, source, rank)
    found = read_trace(files.file, files.key) if files.file.exists() else None
    if found is None:
        return None
    with suppress(OSError):
        os.utime(files.file)
    return found._replace(derived=files.derived)


def store(
    source: RankSource, rank: int, trace: StoredTrace, folder: Path | None = None
) -> StoredTrace:
    """Keep a rank in the cache or another folder; failing to is no error.

    The oldest files of the cache go where there is no room.

    Returns
    -------
    StoredTrace
        The trace, with the cache of what is derived from it where it is kept.
    """
    folder = folder or cache_folder()
    if folder is None:
        return trace
    with suppress(OSError):
        files = _files(folder, source, rank)
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(files.file, private=True) as partial:
            write_trace(trace, files.key, partial)
        if folder == cache_folder():
            prune(folder, size_limit())
        if files.file.exists():
            return trace._replace(derived=files.derived)
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


class _Files(NamedTuple):
    """Where a rank is kept, and what a reader has to ask for.

    The names of the files say which rank they are of, the key in them also of what state: what is
    out of date is written over instead of lying beside it.
    """

    file: Path
    key: str
    derived: DerivedColumnCache


def _files(folder: Path, source: RankSource, rank: int) -> _Files:
    which: dict[str, Any] = {
        "format": source.format.name,
        "process": source.process,
        "rank": rank,
        "path": source.name if source.origin else str(source.path.resolve()),
    }
    state = {
        "files": source.origin.files if source.origin else _states(source.path),
        "code": code_version(LOADING),
    }
    stem = stem_of(json.dumps(which, sort_keys=True))
    key = json.dumps(which | state, sort_keys=True)
    return _Files(folder / f"{stem}{SUFFIX}", key, DerivedColumnCache(folder, stem, key))


def _states(path: Path) -> list[list[str | int]]:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [_state(file) for file in files if file.is_file()]


def _state(file: Path) -> list[str | int]:
    """Name, size, time of change and last bytes: of a gzip file, its checksum and length."""
    state = file.stat()
    with file.open("rb") as content:
        content.seek(-min(_TRAILER_BYTES, state.st_size), os.SEEK_END)
        return [file.name, state.st_size, state.st_mtime_ns, content.read().hex()]
