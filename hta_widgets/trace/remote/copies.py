"""Where the copy of a URL lies, and how a rank finds its own part of it again."""

from __future__ import annotations

import atexit
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from hta_widgets.errors import HtaWidgetsError, RemoteError
from hta_widgets.progress import OnRead, byte_bar
from hta_widgets.trace.cache.files import REMOTE, URL_FILE, cache_folder
from hta_widgets.trace.remote.files import RemoteFile, RemoteFiles, is_current
from hta_widgets.trace.remote.urls import folder_of, name_in, shown


class FileState(NamedTuple):
    """A file of a trace, by its place in the copy of a URL, and what tells whether it changed."""

    place: str
    changed_ns: int
    size: int


@dataclass(frozen=True)
class Origin:
    """Where the copy of a trace is from. It can be fetched again where it is no longer, or not yet.

    Attributes
    ----------
    url : str
        What was given; it may hold credentials and is never shown.
    inside : str
        The trace in the folder that the URL names; empty where the URL is that of the trace.
    files : tuple of FileState
        The files of the trace when the job was opened.
    """

    url: str = field(repr=False)
    inside: str = ""
    files: tuple[FileState, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def name(self) -> str:
        """The URL of the trace, for showing."""
        return f"{shown(self.url).rstrip('/')}/{self.inside}" if self.inside else shown(self.url)

    @property
    def folder(self) -> str:
        """The URL of the folder around the trace, for showing."""
        return folder_of(self.name)

    def is_at(self, path: Path) -> bool:
        """Tell whether the files of the trace are there."""
        copy = self._whole_copy(path)
        return all(is_current(copy / file.place, file.changed_ns) for file in self.files)

    def fetch(self, path: Path, *, progress: bool = False) -> Path:
        """Fetch the trace alone, as far as it is not here yet, and return where it is.

        Parameters
        ----------
        path : Path
            Where it is to be, unless this machine has no folder for it there.
        progress : bool
            Show a bar over the bytes.

        Raises
        ------
        TraceNotFoundError, RemoteError
            If it is no longer there, or has changed.
        """
        remote = RemoteFiles(self.url)
        wanted = {file.place: self._unchanged(file, remote) for file in self.files}
        there = self._whole_copy(path)
        copy = there if there.parent.is_dir() else copy_of(self.url)
        fetch_files(copy, self.url, remote, wanted, progress=progress)
        return copy / self.inside

    def _whole_copy(self, path: Path) -> Path:
        """Return the copy of the URL, of which the trace at a path is a part."""
        return path.parents[self.inside.count("/")] if self.inside else path

    def _unchanged(self, then: FileState, remote: RemoteFiles) -> RemoteFile:
        now = remote.inside(then.place) if then.place else remote.root()
        if now.changed_ns in (None, then.changed_ns):
            return now
        msg = f"{self.name} has changed since the job was opened; open the job again"
        raise RemoteError(msg)


def origin_of(url: str, copy: Path, path: Path) -> Origin:
    """Say where a trace is from, a file or folder in the copy of a URL."""
    files = sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else [path]
    return Origin(url, relative(path, copy), tuple(_state(file, copy) for file in files))


def copy_of(url: str) -> Path:
    """Where the copy of what a URL names is, or will be."""
    return _folder() / sha256(url.encode()).hexdigest()[:32] / name_in(url)


def heads_of(url: str) -> Path:
    """Where the beginnings of the files are, as far as they show what the files are."""
    copy = copy_of(url)
    return copy.with_name(f"{copy.name}.heads") / copy.name


def fetch_files(
    copy: Path, url: str, remote: RemoteFiles, wanted: Mapping[str, RemoteFile], *, progress: bool
) -> None:
    """Fetch files into the copy of a URL.

    Parameters
    ----------
    copy : Path
    url : str
    remote : RemoteFiles
        The files of the URL.
    wanted : mapping of str to RemoteFile
        By their place in the copy; the empty place is the copy itself.
    progress : bool
        Show a bar over the bytes.
    """
    mark_used(copy, url)
    missing = {
        place: file
        for place, file in wanted.items()
        if not is_current(copy / place, file.changed_ns)
    }
    with fetching(url, [file.size for file in missing.values()], show=progress) as advance:
        for place, file in missing.items():
            remote.fetch(file, copy / place, advance)


@contextmanager
def named_by_url(names: Mapping[Path, str]) -> Iterator[None]:
    """Let errors name a URL where they name its copy."""
    try:
        yield
    except HtaWidgetsError as error:
        said = str(error)
        for copy, name in names.items():
            said = said.replace(str(copy), name)
        if said == str(error):
            raise
        renamed = type(error)(said)
    else:
        return
    raise renamed


def mark_used(copy: Path, url: str) -> None:
    """Note that the copy of a URL is in use."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    (copy.parent / URL_FILE).write_text(shown(url), encoding="utf-8")


def relative(path: Path, copy: Path) -> str:
    """Place of a file in the copy of a URL; empty for the copy itself."""
    return "" if path == copy else path.relative_to(copy).as_posix()


def fetching(
    url: str, sizes: Collection[int | None], *, show: bool
) -> AbstractContextManager[OnRead]:
    """Progress over the bytes that are fetched; without an end where a size is not known."""
    known = [size for size in sizes if size is not None]
    total = sum(known) if len(known) == len(sizes) else None
    return byte_bar(f"Fetching {name_in(url)}", total, show=show)


def _state(file: Path, copy: Path) -> FileState:
    state = file.stat()
    return FileState(relative(file, copy), state.st_mtime_ns, state.st_size)


def _folder() -> Path:
    cache = cache_folder()
    if cache is not None:
        with suppress(OSError):
            folder = cache / REMOTE
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK | os.X_OK):
                return folder.resolve()
    return _temporary_folder(os.getpid())


@lru_cache(maxsize=1)
def _temporary_folder(process: int) -> Path:
    """Folder that lives as long as the process that made it, and not only its forks."""
    folder = Path(mkdtemp(prefix="hta_widgets-")).resolve()

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder
