"""List and fetch the files of a URL with fsspec; errors never contain its credentials."""

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
from hta_widgets.trace.remote.urls import redacted

Item = TypeVar("Item")
Result = TypeVar("Result")

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
_STATE_FIELDS = frozenset(
    {
        *("etag", "md5hash", "contentmd5", "checksum", "crc32c", "digest", "blobid", "sha", "oid"),
        *("lfs", "xethash", "versionid", "generation", "mtime", "lastmodified", "modified"),
        *("updated", "created", "modificationtime", "islink", "crc"),
    }
)
"""Fields of fsspec's file systems that change when a file changes."""

_STREAMED_WHOLE = "hf"
"""Protocol whose package requests the whole file if it reads without blocks."""

_CHUNK_BYTES = 2**20
_MAX_THREADS = 16
_UNKNOWN_PROTOCOL = "Protocol not known"
_ABSENT = frozenset({401, 403, 404, 410})
"""HTTP statuses for missing and forbidden files, which stores do not distinguish."""


class RemoteFile(NamedTuple):
    """A file or folder at a URL."""

    path: str
    """Path in the notation of its file system."""
    name: str
    """Last part of the path."""
    size: int | None
    """Bytes, if known."""
    is_folder: bool
    changed_ns: int | None
    """A time made from everything that changes with the file, so that each state has its own. The
    copy gets it as its modification time. None if the file system reports no such field."""


class RemoteFiles:
    """The files of a URL. Raises `RemoteError` if the package for its protocol is not installed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._system, self._root = self._request(lambda: _fsspec().core.url_to_fs(url))
        self._request(self._system.invalidate_cache)

    def root(self) -> RemoteFile:
        """The file or folder that the URL names."""
        found = self._file(self._request(lambda: self._system.info(self._root)))
        is_folder = found.is_folder or redacted(self._url).rstrip("*?").endswith("/")
        return found._replace(path=self._root, is_folder=is_folder)

    def file_in_folder(self, name: str) -> RemoteFile:
        """Return a file of the folder that the URL names, by its path in the folder.

        It is looked up in the listing of its folder, as when it was first fetched, because file
        systems report fewer or different fields for a single file.
        """
        folder, _, last = f"{self._root.rstrip('/')}/{name}".rpartition("/")
        for file in self.list_folder(folder):
            if file.name == last:
                return self._with_state(file)
        msg = f"{name} no longer exists at {redacted(self._url).rstrip('/')}; open the job again"
        raise TraceNotFoundError(msg)

    def list_folder(self, folder: str) -> list[RemoteFile]:
        """List the files and folders directly in a folder."""
        listing = self._request(lambda: self._system.ls(folder, detail=True))
        files = [self._file(info) for info in listing if _file_name(str(info["name"])) != ""]
        itself = folder.strip("/")
        return [file for file in files if file.path.strip("/") != itself]

    def with_states(self, files: Iterable[RemoteFile]) -> list[RemoteFile]:
        """Look up the state of each file for which the listing of its folder has none."""
        return list(self.map(self._with_state, files))

    def map(self, request: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Make a request for each item, concurrently if the file system is asynchronous."""
        if not getattr(self._system, "async_impl", False):
            yield from map(request, items)
            return
        with ThreadPoolExecutor(_MAX_THREADS) as threads:
            yield from threads.map(request, items)

    def fetch(self, file: RemoteFile, target: Path, on_read: OnRead) -> None:
        """Fetch a file."""
        with _copy_of_state(target, file.changed_ns) as partial:
            callback = _callback(on_read)
            self._request(lambda: self._system.get_file(file.path, str(partial), callback=callback))
            self._require_complete(file, partial)

    def fetch_head(self, file: RemoteFile, target: Path, size: int) -> None:
        """Fetch only the first `size` bytes of a file."""
        with _copy_of_state(target, file.changed_ns) as partial:
            self._request(lambda: self._write_head(file.path, size, partial))
            self._require_complete(file, partial, size)

    def _write_head(self, path: str, size: int, partial: Path) -> None:
        """Read in a way that makes the server send no more than `size` bytes.

        `cat_file` with bounds would be a single call, but huggingface_hub fetches the whole file
        for it: 70 kB instead of 4 in the test of the stores.
        """
        blocks: dict[str, Any] = {"block_size": 0}
        if self._system.protocol == _STREAMED_WHOLE:
            blocks = {"block_size": size, "cache_type": "none"}
        with self._system.open(path, "rb", **blocks) as content, partial.open("wb") as head:
            while left := min(size - head.tell(), _CHUNK_BYTES):
                if not (chunk := content.read(left)):
                    break
                head.write(chunk)

    def _require_complete(self, file: RemoteFile, copy: Path, at_most: int | None = None) -> None:
        size = copy.stat().st_size
        if file.size is not None and size < min(file.size, at_most or file.size):
            msg = (
                f"the download of {file.name} from {redacted(self._url)} stopped after {size:,} of "
                f"{file.size:,} bytes and was discarded; try again"
            )
            raise RemoteError(msg)

    def _with_state(self, file: RemoteFile) -> RemoteFile:
        if file.changed_ns is not None:
            return file
        single = self._file(self._request(lambda: self._system.info(file.path)))
        return file._replace(size=single.size, changed_ns=single.changed_ns)

    def _file(self, info: Mapping[str, Any]) -> RemoteFile:
        path = str(info["name"])
        size = info.get("size")
        return RemoteFile(
            path=path,
            name=_file_name(path),
            size=size if isinstance(size, int) else None,
            is_folder=info.get("type") == "directory",
            changed_ns=_changed_ns(info),
        )

    def _request(self, request: Callable[[], Result]) -> Result:
        """Make a request; its error message is kept only if the URL contains no secret."""
        try:
            return request()
        except HtaWidgetsError:
            raise
        except Exception as error:  # noqa: BLE001  # each file system raises its own errors
            problem = _error_for(self._url, error)
            cause = error if redacted(self._url) == self._url else None
        raise problem from cause


def is_current(copy: Path, changed_ns: int | None) -> bool:
    """Whether a copy exists and matches this state."""
    try:
        return copy.stat().st_mtime_ns == changed_ns
    except OSError:
        return False


@contextmanager
def _copy_of_state(target: Path, changed_ns: int | None) -> Iterator[Path]:
    """Give a file to write to, which replaces the target and gets the time of its state."""
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


def _file_name(path: str) -> str:
    """Last part of a path; empty if it is not a valid file name on this machine."""
    name = path.partition("?")[0].rstrip("/").rpartition("/")[2]
    return "" if name in (".", "..") or Path(name).name != name else name


def _changed_ns(info: Mapping[str, Any]) -> int | None:
    """Hash everything that changes with a file into a time in whole seconds."""
    state = {
        key: repr(value)
        for key, value in info.items()
        if key.lower().replace("-", "").replace("_", "") in _STATE_FIELDS and value is not None
    }
    if not state:
        return None
    state["size"] = repr(info.get("size"))
    digest = sha256(repr(sorted(state.items())).encode()).digest()
    return (int.from_bytes(digest[:4], "big") >> 1) * 10**9


def _callback(on_read: OnRead) -> Any:  # noqa: ANN401  # fsspec has no types
    class Reporting(_fsspec().callbacks.Callback):  # type: ignore[misc]
        read = 0

        def relative_update(self, inc: int = 1) -> None:
            self.read += inc
            on_read(inc)

        def absolute_update(self, value: int) -> None:
            self.relative_update(value - self.read)

    return Reporting()


def _error_for(url: str, error: Exception) -> HtaWidgetsError:
    name = redacted(url)
    behind, status = _behind(error)
    detail = f"{type(behind).__name__}: {behind}" if name == url else type(behind).__name__
    if status:
        detail = f"the server answers with status {status}"
    if isinstance(behind, FileNotFoundError) or status in _ABSENT:
        return TraceNotFoundError(
            f"{name} does not exist or is not visible with your credentials; "
            "give the URL of a trace or of a folder of traces"
        )
    if isinstance(error, ImportError):
        package = _PACKAGES.get(url.partition("://")[0].rpartition("::")[2])
        advice = f"pip install {package}" if package else str(error)
        return RemoteError(f"{name} needs a package that is not installed: {advice}")
    if isinstance(error, ValueError) and _UNKNOWN_PROTOCOL in str(error):
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


def _behind(error: Exception) -> tuple[Exception, int | None]:
    """The real error behind "no such file", and the HTTP status of the answer.

    fsspec reports a missing file for any failure of a web server, even for an endless redirection.
    """
    cause = error.__cause__
    if not isinstance(error, FileNotFoundError) or not isinstance(cause, Exception):
        return error, None
    response = getattr(cause, "response", None)
    if isinstance(response, Mapping):  # of botocore
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:
        status = getattr(cause, "status", getattr(response, "status_code", None))
    is_told = isinstance(status, int) or not isinstance(cause, ValueError)
    return (cause, status) if is_told else (error, None)
