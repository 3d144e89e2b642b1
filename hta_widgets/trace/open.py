"""Recognise what was given, find the ranks, and open the job."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from hta_widgets.errors import RankError, TraceFormatError, TraceNotFoundError
from hta_widgets.trace.derived import is_derived
from hta_widgets.trace.event_text import EventText
from hta_widgets.trace.job import Job
from hta_widgets.trace.kernels import KernelRules

PathLike: TypeAlias = str | os.PathLike[str]
TraceSource: TypeAlias = PathLike | Sequence[PathLike] | Mapping[int, PathLike]

TRACE_SUFFIXES = (".json", ".json.gz", ".gz")
_RANK_IN_NAME = re.compile(r"rank[_-]?(\d+)", re.IGNORECASE)
_GIVE_RANKS = "say which is which: open_trace({0: 'first.json', 1: 'second.json'})"


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
    progress: bool = True,
) -> Job:
    """Open the traces of one job.

    Parameters
    ----------
    source : path, list of paths, or mapping of rank to path
        A folder, a ``.json`` or ``.json.gz`` file, several files, or ``{rank: file}``. Ranks come
        from ``distributedInfo`` in each file, else from its name (``rank-3``, ``rank3``); a single
        file with neither is rank 0. Ranks given in a mapping are taken as they are.
    kernel_rules : mapping of kernel type to patterns, optional
        Your own rules, tried before the built-in ones, e.g. ``{"COMMUNICATION": ["my_ring_"]}``.
    include_last_profiler_step : bool
        Keep the last ProfilerStep, which is left out by default, as it is rarely whole.
    progress : bool
        Show a progress bar while loading takes longer than half a second.

    Returns
    -------
    Job

    Raises
    ------
    TraceNotFoundError
        If a path does not exist or a folder holds no trace.
    TraceFormatError
        If a file is no trace.
    RankError
        If the ranks are not clear.
    """
    notices: list[str] = []
    sources = _sources(source, notices)
    job = Job(
        sources,
        name=_job_name(source, sources),
        kernel_rules=KernelRules.from_user(kernel_rules),
        include_last_profiler_step=include_last_profiler_step,
        notices=notices,
    )
    return job.load(progress=progress)


def as_job(source: Job | HasJob | TraceSource) -> Job:
    """Return the job of anything that has one, or open it."""
    if isinstance(source, Job):
        return source
    if isinstance(source, HasJob):
        return source.job
    return open_trace(source)


def _sources(source: TraceSource, notices: list[str]) -> dict[int, Path]:
    if isinstance(source, Mapping):
        if not source:
            msg = f"no trace was given; {_GIVE_RANKS}"
            raise TraceNotFoundError(msg)
        return {int(rank): _existing_file(path) for rank, path in source.items()}
    if not isinstance(source, str | os.PathLike):
        return _ranks_of([_existing_file(path) for path in source])
    path = Path(source).expanduser()
    if path.is_dir():
        return _ranks_of(_traces_in(path, notices))
    return _ranks_of([_existing_file(path)])


def _existing_file(path: PathLike) -> Path:
    file = Path(path).expanduser()
    if file.is_file():
        return file
    what = "is a folder, not a trace file" if file.is_dir() else "does not exist"
    msg = (
        f"{file} {what}; give a trace file (*.json, *.json.gz), a folder of them, or {{rank: file}}"
    )
    raise TraceNotFoundError(msg)


def _traces_in(folder: Path, notices: list[str]) -> list[Path]:
    """List the files of a folder that are traces; others with their suffix are noticed.

    Traces that hta_widgets has written from others count only where there are no others.
    """
    files = sorted(f for f in folder.iterdir() if f.name.endswith(TRACE_SUFFIXES) and f.is_file())
    recorded: list[Path] = []
    derived: list[Path] = []
    for file in files:
        text = EventText(file)
        try:
            text.header()
        except TraceFormatError:
            notices.append(f"{file.name} is not a trace and is left out")
        else:
            (derived if is_derived(text.head) else recorded).append(file)
    if recorded:
        notices += _derived_notice(derived)
    traces = recorded or derived
    if not traces:
        there = _what_is_there(folder, files)
        msg = f"{folder} holds no trace: {there}; a trace is *.json or *.json.gz"
        raise TraceNotFoundError(msg)
    return traces


def _derived_notice(files: Sequence[Path]) -> list[str]:
    names = ", ".join(file.name for file in files[:5])
    more = f" and {len(files) - 5} more" if len(files) > 5 else ""  # noqa: PLR2004
    return [f"copies written by hta_widgets are left out: {names}{more}"] if files else []


def _what_is_there(folder: Path, files: Sequence[Path]) -> str:
    if files:
        return f"{', '.join(file.name for file in files[:5])} have no 'traceEvents'"
    entries = sorted(entry.name for entry in folder.iterdir())
    return f"it has {', '.join(entries[:5])}" if entries else "it is empty"


def _ranks_of(files: Sequence[Path]) -> dict[int, Path]:
    if not files:
        msg = f"no trace was given; {_GIVE_RANKS}"
        raise TraceNotFoundError(msg)
    ranks = [_rank_of(file) for file in files]
    if len(files) == 1:
        return {ranks[0] or 0: files[0]}
    unknown = [file.name for file, rank in zip(files, ranks, strict=True) if rank is None]
    if unknown:
        names = ", ".join(unknown[:5])
        msg = f"the rank of {names} is neither in the file nor in its name; {_GIVE_RANKS}"
        raise RankError(msg)
    sources: dict[int, Path] = {}
    for file, rank in zip(files, ranks, strict=True):
        if rank is not None and sources.setdefault(rank, file) != file:
            msg = f"{sources[rank]} and {file} are both rank {rank}; {_GIVE_RANKS}"
            raise RankError(msg)
    return sources


def _rank_of(file: Path) -> int | None:
    """Rank from what the file says of itself, else from its name."""
    text = EventText(file)
    said = _distributed_rank(text.header())
    if said is None:
        for _ in text:
            pass
        said = _distributed_rank(text.metadata())
    if said is not None:
        return said
    named = _RANK_IN_NAME.findall(file.name)
    return int(named[-1]) if named else None


def _distributed_rank(metadata: Mapping[str, object]) -> int | None:
    info = metadata.get("distributedInfo")
    rank = info.get("rank") if isinstance(info, Mapping) else None
    return int(str(rank)) if str(rank).isdigit() else None


def _job_name(source: TraceSource, sources: Mapping[int, Path]) -> str:
    if isinstance(source, str | os.PathLike):
        return Path(source).expanduser().resolve().name
    files: Iterable[Path] = sources.values()
    folders = {file.resolve().parent.name for file in files}
    return folders.pop() if len(folders) == 1 else f"{len(sources)} ranks"
