"""Open a job: recognise the traces that the user gave and find their ranks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from operator import index
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Final, Protocol, runtime_checkable

from hta_widgets.errors import (
    RankError,
    TraceFormatError,
    TraceNotFoundError,
    UnknownRankError,
    number_ranges,
    os_errors_as_ours,
    unreadable_path,
)
from hta_widgets.trace.job import Job
from hta_widgets.trace.loaders.columns import whole_number
from hta_widgets.trace.model.formats import RANK_LIMIT, Format, FoundRank, Metadata
from hta_widgets.trace.model.kernels import KernelRules
from hta_widgets.trace.opening.fetch import FetchedSource, fetch_remote
from hta_widgets.trace.opening.rank_numbers import number_ranks, rank_in_file_name
from hta_widgets.trace.opening.rank_sample import RankSample
from hta_widgets.trace.opening.recognise import WHAT_IS_A_TRACE, format_of, traces_in
from hta_widgets.trace.ranks import cache
from hta_widgets.trace.ranks.loader import inflated_size
from hta_widgets.trace.ranks.source import RankSource
from hta_widgets.trace.remote.urls import PathLike, TraceSource

BYTES_AT_ONCE: Final = 4 * 2**30
"""Jobs with more bytes to read, decompressed, are loaded rank by rank on demand."""

RANKS_HELD: Final = 8
"""Ranks of such a job that are held in memory at a time."""

_GIVE_RANKS = "give the ranks: open_trace({0: 'first.json', 1: 'second.json'})"


@runtime_checkable
class HasJob(Protocol):
    """Anything with a job, such as a `TraceAnalysis`."""

    @property
    def job(self) -> Job:
        """The job."""


def open_trace(
    source: TraceSource,
    *,
    kernel_rules: Mapping[str, str | Sequence[str]] | KernelRules | None = None,
    include_last_profiler_step: bool = False,
    ranks: Iterable[int] | RankSample | None = None,
    executor: Executor | None = None,
    progress: bool = True,
) -> Job:
    """Open the traces of one job.

    Parameters
    ----------
    source : path, list of paths, or mapping of rank to path
        The format is recognised by content: PyTorch-profiler traces (``.json``, ``.json.gz``),
        Nsight Systems exports (``nsys export`` with ``--type sqlite`` or ``parquetdir``), output
        folders of the overlap recipe (``files.parquet``, ``type_*.parquet``) and folders of CUPTI
        tables (``conc_kernel.csv``, ``cuda_runtime.csv``, ...). Give one of them, several, a folder
        of them, or ``{rank: path}``. A path may be a URL (``s3://``, ``gs://``, ``hf://``, ...):
        fsspec fetches its traces; PyTorch-profiler traces are fetched when and where their ranks
        are loaded.

        The rank of a PyTorch-profiler trace comes from ``distributedInfo`` in the file, else from
        its name (``rank-3``, ``worker3``, ``TP-3``); a single file with neither is rank 0. In an
        Nsight Systems export, each process with GPU work is a rank. `number_ranks` documents how
        other formats are numbered, and a notice names the rule that was used. Ranks given in a
        mapping are kept.
    kernel_rules : mapping of kernel type to patterns, optional
        Your own rules, tried before the built-in ones, e.g. ``{"COMMUNICATION": ["my_ring_"]}``.
    include_last_profiler_step : bool
        Keep the last ProfilerStep, which is left out by default because it is rarely complete.
    ranks : iterable of int or RankSample, optional
        Open only these ranks, or an evenly spaced sample (``RankSample(8)``); all by default.
    executor : Executor, optional
        Where ranks are loaded: any ``concurrent.futures.Executor``, such as that of a cluster
        (``dask.distributed.Client.get_executor()``). By default, processes of this machine where
        loading in parallel is faster.
    progress : bool
        Show a progress bar while loading takes longer than half a second.

    Returns
    -------
    Job
        Loaded, unless it is big (more than `RANKS_HELD` ranks and `BYTES_AT_ONCE` to read): then
        ranks are loaded on demand, and at most `RANKS_HELD` are held in memory.

    Raises
    ------
    TraceNotFoundError
        If a path does not exist or a folder has no trace.
    TraceFormatError
        If a file is not a trace.
    UnreadableError
        If the system does not allow reading it.
    RankError
        If the ranks are unknown or ambiguous.
    RemoteError
        If a URL cannot be fetched.
    UnknownRankError
        If one of `ranks` does not exist.
    """
    notices: list[str] = []
    fetched = fetch_remote(source, progress=progress)
    with fetched.urls_in_errors(), os_errors_as_ours():
        found = _find_sources(fetched, notices)
        sources = _select_ranks(found, ranks, notices)
    big = _is_big(sources)
    job = Job(
        sources,
        name=fetched.name or _job_name(fetched.source, sources),
        kernel_rules=KernelRules.from_user(kernel_rules),
        include_last_profiler_step=include_last_profiler_step,
        notices=notices,
        executor=executor,
        hold_at_most=RANKS_HELD if big else None,
        progress=progress,
        recorded_ranks=found,
    )
    return job if big else job.load(progress=progress)


def as_job(source: Job | HasJob | TraceSource) -> Job:
    """Return the job of an object that has one, or open the traces."""
    if isinstance(source, Job):
        return source
    if isinstance(source, HasJob):
        return source.job
    return open_trace(source)


def _select_ranks(
    sources: Mapping[int, RankSource],
    ranks: Iterable[int] | RankSample | None,
    notices: list[str],
) -> dict[int, RankSource]:
    """Keep the requested ranks, as their files are now, and add a notice."""
    available = tuple(sorted(sources))
    asked = ranks.among(available) if isinstance(ranks, RankSample) else tuple(ranks or available)
    if not set(asked) <= set(available):
        raise UnknownRankError.from_ranks(asked, available)
    kept = set(asked)
    if len(kept) < len(available):
        notices.append(f"{len(kept)} of {len(available)} ranks were opened: {number_ranges(kept)}")
    return {rank: sources[rank].as_opened() for rank in sorted(kept)}


def _is_big(sources: Mapping[int, RankSource]) -> bool:
    """Whether a job is so big that its ranks are loaded on demand."""
    if len(sources) <= RANKS_HELD:
        return False
    return sum(inflated_size(source) for source in sources.values()) > BYTES_AT_ONCE


def _find_sources(fetched: FetchedSource, notices: list[str]) -> dict[int, RankSource]:
    source = fetched.source
    if isinstance(source, Mapping):
        if not source:
            msg = f"no trace was given; {_GIVE_RANKS}"
            raise TraceNotFoundError(msg)
        ranks = {
            _given_rank(rank): _single_rank(existing_path(path), notices)
            for rank, path in source.items()
        }
        return {rank: fetched.with_remote(each) for rank, each in ranks.items()}
    if not isinstance(source, str | os.PathLike):
        return _number_traces([existing_path(path) for path in source], fetched, notices)
    path = existing_path(source)
    if format_of(path) is None:
        form, paths = traces_in(path, notices)
        return _number_ranks(form, paths, fetched, notices)
    return _number_traces([path], fetched, notices)


def existing_path(path: PathLike) -> Path:
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
        msg = f"{path} does not exist; give a trace, a folder of traces, or {{rank: trace}}"
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
) -> dict[int, RankSource]:
    if not paths:
        msg = f"no trace was given; {_GIVE_RANKS}"
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
        return rank_source(form, found[0])
    msg = f"{path} has {len(found)} ranks; open it on its own, not as one rank of a job"
    raise RankError(msg)


def _number_ranks(
    form: Format, paths: Sequence[Path], fetched: FetchedSource, notices: list[str]
) -> dict[int, RankSource]:
    found = [each for path in dict.fromkeys(paths) for each in form.find_ranks(path, notices)]
    if form.rank_in:
        sources = {each.path: fetched.with_remote(rank_source(form, each)) for each in found}
        return {rank: sources[path] for rank, path in _ranks_of_files(sources, fetched).items()}
    ranks, rule = number_ranks(found)
    notices += [rule] if rule else []
    return {rank: fetched.with_remote(rank_source(form, each)) for rank, each in ranks.items()}


def rank_source(form: Format, found: FoundRank) -> RankSource:
    """Source of a rank that was found in a trace of a format."""
    return RankSource(found.path, form, found.process)


def _ranks_of_files(sources: Mapping[Path, RankSource], fetched: FetchedSource) -> dict[int, Path]:
    """Map each rank to its file, by the rank stated in the file, else by the name of the file."""
    files = tuple(sources)
    ranks = [_rank_of_file(file, source, fetched) for file, source in sources.items()]
    if len(files) == 1:
        return {ranks[0] or 0: files[0]}
    unknown = [file.name for file, rank in zip(files, ranks, strict=True) if rank is None]
    if unknown:
        names = ", ".join(unknown[:5])
        msg = f"the rank of {names} is neither in the file nor in its name; {_GIVE_RANKS}"
        raise RankError(msg)
    numbered: dict[int, Path] = {}
    for file, rank in zip(files, ranks, strict=True):
        if rank is not None and numbered.setdefault(rank, file) != file:
            msg = f"{numbered[rank]} and {file} are both rank {rank}; {_GIVE_RANKS}"
            raise RankError(msg)
    return numbered


def _rank_of_file(file: Path, source: RankSource, fetched: FetchedSource) -> int | None:
    """Rank stated in the file, else in its name.

    Metadata after the events comes from the cache if the trace is cached, without fetching it.
    """
    named = rank_in_file_name(file.name)

    def read_metadata() -> Metadata:
        cached = cache.load(source, named or 0)
        return cached.trace.metadata if cached else fetched.read_metadata(source)

    stated = source.format.rank_in(file, read_metadata) if source.format.rank_in else None
    return named if stated is None else stated


def _job_name(source: TraceSource, sources: Mapping[int, RankSource]) -> str:
    if isinstance(source, str | os.PathLike):
        return Path(source).expanduser().resolve().name
    folders = {each.folder_name for each in sources.values()}
    return folders.pop() if len(folders) == 1 else f"{len(sources)} ranks"
