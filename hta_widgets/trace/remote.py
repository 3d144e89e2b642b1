"""Traces by URL: fetch what is needed into a copy, which is then opened as any other trace."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hta_widgets.errors import TraceFormatError, TraceNotFoundError
from hta_widgets.trace.cache_files import cache_folder, prune, size_limit
from hta_widgets.trace.cupti_csv import TABLES
from hta_widgets.trace.event_text import EventText
from hta_widgets.trace.nsys import is_nsys_export
from hta_widgets.trace.nsys_recipe import FILES
from hta_widgets.trace.nsys_tables import READABLE
from hta_widgets.trace.rank_source import RankSource
from hta_widgets.trace.recognise import (
    KINETO_SUFFIXES,
    RECORDINGS,
    SQLITE_SUFFIXES,
    WHAT_IS_A_TRACE,
    format_of,
    refuse_recording,
)
from hta_widgets.trace.remote_copies import copy_of, fetch_files, named_by_url, origin_of
from hta_widgets.trace.remote_files import RemoteFile, RemoteFiles
from hta_widgets.trace.urls import PathLike, TraceSource, is_url, local_path, shown

_ARCHIVES = (".tar.gz",)
_DESCRIPTION = ".nsys-analysis"
_SAID_AT_MOST = 5


class Fetched(NamedTuple):
    """What was given, with paths in place of URLs.

    Attributes
    ----------
    source : path, list of paths, or mapping of rank to path
    urls : dict of Path to str
        The URL that each copy is of. It may hold credentials and is never shown.
    name : str
        What to call the job: the URL where a single one was given, else empty.
    """

    source: TraceSource
    urls: dict[Path, str]
    name: str

    def naming(self) -> AbstractContextManager[None]:
        """Let errors name the URLs, not their copies."""
        return named_by_url({copy: _name(url) for copy, url in self.urls.items()})

    def with_origins(self, sources: Mapping[int, RankSource]) -> dict[int, RankSource]:
        """Note of each rank where it is from."""
        return {rank: self._with_origin(source) for rank, source in sources.items()}

    def _with_origin(self, source: RankSource) -> RankSource:
        for copy, url in self.urls.items():
            if source.path.is_relative_to(copy):
                return replace(source, origin=origin_of(url, copy, source.path))
        return source


def fetched(source: TraceSource, *, progress: bool = True) -> Fetched:
    """Fetch what is given by URL, by fsspec, and leave the rest as it is.

    A copy lies in the cache, or, where that is off, in a temporary folder. It is used again as long
    as the file system says that the file is the same. Of a folder, only what may be a trace is
    fetched, and of its own folders only if it has no trace itself. A ``file://`` URL is its path.

    Parameters
    ----------
    source : path or URL, list of them, or mapping of rank to one
    progress : bool
        Show a bar over the bytes.

    Raises
    ------
    TraceNotFoundError
        If there is nothing at a URL, or a folder without a trace.
    RemoteError
        If a package is missing, or the file system does not give the files.
    """
    urls: dict[Path, str] = {}

    def local(given: PathLike) -> PathLike:
        url = os.fspath(given)
        if not is_url(url):
            return given
        path = local_path(url)
        if path is None:
            path = _fetch(url, progress=progress)
            urls[path] = url
        return path

    found: TraceSource
    if isinstance(source, Mapping):
        found = {rank: local(path) for rank, path in source.items()}
    elif isinstance(source, str | os.PathLike):
        found = local(source)
    else:
        found = [local(path) for path in source]
    _make_room({copy.parent for copy in urls})
    name = _name(source) if urls and isinstance(source, str) else ""
    return Fetched(found, urls, name)


def _fetch(url: str, *, progress: bool) -> Path:
    copy = copy_of(url)
    with named_by_url({copy: _name(url)}):
        refuse_recording(copy)
    remote = RemoteFiles(url)
    root = remote.root()
    if root.is_folder:
        return _fetch_folder(url, remote, root, progress=progress)
    if copy.is_dir():
        shutil.rmtree(copy)
    return fetch_files(url, remote, {"": root}, progress=progress)


def _fetch_folder(url: str, remote: RemoteFiles, root: RemoteFile, *, progress: bool) -> Path:
    listed = remote.listed(root.path)
    wanted = {file.name: file for file in listed if not file.is_folder and _may_matter(file.name)}
    copy = copy_of(url)
    if copy.is_file():
        copy.unlink()
    if wanted:
        fetch_files(url, remote, wanted, progress=progress)
    if not (wanted and _holds_trace(copy, wanted)):
        inner = _tables_inside(remote, [file for file in listed if file.is_folder])
        fetch_files(url, remote, inner, progress=progress)
        wanted |= inner
    _drop_others(copy, wanted)
    if not wanted:
        raise TraceNotFoundError(_nothing_there(url, listed))
    return copy


def _tables_inside(remote: RemoteFiles, folders: Sequence[RemoteFile]) -> dict[str, RemoteFile]:
    return {
        f"{folder.name}/{file.name}": file
        for folder in folders
        for file in remote.listed(folder.path)
        if not file.is_folder and _is_table(file.name)
    }


def _may_matter(name: str) -> bool:
    if name.endswith(_ARCHIVES):
        return False
    return name.endswith((*KINETO_SUFFIXES, *SQLITE_SUFFIXES, _DESCRIPTION)) or _is_table(name)


def _is_table(name: str) -> bool:
    """Tell by its name whether a file is one of those that make a folder a trace."""
    stem = name.removesuffix(".parquet")
    is_read = stem in READABLE or name == FILES or stem.startswith("type_")
    return name in TABLES or (stem != name and is_read)


def _holds_trace(copy: Path, names: Collection[str]) -> bool:
    try:
        if format_of(copy) is not None:
            return True
    except TraceFormatError:
        return True  # known what it is, which is said when it is opened
    return any(_is_trace(copy / name) for name in names)


def _is_trace(file: Path) -> bool:
    if file.name.endswith(KINETO_SUFFIXES):
        with suppress(TraceFormatError):
            EventText(file).header()
            return True
    return file.suffix in SQLITE_SUFFIXES and is_nsys_export(file)


def _drop_others(copy: Path, wanted: Collection[str]) -> None:
    """Remove what the URL does not have any longer."""
    for path in sorted(copy.rglob("*"), reverse=True):
        if path.is_dir():
            with suppress(OSError):
                path.rmdir()
        elif path.relative_to(copy).as_posix() not in wanted:
            path.unlink(missing_ok=True)


def _make_room(keep: Collection[Path]) -> None:
    folder = cache_folder()
    if folder is not None and keep:
        with suppress(OSError):
            prune(folder.resolve(), size_limit(), keep)


def _name(url: str) -> str:
    return shown(url).rstrip("/")


def _nothing_there(url: str, listed: Sequence[RemoteFile]) -> str:
    recordings = [file.name for file in listed if file.name.endswith(RECORDINGS)]
    names = recordings or [file.name for file in listed]
    some = ", ".join(names[:_SAID_AT_MOST])
    more = f" and {len(names) - _SAID_AT_MOST} more" if len(names) > _SAID_AT_MOST else ""
    what = f"it has {some}{more}" if names else "it is empty"
    if recordings:
        what = f"{some}{more} must be exported first (nsys export --type sqlite)"
    return f"{_name(url)} holds no trace: {what}; {WHAT_IS_A_TRACE}"
