"""Where the copy of a URL lies, and how a rank finds its own part of it again."""

from __future__ import annotations

import atexit
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import NoReturn

from tqdm.auto import tqdm

from hta_widgets.errors import HtaWidgetsError
from hta_widgets.trace.cache_files import REMOTE, URL_FILE, cache_folder
from hta_widgets.trace.remote_files import RemoteFile, RemoteFiles, is_current
from hta_widgets.trace.urls import folder_of, name_in, shown

_PROGRESS_DELAY_S = 0.5


@dataclass(frozen=True)
class Origin:
    """Where the copy of a trace is from. It can be fetched again where it is no longer, or not yet.

    Attributes
    ----------
    url : str
        What was given; it may hold credentials and is never shown.
    inside : str
        The trace in the folder that the URL names; empty where the URL is that of the trace.
    files : tuple of (str, int)
        The files of the trace, seen as `inside` is, and their times of change.
    """

    url: str = field(repr=False)
    inside: str = ""
    files: tuple[tuple[str, int], ...] = ()

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
        root = path.parents[self.inside.count("/")] if self.inside else path
        return all(is_current(root / name, changed_ns) for name, changed_ns in self.files)

    def fetch(self) -> Path:
        """Fetch the trace alone, as far as it is not here yet, and return the copy."""
        remote = RemoteFiles(self.url)
        names = [name for name, _ in self.files]
        wanted = {name: remote.inside(name) if name else remote.root() for name in names}
        return fetch_files(self.url, remote, wanted, progress=False) / self.inside


def origin_of(url: str, copy: Path, path: Path) -> Origin:
    """Say where a trace is from, a file or folder in the copy of a URL."""
    files = sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else [path]
    states = tuple((_relative(file, copy), file.stat().st_mtime_ns) for file in files)
    return Origin(url, _relative(path, copy), states)


def copy_of(url: str) -> Path:
    """Where the copy of what a URL names is, or will be."""
    return _folder() / sha256(url.encode()).hexdigest()[:32] / name_in(url)


def fetch_files(
    url: str, remote: RemoteFiles, wanted: Mapping[str, RemoteFile], *, progress: bool
) -> Path:
    """Fetch files into the copy of a URL, and return the copy.

    Parameters
    ----------
    url : str
    remote : RemoteFiles
        The files of the URL.
    wanted : mapping of str to RemoteFile
        By their place in the copy; the empty place is the copy itself.
    progress : bool
        Show a bar over the bytes.
    """
    copy = copy_of(url)
    _mark_used(copy, url)
    missing = {
        place: file
        for place, file in wanted.items()
        if not is_current(copy / place, file.changed_ns)
    }
    with _progress_bar(missing.values(), url, show=progress) as bar:
        for place, file in missing.items():
            remote.fetch(file, copy / place, bar)
    return copy


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


def _mark_used(copy: Path, url: str) -> None:
    copy.parent.mkdir(parents=True, exist_ok=True)
    (copy.parent / URL_FILE).write_text(shown(url), encoding="utf-8")


def _relative(path: Path, copy: Path) -> str:
    return "" if path == copy else path.relative_to(copy).as_posix()


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


def _progress_bar(files: Iterable[RemoteFile], url: str, *, show: bool) -> tqdm[NoReturn]:
    sizes = [file.size for file in files]
    known = [size for size in sizes if size is not None]
    return tqdm(
        total=sum(known) if len(known) == len(sizes) else None,
        desc=f"Fetching {name_in(url)}",
        unit="B",
        unit_scale=True,
        unit_divisor=1024,
        leave=False,
        delay=_PROGRESS_DELAY_S,
        disable=not show,
    )
