"""Traces that were read before, kept as Arrow files in the user's cache folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final, NamedTuple

import platformdirs

from hta_widgets.trace.arrow_file import StoredTrace, read_trace, write_trace
from hta_widgets.trace.rank_source import RankSource

SCHEMA_VERSION: Final = 1
"""Counts up when a loader or the file's layout changes: older files are then read again."""

VARIABLE: Final = "HTA_WIDGETS_CACHE"
SIZE_VARIABLE: Final = "HTA_WIDGETS_CACHE_GB"
OFF: Final = "off"
DEFAULT_GB: Final = 20.0

WORTH_KEEPING: Final = 2**20
"""Bytes of a trace below which reading it again is as fast."""

_SUFFIX: Final = ".hta.arrow"
_TRAILER_BYTES: Final = 8
_BYTES_PER_GB: Final = 10**9


class CacheEntry(NamedTuple):
    """A file of the cache."""

    path: Path
    size: int
    used_s: float


def cache_folder() -> Path | None:
    """Folder of the cache: `VARIABLE`, or the platform's own place; None where it is off."""
    chosen = os.environ.get(VARIABLE, "")
    if chosen.lower() == OFF:
        return None
    return Path(chosen) if chosen else platformdirs.user_cache_path("hta_widgets", appauthor=False)


def wanted(source: RankSource) -> bool:
    """Tell whether a rank is to be kept."""
    return cache_folder() is not None and source.size >= WORTH_KEEPING


def size_limit() -> int:
    """Bytes that the cache may take."""
    try:
        gigabytes = float(os.environ.get(SIZE_VARIABLE, DEFAULT_GB))
    except ValueError:
        gigabytes = DEFAULT_GB
    return int(gigabytes * _BYTES_PER_GB)


def stored(source: RankSource, rank: int) -> StoredTrace | None:
    """Open what the cache has of a rank, if its files are still as they were."""
    folder = cache_folder()
    if folder is None or not folder.is_dir():
        return None
    key = _key(source, rank)
    file = _file(folder, key)
    found = read_trace(file, key) if file.exists() else None
    if found is not None:
        with suppress(OSError):
            os.utime(file)
    return found


def store(source: RankSource, rank: int, trace: StoredTrace) -> None:
    """Keep a rank; the oldest files go where there is no room. A cache that fails is no error."""
    folder = cache_folder()
    if folder is None:
        return
    with suppress(OSError):
        key = _key(source, rank)
        folder.mkdir(parents=True, exist_ok=True)
        _write(trace, key, _file(folder, key))
        prune(folder, size_limit())


def entries(folder: Path) -> list[CacheEntry]:
    """Files of the cache, the one used last first."""
    found = list(_entries(folder))
    return sorted(found, key=lambda entry: entry.used_s, reverse=True)


def prune(folder: Path, limit: int) -> int:
    """Remove what was used longest ago until the rest fits; return how many bytes went."""
    kept = removed = 0
    for entry in entries(folder):
        if kept + entry.size <= limit:
            kept += entry.size
            continue
        with suppress(OSError):
            entry.path.unlink()
            removed += entry.size
    return removed


def _entries(folder: Path) -> Iterator[CacheEntry]:
    for path in folder.glob(f"*{_SUFFIX}"):
        with suppress(OSError):
            state = path.stat()
            yield CacheEntry(path, state.st_size, state.st_mtime)


def _write(trace: StoredTrace, key: str, file: Path) -> None:
    with NamedTemporaryFile(dir=file.parent, prefix=".", suffix=".part", delete=False) as partial:
        pass
    try:
        write_trace(trace, key, Path(partial.name))
        Path(partial.name).replace(file)
    finally:
        Path(partial.name).unlink(missing_ok=True)


def _file(folder: Path, key: str) -> Path:
    return folder / f"{sha256(key.encode()).hexdigest()[:32]}{_SUFFIX}"


def _key(source: RankSource, rank: int) -> str:
    """What has to be unchanged: the files, how they are read, and this software."""
    files = sorted(source.path.iterdir()) if source.path.is_dir() else [source.path]
    about: dict[str, Any] = {
        "schema": SCHEMA_VERSION,
        "format": source.format.name,
        "process": source.process,
        "rank": rank,
        "path": str(source.path.resolve()),
        "files": [_state(file) for file in files if file.is_file()],
    }
    return json.dumps(about, sort_keys=True)


def _state(file: Path) -> list[str | int]:
    """Name, size, time of change and last bytes: of a gzip file, its checksum and length."""
    state = file.stat()
    with file.open("rb") as content:
        content.seek(-min(_TRAILER_BYTES, state.st_size), os.SEEK_END)
        return [file.name, state.st_size, state.st_mtime_ns, content.read().hex()]
