"""HTA's `TraceAnalysis`: its method names, arguments, column names and units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from hta_widgets.export.time_series import TimeSeriesTypes
from hta_widgets.hta_methods.base import show
from hta_widgets.hta_methods.critical_path import CriticalPathMethods
from hta_widgets.hta_methods.kernels import KernelMethods
from hta_widgets.hta_methods.launches import LaunchMethods
from hta_widgets.hta_methods.operators import OperatorMethods
from hta_widgets.hta_methods.ownership import OwnershipMethods
from hta_widgets.hta_methods.queues import QueueMethods
from hta_widgets.hta_methods.series import SeriesMethods
from hta_widgets.hta_methods.steps import StepMethods
from hta_widgets.hta_methods.stragglers import StragglerMethods
from hta_widgets.hta_trace.files import DEFAULT_TRACE_DIR, TraceFiles, traces_of
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.kernels import KernelRules
from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.opening.rank_sample import RankSample
from hta_widgets.trace.remote.urls import PathLike

__all__ = ["TimeSeriesTypes", "TraceAnalysis"]

if TYPE_CHECKING:
    import pandas as pd


class TraceAnalysis(
    CriticalPathMethods,
    KernelMethods,
    LaunchMethods,
    OperatorMethods,
    OwnershipMethods,
    QueueMethods,
    SeriesMethods,
    StepMethods,
    StragglerMethods,
):
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
        Open this cycle of traces that hold several: 0 is the oldest, -1 the newest; the newest by
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
        from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
        from hta_widgets.figures.temporal_breakdown import temporal_breakdown as figure
        from hta_widgets.hta_tables.temporal_breakdown import temporal_breakdown as table

        result = temporal_breakdown(self.job)
        if visualize:
            show(figure(result), "Temporal breakdown")
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
            show(figure(result), "Communication–computation overlap")
        return table(result)

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

        The figures split it further: see the page of the idle time.

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
            show(figure, f"Idle time of the streams of rank {rank}")
        statistics = tables.idle_interval_statistics(table) if show_idle_interval_stats else None
        return tables.idle_time(table), statistics
