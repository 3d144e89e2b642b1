"""Local copies of the traces at URLs."""

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
from hta_widgets.trace.remote.urls import name_in, parent_url, redacted


class FileState(NamedTuple):
    """A file of a trace at a URL, and what shows whether it has changed."""

    path: str
    """Path relative to the copy of the URL; empty for the copy itself."""
    changed_ns: int
    size: int
    """See `RemoteFile`."""


@dataclass(frozen=True)
class RemoteSource:
    """The URL that a trace comes from, so that its copy can be fetched when it is missing."""

    url: str = field(repr=False)
    """As given by the user; it may contain credentials and is never shown."""
    path: str = ""
    """The trace, relative to the folder that the URL names; empty if the URL names the trace."""
    files: tuple[FileState, ...] = ()
    """The files of the trace when the job was opened."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def name(self) -> str:
        """The URL of the trace, for display."""
        url = redacted(self.url)
        return f"{url.rstrip('/')}/{self.path}" if self.path else url

    @property
    def folder(self) -> str:
        """The URL of the folder that contains the trace, for display."""
        return parent_url(self.name)

    def has_copy_at(self, path: Path) -> bool:
        """Whether an up-to-date copy of the trace exists at a path."""
        copy = self._copy_root(path)
        return all(is_current(copy / file.path, file.changed_ns) for file in self.files)

    def fetch(self, path: Path, *, progress: bool = False) -> Path:
        """Fetch the missing files of the trace and return its path.

        That is the given one, unless the folder of the copy does not exist on this machine. Raises
        `TraceNotFoundError` or `RemoteError` if the trace no longer exists, or has changed.
        """
        remote = RemoteFiles(self.url)
        files = {file.path: self._require_unchanged(file, remote) for file in self.files}
        root = self._copy_root(path)
        copy = root if root.parent.is_dir() else copy_path(self.url)
        fetch_files(copy, self.url, remote, files, progress=progress)
        return copy / self.path

    def _copy_root(self, path: Path) -> Path:
        """Copy of the whole URL, given the path of the trace in it."""
        return path.parents[self.path.count("/")] if self.path else path

    def _require_unchanged(self, then: FileState, remote: RemoteFiles) -> RemoteFile:
        now = remote.file_in_folder(then.path) if then.path else remote.root()
        if now.changed_ns in (None, then.changed_ns):
            return now
        msg = f"{self.name} has changed since the job was opened; open the job again"
        raise RemoteError(msg)


def remote_source(url: str, copy: Path, path: Path) -> RemoteSource:
    """Remote source of a trace, a file or folder in the copy of a URL."""
    files = sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else [path]
    states = tuple(_file_state(file, copy) for file in files)
    return RemoteSource(url, path_in_copy(path, copy), states)


def copy_path(url: str) -> Path:
    """Path of the copy of what a URL names, whether or not it has been fetched."""
    return _copies_folder() / sha256(url.encode()).hexdigest()[:32] / name_in(url)


def heads_path(url: str) -> Path:
    """Path of the first bytes of the files, enough of each to recognise it."""
    copy = copy_path(url)
    return copy.with_name(f"{copy.name}.heads") / copy.name


def fetch_files(
    copy: Path, url: str, remote: RemoteFiles, files: Mapping[str, RemoteFile], *, progress: bool
) -> None:
    """Fetch the files that the copy of a URL lacks.

    They are given by their path relative to the copy; the empty path is the copy itself.
    """
    mark_used(copy, url)
    missing = {
        path: file for path, file in files.items() if not is_current(copy / path, file.changed_ns)
    }
    with fetch_progress(url, [file.size for file in missing.values()], show=progress) as advance:
        for path, file in missing.items():
            remote.fetch(file, copy / path, advance)


@contextmanager
def urls_in_errors(names: Mapping[Path, str]) -> Iterator[None]:
    """Replace the paths of copies in error messages with the URLs that they stand for."""
    try:
        yield
    except HtaWidgetsError as error:
        message = str(error)
        for copy, name in names.items():
            message = message.replace(str(copy), name)
        if message == str(error):
            raise
        renamed = type(error)(message)
    else:
        return
    raise renamed


def mark_used(copy: Path, url: str) -> None:
    """Record that the copy of a URL is in use."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    (copy.parent / URL_FILE).write_text(redacted(url), encoding="utf-8")


def path_in_copy(path: Path, copy: Path) -> str:
    """Path of a file relative to the copy of a URL; empty for the copy itself."""
    return "" if path == copy else path.relative_to(copy).as_posix()


def fetch_progress(
    url: str, sizes: Collection[int | None], *, show: bool
) -> AbstractContextManager[OnRead]:
    """Progress bar for the bytes to fetch; open-ended if any size is unknown."""
    known = [size for size in sizes if size is not None]
    total = sum(known) if len(known) == len(sizes) else None
    return byte_bar(f"Fetching {name_in(url)}", total, show=show)


def _file_state(file: Path, copy: Path) -> FileState:
    state = file.stat()
    return FileState(path_in_copy(file, copy), state.st_mtime_ns, state.st_size)


def _copies_folder() -> Path:
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
    """Folder that is removed when the process that made it exits, but not when its forks exit."""
    folder = Path(mkdtemp(prefix="hta_widgets-")).resolve()

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder
