"""Methods of `TraceAnalysis` on owners: code, modules, memory, and work against its peak."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from hta_widgets.hta_methods.base import JobMethods

if TYPE_CHECKING:
    from hta_widgets.analyses.idle_owners import IdleOwners
    from hta_widgets.analyses.memory_use import MemoryUse
    from hta_widgets.analyses.modules import ModuleTree
    from hta_widgets.analyses.modules.nodes import Merge, Source
    from hta_widgets.analyses.roofline import Roofline


class OwnershipMethods(JobMethods):
    """Whose time, memory and work it is."""

    def get_idle_owners(
        self,
        ranks: Iterable[int] | None = None,
        *,
        steps: Iterable[int] | None = None,
        window_ns: Sequence[int] | None = None,
    ) -> IdleOwners:
        """Why each GPU is idle, and which CPU call the time belongs to. HTA has no such method.

        Parameters
        ----------
        ranks : iterable of int, optional
            All ranks by default.
        steps : iterable of int, optional
            Only these ProfilerSteps; all that are analysed by default.
        window_ns : pair of int, optional
            Only the time between these two, in ns since the first event of the job.

        Returns
        -------
        IdleOwners
            Tables in integer ns; see `hta_widgets.analyses.IdleOwners`.
        """
        from hta_widgets.analyses.idle_owners import idle_owners

        return idle_owners(self.job, ranks, steps=steps, window_ns=window_ns)

    def get_memory_use(
        self, ranks: Iterable[int] | None = None, *, device: int | None = None
    ) -> MemoryUse:
        """What is allocated on each device, and what fills it at its peak. HTA has no such method.

        Parameters
        ----------
        ranks : iterable of int, optional
            Ranks to analyze; all by default.
        device : int, optional
            Only the device with this number, -1 for the CPU; all by default.

        Returns
        -------
        MemoryUse
            Tables in bytes and integer ns; see `hta_widgets.analyses.MemoryUse`.
        """
        from hta_widgets.analyses.memory_use import memory_use

        return memory_use(self.job, ranks, device=device)

    def get_module_tree(
        self,
        ranks: Iterable[int] | None = None,
        *,
        source: Source = "auto",
        merge: Merge = "instance",
        steps: Iterable[int] | None = None,
        window_ns: Sequence[int] | None = None,
    ) -> ModuleTree:
        """GPU, CPU, communication and idle time of each module. HTA has no such method.

        Parameters
        ----------
        ranks : iterable of int, optional
            All ranks by default.
        source : {"auto", "modules", "regions"}
            Regions are annotations; by default they stand in on ranks without modules.
        merge : {"instance", "class"}
            One row per instance of a module, or per class.
        steps : iterable of int, optional
            Only these ProfilerSteps; all that are analysed by default.
        window_ns : pair of int, optional
            Only the time between these two, in ns since the first event of the job.

        Returns
        -------
        ModuleTree
            Tables in integer ns; see `hta_widgets.analyses.ModuleTree`.
        """
        from hta_widgets.analyses.modules import modules

        return modules(
            self.job, ranks, source=source, merge=merge, steps=steps, window_ns=window_ns
        )

    def get_roofline(self, ranks: Iterable[int] | None = None) -> Roofline:
        """How close operators come to what their GPU can do. HTA has no such method.

        Parameters
        ----------
        ranks : iterable of int, optional
            All ranks by default.

        Returns
        -------
        Roofline
            Tables of FLOP, bytes and integer ns; see `hta_widgets.analyses.Roofline`.
        """
        from hta_widgets.analyses.roofline import roofline

        return roofline(self.job, ranks)
