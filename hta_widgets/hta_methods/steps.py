"""Methods of `TraceAnalysis` on steps, collectives and clocks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hta_widgets.hta_methods.base import JobMethods

if TYPE_CHECKING:
    from hta_widgets.analyses.clocks import Clocks
    from hta_widgets.analyses.collectives import Collectives
    from hta_widgets.analyses.step_table import StepTable


class StepMethods(JobMethods):
    """What steps and ranks take, and what they exchange."""

    def get_step_table(self, ranks: Iterable[int] | None = None) -> StepTable:
        """Where the time of each ProfilerStep goes. HTA has no such method.

        Parameters
        ----------
        ranks : iterable of int, optional
            All ranks by default.

        Returns
        -------
        StepTable
            A table in integer ns; see `hta_widgets.analyses.StepTable`.
        """
        from hta_widgets.analyses.step_table import step_table

        return step_table(self.job, ranks)

    def get_collectives(self, ranks: Iterable[int] | None = None) -> Collectives:
        """Waiting, transfer and bandwidth of collectives, matched over all ranks; not in HTA.

        Parameters
        ----------
        ranks : iterable of int, optional
            Ranks whose kernels are listed, all by default.

        Returns
        -------
        Collectives
            Tables ``kernels``, ``operations`` and ``groups``; times in ns.
        """
        from hta_widgets.analyses.collectives import collectives

        return collectives(self.job, ranks)

    def get_clocks(self, ranks: Iterable[int] | None = None) -> Clocks:
        """Offset and drift of the clock of each rank, with their uncertainty; not in HTA.

        Parameters
        ----------
        ranks : iterable of int, optional
            Ranks to list, all by default.

        Returns
        -------
        Clocks
            Table ``ranks``; times in ns.
        """
        from hta_widgets.analyses.clocks import clocks

        return clocks(self.job, ranks)
