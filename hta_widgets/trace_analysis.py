"""HTA's `TraceAnalysis`, with its method names, arguments, column names and units."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from functools import cache, cached_property, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from hta_widgets import analyses
from hta_widgets.defaults import DURATION_RATIO, NUM_KERNELS
from hta_widgets.errors import ParameterError, whole_numbers
from hta_widgets.export.time_series import DEFAULT_SUFFIX, TimeSeriesTypes
from hta_widgets.hta_trace.trace import DEFAULT_TRACE_DIR, Trace, TraceFiles, traces_of
from hta_widgets.lazy_modules import LazyModule, pd
from hta_widgets.quantities import NS_PER_US
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.kernels import KernelRules
from hta_widgets.trace.model.steps import analysed_steps
from hta_widgets.trace.opening.open import RankSample, open_trace
from hta_widgets.trace.ranks.rank import Rank
from hta_widgets.trace.remote.urls import PathLike

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from hta_widgets.analyses.kernel_breakdown import KernelBreakdown
    from hta_widgets.figures.base.drawing import Drawing
    from hta_widgets.hta_tables import results as tables
    from hta_widgets.hta_trace.critical_path import CPGraph
    from hta_widgets.trace.cache.derived_columns import Columns

    Identify = Callable[[pd.DataFrame, Sequence[str], int, bool], pd.Series]
else:  # opening a trace needs none of these
    tables = LazyModule("hta_widgets.hta_tables.results")

_PICTURES: Final = frozenset({"png", "jpeg", "jpg", "svg", "pdf"})
_INTERACTIVE: Final = "plotly_mimetype"
"""The MIME type that JupyterLab, VS Code and other hosts draw; without it, they show text."""
_log = logging.getLogger(__name__)

__all__ = ["TimeSeriesTypes", "TraceAnalysis"]


class TraceAnalysis:
    """Drop-in for ``hta.trace_analysis.TraceAnalysis``.

    All times are microseconds, exact to the nanosecond (floats with three decimals), except where a
    column says ns.

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
    cycle : int, optional
        Cycle to open if the traces have several: 0 is the oldest, -1 the newest, which is the
        default.
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
        trace_files: TraceFiles | None = None,
        trace_dir: PathLike = DEFAULT_TRACE_DIR,
        include_last_profiler_step: bool = False,  # noqa: FBT001, FBT002
        *,
        kernel_rules: Mapping[str, str | Sequence[str]] | KernelRules | None = None,
        ranks: Iterable[int] | RankSample | None = None,
        cycle: int | None = None,
        executor: Executor | None = None,
        progress: bool = True,
    ) -> None:
        self.job: Job = open_trace(
            traces_of(trace_files, trace_dir),
            kernel_rules=kernel_rules,
            include_last_profiler_step=bool(include_last_profiler_step),
            ranks=ranks,
            cycle=cycle,
            executor=executor,
            progress=progress,
        )

    def __repr__(self) -> str:
        """Name and ranks of the job."""
        return f"TraceAnalysis({self.job!r})"

    @cached_property
    def t(self) -> Trace:
        """HTA's frame of events for each rank, and its table of symbols."""
        return Trace(self.job)

    def get_profiler_steps(self) -> list[int]:
        """Numbers of the analysed ProfilerSteps, over all ranks."""
        steps = self.job.reduce(_steps_of, self.job.ranks).values()
        return sorted(set[int]().union(*steps))

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
            work). CUDA graphs recorded as a whole are non-compute time. Where a rank has several
            devices: one row per device, and a column ``device``.
        """
        from hta_widgets.figures.temporal_breakdown import temporal_breakdown as figure

        result = analyses.temporal_breakdown(self.job)
        if visualize:
            show(figure(result), "Temporal breakdown")
        return tables.temporal_breakdown(result)

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
        from hta_widgets.figures.overlap import overlap as figure

        result = analyses.overlap(self.job)
        if visualize:
            show(figure(result), "Communication–computation overlap")
        return tables.overlap(result)

    def get_idle_time_breakdown(  # noqa: PLR0917
        self,
        ranks: Iterable[int] | None = None,
        streams: Iterable[int] | None = None,
        visualize: bool = True,  # noqa: FBT001, FBT002
        visualize_pctg: bool = True,  # noqa: FBT001, FBT002
        show_idle_interval_stats: bool = False,  # noqa: FBT001, FBT002
        consecutive_kernel_delay: float = 30,
    ) -> tuple[pd.DataFrame, pd.DataFrame | None]:
        """Idle time of each stream by HTA's categories.

        The figures split it further: see the documentation page on idle time.

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
        from hta_widgets.analyses.idle_time import stream_idle_time
        from hta_widgets.figures.idle_time import idle_time_of_streams

        chosen = self._ranks_or_first(ranks)
        wanted = streams if streams is None else tuple(streams)
        delay = consecutive_kernel_delay
        table = stream_idle_time(self.job, chosen, streams=wanted, consecutive_kernel_delay=delay)
        for rank in chosen if visualize else ():
            of_rank = analyses.idle_time(
                self.job, [rank], streams=wanted, consecutive_kernel_delay=delay
            )
            figure = idle_time_of_streams(of_rank, as_percent=visualize_pctg)
            show(figure, f"Idle time of the streams of rank {rank}")
        statistics = tables.idle_interval_statistics(table) if show_idle_interval_stats else None
        return tables.idle_time(table), statistics

    def get_gpu_kernel_breakdown(
        self,
        visualize: bool = True,  # noqa: FBT001, FBT002
        duration_ratio: float = DURATION_RATIO,
        num_kernels: int = NUM_KERNELS,
        include_memory_kernels: bool = True,  # noqa: FBT001, FBT002
        image_renderer: str = "",
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Time by kernel type, and launch statistics of the top kernels.

        Parameters
        ----------
        visualize : bool
            Show the figures.
        duration_ratio : float
            Share (0 to 1) of the time of each type, on each rank, that the named kernels cover, if
            `num_kernels` is not given.
        num_kernels : int
            Number of kernels of each type, on each rank, to name; takes precedence over
            `duration_ratio`.
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
            rank. A kernel named on one rank is named on all; the rest of each type is one row
            ``others`` per rank. CUDA graphs recorded as a whole have the type ``CUDA_GRAPH``.
        """
        result = analyses.kernel_breakdown(
            self.job,
            duration_ratio=duration_ratio,
            num_kernels=num_kernels,
            include_memory_kernels=include_memory_kernels,
        )
        if visualize:
            for title, figure in _kernel_figures(result):
                show(figure, title, image_renderer)
        return tables.kernel_breakdown(result)

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
        """Sequences of kernels that an operator launches; also marks them in a copy of the trace.

        Parameters
        ----------
        operator_name : str
            Part of the operator's name.
        output_dir : path
            An existing folder; the copy is ``overlaid_<name of the trace>``, with the same
            compression. It is not written if there are no sequences.
        min_pattern_len : int
            Leave out occurrences that launch fewer GPU operations.
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
            Match the whole name: ``aten::add`` does not match ``aten::addmm``.

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
        from hta_widgets.export.extended_trace import existing_folder
        from hta_widgets.export.overlaid_trace import write_overlaid_trace
        from hta_widgets.figures.base.text import plot_name
        from hta_widgets.figures.kernel_sequences import kernel_sequences as figure

        folder = existing_folder(output_dir)
        result = analyses.kernel_sequences(
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
            show(figure(result, top_k=top_k), title)
        return tables.kernel_sequences(result)

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
        return tables.cupti_counters(analyses.cupti_counters(self.job, self._ranks_or_first(ranks)))

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
            Show three histograms per rank: launch calls longer than what they launch, long launch
            calls, long launch delays, each call counted once.

        Returns
        -------
        dict of int to DataFrame
            Per rank, in the order of the calls in the file: ``correlation``, ``cpu_duration`` (of
            the launch call), ``gpu_duration`` (of the operation), ``launch_delay`` (end of the call
            to start of the operation, 0 if it starts earlier), in µs. A call that launches a graph
            has a row for each of its operations, whose delays include the operations before it;
            `analyses.launch_stats` measures the delay of a graph once.
        """
        from hta_widgets.analyses.launch_stats import DISTRIBUTIONS, launched_operations
        from hta_widgets.figures.launch_stats import launch_histogram

        chosen = self._ranks_or_first(ranks)
        analyse = partial(
            analyses.launch_stats,
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
                    show(launch_histogram(of_rank, distribution), title)
        return tables.launch_stats(
            {
                rank: launched_operations(
                    self.job.rank(rank), include_memory_events=include_memory_events
                )
                for rank in chosen
            }
        )

    def get_gpu_kernels_with_user_annotations(
        self,
        rank: int,
        expand_names: bool = True,  # noqa: FBT001, FBT002
        shorten_names: bool = True,  # noqa: FBT001, FBT002
    ) -> pd.DataFrame:
        """The GPU work of a rank, with the user annotation in which each piece was launched.

        Parameters
        ----------
        rank : int
        expand_names : bool
            Add the text columns.
        shorten_names : bool
            Drop template arguments and signatures from kernel names; annotations stay whole.

        Returns
        -------
        DataFrame
            One row per piece of analysed work, by start. HTA's columns, as of ``t.get_trace``:
            ``index`` (position in the file), ``cat``, ``name`` (numbers in ``t.symbol_table``),
            ``ts``, ``dur``, ``end`` (µs), …, ``index_correlation`` (position of the launch call; 0
            if it is not in the trace), ``iteration`` (ProfilerStep of the launch, -1 for none);
            ``user_annotation`` (number, -1 for none); with `expand_names` ``s_name``, ``s_cat``,
            ``s_user_annotation`` (empty for none); ``device``; ``annotation_source``: ``launch``
            (annotation around the launch call on its thread), ``handover`` (on the thread of the
            ProfilerSteps, where the launching thread has none), ``gpu`` (recorded on the stream, of
            work without a launch) or empty. Annotations include ProfilerSteps.
        """
        from hta_widgets.hta_tables.gpu_annotations import kernels_with_user_annotations

        (chosen,) = self.job.select_ranks([rank])
        return kernels_with_user_annotations(
            self.job.rank(chosen),
            self.t.codes_of(self.job.rank(chosen)),
            self.job.offset_ns(chosen),
            expand_names=expand_names,
            shorten_names=shorten_names,
        )

    def get_gpu_user_annotation_breakdown(  # noqa: PLR0917
        self,
        use_gpu_annotation: bool = True,  # noqa: FBT001, FBT002
        visualize: bool = True,  # noqa: FBT001, FBT002
        duration_ratio: float = 0.8,
        num_kernels: int = 1000,
        allowlist_patterns: Iterable[str] | None = None,
        image_renderer: str | None = None,
    ) -> pd.DataFrame | None:
        """Statistics of the user annotations of each rank.

        Parameters
        ----------
        use_gpu_annotation : bool
            Count the ranges that the profiler wrote on the GPU instead of those on the CPU.
        visualize : bool
            Show the figure.
        duration_ratio : float
            Share (0 to 1) of the time on each rank that the named annotations cover, if there are
            more than `num_kernels`.
        num_kernels : int
            Maximum number of annotations to name; the rest is one row ``others`` per rank.
        allowlist_patterns : iterable of str, optional
            Regular expressions for names that are never folded.
        image_renderer : str, optional
            Name of a plotly renderer.

        Returns
        -------
        DataFrame or None
            ``name``, ``sum (us)``, ``max (us)``, ``min (us)``, ``stddev``, ``mean (us)`` (µs over
            the ranges), ``rank``, ``count`` (ranges), ``busy (us)`` (time in which work launched in
            them runs), ``self (us)`` (durations of work of which each is the innermost annotation),
            by rank and name. None if no rank has such annotations.
        """
        from hta_widgets.figures.gpu_annotations import gpu_annotations as figure
        from hta_widgets.hta_tables.gpu_annotations import user_annotation_breakdown

        of_ranks = self.job.reduce(
            user_annotation_breakdown,
            self.job.ranks,
            on_gpu=bool(use_gpu_annotation),
            duration_ratio=duration_ratio,
            num_kernels=num_kernels,
            allowlist=tuple(allowlist_patterns or ()),
        )
        found = [table for table in of_ranks.values() if table is not None]
        if visualize and found:
            drawn = figure(analyses.gpu_annotations(self.job).annotations)
            show(drawn, "User annotations", image_renderer or "")
        return pd.concat(found, ignore_index=True) if found else None

    def get_aten_op_kernels_and_delay(
        self,
        ranks: Iterable[int] | None = None,
        sort_by: Sequence[str] | None = None,
        *,
        include_memory_events: bool = True,
        visualize: bool = False,
    ) -> dict[int, pd.DataFrame]:
        """Sequences of kernels that ATen operators launch, and how long they take to start.

        Parameters
        ----------
        ranks : iterable of int, optional
            The first rank by default.
        sort_by : list of str, optional
            Columns to sort by, numbers descending; ``occurrence_count`` by default.
        include_memory_events : bool
            Include copies and memsets.
        visualize : bool
            Show the operators with the most GPU time.

        Returns
        -------
        dict of int to DataFrame
            Per rank, a row for each operator and sequence: ``aten_op_name``, ``kernel_sequence``
            (kernels in order of launch, joined by `` -> ``; a CUDA graph is one item),
            ``occurrence_count``, ``avg_aten_op_launch_delay`` (start of the operator to start of
            its first launch call), ``avg_runtime_delay`` (to the start of the first kernel; both µs
            with three decimals), ``kernels`` (pieces of work of the sequence), ``gpu time (us)``
            (of all occurrences). Work belongs to the innermost ``aten::`` operator around its
            launch call.
        """
        from hta_widgets.figures.operators import operators as figure
        from hta_widgets.hta_tables.aten_operators import aten_operators

        chosen = self._ranks_or_first(ranks)
        found = {
            rank: aten_operators(
                self.job.rank(rank),
                sort_by=["occurrence_count"] if sort_by is None else list(sort_by),
                include_memory_events=include_memory_events,
            )
            for rank in chosen
        }
        for rank in chosen if visualize else ():
            result = analyses.operators(self.job, [rank])
            drawn = figure(result.rows, int(result.ranks["gpu_ns"].sum()))
            show(drawn, f"Operators with the most GPU time on rank {rank}")
        return found

    @staticmethod
    def get_queue_length_summary_from_time_series(
        queue_length_dict: Mapping[int, pd.DataFrame],
    ) -> pd.DataFrame | None:
        """Statistics of the queue length of each stream, over the changes of a series.

        Parameters
        ----------
        queue_length_dict : mapping of int to DataFrame
            What `get_queue_length_time_series` returns, or rows of it; it stays as it is.

        Returns
        -------
        DataFrame or None
            As `get_queue_length_summary`; None without series.
        """
        return tables.summary_of_series(queue_length_dict)

    def get_time_spent_blocked_on_full_queue(
        self, queue_length_dict: Mapping[int, pd.DataFrame], max_queue_length: float = 1024
    ) -> pd.DataFrame:
        """How long the queue of each stream is full, and what that costs the CPU.

        Parameters
        ----------
        queue_length_dict : mapping of int to DataFrame
            What `get_queue_length_time_series` returns, or rows of it; it stays as it is.
        max_queue_length : float
            Launches that wait in a full queue.

        Returns
        -------
        DataFrame
            One row per rank and stream whose queue reaches that length or delays launch calls:
            ``rank``, ``stream``, ``duration_at_max_queue_length`` (µs), and as a share (0 to 1) of
            the recording ``relative_duration_at_max_queue_length``; ``blocked_calls`` (launch calls
            that wait for room in the queue, whatever `max_queue_length` is) and ``blocked (us)``
            (how much longer these take than the median call). If a rank has several devices: a
            column ``device``.
        """
        ranks = self.job.select_ranks(queue_length_dict) if queue_length_dict else ()
        spans = self.job.reduce(tables.recorded_us, ranks) if ranks else {}

        def held_up(rank: int) -> dict[tuple[int, int | None], tuple[int, float]]:
            streams = analyses.queue_length(self.job, [rank]).streams
            has_devices = "device" in queue_length_dict[rank]
            return {
                (row["stream"], row["device"] if has_devices else None): (
                    row["blocked_calls"],
                    row["blocked_ns"] / NS_PER_US,
                )
                for row in streams.to_dict("records")
            }

        return tables.time_at_full_queue(
            queue_length_dict, max_queue_length, spans.__getitem__, held_up
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
        from hta_widgets.analyses.queue_length import aligned_changes

        return tables.queue_length_time_series(self._of_each(aligned_changes, ranks))

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
        return tables.queue_length_summary(
            analyses.queue_length(self.job, self._ranks_or_first(ranks))
        )

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
        from hta_widgets.analyses.memory_bandwidth import aligned_bandwidth

        return tables.memory_bw_time_series(self._of_each(aligned_bandwidth, ranks))

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

        return tables.memory_bw_summary(transfer_statistics(self.job, self._ranks_or_first(ranks)))

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
            An existing folder to write to, such as when the folder of the traces is read-only.

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

    def get_potential_stragglers(
        self,
        profiler_steps: Iterable[int] | None = None,
        num_candidates: int = 2,
        visualize: bool = False,  # noqa: FBT001, FBT002
        straggler_identification_impl: Identify | None = None,
    ) -> list[int]:
        """Ranks that take longer than the others, which wait for them.

        A rank is a straggler if its own time (its time in a step without waiting for others, see
        the diagnosis) exceeds that of the median rank by 5 % of a step, in at least half the steps.

        Parameters
        ----------
        profiler_steps : iterable of int, optional
            All analysed steps by default.
        num_candidates : int
            Maximum number of ranks; fewer than 1 counts as 1.
        visualize : bool
            Show the own time of each rank and step.
        straggler_identification_impl : callable, optional
            Your own rule. It is called with a table of the GPU work of all ranks (``rank``,
            ``name`` (code), ``s_name``, ``stream``, ``device``, ``iteration``, ``ts``, ``dur`` in
            µs on the common clock), the names by code, `num_candidates` and `visualize`. It returns
            a Series by rank, larger for likelier stragglers; ranks with 0 or less are left out.

        Returns
        -------
        list of int
            The slowest first. Empty for a healthy job, and if stragglers cannot be determined (a
            warning is logged).

        Raises
        ------
        ParameterError
            If none of the steps is analysed.
        """
        count = max(1, int(num_candidates))
        steps = self._steps_among(profiler_steps)
        if straggler_identification_impl is not None:
            frame, names = tables.candidate_frame(self.job, self.job.ranks)
            if steps:
                frame = frame[frame["iteration"].isin(steps)]
            scores = straggler_identification_impl(frame, names, count, visualize)
            best = scores[scores > 0].sort_values(ascending=False, kind="stable")
            return [int(rank) for rank in best.index[:count]]
        found, limit = tables.stragglers(self.job, steps, count)
        if limit:
            _log.warning("Stragglers: %s", limit)
        if visualize:
            self._show_own_time(steps)
        return found

    def critical_path_analysis(
        self,
        rank: int,
        annotation: str,
        instance_id: int | tuple[int, int] | None,
        data_load_events: Sequence[str] | None = None,
    ) -> tuple[CPGraph, bool]:
        """What bounds the time of an annotation on one rank, ignoring the other ranks.

        The path leads from the start of the annotation to its end on the host, or to the end of the
        GPU work launched in it, whichever is later.

        Parameters
        ----------
        rank : int
        annotation : str
            Part of the name of an annotation, such as ``ProfilerStep``. If no annotation matches,
            operators, frames and runtime calls are searched, then annotations and work on the GPU.
            Empty means the whole recording.
        instance_id : int, (first, last) or None
            Which instance, counted in time order from 0, or the first and the last of several; None
            means 0.
        data_load_events : sequence of str, optional
            Regular expressions: time in events whose name matches counts as ``data_loading``, like
            the time of PyTorch's loaders.

        Returns
        -------
        graph : CPGraph
            ``summary()`` and ``get_critical_path_breakdown()`` are its tables.
        success : bool
            Whether there is a path. There is none if nothing was recorded, or if clocks contradict
            each other so that the recorded times cannot be replayed.

        Raises
        ------
        UnknownRankError
            If the job lacks the rank.
        ParameterError
            If the annotation or the instance was not recorded, or `data_load_events` has an invalid
            regular expression.
        """
        from hta_widgets.hta_trace.critical_path_analysis import CriticalPathAnalysis

        return CriticalPathAnalysis.critical_path_analysis(
            self.t, rank, annotation, instance_id, data_load_events
        )

    def overlay_critical_path_analysis(
        self,
        rank: int,
        critical_path_graph: CPGraph,
        output_dir: PathLike,
        only_show_critical_events: bool = True,  # noqa: FBT001, FBT002
        show_all_edges: bool = False,  # noqa: FBT001, FBT002
    ) -> str:
        """Mark the critical path in a copy of the trace, for trace viewers.

        Events of the path get the argument ``critical: 1``, and arrows named ``critical_path`` show
        where the path goes to another thread or stream, with the arguments ``weight`` (µs),
        ``critical`` and ``type``.

        Parameters
        ----------
        rank : int
        critical_path_graph : CPGraph
            The graph of this rank.
        output_dir : path
            Created if missing; the copy is ``overlaid_critical_path_<name of the trace>``,
            with the same compression.
        only_show_critical_events : bool
            Leave out events that are not on the path, except annotations and Python frames.
        show_all_edges : bool
            Show all edges of the graph as arrows; ignored with `only_show_critical_events`.

        Returns
        -------
        str
            The file written.

        Raises
        ------
        ParameterError
            If the graph is of another rank, or `output_dir` is not a writable folder.
        TraceFormatError
            If the trace of the rank is not a Kineto trace.
        """
        from hta_widgets.hta_trace.critical_path_analysis import CriticalPathAnalysis

        return CriticalPathAnalysis.overlay_critical_path_analysis(
            self.t,
            rank,
            critical_path_graph,
            output_dir,
            only_show_critical_events,
            show_all_edges,
        )

    def _ranks_or_first(self, ranks: Iterable[int] | None) -> tuple[int, ...]:
        """Without ranks, HTA takes rank 0, and this class the first available rank."""
        chosen = whole_numbers("ranks", ranks)
        return self.job.select_ranks(chosen or self.job.ranks[:1])

    def _of_each(
        self, changes: Callable[[Rank, int], Columns], ranks: Iterable[int] | None
    ) -> dict[int, Columns]:
        """Changes on the aligned clock of each rank."""
        chosen = self._ranks_or_first(ranks)
        return {rank: changes(self.job.rank(rank), self.job.offset_ns(rank)) for rank in chosen}

    def _steps_among(self, asked: Iterable[int] | None) -> list[int]:
        """The requested steps, which must be analysed ones."""
        known = self.get_profiler_steps()
        if asked is None:
            return known
        numbers = sorted({int(step) for step in asked})
        chosen = [step for step in numbers if step in known]
        if not chosen:
            msg = f"profiler_steps must be among the analysed steps {known}, got {numbers}"
            raise ParameterError(msg)
        return chosen

    def _show_own_time(self, steps: Sequence[int]) -> None:
        from hta_widgets.diagnosis import diagnosis
        from hta_widgets.diagnosis.own_time import own_time
        from hta_widgets.figures.diagnosis import own_time_cells

        own = own_time(diagnosis(self.job, steps=steps or None).steps)
        show(own_time_cells(own), "Own time of the ranks")


def _steps_of(rank: Rank) -> tuple[int, ...]:
    include_last = rank.settings.include_last_profiler_step
    return analysed_steps(rank.profiler_steps, include_last_profiler_step=include_last)


def show(drawn: Drawing, title: str, renderer: str = "") -> None:
    """Show a figure as plotly does."""
    from hta_widgets.figures.base.style import titled

    show_figure(titled(drawn, title).figure(), renderer)


def show_figure(figure: go.Figure, renderer: str = "") -> None:
    """Show a figure with a plotly renderer, or interactively if the renderer lacks a package.

    HTA's notebooks ask for images (``png``, ``svg``), for which plotly needs kaleido. Without this
    fallback, a missing kaleido would also lose the table.
    """
    import plotly.io as pio

    wanted = renderer or str(pio.renderers.default)
    if not _PICTURES.isdisjoint(wanted.split("+")) and find_spec("kaleido") is None:
        _warn_of_pictures(wanted)
        renderer = _INTERACTIVE
    figure.show(renderer=renderer or None)


@cache  # a breakdown of eight ranks has 25 figures
def _warn_of_pictures(renderer: str) -> None:
    _log.warning(
        "plotly's renderer %r needs kaleido (pip install kaleido); figures are shown "
        "interactively instead",
        renderer,
    )


def _kernel_figures(result: KernelBreakdown) -> Iterable[tuple[str, Drawing]]:
    from hta_widgets.figures import kernel_breakdown as kernel_figures
    from hta_widgets.figures.base.text import plot_names

    yield "Kernel types", kernel_figures.kernel_types(result, as_pie=True)
    ranks = result.kernels["rank"].unique().tolist()
    for kernel_type in result.kernels["kernel_type"].unique().tolist():
        kernels = f"{kernel_type} kernels"
        yield f"Top {kernels}", kernel_figures.top_kernels(result, kernel_type=kernel_type)
        for rank in ranks if len(ranks) <= kernel_figures.PIES_AT_MOST else []:
            pie = kernel_figures.top_kernels_of_rank(result, rank, kernel_type=kernel_type)
            yield f"Top {kernels} of rank {rank}", pie
    named = result.kernels[result.kernels["folded"] == 0]
    names = named["name"].unique().tolist() if len(ranks) > 1 else []
    for name, label in zip(names, plot_names(names), strict=True):
        yield f"Duration of {label}", kernel_figures.kernel_durations(result, name)
