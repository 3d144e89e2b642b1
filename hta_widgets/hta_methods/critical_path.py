"""Methods of `TraceAnalysis` on the critical path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hta_widgets.hta_methods.base import JobMethods
from hta_widgets.trace.remote.urls import PathLike

if TYPE_CHECKING:
    from hta_widgets.hta_trace.critical_path import CPGraph


class CriticalPathMethods(JobMethods):
    """What sets the time of a stretch of one rank."""

    def critical_path_analysis(
        self,
        rank: int,
        annotation: str,
        instance_id: int | tuple[int, int] | None,
        data_load_events: Sequence[str] | None = None,
    ) -> tuple[CPGraph, bool]:
        """What sets the time that an annotation takes on one rank, without the other ranks.

        The path leads from the start of the annotation to its end on the host, or to the end of the
        GPU work launched in it, whichever is later.

        Parameters
        ----------
        rank : int
        annotation : str
            Part of the name of annotations, such as ``ProfilerStep``; if none has it, of operators,
            frames and calls of the runtime, then of annotations and work on the GPU. Empty for the
            whole recording.
        instance_id : int, (first, last) or None
            Which of them, in order of time from 0, or the first and the last of several; 0 when
            None.
        data_load_events : sequence of str, optional
            Regular expressions of names: time in events with such a name is ``data_loading``, as is
            what PyTorch's loaders need.

        Returns
        -------
        graph : CPGraph
            ``summary()`` and ``get_critical_path_breakdown()`` are its tables.
        success : bool
            Whether there is a path; none if nothing is recorded, or clocks contradict each other so
            that the recorded times cannot be replayed.

        Raises
        ------
        UnknownRankError
            If the job lacks the rank.
        ParameterError
            If the annotation or the instance is not recorded, or `data_load_events` has what is no
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
            Of this rank.
        output_dir : path
            Made, if it does not exist; the copy is ``overlaid_critical_path_<name of the trace>``,
            with the same compression.
        only_show_critical_events : bool
            Leave out events that are not on the path, but for annotations and Python frames.
        show_all_edges : bool
            Show all edges of the graph as arrows; not with `only_show_critical_events`.

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
