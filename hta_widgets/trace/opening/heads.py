"""See by their beginnings that files at a URL are PyTorch-profiler traces."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hta_widgets.trace.loaders.kineto.format import KINETO, begins_as_trace
from hta_widgets.trace.loaders.nsys.format import NSYS
from hta_widgets.trace.remote.copies import FileState, copy_of, fetching, heads_of, mark_used
from hta_widgets.trace.remote.files import RemoteFile, RemoteFiles, is_current

HEAD_BYTES: Final = (2**16, 2**20, 2**24)
"""Sizes of a beginning; the next where one does not show a trace, and at last the whole file."""


def fetch_heads(
    url: str, remote: RemoteFiles, files: Mapping[str, RemoteFile], *, progress: bool
) -> dict[str, FileState]:
    """Fetch the beginnings of the files of a URL, and whole the databases beside them.

    Parameters
    ----------
    url : str
    remote : RemoteFiles
        The files of the URL.
    files : mapping of str to RemoteFile
        By their place in the copy; the empty place is the copy itself.
    progress : bool
        Show a bar over the bytes.

    Returns
    -------
    dict of str to FileState
        The state of each file, by its place. Empty where beginnings do not do: where a file is
        named as one of another format or has no state by which it is known again, or where none is
        a PyTorch-profiler trace.
    """
    states = {place: state for place, file in files.items() if (state := _state(place, file))}
    kineto = [states[place] for place in states if files[place].name.endswith(KINETO.suffixes)]
    databases = [states[place] for place in states if files[place].name.endswith(NSYS.suffixes)]
    if len(kineto) + len(databases) < len(files):
        return {}
    heads = heads_of(url)
    mark_used(copy_of(url), url)
    _make_way(heads, for_file="" in files)
    sizes = [min(state.size, HEAD_BYTES[0]) for state in kineto]
    seen = remote.each(lambda state: _see(remote, files[state.place], state, heads), kineto)
    traces = 0
    with fetching(url, sizes, show=progress) as advance:
        for size, is_trace in zip(sizes, seen, strict=True):
            traces += is_trace
            advance(size)
    for state in databases if traces else []:
        _see_database(remote, files[state.place], state, heads)
    return states if traces else {}


def _state(place: str, file: RemoteFile) -> FileState | None:
    if file.changed_ns is None or file.size is None:
        return None
    return FileState(place, file.changed_ns, file.size)


def _see(remote: RemoteFiles, file: RemoteFile, state: FileState, heads: Path) -> bool:
    """Fetch as much of a file as shows whether it is a trace, and say whether it is one."""
    head = heads / state.place
    if not is_current(head, state.changed_ns):
        remote.fetch_head(file, head, HEAD_BYTES[0])
    for size in (*HEAD_BYTES[1:], state.size):
        if begins_as_trace(head):
            return True
        if head.stat().st_size < min(size, state.size):
            remote.fetch_head(file, head, size)
    return begins_as_trace(head)


def _see_database(remote: RemoteFiles, file: RemoteFile, state: FileState, heads: Path) -> None:
    """Fetch a database, of which the beginning does not show whether it is a trace."""
    database = heads / state.place
    if not is_current(database, state.changed_ns):
        remote.fetch_head(file, database, state.size)


def _make_way(heads: Path, *, for_file: bool) -> None:
    """Remove a folder where there is a file now, or the other way round."""
    if heads.is_dir() and for_file:
        shutil.rmtree(heads)
    elif heads.is_file() and not for_file:
        heads.unlink()
