"""HTA's `TraceAnalysis`: its method names, arguments, column names and units."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hta_widgets.export.time_series import DEFAULT_SUFFIX, TimeSeriesTypes
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.kernels import KernelRules
from hta_widgets.trace.model.steps import analysed_steps
from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.opening.rank_sample import RankSample
from hta_widgets.trace.ranks.rank import Rank
from hta_widgets.trace.remote.urls import PathLike, TraceSource, is_url, join_url

if TYPE_CHECKING:
    import pandas as pd

    from hta_widgets.analyses.kernel_breakdown import KernelBreakdown
    from hta_widgets.figures.base.drawing import Drawing

__all__ = ["TimeSeriesTypes", "TraceAnalysis"]

DEFAULT_TRACE_DIR = "/tmp/trace"  # noqa: S108 - HTA's default


class TraceAnalysis:
    """Drop-in for ``hta.trace_analysis.TraceAnalysis``.

    All times are microseconds, exact to the nanosecond (floats with three decimals).

    Parameters
    ----------
    trace_files : mapping of rank to path, list of paths, or path of a trace or folder, optional
        Relative paths are looked up in `trace_dir` first. All traces of `trace_dir` by default.
    trace_dir : path
        Folder of the traces.
    include_last_profiler_step : bool
        Keep the last ProfilerStep, which is left out by default.
    kernel_rules : mapping of kernel type to patterns, optional
        Your own rules for kernel types, tried before the built-in ones.
    ranks : iterable of int or RankSample, optional
        Open only these ranks, or an evenly spaced sample; all by default.
    executor : Executor, optional
        Where ranks are loaded; see `open_trace`.
    progress : bool
        Show a progress bar while loading.

    Attributes
    ----------
    job : Job
        The loaded traces; its ``notices`` list what was left out.
    """

    def __init__(
        self,
        trace_files: Mapping[int, PathLike] | Sequence[PathLike] | PathLike | None = None,
        trace_dir: PathLike = DEFAULT_TRACE_DIR,
        include_last_profiler_step: bool = False,  # noqa: FBT001, FBT002
        *,
        kernel_rules: Mapping[str, str | Sequence[str]] | KernelRules | None = None,
        ranks: Iterable[int] | RankSample | None = None,
        executor: Executor | None = None,
        progress: bool = True,
    ) -> None:
        folder = trace_dir if is_url(trace_dir) else Path(trace_dir).expanduser()
        self.job: Job = open_trace(
            folder if trace_files is None else _in_folder(trace_files, folder),
            kernel_rules=kernel_rules,
            include_last_profiler_step=bool(include_last_profiler_step),
            ranks=ranks,
            executor=executor,
            progress=progress,
        )

    def __repr__(self) -> str:
        """Name and ranks of the job."""
        return f"TraceAnalysis({self.job!r})"

    def get_temporal_breakdown(self, visualize: bool = True) -> pd.DataFrame:  # noqa: FBT001, FBT002
        """Idle, compute and non-compute time of each rank.

        Parameters
        ----------
        visualize : bool
            Show the figure.

        Returns
        -------
        DataFrame
            ``rank``; ``idle_time(us)``, ``compute_time(us)``, ``non_compute_time(us)``,
            ``kernel_time(us)`` (float µs); ``idle_time_pctg``, ``compute_time_pctg``,
            ``non_compute_time_pctg`` (percent of the kernel time, two decimals; NaN without GPU
            work). Where a rank has several devices: one row per device, and a column ``device``.
        """
        from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
        from hta_widgets.figures.temporal_breakdown import temporal_breakdown as figure
        from hta_widgets.hta_tables.temporal_breakdown import temporal_breakdown as table

        result = temporal_breakdown(self.job)
        if visualize:
            _show(figure(result), "Temporal breakdown")
        return table(result)

    def get_comm_comp_overlap(self, visualize: bool = True) -> pd.DataFrame:  # noqa: FBT001, FBT002
        """Share of each rank's communication time that computation overlaps.

        Parameters
        ----------
        visualize : bool
            Show the figure.

        Returns
        -------
        DataFrame
            ``rank``; ``comp_comm_overlap_pctg`` (percent of the communication time, two decimals;
            NaN without communication). Where a rank has several devices: one row per device, and
            a column ``device``.
        """
        from hta_widgets.analyses.overlap import overlap
        from hta_widgets.figures.overlap import overlap as figure
        from hta_widgets.hta_tables.overlap import overlap as table

        result = overlap(self.job)
        if visualize:
            _show(figure(result), "Communication–computation overlap")
        return table(result)

    def get_gpu_kernel_breakdown(
        self,
        visualize: bool = True,  # noqa: FBT001, FBT002
        duration_ratio: float = 0.8,
        num_kernels: int = 10,
        include_memory_kernels: bool = True,  # noqa: FBT001, FBT002
        image_renderer: str = "",
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Time by kernel type, and launch statistics of the top kernels.

        Parameters
        ----------
        visualize : bool
            Show the figures.
        duration_ratio : float
            Share (0 to 1) of the time of each type, on each rank, that the named kernels cover.
        num_kernels : int
            Maximum number of kernels to name; takes precedence over `duration_ratio`.
        include_memory_kernels : bool
            Include copies and memsets.
        image_renderer : str
            Name of a plotly renderer; the default one if empty.

        Returns
        -------
        types : DataFrame
            ``kernel_type``, ``sum`` (µs over all ranks), ``percentage`` (one decimal), longest
            first.
        kernels : DataFrame
            ``name``, ``sum (us)``, ``max (us)``, ``min (us)``, ``stddev``, ``mean (us)`` (µs over
            the launches), ``kernel_type``, ``rank``, ``count`` (launches), ordered by type, name,
            rank. The rest of each type is one row ``others`` per rank.
        """
        from hta_widgets.analyses.kernel_breakdown import kernel_breakdown
        from hta_widgets.hta_tables.kernel_breakdown import kernel_breakdown as tables

        result = kernel_breakdown(
            self.job,
            duration_ratio=duration_ratio,
            num_kernels=num_kernels,
            include_memory_kernels=include_memory_kernels,
        )
        if visualize:
            for title, figure in _kernel_figures(result):
                _show(figure, title, image_renderer)
        return tables(result)

    def get_idle_time_breakdown(  # noqa: PLR0917
        self,
        ranks: Iterable[int] | None = None,
        streams: Iterable[int] | None = None,
        visualize: bool = True,  # noqa: FBT001, FBT002
        visualize_pctg: bool = True,  # noqa: FBT001, FBT002
        show_idle_interval_stats: bool = False,  # noqa: FBT001, FBT002
        consecutive_kernel_delay: float = 30,
    ) -> tuple[pd.DataFrame, pd.DataFrame | None]:
        """Idle time of each stream by its cause.

        Parameters
        ----------
        ranks : iterable of int, optional
            The first rank by default.
        streams : iterable of int, optional
            All streams by default.
        visualize : bool
            Show a figure per rank.
        visualize_pctg : bool
            Show shares of the idle time instead of time.
        show_idle_interval_stats : bool
            Return the statistics of the idle intervals too.
        consecutive_kernel_delay : float
            Intervals shorter than this (µs) that are not ``host_wait`` are ``kernel_wait``.

        Returns
        -------
        idle_time : DataFrame
            ``rank``, ``stream``, ``idle_category`` (``host_wait``, ``kernel_wait``, ``other``; the
            first two only where they occur), ``idle_time`` (µs, two decimals), ``idle_time_ratio``
            (share, 0 to 1, of the stream's idle time, two decimals; NaN when it is never idle). The
            index restarts at 0 for each rank. If streams of a rank are on several devices: a column
            ``device``.
        statistics : DataFrame or None
            Indexed by ``idle_category``: ``rank``, ``stream``, ``count`` (intervals), ``mean``,
            ``std``, ``min``, ``25%``, ``50%``, ``75%``, ``max`` (µs, two decimals). None unless
            asked for.
        """
        from hta_widgets.analyses.idle_time import idle_time, stream_idle_time
        from hta_widgets.figures.idle_time import idle_time_of_streams
        from hta_widgets.hta_tables import idle_time as tables

        chosen = self._ranks_or_first(ranks)
        wanted = streams if streams is None else tuple(streams)
        delay = consecutive_kernel_delay
        table = stream_idle_time(self.job, chosen, streams=wanted, consecutive_kernel_delay=delay)
        for rank in chosen if visualize else ():
            of_rank = idle_time(self.job, [rank], streams=wanted, consecutive_kernel_delay=delay)
            figure = idle_time_of_streams(of_rank, as_percent=visualize_pctg)
            _show(figure, f"Idle time of the streams of rank {rank}")
        statistics = tables.idle_interval_statistics(table) if show_idle_interval_stats else None
        return tables.idle_time(table), statistics

    def get_cuda_kernel_launch_stats(
        self,
        ranks: Iterable[int] | None = None,
        runtime_cutoff: float = 50,
        launch_delay_cutoff: float = 100,
        include_memory_events: bool = True,  # noqa: FBT001, FBT002
        visualize: bool = True,  # noqa: FBT001, FBT002
    ) -> dict[int, pd.DataFrame]:
        """Duration of each launch call and its operation, and the delay between them.

        Parameters
        ----------
        ranks : iterable of int, optional
            The first rank by default.
        runtime_cutoff : float
            Calls longer than this (µs) are drawn as outliers.
        launch_delay_cutoff : float
            Delays longer than this (µs) are drawn as outliers.
        include_memory_events : bool
            Include copies and memsets.
        visualize : bool
            Show three histograms per rank: operations shorter than their launch call, long launch
            calls, long launch delays.

        Returns
        -------
        dict of int to DataFrame
            Per rank, in the order of the calls in the file: ``correlation``, ``cpu_duration`` (of
            the launch call), ``gpu_duration`` (of the operation), ``launch_delay`` (end of the call
            to start of the operation, 0 if it starts earlier), in µs. A call that launches a graph
            has a row for each of its operations.
        """
        from hta_widgets.analyses.launch_stats import DISTRIBUTIONS, launch_stats
        from hta_widgets.analyses.launch_stats.launched_work import launched_work
        from hta_widgets.figures.launch_stats import launch_histogram
        from hta_widgets.hta_tables.launch_stats import launch_stats as tables

        chosen = self._ranks_or_first(ranks)
        analyse = partial(
            launch_stats,
            self.job,
            runtime_cutoff=runtime_cutoff,
            launch_delay_cutoff=launch_delay_cutoff,
            include_memory_events=include_memory_events,
        )
        if visualize:
            for rank in chosen:
                of_rank = analyse([rank])
                for distribution in DISTRIBUTIONS:
                    title = f"{distribution.replace('_', ' ').capitalize()} of rank {rank}"
                    _show(launch_histogram(of_rank, distribution), title)
        return tables(
            {
                rank: launched_work(
                    self.job.rank(rank), include_memory_events=include_memory_events
                )
                for rank in chosen
            }
        )

    def get_queue_length_time_series(
        self, ranks: Iterable[int] | None = None
    ) -> dict[int, pd.DataFrame]:
        """Operations launched but not yet started, over time.

        Parameters
        ----------
        ranks : iterable of int, optional
            The first rank by default.

        Returns
        -------
        dict of int to DataFrame
            Per rank with launches, one row per change, by stream and time: ``ts`` (µs), ``pid`` and
            ``tid`` (of the GPU operation), ``stream``, ``queue_length`` (from then on), indexed by
            the position in the file of the launch or of the operation that starts. If a rank has
            several devices: by device first, with a column ``device``.
        """
        from hta_widgets.analyses.queue_length.changes import queue_changes
        from hta_widgets.hta_tables.queue_length import queue_length_time_series

        chosen = self._ranks_or_first(ranks)
        return queue_length_time_series({rank: queue_changes(self.job, rank) for rank in chosen})

    def get_queue_length_summary(self, ranks: Iterable[int] | None = None) -> pd.DataFrame | None:
        """Statistics of the queue length of each stream, over its changes.

        Parameters
        ----------
        ranks : iterable of int, optional
            The first rank by default.

        Returns
        -------
        DataFrame or None
            Indexed by ``rank`` and ``stream`` (and ``device``, where a rank has several); columns
            ``("queue_length", s)`` with s ``count`` (changes), ``mean``, ``std``, ``min``,
            ``25%``, ``50%``, ``75%``, ``max``. None without launches.
        """
        from hta_widgets.analyses.queue_length import queue_length
        from hta_widgets.hta_tables.queue_length import queue_length_summary

        return queue_length_summary(queue_length(self.job, self._ranks_or_first(ranks)))

    def get_memory_bw_time_series(
        self, ranks: Iterable[int] | None = None
    ) -> dict[int, pd.DataFrame]:
        """Bandwidth of copies and memsets over time.

        Parameters
        ----------
        ranks : iterable of int, optional
            The first rank by default.

        Returns
        -------
        dict of int to DataFrame
            Per rank with copies or memsets, one row per start and per end, by name and time: ``ts``
            (µs), ``pid``, ``name`` (``Memcpy HtoD``, ``Memset``, …), ``memory_bw_gbps`` (GB/s from
            then on, over all streams and devices).
        """
        from hta_widgets.analyses.memory_bandwidth.changes import bandwidth_changes
        from hta_widgets.hta_tables.memory_bandwidth import memory_bw_time_series

        chosen = self._ranks_or_first(ranks)
        return memory_bw_time_series({rank: bandwidth_changes(self.job, rank) for rank in chosen})

    def get_memory_bw_summary(self, ranks: Iterable[int] | None = None) -> pd.DataFrame | None:
        """Statistics of the bandwidth of copies and memsets, over its changes to more than 0.

        Parameters
        ----------
        ranks : iterable of int, optional
            The first rank by default.

        Returns
        -------
        DataFrame or None
            Indexed by ``rank`` and ``name``; columns ``("memory_bw_gbps", s)`` in GB/s with s
            ``count`` (changes), ``mean``, ``std``, ``min``, ``25%``, ``50%``, ``75%``, ``max``.
            Without rows if no bandwidth is known; None without copies and memsets.
        """
        from hta_widgets.analyses.memory_bandwidth import transfer_statistics
        from hta_widgets.hta_tables.memory_bandwidth import memory_bw_summary

        return memory_bw_summary(transfer_statistics(self.job, self._ranks_or_first(ranks)))

    def generate_trace_with_counters(
        self,
        time_series: TimeSeriesTypes | None = None,
        ranks: Iterable[int] | None = None,
        output_suffix: str = DEFAULT_SUFFIX,
        *,
        output_dir: PathLike | None = None,
    ) -> None:
        """Write copies of traces with queue length and memory bandwidth as counter tracks.

        Each copy is written next to its trace with the same compression; traces are never
        overwritten. For a rank without counters, a message is logged and no file is written.

        Parameters
        ----------
        time_series : TimeSeriesTypes, optional
            Both by default.
        ranks : iterable of int, optional
            The first rank by default.
        output_suffix : str
            Added to the file name, before ``.json`` or ``.json.gz``.
        output_dir : path, optional
            An existing folder to write to, where the folder of the traces is read-only.

        Raises
        ------
        WriteError
            If the system refuses to write a copy.
        ParameterError
            If `output_suffix` cannot be part of a file name, or a file of that name exists that is
            not such a copy.
        """
        from hta_widgets.export.trace_with_counters import write_traces_with_counters

        chosen = self._ranks_or_first(ranks)
        write_traces_with_counters(self.job, time_series, chosen, output_suffix, output_dir)

    def get_frequent_cuda_kernel_sequences(  # noqa: PLR0917
        self,
        operator_name: str,
        output_dir: PathLike,
        min_pattern_len: int = 3,
        rank: int = 0,
        top_k: int = 5,
        visualize: bool = False,  # noqa: FBT001, FBT002
        compress_other_kernels: bool = True,  # noqa: FBT001, FBT002
        *,
        whole_name: bool = False,
    ) -> pd.DataFrame:
        """Sequences of kernels that an operator launches, which are also marked in a trace copy.

        Parameters
        ----------
        operator_name : str
            Part of the operator's name.
        output_dir : path
            An existing folder; the copy is ``overlaid_<name of the trace>``, with the same
            compression. It is not written if there are no sequences.
        min_pattern_len : int
            Occurrences that launch fewer GPU operations are left out.
        rank : int
            0, the default, means the first rank if the job has no rank 0.
        top_k : int
            Number of sequences shown and marked, the most frequent first.
        visualize : bool
            Show the figure.
        compress_other_kernels : bool
            Keep the copy small: events outside the sequences lose their arguments, and their names
            are replaced by numbers.
        whole_name : bool
            `operator_name` is the whole name: ``aten::add`` does not match ``aten::addmm``.

        Returns
        -------
        DataFrame
            All sequences, most frequent first, then by pattern: ``pattern`` (names of the operator
            and of the kernels, joined by ``|``), ``count``, ``GPU kernel duration (us)`` and
            ``CPU op duration (us)`` (µs, summed over the occurrences).

        Raises
        ------
        ParameterError
            If `operator_name` is empty or `output_dir` is not a writable folder.
        UnknownRankError
            If the job lacks the rank.
        """
        from hta_widgets.analyses.kernel_sequences import kernel_sequences
        from hta_widgets.export.extended_trace import existing_folder
        from hta_widgets.export.overlaid_trace import write_overlaid_trace
        from hta_widgets.figures.base.text import plot_name
        from hta_widgets.figures.kernel_sequences import kernel_sequences as figure
        from hta_widgets.hta_tables.kernel_sequences import kernel_sequences as table

        folder = existing_folder(output_dir)
        result = kernel_sequences(
            self.job,
            None if rank == 0 and 0 not in self.job.ranks else rank,
            operator_name=operator_name,
            min_pattern_len=min_pattern_len,
            whole_name=whole_name,
        )
        if not result.patterns.empty:
            write_overlaid_trace(
                self.job,
                result,
                folder,
                top_k=top_k,
                compress_other_kernels=compress_other_kernels,
            )
        if visualize:
            title = f"Most frequent kernel sequences of {plot_name(operator_name)}"
            _show(figure(result, top_k=top_k), title)
        return table(result)

    def get_cupti_counter_data_with_operators(
        self, ranks: Iterable[int] | None = None
    ) -> list[pd.DataFrame]:
        """Performance counters of kernels, with the operators that launched them.

        Parameters
        ----------
        ranks : iterable of int, optional
            The first rank by default.

        Returns
        -------
        list of DataFrame
            One per rank that has counters, one row per measured kernel: ``index`` (position in the
            file), ``cat``, ``name``, ``pid``, ``tid``, ``ts``, ``dur`` (µs, as the profiler spread
            the measurements, not as the kernels ran), a column per counter, ``index_runtime``
            (position in the file of the launch, -1 if unknown), ``op_stack`` (list of the operators
            around it, outermost first), ``top_level_op``, ``bottom_level_op`` (None if there is
            none).
        """
        from hta_widgets.analyses.cupti_counters import cupti_counters
        from hta_widgets.hta_tables.cupti_counters import cupti_counters as tables

        return tables(cupti_counters(self.job, self._ranks_or_first(ranks)))

    def get_profiler_steps(self) -> list[int]:
        """Numbers of the ProfilerSteps that are analysed, of all ranks together."""
        steps = self.job.reduce(_steps_of, self.job.ranks).values()
        return sorted(set[int]().union(*steps))

    def _ranks_or_first(self, ranks: Iterable[int] | None) -> tuple[int, ...]:
        """No rank given means rank 0 in HTA, and the first available rank here."""
        chosen = tuple(ranks or ())
        return self.job.select_ranks(chosen or self.job.ranks[:1])


def _steps_of(rank: Rank) -> tuple[int, ...]:
    include_last = rank.settings.include_last_profiler_step
    return analysed_steps(rank.steps, include_last_profiler_step=include_last)


def _in_folder(
    trace_files: Mapping[int, PathLike] | Sequence[PathLike] | PathLike, folder: PathLike
) -> TraceSource:
    """Look up relative paths in the folder, then in the current directory."""

    def locate(path: PathLike) -> PathLike:
        if is_url(path):
            return path
        if is_url(folder):
            return join_url(os.fspath(folder), os.fspath(path))
        inside = Path(folder) / Path(path).expanduser()
        return inside if inside.exists() else Path(path).expanduser()

    if isinstance(trace_files, Mapping):
        return {rank: locate(path) for rank, path in trace_files.items()}
    if isinstance(trace_files, str | os.PathLike):
        return locate(trace_files)
    return [locate(path) for path in trace_files]


def _show(drawn: Drawing, title: str, renderer: str = "") -> None:
    from hta_widgets.figures.base.style import titled

    titled(drawn, title).figure().show(renderer=renderer or None)


def _kernel_figures(result: KernelBreakdown) -> Iterable[tuple[str, Drawing]]:
    from hta_widgets.figures import kernel_breakdown as kernel_figures
    from hta_widgets.figures.base.text import plot_name

    yield "Kernel types", kernel_figures.kernel_types(result, as_pie=True)
    ranks = result.kernels["rank"].unique().tolist()
    for kernel_type in result.kernels["kernel_type"].unique().tolist():
        kernels = f"{kernel_type} kernels"
        yield f"Top {kernels}", kernel_figures.top_kernels(result, kernel_type=kernel_type)
        for rank in ranks if len(ranks) <= kernel_figures.PIES_AT_MOST else []:
            pie = kernel_figures.top_kernels_of_rank(result, rank, kernel_type=kernel_type)
            yield f"Top {kernels} of rank {rank}", pie
    named = result.kernels[result.kernels["folded"] == 0]
    for name in named["name"].unique().tolist() if len(ranks) > 1 else []:
        yield f"Duration of {plot_name(name)}", kernel_figures.kernel_durations(result, name)
