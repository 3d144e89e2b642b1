"""Open a job: find its ranks, select some of them, and load them if the job is small."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from hta_widgets.errors import ParameterError, UnknownRankError, os_errors_as_ours, whole_numbers
from hta_widgets.quantities import number_ranges
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.kernels import KernelRules
from hta_widgets.trace.opening.fetch import FetchedSource, fetch_remote
from hta_widgets.trace.opening.find_captures import Captures, with_captures
from hta_widgets.trace.opening.find_ranks import find_sources
from hta_widgets.trace.opening.live_profiler import LiveProfiler, path_of_live
from hta_widgets.trace.ranks.cycle import NEWEST, Cycle, cycle_notice, number_of_cycle
from hta_widgets.trace.ranks.loader import inflated_size
from hta_widgets.trace.ranks.source import RankSource
from hta_widgets.trace.remote.urls import TraceSource

BYTES_AT_ONCE: Final = 4 * 2**30
"""Jobs with more (decompressed) bytes to read are loaded rank by rank on demand."""

RANKS_HELD: Final = 8
"""Most ranks of such a job that are held in memory at a time."""


@dataclass(frozen=True)
class RankSample:
    """An evenly spaced sample of a job's ranks that includes the first and the last.

    Parameters
    ----------
    count : int
        Number of ranks; all of them if the job has no more.

    Raises
    ------
    ParameterError
        If the sample is empty.

    Examples
    --------
    >>> RankSample(3).among(range(9))
    (0, 4, 8)
    """

    count: int

    def __post_init__(self) -> None:
        """Refuse an empty sample."""
        if self.count < 1:
            msg = f"RankSample needs at least 1 rank, got {self.count}"
            raise ParameterError(msg)

    def among(self, ranks: Sequence[int]) -> tuple[int, ...]:
        """Return the sample of a job's ranks."""
        if self.count >= len(ranks):
            return tuple(ranks)
        intervals = max(self.count - 1, 1)
        last = len(ranks) - 1
        return tuple(ranks[i * last // intervals] for i in range(self.count))


@runtime_checkable
class HasJob(Protocol):
    """Anything with a job, such as a `TraceAnalysis`."""

    @property
    def job(self) -> Job:
        """The job."""


def open_trace(
    source: TraceSource | LiveProfiler,
    *,
    kernel_rules: Mapping[str, str | Sequence[str]] | KernelRules | None = None,
    include_last_profiler_step: bool = False,
    ranks: Iterable[int] | RankSample | None = None,
    cycle: int | None = None,
    captures: Captures = None,
    executor: Executor | None = None,
    progress: bool = True,
) -> Job:
    """Open the traces of one job.

    Parameters
    ----------
    source : path, list of paths, mapping of rank to path, or torch.profiler.profile
        The format is recognised by content: PyTorch-profiler traces (``.json``, ``.json.gz``),
        Nsight Systems exports (``nsys export`` with ``--type sqlite`` or ``parquetdir``), output
        folders of the overlap recipe (``files.parquet``, ``type_*.parquet``) and folders of CUPTI
        tables (``conc_kernel.csv``, ``cuda_runtime.csv``, ...). Give one of them, several, a folder
        of them, or ``{rank: path}``. A path may be a URL (``s3://``, ``gs://``, ``hf://``, ...):
        fsspec fetches its traces; PyTorch-profiler traces are fetched when and where their ranks
        are loaded.

        The rank of a PyTorch-profiler trace comes from ``distributedInfo`` in the file, or else
        from its name (``rank-3``, ``worker3``, ``TP-3``); a single file with neither is rank 0. In
        an Nsight Systems export, each process with GPU work is a rank. `number_ranks` documents how
        other formats are numbered, and a notice names the rule that was used. Ranks given in a
        mapping are kept.

        A PyTorch profiler that has stopped writes its trace, which it can do only once, into a
        temporary folder that is removed when the process ends.

        Several files of a rank are cycles if one process recorded them one after another:
        ``tensorboard_trace_handler`` writes one for each repetition of the schedule.
    kernel_rules : mapping of kernel type to patterns, optional
        Your own rules, tried before the built-in ones, e.g. ``{"COMMUNICATION": ["my_ring_"]}``.
    include_last_profiler_step : bool
        Keep the last ProfilerStep, which is left out by default because it is rarely complete.
    ranks : iterable of int or RankSample, optional
        Open only these ranks, or an evenly spaced sample (``RankSample(8)``); all by default.
    cycle : int, optional
        Which cycle to open: 0 is the oldest, -1 the newest. By default, the newest is opened and a
        notice names the others.
    captures : path, list of paths, or False, optional
        Recordings in which an inference server captured the CUDA graphs that the trace replays.
        Operators, modules and shapes of the replays are read from them if they are certain to
        match. By default, these are the recordings that vLLM and SGLang write next to the trace
        (``capture_traces``, ``graph_capture_rank_…``, ``bs_…_rank…``); False for none. Paths may be
        files or folders. They are read when something asks for operators, and may then also be
        matched by the order of the kernels alone, which a notice says.
    executor : Executor, optional
        Where ranks are loaded: any ``concurrent.futures.Executor``, such as that of a cluster
        (``dask.distributed.Client.get_executor()``). By default, processes of this machine, if
        loading in parallel is faster.
    progress : bool
        Show a progress bar while loading takes longer than half a second.

    Returns
    -------
    Job
        Loaded, unless it is big (more than `RANKS_HELD` ranks and `BYTES_AT_ONCE` to read). The
        ranks of a big job are loaded on demand, and at most `RANKS_HELD` are held in memory.

    Raises
    ------
    TraceNotFoundError
        If a path does not exist or a folder has no trace.
    TraceFormatError
        If a file is not a trace.
    UnreadableError
        If the system does not allow reading it.
    RankError
        If the traces come from several runs; the message says what to open for each. If the
        captures belong to none of the ranks.
    UnknownCycleError
        If there is no such cycle.
    RemoteError
        If a URL cannot be fetched.
    UnknownRankError
        If one of `ranks` does not exist.
    ParameterError
        If a profiler is still recording, or has already saved its trace.
    """
    wanted = NEWEST if cycle is None else index(cycle)
    paths = path_of_live(source) if isinstance(source, LiveProfiler) else source
    cycles, fetched, notices = _find(paths, progress=progress)
    rules = KernelRules.from_user(kernel_rules)
    asked = ranks if isinstance(ranks, RankSample) else whole_numbers("ranks", ranks)

    def open_cycle(cycle: int) -> Job:
        number = number_of_cycle(cycles, cycle)
        said = [*notices, *cycle_notice(cycles, number)]
        with os_errors_as_ours():
            sources = _select_ranks(cycles[number].sources, asked, said)
            sources = with_captures(sources, captures, said)
            big = _is_big(sources)
        name = fetched.name or _job_name(fetched.source, sources)
        job = Job(
            sources,
            name=name if len(cycles) == 1 else f"{name}, cycle {number}",
            kernel_rules=rules,
            include_last_profiler_step=include_last_profiler_step,
            notices=said,
            executor=executor,
            hold_at_most=RANKS_HELD if big else None,
            progress=progress,
            recorded_ranks=cycles[number].sources,
            cycles=cycles,
            cycle=number,
            open_cycle=open_cycle,
        )
        with os_errors_as_ours():
            return job if big else job.load(progress=progress).with_like_steps()

    return open_cycle(wanted)


def find_cycle(source: TraceSource, cycle: int | None = None) -> Cycle:
    """Find the ranks of a cycle without loading them; the errors are those of `open_trace`."""
    cycles, _, _ = _find(source, progress=False)
    return cycles[number_of_cycle(cycles, NEWEST if cycle is None else cycle)]


def as_job(source: Job | HasJob | TraceSource | LiveProfiler, cycle: int | None = None) -> Job:
    """Return the job of an object that has one, or open the traces."""
    if isinstance(source, Job):
        return source if cycle is None else source.open_cycle(cycle)
    if isinstance(source, HasJob):
        return as_job(source.job, cycle)
    return open_trace(source, cycle=cycle)


def _find(
    source: TraceSource, *, progress: bool
) -> tuple[tuple[Cycle, ...], FetchedSource, list[str]]:
    """The cycles in the given traces, the traces without URLs, and notices."""
    notices: list[str] = []
    fetched = fetch_remote(source, progress=progress)
    with fetched.urls_in_errors(), os_errors_as_ours():
        cycles = find_sources(fetched, notices)
    return tuple(cycles), fetched, notices


def _select_ranks(
    sources: Mapping[int, RankSource],
    ranks: tuple[int, ...] | RankSample,
    notices: list[str],
) -> dict[int, RankSource]:
    """Keep the requested ranks, with the current state of their files, and add a notice."""
    available = tuple(sorted(sources))
    asked = ranks.among(available) if isinstance(ranks, RankSample) else ranks or available
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


def _job_name(source: TraceSource, sources: Mapping[int, RankSource]) -> str:
    if isinstance(source, str | os.PathLike):
        return Path(source).expanduser().resolve().name
    folders = {each.folder_name for each in sources.values()}
    return folders.pop() if len(folders) == 1 else f"{len(sources)} ranks"
