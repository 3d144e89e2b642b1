"""Fetch enough of the traces at URLs to recognise them and find their ranks.

The first bytes of a PyTorch-profiler trace are enough; the rest follows when its rank is loaded.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from hta_widgets.errors import TraceFormatError, TraceNotFoundError
from hta_widgets.quantities import some_of
from hta_widgets.trace.cache.files import cache_folder, prune, size_limit
from hta_widgets.trace.loaders.formats import FORMATS
from hta_widgets.trace.loaders.kineto.format import KINETO, starts_as_trace
from hta_widgets.trace.loaders.kineto.refusals import refuse_xplane
from hta_widgets.trace.loaders.kineto.text import EventText
from hta_widgets.trace.loaders.nsys.format import NSYS, RECORDINGS, refuse_recording
from hta_widgets.trace.opening.recognise import WHAT_IS_A_TRACE, format_of
from hta_widgets.trace.ranks.source import RankSource
from hta_widgets.trace.remote.copies import (
    FileState,
    RemoteSource,
    copy_path,
    fetch_files,
    fetch_progress,
    heads_path,
    mark_used,
    path_in_copy,
    remote_source,
    urls_in_errors,
)
from hta_widgets.trace.remote.files import RemoteFile, RemoteFiles, is_current
from hta_widgets.trace.remote.urls import PathLike, TraceSource, is_url, local_path, redacted

_ARCHIVES = (".tar.gz",)


HEAD_BYTES: Final = (2**16, 2**20, 2**24)
"""Numbers of first bytes to try in turn until a trace is recognised, and then the whole file."""


class FetchedUrl(NamedTuple):
    """A URL and its local stand-in."""

    url: str
    """May contain credentials and is never shown."""
    copy: Path
    """Where the complete files are, or will be."""
    partial: dict[str, FileState]
    """Files of which only the first bytes are fetched, by their path in the copy."""

    @property
    def local_path(self) -> Path:
        """The path to open instead of the URL."""
        return heads_path(self.url) if self.partial else self.copy

    def remote_source(self, path: Path) -> RemoteSource:
        """Remote source of a trace, which is a file or folder of the local path."""
        if not self.partial:
            return remote_source(self.url, self.copy, path)
        name = path_in_copy(path, self.local_path)
        return RemoteSource(self.url, name, (self.partial[name],))


class FetchedSource(NamedTuple):
    """The source that the user gave, with paths in place of URLs."""

    source: TraceSource
    urls: dict[Path, FetchedUrl]
    """Fetched URLs, by the path that replaces each."""
    name: str
    """Name of the job: the URL if a single one was given, or else empty."""
    progress: bool
    """Show a progress bar if more bytes have to be fetched."""

    def urls_in_errors(self) -> AbstractContextManager[None]:
        """Make errors name the URLs instead of local paths."""
        names = {each.local_path: _display_name(each.url) for each in self.urls.values()}
        copies = {each.copy: _display_name(each.url) for each in self.urls.values()}
        return urls_in_errors(names | copies)

    def with_remote(self, source: RankSource) -> RankSource:
        """Add the remote source of a trace, and the path of its complete copy."""
        for path in (source.path, *source.path.parents):
            if fetched := self.urls.get(path):
                remote = fetched.remote_source(source.path)
                return replace(source, path=fetched.copy / remote.path, remote=remote)
        return source

    def read_metadata(self, source: RankSource) -> dict[str, Any]:
        """All of a PyTorch-profiler trace except the events, which fetches the whole file."""
        complete = source.fetch(progress=self.progress)
        return EventText(complete.path).metadata_around_events()


def fetch_remote(source: TraceSource, *, progress: bool = True) -> FetchedSource:
    """Fetch what is needed to recognise the traces at URLs, using fsspec.

    Only the first bytes of PyTorch-profiler traces are fetched here; the complete files follow when
    and where their ranks are loaded. Copies are kept in the cache, or in a temporary folder if the
    cache is off, and are reused while the file system reports the same state. In a folder, only
    files that may be traces are fetched; its subfolders are searched only if it has no trace
    itself. A ``file://`` URL is replaced by its path.

    Raises `TraceNotFoundError` if there is nothing at a URL, or only a folder without a trace, and
    `RemoteError` if a package is missing, or the file system refuses the files.
    """
    urls: dict[Path, FetchedUrl] = {}

    def local(given: PathLike) -> PathLike:
        url = os.fspath(given)
        if not is_url(url):
            return given
        path = local_path(url)
        if path is not None:
            return path
        fetched = _fetch(url, progress=progress)
        urls[fetched.local_path] = fetched
        return fetched.local_path

    paths: TraceSource
    given: object = source
    if isinstance(source, Mapping):
        paths = {rank: local(path) for rank, path in source.items()}
    elif isinstance(source, str | os.PathLike):
        paths = local(source)
    elif not isinstance(given, Iterable):
        msg = f"{given!r} is not a path; give a trace, a folder of traces, or several traces"
        raise TraceNotFoundError(msg)
    else:
        paths = [local(path) for path in source]
    _prune_cache({fetched.copy.parent for fetched in urls.values()})
    name = _display_name(source) if urls and isinstance(source, str) else ""
    return FetchedSource(paths, urls, name, progress)


def _fetch(url: str, *, progress: bool) -> FetchedUrl:
    copy = copy_path(url)
    with urls_in_errors({copy: _display_name(url)}):
        refuse_recording(copy)
        refuse_xplane(copy)
    remote = RemoteFiles(url)
    root = remote.root()
    if root.is_folder:
        return _fetch_folder(url, remote, root, progress=progress)
    if copy.is_dir():
        shutil.rmtree(copy)
    heads = fetch_heads(url, remote, {"": root}, progress=progress)
    if not heads:
        fetch_files(copy, url, remote, {"": root}, progress=progress)
    return FetchedUrl(url, copy, heads)


def _fetch_folder(url: str, remote: RemoteFiles, root: RemoteFile, *, progress: bool) -> FetchedUrl:
    listing = remote.list_folder(root.path)
    candidates = [file for file in listing if not file.is_folder and _may_be_trace_file(file.name)]
    files = {file.name: file for file in remote.with_states(candidates)}
    copy = copy_path(url)
    if copy.is_file():
        copy.unlink()
    if heads := fetch_heads(url, remote, files, progress=progress):
        _remove_others(copy, files)
        _remove_others(heads_path(url), files)
        return FetchedUrl(url, copy, heads)
    if files:
        fetch_files(copy, url, remote, files, progress=progress)
    if not (files and _has_trace(copy, files)):
        tables = _tables_in_subfolders(remote, [file for file in listing if file.is_folder])
        fetch_files(copy, url, remote, tables, progress=progress)
        files |= tables
    _remove_others(copy, files)
    if not files:
        raise TraceNotFoundError(_no_trace_message(url, listing))
    return FetchedUrl(url, copy, {})


def _tables_in_subfolders(
    remote: RemoteFiles, folders: Sequence[RemoteFile]
) -> dict[str, RemoteFile]:
    return {
        f"{folder.name}/{table.name}": table
        for folder in folders
        for table in remote.with_states(
            file
            for file in remote.list_folder(folder.path)
            if not file.is_folder and _may_be_trace_part(file.name)
        )
    }


def _may_be_trace_file(name: str) -> bool:
    if name.endswith(_ARCHIVES):
        return False
    return any(name.endswith(each.suffixes) for each in FORMATS) or _may_be_trace_part(name)


def _may_be_trace_part(name: str) -> bool:
    """Whether a file may, judging by its name, be part of a trace that is a folder."""
    return any(each.is_part(name) for each in FORMATS)


def _has_trace(copy: Path, names: Collection[str]) -> bool:
    try:
        if format_of(copy) is not None:
            return True
    except TraceFormatError:
        return True  # recognised but unreadable: opening it raises the error
    return any(
        each.matches(copy / name)
        for name in names
        for each in FORMATS
        if name.endswith(each.suffixes)
    )


def _remove_others(copy: Path, names: Collection[str]) -> None:
    """Remove the files that the URL no longer has."""
    for path in sorted(copy.rglob("*"), reverse=True):
        if path.is_dir():
            with suppress(OSError):
                path.rmdir()
        elif path.relative_to(copy).as_posix() not in names:
            path.unlink(missing_ok=True)


def _prune_cache(keep: Collection[Path]) -> None:
    folder = cache_folder()
    if folder is not None and keep:
        with suppress(OSError):
            prune(folder.resolve(), size_limit(), keep)


def _display_name(url: str) -> str:
    return redacted(url).rstrip("/")


def _no_trace_message(url: str, listing: Sequence[RemoteFile]) -> str:
    recordings = [file.name for file in listing if file.name.endswith(RECORDINGS)]
    names = recordings or [file.name for file in listing]
    what = f"it has {some_of(names)}" if names else "it is empty"
    if recordings:
        what = f"{some_of(recordings)} must be exported first (nsys export --type sqlite)"
    return f"{_display_name(url)} has no trace: {what}; {WHAT_IS_A_TRACE}"


def fetch_heads(
    url: str, remote: RemoteFiles, files: Mapping[str, RemoteFile], *, progress: bool
) -> dict[str, FileState]:
    """Fetch the first bytes of the files of a URL, and the databases next to them completely.

    Files are given by their path relative to the copy; the empty path is the copy itself. Returns
    the state of each, or nothing if first bytes are not enough: a file has the name of another
    format, the file system reports no state for it, or no file is a PyTorch-profiler trace.
    """
    states = {path: state for path, file in files.items() if (state := _file_state(path, file))}
    kineto = [states[path] for path in states if files[path].name.endswith(KINETO.suffixes)]
    databases = [states[path] for path in states if files[path].name.endswith(NSYS.suffixes)]
    if len(kineto) + len(databases) < len(files):
        return {}
    heads = heads_path(url)
    mark_used(copy_path(url), url)
    _remove_if_other_type(heads, is_file="" in files)
    sizes = [min(state.size, HEAD_BYTES[0]) for state in kineto]
    are_traces = remote.map(
        lambda state: _fetch_head(remote, files[state.path], state, heads), kineto
    )
    traces = 0
    with fetch_progress(url, sizes, show=progress) as advance:
        for size, is_trace in zip(sizes, are_traces, strict=True):
            traces += is_trace
            advance(size)
    for state in databases if traces else []:
        _fetch_database(remote, files[state.path], state, heads)
    return states if traces else {}


def _file_state(path: str, file: RemoteFile) -> FileState | None:
    if file.changed_ns is None or file.size is None:
        return None
    return FileState(path, file.changed_ns, file.size)


def _fetch_head(remote: RemoteFiles, file: RemoteFile, state: FileState, heads: Path) -> bool:
    """Fetch enough bytes of a file to tell whether it is a trace; return whether it is."""
    head = heads / state.path
    if not is_current(head, state.changed_ns):
        remote.fetch_head(file, head, HEAD_BYTES[0])
    for size in (*HEAD_BYTES[1:], state.size):
        if starts_as_trace(head):
            return True
        if head.stat().st_size < min(size, state.size):
            remote.fetch_head(file, head, size)
    return starts_as_trace(head)


def _fetch_database(remote: RemoteFiles, file: RemoteFile, state: FileState, heads: Path) -> None:
    """Fetch a whole database, because its first bytes do not show whether it is a trace."""
    database = heads / state.path
    if not is_current(database, state.changed_ns):
        remote.fetch_head(file, database, state.size)


def _remove_if_other_type(heads: Path, *, is_file: bool) -> None:
    """Remove a folder where a file must go, or a file where a folder must go."""
    if heads.is_dir() and is_file:
        shutil.rmtree(heads)
    elif heads.is_file() and not is_file:
        heads.unlink()
