"""Find the recordings of graph captures that belong to the ranks of a job."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from hta_widgets.errors import ParameterError, RankError, TraceNotFoundError
from hta_widgets.quantities import number_ranges, some_of
from hta_widgets.trace.loaders.kineto.format import KINETO
from hta_widgets.trace.opening.rank_numbers import rank_in_file_name
from hta_widgets.trace.opening.recognise import format_of, traces_in
from hta_widgets.trace.ranks.source import RankSource

Captures: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | bool | None"
"""Argument of `open_trace`: paths, None to look next to the trace, False for none."""

FOLDER: Final = "capture_traces"
"""Folders next to the traces where vLLM and SGLang write captures."""

NAMED: Final = re.compile(r"graph_capture_rank_\d|bs_\d+_rank\d")
"""Prefixes of the file names of both."""

MOST_FILES: Final = 64
"""Most captures that are read per rank: one for each batch size."""


def with_captures(
    sources: Mapping[int, RankSource], captures: Captures, notices: list[str]
) -> dict[int, RankSource]:
    """Return the ranks with the recordings of the captures of the graphs that they replay.

    Raises `TraceNotFoundError`, `TraceFormatError` or `UnreadableError` if a given path has no
    trace, `RankError` if none of the given captures belongs to a rank, and `ParameterError` if
    `captures` is True.
    """
    if captures is False:
        return {**sources}
    if captures is True:
        msg = "captures must be paths, False for none, or None to look next to the trace; got True"
        raise ParameterError(msg)
    if captures is None:
        return {rank: _with(each, rank, _beside(each)) for rank, each in sources.items()}
    paths = [captures] if isinstance(captures, str | os.PathLike) else [*captures]
    files = [file for path in paths for file in _files(Path(path).expanduser(), notices)]
    found = {rank: _with(each, rank, files) for rank, each in sources.items()}
    if files and not any(each.captures for each in found.values()):
        of_files = sorted({_rank_of(file) for file in files})
        msg = (
            f"the captures are of rank {number_ranges(of_files)}, the trace is of rank "
            f"{number_ranges(sources)}: give the captures of the ranks that are opened"
        )
        raise RankError(msg)
    return {rank: replace(each, captures_given=True) for rank, each in found.items()}


def without_captures(paths: Sequence[Path], notices: list[str]) -> list[Path]:
    """Leave out captures of graphs among the traces of a folder, because they are not ranks."""
    captures = [path for path in paths if NAMED.match(path.name)]
    if not captures or len(captures) == len(paths):
        return [*paths]
    verb = "is" if len(captures) == 1 else "are"
    noun = "a capture" if len(captures) == 1 else "captures"
    names = some_of([path.name for path in captures], 3)
    notices.append(f"{names} {verb} {noun} of graphs, and no rank")
    return [path for path in paths if path not in captures]


def _with(source: RankSource, rank: int, files: Iterable[Path]) -> RankSource:
    own = [file for file in files if _rank_of(file) == rank and file != source.path]
    captures = tuple(RankSource(file, KINETO).as_opened() for file in own[:MOST_FILES])
    return replace(source, captures=captures) if captures else source


def _beside(source: RankSource) -> list[Path]:
    """Capture files in the folder of a local trace, and in the folder that engines make there."""
    if source.format != KINETO or source.remote is not None or NAMED.match(source.path.name):
        return []
    folder = source.path.parent
    found = [path for path in folder.iterdir() if NAMED.match(path.name)]
    if (folder / FOLDER).is_dir():
        found += (folder / FOLDER).iterdir()
    return [path for path in sorted(found) if path.name.endswith(KINETO.suffixes) and _is(path)]


def _is(path: Path) -> bool:
    try:
        return KINETO.matches(path)
    except OSError:
        return False


def _files(path: Path, notices: list[str]) -> list[Path]:
    if not path.exists():
        msg = f"{path} does not exist; give the captures that the engine wrote, or their folder"
        raise TraceNotFoundError(msg)
    if path.is_dir() and format_of(path) is None:
        return traces_in(path, notices)[1]
    return [path]


def _rank_of(file: Path) -> int:
    """The rank that a capture states, or else the one in its name, or else 0."""
    if KINETO.stated_in is None:
        raise AssertionError(KINETO)
    stated = KINETO.stated_in(file, dict).rank
    named = rank_in_file_name(file.name) if stated is None else stated
    return named or 0
