"""HTA's `TraceAnalysis`: its method names, arguments, column names and units."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go

from hta_widgets.analyses.kernel_breakdown import KernelBreakdown, kernel_breakdown
from hta_widgets.analyses.overlap import overlap
from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from hta_widgets.figures import kernel_breakdown as kernel_figures
from hta_widgets.figures.overlap import overlap as overlap_figure
from hta_widgets.figures.temporal_breakdown import temporal_breakdown as temporal_figure
from hta_widgets.hta_tables.kernel_breakdown import kernel_breakdown as kernel_tables
from hta_widgets.hta_tables.overlap import overlap as overlap_table
from hta_widgets.hta_tables.temporal_breakdown import temporal_breakdown as temporal_table
from hta_widgets.trace.job import Job
from hta_widgets.trace.kernels import KernelRules
from hta_widgets.trace.open import PathLike, open_trace

DEFAULT_TRACE_DIR = "/tmp/trace"  # noqa: S108 - HTA's default


class TraceAnalysis:
    """Drop-in for ``hta.trace_analysis.TraceAnalysis``.

    All times are microseconds, exact to the nanosecond (floats with three decimals).

    Parameters
    ----------
    trace_files : mapping of rank to path, list of paths, or path, optional
        Relative paths are looked for in `trace_dir` first. All traces of `trace_dir` when not
        given.
    trace_dir : path
        Folder of the traces.
    include_last_profiler_step : bool
        Keep the last ProfilerStep, which is left out by default.
    kernel_rules : mapping of kernel type to patterns, optional
        Your own rules for kernel types, tried before the built-in ones.
    progress : bool
        Show a progress bar while loading.

    Attributes
    ----------
    job : Job
        What was loaded; its ``notices`` say what was left out.
    """

    def __init__(
        self,
        trace_files: Mapping[int, PathLike] | Sequence[PathLike] | PathLike | None = None,
        trace_dir: PathLike = DEFAULT_TRACE_DIR,
        include_last_profiler_step: bool = False,  # noqa: FBT001, FBT002
        *,
        kernel_rules: Mapping[str, str | Sequence[str]] | KernelRules | None = None,
        progress: bool = True,
    ) -> None:
        folder = Path(trace_dir).expanduser()
        self.job: Job = open_trace(
            folder if trace_files is None else _in_folder(trace_files, folder),
            kernel_rules=kernel_rules,
            include_last_profiler_step=bool(include_last_profiler_step),
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
        result = temporal_breakdown(self.job)
        if visualize:
            temporal_figure(result).show()
        return temporal_table(result)

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
        result = overlap(self.job)
        if visualize:
            overlap_figure(result).show()
        return overlap_table(result)

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
            Share (0 to 1) of the time of each type, on each rank, that the named kernels reach.
        num_kernels : int
            At most so many are named; takes precedence over `duration_ratio`.
        include_memory_kernels : bool
            Include copies and fills.
        image_renderer : str
            Name of a plotly renderer; the notebook's own when empty.

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
        result = kernel_breakdown(
            self.job,
            duration_ratio=duration_ratio,
            num_kernels=num_kernels,
            include_memory_kernels=include_memory_kernels,
        )
        if visualize:
            for figure in _kernel_figures(result):
                figure.show(renderer=image_renderer or None)
        return kernel_tables(result)


def _in_folder(
    trace_files: Mapping[int, PathLike] | Sequence[PathLike] | PathLike, folder: Path
) -> dict[int, Path] | list[Path]:
    """Look for relative paths in the folder, then where we are."""

    def located(path: PathLike) -> Path:
        inside = folder / Path(path).expanduser()
        return inside if inside.exists() else Path(path).expanduser()

    if isinstance(trace_files, Mapping):
        return {rank: located(path) for rank, path in trace_files.items()}
    paths = [trace_files] if isinstance(trace_files, str | os.PathLike) else trace_files
    return [located(path) for path in paths]


def _kernel_figures(result: KernelBreakdown) -> Iterable[go.Figure]:
    yield kernel_figures.kernel_types(result, as_pie=True)
    ranks = result.kernels["rank"].unique().tolist()
    for kernel_type in result.kernels["kernel_type"].unique().tolist():
        yield kernel_figures.top_kernels(result, kernel_type=kernel_type)
        if len(ranks) <= kernel_figures.PIES_AT_MOST:
            yield from (
                kernel_figures.top_kernels_of_rank(result, rank, kernel_type=kernel_type)
                for rank in ranks
            )
    named = result.kernels[result.kernels["folded"] == 0]
    if len(ranks) > 1:
        for name in named["name"].unique().tolist():
            yield kernel_figures.kernel_durations(result, name)
