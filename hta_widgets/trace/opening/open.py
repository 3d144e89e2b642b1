"""Recognise what was given, find the ranks, and open the job."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from hta_widgets.errors import (
    RankError,
    TraceFormatError,
    TraceNotFoundError,
    UnknownRankError,
    number_ranges,
)
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Format, FoundRank, Metadata
from hta_widgets.trace.model.kernels import KernelRules
from hta_widgets.trace.opening.fetch import Fetched, fetched
from hta_widgets.trace.opening.rank_numbers import number_ranks, rank_in_name
from hta_widgets.trace.opening.rank_sample import RankSample
from hta_widgets.trace.opening.recognise import WHAT_IS_A_TRACE, format_of, traces_in
from hta_widgets.trace.ranks import cache
from hta_widgets.trace.ranks.loader import inflated_size
from hta_widgets.trace.ranks.source import RankSource
from hta_widgets.trace.remote.urls import PathLike, TraceSource

BYTES_AT_ONCE: Final = 4 * 2**30
"""Jobs with more to read, inflated, are loaded as analyses ask for them."""

RANKS_HELD: Final = 8
"""Ranks of such a job that are held at a time."""

_GIVE_RANKS = "give the ranks: open_trace({0: 'first.json', 1: 'second.json'})"


@runtime_checkable
class HasJob(Protocol):
    """Anything that carries a job, such as a `TraceAnalysis`."""

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
        What is there is recognised by its content: PyTorch-profiler traces (``.json``,
        ``.json.gz``), Nsight Systems exports (``nsys export`` with ``--type sqlite`` or
        ``parquetdir``), folders of the overlap recipe (``files.parquet``, ``type_*.parquet``) and
        folders of CUPTI tables (``conc_kernel.csv``, ``cuda_runtime.csv``, ...). One of them,
        several, a folder of them, or ``{rank: path}``. A path may be a URL (``s3://``, ``gs://``,
        ``hf://``, ...): fsspec fetches its traces, those of PyTorch-profiler when their ranks are
        loaded, and where they are.

        Ranks of PyTorch-profiler traces come from ``distributedInfo`` in each file, else from its
        name (``rank-3``, ``rank3``); a single file with neither is rank 0. In an export, each
        process with GPU work is a rank; `number_ranks` says how the other formats are numbered, and
        a notice which rule was used. Ranks given in a mapping are taken as they are.
    kernel_rules : mapping of kernel type to patterns, optional
        Your own rules, tried before the built-in ones, e.g. ``{"COMMUNICATION": ["my_ring_"]}``.
    include_last_profiler_step : bool
        Keep the last ProfilerStep, which is left out by default, as it is rarely whole.
    ranks : iterable of int or RankSample, optional
        Open only these, or so many, spread evenly (``RankSample(8)``); all when not given.
    executor : Executor, optional
        Where ranks are loaded: any ``concurrent.futures.Executor``, such as that of a cluster
        (``dask.distributed.Client.get_executor()``). Processes of this machine when not given,
        where loading in parallel is worth it.
    progress : bool
        Show a progress bar while loading takes longer than half a second.

    Returns
    -------
    Job
        Loaded, unless it is big (more than `RANKS_HELD` ranks and `BYTES_AT_ONCE` to read): then
        ranks are loaded as analyses ask for them, and at most `RANKS_HELD` are held at a time.

    Raises
    ------
    TraceNotFoundError
        If a path does not exist or a folder holds no trace.
    TraceFormatError
        If a file is no trace.
    RankError
        If the ranks are not clear.
    RemoteError
        If what a URL names cannot be fetched.
    UnknownRankError
        If one of `ranks` does not exist.
    """
    notices: list[str] = []
    found = fetched(source, progress=progress)
    with found.naming():
        sources = _sources(found, notices)
    sources = _chosen(sources, ranks, notices)
    big = _is_big(sources)
    job = Job(
        sources,
        name=found.name or _job_name(found.source, sources),
        kernel_rules=KernelRules.from_user(kernel_rules),
        include_last_profiler_step=include_last_profiler_step,
        notices=notices,
        executor=executor,
        hold_at_most=RANKS_HELD if big else None,
        progress=progress,
    )
    return job if big else job.load(progress=progress)


def as_job(source: Job | HasJob | TraceSource) -> Job:
    """Return the job of anything that has one, or open it."""
    if isinstance(source, Job):
        return source
    if isinstance(source, HasJob):
        return source.job
    return open_trace(source)


def _chosen(
    sources: Mapping[int, RankSource],
    ranks: Iterable[int] | RankSample | None,
    notices: list[str],
) -> dict[int, RankSource]:
    """Keep the ranks asked for, and say so."""
    there = tuple(sorted(sources))
    asked = ranks.among(there) if isinstance(ranks, RankSample) else tuple(ranks or there)
    if not set(asked) <= set(there):
        raise UnknownRankError.from_ranks(asked, there)
    kept = set(asked)
    if len(kept) < len(there):
        notices.append(f"{len(kept)} of {len(there)} ranks were opened: {number_ranges(kept)}")
    return {rank: sources[rank] for rank in sorted(kept)}


def _is_big(sources: Mapping[int, RankSource]) -> bool:
    """Tell whether a job is loaded rank by rank, as analyses ask for them."""
    if len(sources) <= RANKS_HELD:
        return False
    return sum(inflated_size(source) for source in sources.values()) > BYTES_AT_ONCE


def _sources(found: Fetched, notices: list[str]) -> dict[int, RankSource]:
    source = found.source
    if isinstance(source, Mapping):
        if not source:
            msg = f"no trace was given; {_GIVE_RANKS}"
            raise TraceNotFoundError(msg)
        ranks = {int(rank): _of_one_rank(existing(path), notices) for rank, path in source.items()}
        return {rank: found.located(each) for rank, each in ranks.items()}
    if not isinstance(source, str | os.PathLike):
        return _of_several([existing(path) for path in source], found, notices)
    path = existing(source)
    if format_of(path) is None:
        form, paths = traces_in(path, notices)
        return _ranks(form, paths, found, notices)
    return _of_several([path], found, notices)


def existing(path: PathLike) -> Path:
    """Return the path, if there is something.

    Raises
    ------
    TraceNotFoundError
        If there is not.
    """
    there = Path(path).expanduser()
    if there.exists():
        return there
    msg = f"{there} does not exist; give a trace, a folder of traces, or {{rank: trace}}"
    raise TraceNotFoundError(msg)


def _of_several(paths: Sequence[Path], found: Fetched, notices: list[str]) -> dict[int, RankSource]:
    if not paths:
        msg = f"no trace was given; {_GIVE_RANKS}"
        raise TraceNotFoundError(msg)
    formats = {path: _known_format(path) for path in paths}
    if len(set(formats.values())) > 1:
        examples = ", ".join(f"{path.name} is {each.noun}" for path, each in formats.items())
        msg = f"these traces have different formats ({examples}); open one job at a time"
        raise TraceFormatError(msg)
    return _ranks(formats[paths[0]], paths, found, notices)


def _known_format(path: Path) -> Format:
    form = format_of(path)
    if form is None:
        msg = (
            f"{path} is a folder, not a trace; {WHAT_IS_A_TRACE}; "
            "give traces, or a single folder of traces"
        )
        raise TraceNotFoundError(msg)
    return form


def _of_one_rank(path: Path, notices: list[str]) -> RankSource:
    form = _known_format(path)
    found = form.find_ranks(path, notices)
    if len(found) == 1:
        return source_of(form, found[0])
    msg = f"{path} has {len(found)} ranks; open it on its own, not as one rank of a job"
    raise RankError(msg)


def _ranks(
    form: Format, paths: Sequence[Path], fetched: Fetched, notices: list[str]
) -> dict[int, RankSource]:
    found = [each for path in dict.fromkeys(paths) for each in form.find_ranks(path, notices)]
    if form.rank_in:
        sources = {each.path: fetched.located(source_of(form, each)) for each in found}
        return {rank: sources[path] for rank, path in _said_ranks(sources, fetched).items()}
    ranks, rule = number_ranks(found)
    notices += [rule] if rule else []
    return {rank: fetched.located(source_of(form, each)) for rank, each in ranks.items()}


def source_of(form: Format, found: FoundRank) -> RankSource:
    """Where the trace of a rank is that was found."""
    return RankSource(found.path, form, found.process)


def _said_ranks(sources: Mapping[Path, RankSource], fetched: Fetched) -> dict[int, Path]:
    """Rank of each file, from what it says of itself, else from its name."""
    files = tuple(sources)
    ranks = [_rank_of(file, source, fetched) for file, source in sources.items()]
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


def _rank_of(file: Path, source: RankSource, fetched: Fetched) -> int | None:
    """Rank from what the file says of itself, else from its name.

    What it says behind its events is known without the file where it was read before.
    """
    named = rank_in_name(file.name)

    def rest() -> Metadata:
        read = cache.load(source, named or 0)
        return read.trace.metadata if read else fetched.whole_metadata(source)

    said = source.format.rank_in(file, rest) if source.format.rank_in else None
    return named if said is None else said


def _job_name(source: TraceSource, sources: Mapping[int, RankSource]) -> str:
    if isinstance(source, str | os.PathLike):
        return Path(source).expanduser().resolve().name
    folders = {each.folder_name for each in sources.values()}
    return folders.pop() if len(folders) == 1 else f"{len(sources)} ranks"
