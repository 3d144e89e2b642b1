"""List and fetch the files of a URL, by fsspec, and say what went wrong without its credentials."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from hta_widgets.atomic_write import atomic_write
from hta_widgets.errors import HtaWidgetsError, RemoteError, TraceNotFoundError
from hta_widgets.progress import OnRead
from hta_widgets.trace.remote.urls import shown

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")

_PACKAGES = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "hf": "huggingface_hub",
    "http": "aiohttp requests",
    "https": "aiohttp requests",
    "abfs": "adlfs",
    "az": "adlfs",
    "sftp": "paramiko",
    "ssh": "paramiko",
}
_CHANGING = frozenset(
    {
        *("etag", "md5hash", "contentmd5", "checksum", "crc32c", "digest", "blobid", "sha", "oid"),
        *("lfs", "xethash", "versionid", "generation", "mtime", "lastmodified", "modified"),
        *("updated", "created", "modificationtime", "islink", "crc"),
    }
)
"""Fields that change with a file, as the file systems of fsspec call them."""

_STREAMED_WHOLE = "hf"
"""Protocol whose package, reading without blocks, asks for a whole file whatever is read of it."""

_PIECE_BYTES = 2**20
_AT_ONCE = 16
_NO_FILE_SYSTEM = "Protocol not known"


class RemoteFile(NamedTuple):
    """A file or folder at a URL.

    Attributes
    ----------
    path : str
        As its file system calls it.
    name : str
        The last part of it.
    size : int or None
        Bytes, where known.
    is_folder : bool
    changed_ns : int or None
        What stands for its state, as a time: another state has another. None where the file system
        does not tell.
    """

    path: str
    name: str
    size: int | None
    is_folder: bool
    changed_ns: int | None


class RemoteFiles:
    """The files of a URL.

    Parameters
    ----------
    url : str

    Raises
    ------
    RemoteError
        If no package for it is installed.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._system, self._root = self._told(lambda: _fsspec().core.url_to_fs(url))
        self._told(self._system.invalidate_cache)

    def root(self) -> RemoteFile:
        """What the URL names."""
        about = self._told(lambda: self._system.info(self._root))
        found = self._file(about)
        is_folder = found.is_folder or shown(self._url).rstrip("*?").endswith("/")
        return found._replace(path=self._root, is_folder=is_folder)

    def inside(self, name: str) -> RemoteFile:
        """Return a file of the folder that the URL names.

        It is looked up in the list of its folder, as when it was fetched first: file systems say
        less, or other things, of a file alone.
        """
        folder, _, last = f"{self._root.rstrip('/')}/{name}".rpartition("/")
        for file in self.listed(folder):
            if file.name == last:
                return self._with_state(file)
        msg = f"{name} no longer exists at {shown(self._url).rstrip('/')}; open the job again"
        raise TraceNotFoundError(msg)

    def listed(self, folder: str) -> list[RemoteFile]:
        """What is directly in a folder."""
        found = self._told(lambda: self._system.ls(folder, detail=True))
        files = [self._file(about) for about in found if _plain(str(about["name"])) != ""]
        itself = folder.strip("/")
        return [file for file in files if file.path.strip("/") != itself]

    def with_states(self, files: Iterable[RemoteFile]) -> list[RemoteFile]:
        """Ask about each file by itself, where the list of its folder does not say its state."""
        return list(self.each(self._with_state, files))

    def each(self, ask: Callable[[Asked], Answer], about: Iterable[Asked]) -> Iterator[Answer]:
        """Ask about each of several things, at the same time where the file system takes that."""
        is_asynchronous = getattr(self._system, "async_impl", False)
        with ThreadPoolExecutor(_AT_ONCE if is_asynchronous else 1) as threads:
            yield from threads.map(ask, about)

    def fetch(self, file: RemoteFile, target: Path, on_read: OnRead) -> None:
        """Fetch a file."""
        with _copy_of_state(target, file.changed_ns) as partial:
            callback = _reporting_to(on_read)
            self._told(lambda: self._system.get_file(file.path, str(partial), callback=callback))
            self._require_whole(file, partial)

    def fetch_head(self, file: RemoteFile, target: Path, size: int) -> None:
        """Fetch the first bytes of a file, and no more of it."""
        with _copy_of_state(target, file.changed_ns) as partial:
            self._told(lambda: self._read_head(file.path, size, partial))
            self._require_whole(file, partial, size)

    def _read_head(self, path: str, size: int, partial: Path) -> None:
        """Read so that no more is sent than is asked for."""
        blocks: dict[str, Any] = {"block_size": 0}
        if self._system.protocol == _STREAMED_WHOLE:
            blocks = {"block_size": size, "cache_type": "none"}
        with self._system.open(path, "rb", **blocks) as content, partial.open("wb") as head:
            while left := min(size - head.tell(), _PIECE_BYTES):
                if not (piece := content.read(left)):
                    break
                head.write(piece)

    def _require_whole(self, file: RemoteFile, copy: Path, at_most: int | None = None) -> None:
        size = copy.stat().st_size
        if file.size is not None and size < min(file.size, at_most or file.size):
            msg = (
                f"the download of {file.name} from {shown(self._url)} stopped after {size:,} of "
                f"{file.size:,} bytes and was discarded; try again"
            )
            raise RemoteError(msg)

    def _with_state(self, file: RemoteFile) -> RemoteFile:
        if file.changed_ns is not None:
            return file
        alone = self._file(self._told(lambda: self._system.info(file.path)))
        return file._replace(size=alone.size, changed_ns=alone.changed_ns)

    def _file(self, about: Mapping[str, Any]) -> RemoteFile:
        path = str(about["name"])
        size = about.get("size")
        return RemoteFile(
            path=path,
            name=_plain(path),
            size=size if isinstance(size, int) else None,
            is_folder=about.get("type") == "directory",
            changed_ns=_changed_ns(about),
        )

    def _told(self, ask: Callable[[], Answer]) -> Answer:
        """Ask a file system; where it fails, its own words are kept only if they hold no secret."""
        try:
            return ask()
        except HtaWidgetsError:
            raise
        except Exception as error:  # noqa: BLE001  # each file system has errors of its own
            problem = _problem(self._url, error)
            cause = error if shown(self._url) == self._url else None
        raise problem from cause


def is_current(copy: Path, changed_ns: int | None) -> bool:
    """Tell whether a copy is there and of this state."""
    try:
        return copy.stat().st_mtime_ns == changed_ns
    except OSError:
        return False


@contextmanager
def _copy_of_state(target: Path, changed_ns: int | None) -> Iterator[Path]:
    """Give a file to write to, which takes its place with the time of its state."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(target, private=True) as partial:
        yield partial
        if changed_ns is not None:
            os.utime(partial, ns=(changed_ns, changed_ns))


def _fsspec() -> ModuleType:
    try:
        import fsspec  # noqa: PLC0415
    except ModuleNotFoundError:
        msg = "traces at URLs need fsspec: pip install 'hta_widgets[remote]'"
        raise RemoteError(msg) from None
    return fsspec  # type: ignore[no-any-return]


def _plain(path: str) -> str:
    """Return the last part of a path; nothing where that is no name of a file here."""
    name = path.partition("?")[0].rstrip("/").rpartition("/")[2]
    return "" if name in (".", "..") or Path(name).name != name else name


def _changed_ns(about: Mapping[str, Any]) -> int | None:
    """Make a time, in whole seconds, of all that changes with a file."""
    state = {
        key: repr(value)
        for key, value in about.items()
        if key.lower().replace("-", "").replace("_", "") in _CHANGING and value is not None
    }
    if not state:
        return None
    state["size"] = repr(about.get("size"))
    digest = sha256(repr(sorted(state.items())).encode()).digest()
    return (int.from_bytes(digest[:4], "big") >> 1) * 10**9


def _reporting_to(on_read: OnRead) -> Any:  # noqa: ANN401  # a class of fsspec, without types
    class Reporting(_fsspec().callbacks.Callback):  # type: ignore[misc]
        read = 0

        def relative_update(self, inc: int = 1) -> None:
            self.read += inc
            on_read(inc)

        def absolute_update(self, value: int) -> None:
            self.relative_update(value - self.read)

    return Reporting()


def _problem(url: str, error: Exception) -> HtaWidgetsError:
    name = shown(url)
    detail = f"{type(error).__name__}: {error}" if name == url else type(error).__name__
    if isinstance(error, FileNotFoundError):
        return TraceNotFoundError(
            f"{name} does not exist or is not visible with your credentials; "
            "give the URL of a trace or of a folder of traces"
        )
    if isinstance(error, ImportError):
        package = _PACKAGES.get(url.partition("://")[0].rpartition("::")[2])
        advice = f"pip install {package}" if package else str(error)
        return RemoteError(f"{name} needs a package that is not installed: {advice}")
    if isinstance(error, ValueError) and _NO_FILE_SYSTEM in str(error):
        return RemoteError(
            f"{name} has a protocol that fsspec does not know; "
            "known ones include s3, gs, hf and https"
        )
    if isinstance(error, PermissionError):
        return RemoteError(
            f"access to {name} was denied ({detail}); set the credentials in the environment or "
            "the configuration of the file-system package"
        )
    return RemoteError(
        f"{name} could not be fetched ({detail}); no partial file is kept; try again"
    )
