"""HTA's `CriticalPathAnalysis`: it finds the critical path of a rank, and marks it in a trace."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from hta_widgets.diagnosis.replay.window_path import window_path
from hta_widgets.errors import ParameterError
from hta_widgets.export.critical_path_overlay import Arrow, ArrowEnd, write_critical_path
from hta_widgets.hta_tables.critical_path import Graph, critical_path_graph
from hta_widgets.hta_tables.critical_path_marks import InstanceId, mark_of
from hta_widgets.hta_tables.critical_path_stretches import CPEdgeType
from hta_widgets.hta_trace.critical_path import CPEdge, CPGraph
from hta_widgets.hta_trace.trace import Trace
from hta_widgets.trace.remote.urls import PathLike


class CriticalPathAnalysis:
    """The critical path of one rank."""

    @classmethod
    def critical_path_analysis(
        cls,
        t: Trace,
        rank: int,
        annotation: str,
        instance_id: InstanceId,
        data_load_events: Sequence[str] | None = None,
    ) -> tuple[CPGraph, bool]:
        """Find it; see `TraceAnalysis.critical_path_analysis`."""
        (number,) = t.job.select_ranks([rank])
        patterns = tuple(data_load_events or ())
        for each in patterns:
            try:
                re.compile(each)
            except re.error as error:
                msg = f"data_load_events has {each!r}, which is no regular expression ({error})"
                raise ParameterError(msg) from error
        events = t.job.rank(number)
        mark = mark_of(events, annotation, instance_id)
        if mark is None:
            return CPGraph(t, number, Graph([], [], 0)), False
        found = window_path(events, mark)
        graph = critical_path_graph(events, mark, found, patterns)
        return CPGraph(t, number, graph), found is None or found.is_sound

    @classmethod
    def overlay_critical_path_analysis(  # noqa: PLR0917
        cls,
        t: Trace,
        rank: int,
        critical_path_graph: CPGraph,
        output_dir: PathLike,
        only_show_critical_events: bool,  # noqa: FBT001
        show_all_edges: bool,  # noqa: FBT001
        edge_types_to_viz: Collection[CPEdgeType] | None = None,
    ) -> str:
        """Mark it in a copy of the trace; see `TraceAnalysis.overlay_critical_path_analysis`.

        Parameters
        ----------
        t, rank, critical_path_graph, output_dir, only_show_critical_events, show_all_edges
            Those of `TraceAnalysis`.
        edge_types_to_viz : collection of CPEdgeType, optional
            Of the arrows of the path, those of these types; all when not given.
        """
        (number,) = t.job.select_ranks([rank])
        if critical_path_graph.rank != number:
            msg = (
                f"critical_path_graph is of rank {critical_path_graph.rank}, not of rank {number}; "
                f"give rank {critical_path_graph.rank}, or the graph of rank {number}"
            )
            raise ParameterError(msg)
        shown = set(CPEdgeType) if edge_types_to_viz is None else set(edge_types_to_viz)
        arrows = [
            _arrow(critical_path_graph, edge)
            for edge in critical_path_graph.critical_edges()
            if edge.type in shown
        ]
        shows_all = bool(show_all_edges) and not only_show_critical_events
        if shows_all:
            every = (each["object"] for each in critical_path_graph.edges.values())
            arrows = [_arrow(critical_path_graph, edge) for edge in every]
        target = write_critical_path(
            t.job,
            number,
            critical_path_graph.critical_path_events_set,
            arrows,
            output_dir,
            only_critical=bool(only_show_critical_events),
            within_lines=shows_all,
        )
        return str(target)


def _arrow(graph: CPGraph, edge: CPEdge) -> Arrow:
    nodes = (graph.recorded.nodes[number] for number in (edge.begin, edge.end))
    begin, end = (ArrowEnd(*each[:3]) for each in nodes)
    is_critical = edge in graph.critical_path_edges_set
    return Arrow(begin, end, edge.weight, edge.type.value, is_critical=is_critical)
