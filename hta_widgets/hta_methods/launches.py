"""Methods of `TraceAnalysis` on launches of kernels."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from hta_widgets.hta_methods.base import JobMethods, show

if TYPE_CHECKING:
    import pandas as pd

    from hta_widgets.analyses.launch_facts import LaunchFacts
    from hta_widgets.analyses.launch_facts.rank_table import By


class LaunchMethods(JobMethods):
    """What launches take, and how kernels are launched."""

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
                    show(launch_histogram(of_rank, distribution), title)
        return tables(
            {
                rank: launched_work(
                    self.job.rank(rank), include_memory_events=include_memory_events
                )
                for rank in chosen
            }
        )

    def get_launch_facts(
        self, ranks: Iterable[int] | None = None, *, by: By = "name"
    ) -> LaunchFacts:
        """How kernels are launched, and how much of the GPU they fill. HTA has no such method.

        Parameters
        ----------
        ranks : iterable of int, optional
            All ranks by default.
        by : {"name", "configuration"}
            A row for each kernel, or for each grid and block of it.

        Returns
        -------
        LaunchFacts
            A table of grids, blocks, registers, shared memory, occupancy and waves; see
            `hta_widgets.analyses.LaunchFacts`.
        """
        from hta_widgets.analyses.launch_facts import launch_facts

        return launch_facts(self.job, ranks, by=by)
