"""Methods of `TraceAnalysis` on operators and annotations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from hta_widgets.hta_methods.base import JobMethods, show

if TYPE_CHECKING:
    import pandas as pd

    from hta_widgets.analyses.operators import OperatorTable, RowsBy


class OperatorMethods(JobMethods):
    """What operators and annotations take."""

    def get_operator_table(
        self,
        ranks: Iterable[int] | None = None,
        *,
        by: RowsBy = "name",
        phase: str | None = None,
        steps: Iterable[int] | None = None,
        window_ns: Sequence[int] | None = None,
    ) -> OperatorTable:
        """CPU and GPU time of each operator. HTA has no such method.

        Parameters
        ----------
        ranks : iterable of int, optional
            All ranks by default.
        by : {"name", "shape", "stack"}
            What tells rows apart besides the phase: the name, also the shapes and types of the
            inputs, or also the Python frames around it.
        phase : {"forward", "backward", "optimizer", "other"}, optional
            Only rows of this phase.
        steps : iterable of int, optional
            Only these ProfilerSteps; all that are analysed by default.
        window_ns : pair of int, optional
            Only the time between these two, in ns since the first event of the job.

        Returns
        -------
        OperatorTable
            Tables in integer ns; see `hta_widgets.analyses.OperatorTable`.
        """
        from hta_widgets.analyses.operators import operators

        return operators(self.job, ranks, by=by, phase=phase, steps=steps, window_ns=window_ns)

    def get_gpu_kernels_with_user_annotations(
        self,
        rank: int,
        expand_names: bool = True,  # noqa: FBT001, FBT002
        shorten_names: bool = True,  # noqa: FBT001, FBT002
    ) -> pd.DataFrame:
        """The GPU work of a rank with the user annotation that each piece was launched in.

        Parameters
        ----------
        rank : int
        expand_names : bool
            Add the columns of texts.
        shorten_names : bool
            Leave template arguments and signatures out of kernel names; annotations stay whole.

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
            Count the ranges that the profiler wrote on the GPU; else those on the CPU.
        visualize : bool
            Show the figure.
        duration_ratio : float
            Share (0 to 1) of the time on each rank that the named annotations cover, where there
            are more than `num_kernels`.
        num_kernels : int
            Maximum number of annotations to name; the rest is one row ``others`` per rank.
        allowlist_patterns : iterable of str, optional
            Regular expressions of names that are never folded.
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
        import pandas as pd

        from hta_widgets.analyses.gpu_annotations import gpu_annotations
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
        tables = [table for table in of_ranks.values() if table is not None]
        if visualize and tables:
            drawn = figure(gpu_annotations(self.job).annotations)
            show(drawn, "User annotations", image_renderer or "")
        return pd.concat(tables, ignore_index=True) if tables else None

    def get_aten_op_kernels_and_delay(
        self,
        ranks: Iterable[int] | None = None,
        sort_by: Sequence[str] | None = None,
        *,
        include_memory_events: bool = True,
        visualize: bool = False,
    ) -> dict[int, pd.DataFrame]:
        """The sequences of kernels that ATen operators launch, and how long they take to start.

        Parameters
        ----------
        ranks : iterable of int, optional
            The first rank by default.
        sort_by : list of str, optional
            Columns to sort by, numbers descending; ``occurrence_count`` by default.
        include_memory_events : bool
            Include copies and memsets.
        visualize : bool
            Show the operators with most GPU time.

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
        from hta_widgets.analyses.operators import operators
        from hta_widgets.figures.operators import operators as figure
        from hta_widgets.hta_tables.aten_operators import aten_operators

        chosen = self._ranks_or_first(ranks)
        tables = {
            rank: aten_operators(
                self.job.rank(rank),
                sort_by=["occurrence_count"] if sort_by is None else list(sort_by),
                include_memory_events=include_memory_events,
            )
            for rank in chosen
        }
        for rank in chosen if visualize else ():
            result = operators(self.job, [rank])
            drawn = figure(result.rows, int(result.ranks["gpu_ns"].sum()))
            show(drawn, f"Operators with most GPU time of rank {rank}")
        return tables
