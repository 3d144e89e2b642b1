"""The files of the cache: their folder, size limit and eviction order."""

from __future__ import annotations

import logging
import math
import os
import re
import shutil
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import platformdirs

from hta_widgets.atomic_write import PARTIAL_NAME

VARIABLE: Final = "HTA_WIDGETS_CACHE"
SIZE_VARIABLE: Final = "HTA_WIDGETS_CACHE_GB"
OFF: Final = "off"
DEFAULT_GB: Final = 20.0

SUFFIX: Final = ".hta.arrow"
"""Suffix of cached traces, and of the columns derived from them."""

REMOTE: Final = "remote"
"""Folder in the cache for traces fetched from URLs, with a folder for each URL."""

URL_FILE: Final = "url.txt"
"""File with the URL of a folder in `REMOTE`; its modification time is the last use."""

_URL_FOLDER = re.compile(r"[0-9a-f]{32}")
_LEFT_OVER_AFTER_S: Final = 86_400
_BYTES_PER_GB: Final = 10**9
_log = logging.getLogger(__name__)
_logged: set[Path | None] = set()


class CacheEntry(NamedTuple):
    """The files of one rank, or the folder of everything fetched from one URL."""

    path: Path
    size: int
    used_s: float
    beside: tuple[Path, ...] = ()


def cache_folder() -> Path | None:
    """Folder of the cache: `VARIABLE`, or the platform's default; None if it is off.

    In a browser it is off by default, because files are in memory there.
    """
    chosen = os.environ.get(VARIABLE, OFF if sys.platform == "emscripten" else "")
    if chosen.lower() == OFF:
        return None
    if chosen:
        return Path(chosen)
    with suppress(RuntimeError):  # newer platformdirs raise it if there is no home folder
        folder = platformdirs.user_cache_path("hta_widgets", appauthor=False)
        if folder.is_absolute():
            return folder
    log_unusable(None, "the user has no home folder")
    return None


def usable_folder() -> Path | None:
    """Folder of the cache, created if necessary; None if it is off or cannot be used."""
    folder = cache_folder()
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            folder.stat()
    except OSError as error:
        log_unusable(folder, error)
        return None
    return folder


def log_unusable(folder: Path | None, reason: object) -> None:
    """Log, once for each folder, that the cache is not used."""
    if folder not in _logged:
        _logged.add(folder)
        where = "" if folder is None else f" in {folder}"
        _log.warning("no cache%s: %s; set %s to another folder", where, reason, VARIABLE)


def size_limit() -> int:
    """Maximum size of the cache in bytes."""
    try:
        gigabytes = float(os.environ.get(SIZE_VARIABLE, DEFAULT_GB))
    except ValueError:
        gigabytes = DEFAULT_GB
    limit = DEFAULT_GB if math.isnan(gigabytes) else gigabytes
    return int(min(max(limit, 0) * _BYTES_PER_GB, sys.maxsize))


def entries(folder: Path) -> list[CacheEntry]:
    """Entries of the cache, most recently used first."""
    found = [*_traces(folder), *_copies(folder / REMOTE)]
    return sorted(found, key=lambda entry: entry.used_s, reverse=True)


def prune(folder: Path, limit: int, keep: Collection[Path] = ()) -> int:
    """Remove the least recently used entries until the rest fits; return the bytes removed.

    The limit is in bytes. Entries to `keep` are not removed, whatever their size.
    """
    kept = sum(entry.size for entry in entries(folder) if entry.path in keep)
    removed = 0
    for entry in entries(folder):
        if entry.path in keep:
            continue
        if kept + entry.size <= limit:
            kept += entry.size
        else:
            removed += _remove(entry)
    oldest = time.time() - _LEFT_OVER_AFTER_S
    return removed + sum(_remove(each) for each in _left_over(folder) if each.used_s < oldest)


def clear(folder: Path) -> int:
    """Remove everything that the cache wrote, and nothing else; return the bytes removed."""
    removed = sum(map(_remove, [*entries(folder), *_left_over(folder)]))
    with suppress(OSError):
        (folder / REMOTE).rmdir()
    return removed


def _traces(folder: Path) -> Iterator[CacheEntry]:
    files: dict[str, list[CacheEntry]] = {}
    for path in sorted(folder.glob(f"*{SUFFIX}"), key=lambda path: len(path.name)):
        with suppress(OSError):
            stem = path.name.removesuffix(SUFFIX).partition("-")[0]
            files.setdefault(stem, []).append(_entry(path))
    for of_rank in files.values():
        size, used_s = sum(each.size for each in of_rank), max(each.used_s for each in of_rank)
        first, *others = (each.path for each in of_rank)
        yield CacheEntry(first, size, used_s, tuple(others))


def _copies(folder: Path) -> Iterator[CacheEntry]:
    for path in folder.glob("*"):
        with suppress(OSError):
            if _URL_FOLDER.fullmatch(path.name):
                used_s = (path / URL_FILE).stat().st_mtime
                yield CacheEntry(path, sum(map(_size, path.rglob("*"))), used_s)


def _left_over(folder: Path) -> Iterator[CacheEntry]:
    for path in folder.glob(".*.part"):
        with suppress(OSError):
            if PARTIAL_NAME.fullmatch(path.name):
                yield _entry(path)


def _entry(path: Path) -> CacheEntry:
    state = path.stat()
    return CacheEntry(path, state.st_size, state.st_mtime)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _remove(entry: CacheEntry) -> int:
    with suppress(OSError):
        if entry.path.is_dir():
            shutil.rmtree(entry.path)
        for file in (entry.path, *entry.beside):
            file.unlink(missing_ok=True)
        return entry.size
    return 0
