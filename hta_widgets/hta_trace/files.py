"""Which files HTA's arguments `trace_files` and `trace_dir` name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from hta_widgets.trace.remote.urls import PathLike, TraceSource, is_url, join_url

DEFAULT_TRACE_DIR: Final = "/tmp/trace"  # noqa: S108 - HTA's default

TraceFiles: TypeAlias = Mapping[int, PathLike] | Sequence[PathLike] | PathLike


def traces_of(trace_files: TraceFiles | None, trace_dir: PathLike) -> TraceSource:
    """All traces of the folder, or the given ones.

    Relative paths are looked up in the folder, then in the current directory.
    """
    folder = trace_dir if is_url(trace_dir) else Path(trace_dir).expanduser()

    def locate(path: PathLike) -> PathLike:
        if is_url(path):
            return path
        if is_url(folder):
            return join_url(os.fspath(folder), os.fspath(path))
        inside = Path(folder) / Path(path).expanduser()
        return inside if inside.exists() else Path(path).expanduser()

    if trace_files is None:
        return folder
    if isinstance(trace_files, Mapping):
        return {rank: locate(path) for rank, path in trace_files.items()}
    if isinstance(trace_files, str | os.PathLike):
        return locate(trace_files)
    return [locate(path) for path in trace_files]
