"""Recognise the traces that the user gave, and find which rank and cycle each is of."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from operator import index
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from hta_widgets.errors import (
    RankError,
    TraceFormatError,
    TraceNotFoundError,
    unreadable_path,
)
from hta_widgets.trace.loaders.columns import whole_number
from hta_widgets.trace.model.formats import RANK_LIMIT, Format, FoundRank
from hta_widgets.trace.opening.fetch import FetchedSource
from hta_widgets.trace.opening.find_captures import without_captures
from hta_widgets.trace.opening.find_cycles import cycles_of_files
from hta_widgets.trace.opening.rank_numbers import number_ranks
from hta_widgets.trace.opening.recognise import WHAT_IS_A_TRACE, format_of, traces_in
from hta_widgets.trace.ranks.cycle import Cycle
from hta_widgets.trace.ranks.source import RankSource
from hta_widgets.trace.remote.urls import PathLike

_GIVE_TRACES = "give a trace, a folder of traces, or several traces"


def find_sources(fetched: FetchedSource, notices: list[str]) -> list[Cycle]:
    """Find the cycles and ranks of a source whose URLs are fetched, and add what was noticed.

    Raises
    ------
    TraceNotFoundError
        If a path does not exist or a folder has no trace.
    TraceFormatError
        If a file is not a trace, or traces have different formats.
    UnreadableError
        If the system does not allow reading it.
    RankError
        If the traces are of several runs, or a rank is none.
    """
    source = fetched.source
    if isinstance(source, Mapping):
        if not source:
            msg = f"no trace was given; {_GIVE_TRACES}"
            raise TraceNotFoundError(msg)
        ranks = {
            _given_rank(rank): _single_rank(_existing_path(path), notices)
            for rank, path in source.items()
        }
        return [Cycle({rank: fetched.with_remote(each) for rank, each in ranks.items()})]
    if not isinstance(source, str | os.PathLike):
        return _number_traces([_existing_path(path) for path in source], fetched, notices)
    path = _existing_path(source)
    if format_of(path) is None:
        form, paths = traces_in(path, notices)
        return _number_ranks(form, without_captures(paths, notices), fetched, notices)
    return _number_traces([path], fetched, notices)


def _existing_path(path: PathLike) -> Path:
    """Return the path with ``~`` expanded.

    Raises
    ------
    TraceNotFoundError
        If it does not exist.
    TraceFormatError
        If it is neither a file nor a folder.
    UnreadableError
        If it cannot be read.
    """
    try:
        expanded = Path(path).expanduser()
        state = expanded.stat()
        if S_ISDIR(state.st_mode):
            os.scandir(expanded).close()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        msg = f"{path} does not exist; {_GIVE_TRACES}"
        raise TraceNotFoundError(msg) from None
    except (OSError, RuntimeError) as error:
        raise unreadable_path(path, error) from error
    if S_ISREG(state.st_mode) or S_ISDIR(state.st_mode):
        return expanded
    msg = f"{path} is a pipe, a socket or a device; give a file or a folder"
    raise TraceFormatError(msg)


def _given_rank(rank: int | str) -> int:
    number = whole_number(rank if isinstance(rank, str) else index(rank), RANK_LIMIT)
    if number is not None and number >= 0:
        return number
    msg = f"{rank!r} is not a rank; give a whole number from 0 to {RANK_LIMIT - 1}"
    raise RankError(msg)


def _number_traces(
    paths: Sequence[Path], fetched: FetchedSource, notices: list[str]
) -> list[Cycle]:
    if not paths:
        msg = f"no trace was given; {_GIVE_TRACES}"
        raise TraceNotFoundError(msg)
    formats = {path: _known_format(path) for path in paths}
    if len(set(formats.values())) > 1:
        examples = ", ".join(f"{path.name} is {each.noun}" for path, each in formats.items())
        msg = f"these traces have different formats ({examples}); open one job at a time"
        raise TraceFormatError(msg)
    return _number_ranks(formats[paths[0]], paths, fetched, notices)


def _known_format(path: Path) -> Format:
    form = format_of(path)
    if form is None:
        msg = (
            f"{path} is a folder, not a trace; {WHAT_IS_A_TRACE}; "
            "give traces, or a single folder of traces"
        )
        raise TraceNotFoundError(msg)
    return form


def _single_rank(path: Path, notices: list[str]) -> RankSource:
    form = _known_format(path)
    found = form.find_ranks(path, notices)
    if len(found) == 1:
        return _rank_source(form, found[0])
    msg = f"{path} has {len(found)} ranks; open it on its own, not as one rank of a job"
    raise RankError(msg)


def _number_ranks(
    form: Format, paths: Sequence[Path], fetched: FetchedSource, notices: list[str]
) -> list[Cycle]:
    found = [each for path in dict.fromkeys(paths) for each in form.find_ranks(path, notices)]
    if form.stated_in:
        sources = {each.path: fetched.with_remote(_rank_source(form, each)) for each in found}
        return cycles_of_files(sources, fetched, notices)
    ranks, rule = number_ranks(found)
    notices += [rule] if rule else []
    sources_of = {rank: _rank_source(form, each) for rank, each in ranks.items()}
    return [Cycle({rank: fetched.with_remote(each) for rank, each in sources_of.items()})]


def _rank_source(form: Format, found: FoundRank) -> RankSource:
    """Source of a rank that was found in a trace of a format."""
    return RankSource(found.path, form, found.process)
