"""Cache of loaded ranks: Arrow files in the user's cache folder."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from hashlib import sha256
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
    log_unusable,
    prune,
    size_limit,
    usable_folder,
)
from hta_widgets.trace.cache.trace_file import LoadedTrace, read_key, read_trace, write_trace
from hta_widgets.trace.ranks.source import RankSource, file_states

WORTH_KEEPING: Final = 2**20
"""Smallest trace (bytes) that is cached; reading a smaller one again is as fast."""

_UNREADABLE: Final = "damaged, or written by another version"


def should_cache(source: RankSource) -> bool:
    """Whether a rank is worth caching: fetching or reading it again would take time."""
    is_worth = source.remote is not None or source.size >= WORTH_KEEPING
    return is_worth and usable_folder() is not None


def load(source: RankSource, rank: int, folder: Path | None = None) -> LoadedTrace | None:
    """Open a rank from the cache or another folder, if its source files are unchanged."""
    folder = folder or cache_folder()
    if folder is None or not _is_readable(folder):
        return None
    files = _files_of_rank(folder, source, rank)
    found = read_trace(files.file, files.key) if _is_readable(files.file) else None
    if found is None:
        return None
    with suppress(OSError):
        os.utime(files.file)
    return found._replace(derived=files.derived)


def store(
    source: RankSource, rank: int, trace: LoadedTrace, folder: Path | None = None
) -> LoadedTrace:
    """Write a rank to the cache or another folder, ignoring failures.

    If the cache is full, its least recently used files are removed. Returns the trace, with its
    derived-column cache if the rank was written.
    """
    folder = folder or cache_folder()
    if folder is None:
        return trace
    try:
        files = _files_of_rank(folder, source, rank)
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(files.file, private=True) as partial:
            write_trace(trace, files.key, partial)
        if folder == cache_folder():
            prune(folder, size_limit())
        if files.file.exists():
            return trace._replace(derived=files.derived)
    except OSError as error:
        log_unusable(folder, error.strerror)
    return trace


def _is_readable(path: Path) -> bool:
    """Whether a file or folder exists; if that cannot be found out, the log says so."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        log_unusable(cache_folder(), error.strerror)
        return False
    return True


def describe_entry(entry: CacheEntry) -> str:
    """Trace and rank of a cache entry, or the URL that a copy was fetched from.

    Only the header of a file is read.
    """
    if entry.path.is_dir():
        with suppress(OSError, UnicodeError):
            return (entry.path / URL_FILE).read_text(encoding="utf-8")
        return _UNREADABLE
    try:
        about = json.loads(read_key(entry.path))
        return f"{about['path']} (rank {about['rank']})"
    except (ValueError, KeyError, TypeError):
        return _UNREADABLE


class _RankFiles(NamedTuple):
    """Files of one rank in the cache, and the key that a reader must present.

    The file names identify the rank; the key also identifies the state of its source files and the
    version of the code. So outdated files are overwritten and do not accumulate.
    """

    file: Path
    key: str
    derived: DerivedColumnCache


def _files_of_rank(folder: Path, source: RankSource, rank: int) -> _RankFiles:
    which: dict[str, Any] = {
        "format": source.format.name,
        "process": source.process,
        "rank": rank,
        "path": source.name if source.remote else str(source.path.resolve()),
    }
    state = {
        "files": source.remote.files if source.remote else source.files or file_states(source.path),
        "code": code_version(LOADING),
    }
    stem = sha256(json.dumps(which, sort_keys=True).encode()).hexdigest()[:32]
    key = json.dumps(which | state, sort_keys=True)
    return _RankFiles(folder / f"{stem}{SUFFIX}", key, DerivedColumnCache(folder, stem, key))
