"""Recognise the traces that the user gave, and find the rank and cycle of each."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from operator import index
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Final

from hta_widgets.errors import RankError, TraceFormatError, TraceNotFoundError, unreadable_path
from hta_widgets.quantities import some_of
from hta_widgets.trace.loaders.columns import whole_number
from hta_widgets.trace.model.formats import RANK_LIMIT, Format, FoundRank, Metadata
from hta_widgets.trace.opening.fetch import FetchedSource
from hta_widgets.trace.opening.find_captures import without_captures
from hta_widgets.trace.opening.rank_numbers import number_ranks, rank_in_file_name
from hta_widgets.trace.opening.recognise import WHAT_IS_A_TRACE, format_of, traces_in
from hta_widgets.trace.opening.run_choices import SeveralRunsError
from hta_widgets.trace.opening.runs import Recording, Run, runs_of
from hta_widgets.trace.ranks import cache
from hta_widgets.trace.ranks.cycle import Cycle
from hta_widgets.trace.ranks.source import RankSource
from hta_widgets.trace.remote.urls import PathLike

_GIVE_TRACES = "give a trace, a folder of traces, or several traces"


_MOST_READ: Final = 16
"""Most processes without a rank that are searched for GPU work, each up to its first work."""


def find_sources(fetched: FetchedSource, notices: list[str]) -> list[Cycle]:
    """Find the cycles and ranks of a source whose URLs are fetched, and add notices.

    Raises `TraceNotFoundError` if a path does not exist or a folder has no trace;
    `TraceFormatError` if a file is not a trace, or traces have different formats; `UnreadableError`
    if the system does not allow reading it; `RankError` if the traces come from several runs, or a
    rank is not valid.
    """
    source = fetched.source
    if not (isinstance(source, str | os.PathLike) or source):
        msg = f"no trace was given; {_GIVE_TRACES}"
        raise TraceNotFoundError(msg)
    if isinstance(source, Mapping):
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

    Raises `TraceNotFoundError` if it does not exist, `TraceFormatError` if it is neither a file nor
    a folder and `UnreadableError` if it cannot be read.
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
    msg = f"{path} has {len(found)} ranks; open it alone, not as one rank of a job"
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
    """Source of a rank that was found in a trace."""
    return RankSource(found.path, form, found.process)


def cycles_of_files(
    sources: Mapping[Path, RankSource], fetched: FetchedSource, notices: list[str]
) -> list[Cycle]:
    """Sort files into the cycles of one run, in order of time; notices say what was left out.

    The files have a format that states ranks, and are given by their path, or that of their first
    bytes. Raises `SeveralRunsError` if they come from several runs, or it is not known which belong
    together.
    """
    runs = runs_of([_recording(file, source, fetched) for file, source in sources.items()])
    if len(runs) > 1:
        runs = _with_gpu_work(runs, fetched, notices)
    if len(runs) > 1 or runs[0].cycles is None:
        raise SeveralRunsError(runs)
    return [_cycle(recordings) for recordings in runs[0].cycles]


def _recording(file: Path, source: RankSource, fetched: FetchedSource) -> Recording:
    """What is known about a file: first what it states, then what its name says.

    Metadata after the events comes from the cache if the trace is cached, without fetching it.
    """
    named = rank_in_file_name(file.name)

    def read_metadata() -> Metadata:
        cached = cache.load(source, named or 0)
        return cached.trace.metadata if cached else fetched.read_metadata(source)

    form = source.format
    if form.stated_in is None:
        raise AssertionError(form)
    stated = form.stated_in(file, read_metadata)
    return Recording.of(source, named if stated.rank is None else stated.rank, stated)


def _with_gpu_work(runs: list[Run], fetched: FetchedSource, notices: list[str]) -> list[Run]:
    """Leave out processes without a rank and without GPU work, unless there is nothing else.

    vLLM records its front end, which is not a rank, together with its workers.
    """
    unclear = [run for run in runs if run.recordings[0].rank is None]
    if len(unclear) > _MOST_READ:
        return runs
    idle = [run for run in unclear if not _has_gpu_work(run.recordings[-1], fetched)]
    if not idle or len(idle) == len(runs):
        return runs
    names = [each.name for run in idle for each in run.recordings]
    have, are = ("has", "is") if len(names) == 1 else ("have", "are")
    notices.append(f"{some_of(names)} {have} no rank and no GPU work and {are} left out")
    return [run for run in runs if run not in idle]


def _has_gpu_work(recording: Recording, fetched: FetchedSource) -> bool:
    has_gpu_work = recording.source.format.has_gpu_work
    if recording.is_of_front_end or has_gpu_work is None:
        return False
    return has_gpu_work(recording.source.fetch(progress=fetched.progress).path)


def _cycle(recordings: Sequence[Recording]) -> Cycle:
    times = [each.time_ns for each in recordings if each.time_ns is not None]
    steps = [each.step for each in recordings if each.step is not None]
    stages = {each.stage for each in recordings}
    return Cycle(
        {each.rank or 0: each.source for each in recordings},
        time_ns=min(times, default=None),
        step=min(steps, default=None),
        stage=stages.pop() if len(stages) == 1 else "",
    )
