"""Traces by URL: fetch what shows which ranks there are, to be opened as any other trace."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from hta_widgets.errors import TraceFormatError, TraceNotFoundError
from hta_widgets.trace.cache.files import cache_folder, prune, size_limit
from hta_widgets.trace.loaders.formats import FORMATS
from hta_widgets.trace.loaders.kineto.text import EventText
from hta_widgets.trace.loaders.nsys.format import RECORDINGS, refuse_recording
from hta_widgets.trace.opening.heads import fetch_heads
from hta_widgets.trace.opening.recognise import WHAT_IS_A_TRACE, format_of
from hta_widgets.trace.ranks.source import RankSource
from hta_widgets.trace.remote.copies import (
    FileState,
    Origin,
    copy_of,
    fetch_files,
    heads_of,
    named_by_url,
    origin_of,
    relative,
)
from hta_widgets.trace.remote.files import RemoteFile, RemoteFiles
from hta_widgets.trace.remote.urls import PathLike, TraceSource, is_url, local_path, shown

_ARCHIVES = (".tar.gz",)
_SAID_AT_MOST = 5


class Place(NamedTuple):
    """What stands for a URL here.

    Attributes
    ----------
    url : str
        It may hold credentials and is never shown.
    copy : Path
        The whole copy, as far as it is here.
    heads : dict of str to FileState
        The files of which only the beginnings are here, by their places in the copy.
    """

    url: str
    copy: Path
    heads: dict[str, FileState]

    @property
    def seen(self) -> Path:
        """What is opened in place of the URL."""
        return heads_of(self.url) if self.heads else self.copy

    def origin_of(self, path: Path) -> Origin:
        """Say where a trace is from, a file or folder of what was seen."""
        if not self.heads:
            return origin_of(self.url, self.copy, path)
        place = relative(path, self.seen)
        return Origin(self.url, place, (self.heads[place],))


class Fetched(NamedTuple):
    """What was given, with paths in place of URLs.

    Attributes
    ----------
    source : path, list of paths, or mapping of rank to path
    places : dict of Path to Place
        By the path that is in place of a URL.
    name : str
        What to call the job: the URL where a single one was given, else empty.
    progress : bool
        Show a bar over the bytes where more has to be fetched.
    """

    source: TraceSource
    places: dict[Path, Place]
    name: str
    progress: bool

    def naming(self) -> AbstractContextManager[None]:
        """Let errors name the URLs, not what stands for them here."""
        seen = {place.seen: _name(place.url) for place in self.places.values()}
        return named_by_url(seen | {each.copy: _name(each.url) for each in self.places.values()})

    def located(self, source: RankSource) -> RankSource:
        """Note where a trace is from, and where its whole copy is or will be."""
        for path in (source.path, *source.path.parents):
            if place := self.places.get(path):
                origin = place.origin_of(source.path)
                return replace(source, path=place.copy / origin.inside, origin=origin)
        return source

    def whole_metadata(self, source: RankSource) -> dict[str, Any]:
        """What stands before and behind the events of a PyTorch-profiler trace."""
        whole = source.here(progress=self.progress)
        return EventText(whole.path).metadata_around_events()


def fetched(source: TraceSource, *, progress: bool = True) -> Fetched:
    """Fetch what is needed to tell what is at a URL, by fsspec, and leave the rest as it is.

    Of PyTorch-profiler traces these are their beginnings; the files follow when their ranks are
    loaded, and where they are. What is fetched lies in the cache, or, where that is off, in a
    temporary folder. It is used again as long as the file system says that the file is the same. Of
    a folder, only what may be a trace is fetched, and of its own folders only if it has no trace
    itself. A ``file://`` URL is its path.

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
    places: dict[Path, Place] = {}

    def local(given: PathLike) -> PathLike:
        url = os.fspath(given)
        if not is_url(url):
            return given
        path = local_path(url)
        if path is not None:
            return path
        place = _fetch(url, progress=progress)
        places[place.seen] = place
        return place.seen

    found: TraceSource
    if isinstance(source, Mapping):
        found = {rank: local(path) for rank, path in source.items()}
    elif isinstance(source, str | os.PathLike):
        found = local(source)
    else:
        found = [local(path) for path in source]
    _make_room({place.copy.parent for place in places.values()})
    name = _name(source) if places and isinstance(source, str) else ""
    return Fetched(found, places, name, progress)


def _fetch(url: str, *, progress: bool) -> Place:
    copy = copy_of(url)
    with named_by_url({copy: _name(url)}):
        refuse_recording(copy)
    remote = RemoteFiles(url)
    root = remote.root()
    if root.is_folder:
        return _fetch_folder(url, remote, root, progress=progress)
    if copy.is_dir():
        shutil.rmtree(copy)
    heads = fetch_heads(url, remote, {"": root}, progress=progress)
    if not heads:
        fetch_files(copy, url, remote, {"": root}, progress=progress)
    return Place(url, copy, heads)


def _fetch_folder(url: str, remote: RemoteFiles, root: RemoteFile, *, progress: bool) -> Place:
    listed = remote.listed(root.path)
    may_matter = [file for file in listed if not file.is_folder and _may_matter(file.name)]
    wanted = {file.name: file for file in remote.with_states(may_matter)}
    copy = copy_of(url)
    if copy.is_file():
        copy.unlink()
    if heads := fetch_heads(url, remote, wanted, progress=progress):
        _drop_others(copy, wanted)
        _drop_others(heads_of(url), wanted)
        return Place(url, copy, heads)
    if wanted:
        fetch_files(copy, url, remote, wanted, progress=progress)
    if not (wanted and _holds_trace(copy, wanted)):
        inner = _tables_inside(remote, [file for file in listed if file.is_folder])
        fetch_files(copy, url, remote, inner, progress=progress)
        wanted |= inner
    _drop_others(copy, wanted)
    if not wanted:
        raise TraceNotFoundError(_nothing_there(url, listed))
    return Place(url, copy, {})


def _tables_inside(remote: RemoteFiles, folders: Sequence[RemoteFile]) -> dict[str, RemoteFile]:
    return {
        f"{folder.name}/{table.name}": table
        for folder in folders
        for table in remote.with_states(
            file
            for file in remote.listed(folder.path)
            if not file.is_folder and _is_part(file.name)
        )
    }


def _may_matter(name: str) -> bool:
    if name.endswith(_ARCHIVES):
        return False
    return any(name.endswith(each.suffixes) for each in FORMATS) or _is_part(name)


def _is_part(name: str) -> bool:
    """Whether a file of this name may be one of those that make a folder a trace."""
    return any(each.is_part(name) for each in FORMATS)


def _holds_trace(copy: Path, names: Collection[str]) -> bool:
    try:
        if format_of(copy) is not None:
            return True
    except TraceFormatError:
        return True  # known what it is, which is said when it is opened
    return any(
        each.holds(copy / name)
        for name in names
        for each in FORMATS
        if name.endswith(each.suffixes)
    )


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
    return f"{_name(url)} has no trace: {what}; {WHAT_IS_A_TRACE}"
