"""Methods of `TraceAnalysis` on kernels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hta_widgets.defaults import DURATION_RATIO, NUM_KERNELS
from hta_widgets.hta_methods.base import JobMethods, show
from hta_widgets.trace.remote.urls import PathLike

if TYPE_CHECKING:
    import pandas as pd

    from hta_widgets.analyses.kernel_breakdown import KernelBreakdown
    from hta_widgets.figures.base.drawing import Drawing


class KernelMethods(JobMethods):
    """Which kernels run, in which order, and what the hardware counts in them."""

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
            rank. What is named on one rank is named on all; the rest of each type is one row
            ``others`` per rank. CUDA graphs recorded as a
            whole are of the type ``CUDA_GRAPH``.
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
                show(figure, title, image_renderer)
        return tables(result)

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
            show(figure(result, top_k=top_k), title)
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
