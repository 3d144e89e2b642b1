"""Recognise PyTorch-profiler traces at a URL by their first bytes."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hta_widgets.trace.loaders.kineto.format import KINETO, starts_as_trace
from hta_widgets.trace.loaders.nsys.format import NSYS
from hta_widgets.trace.remote.copies import (
    FileState,
    copy_path,
    fetch_progress,
    heads_path,
    mark_used,
)
from hta_widgets.trace.remote.files import RemoteFile, RemoteFiles, is_current

HEAD_BYTES: Final = (2**16, 2**20, 2**24)
"""Numbers of first bytes to try in turn until a trace is recognised; then the whole file."""


def fetch_heads(
    url: str, remote: RemoteFiles, files: Mapping[str, RemoteFile], *, progress: bool
) -> dict[str, FileState]:
    """Fetch the first bytes of the files of a URL, and the databases next to them completely.

    Parameters
    ----------
    url : str
    remote : RemoteFiles
        The files of the URL.
    files : mapping of str to RemoteFile
        By their path relative to the copy; the empty path is the copy itself.
    progress : bool
        Show a bar over the bytes.

    Returns
    -------
    dict of str to FileState
        The state of each file, by its path. Empty where first bytes are not enough: if a file has
        the name of another format, the file system reports no state for it, or none of the files
        is a PyTorch-profiler trace.
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
    """Fetch as many bytes of a file as show whether it is a trace; return whether it is one."""
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
    """Fetch a whole database: its first bytes do not show whether it is a trace."""
    database = heads / state.path
    if not is_current(database, state.changed_ns):
        remote.fetch_head(file, database, state.size)


def _remove_if_other_type(heads: Path, *, is_file: bool) -> None:
    """Remove a folder where a file has to go, and a file where a folder has to go."""
    if heads.is_dir() and is_file:
        shutil.rmtree(heads)
    elif heads.is_file() and not is_file:
        heads.unlink()
