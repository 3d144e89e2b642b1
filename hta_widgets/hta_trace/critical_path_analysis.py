"""HTA's `CriticalPathAnalysis`: finds the critical path of a rank, and marks it in a trace."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from numbers import Integral
from typing import Final

import numpy as np

from hta_widgets.arrays import Int64Array
from hta_widgets.diagnosis.replay.window_path import Mark, window_path
from hta_widgets.errors import ParameterError
from hta_widgets.export.critical_path_overlay import Arrow, ArrowEnd, write_critical_path
from hta_widgets.hta_tables.critical_path import Graph, critical_path_graph
from hta_widgets.hta_tables.critical_path_stretches import CPEdgeType
from hta_widgets.hta_trace.critical_path import CPEdge, CPGraph
from hta_widgets.hta_trace.trace import Trace
from hta_widgets.names.shorten import cut_in_the_middle
from hta_widgets.quantities import counted
from hta_widgets.trace.model.events import GPU_WORK, LAUNCH_CALLS, Kind, KindSet
from hta_widgets.trace.ranks.rank import Rank
from hta_widgets.trace.remote.urls import PathLike

InstanceId = int | tuple[int, int] | None

_CALLS: Final = (Kind.CPU_OP, Kind.PYTHON, *LAUNCH_CALLS)
_SOUGHT: Final = ((Kind.ANNOTATION,), _CALLS, (Kind.GPU_ANNOTATION,), GPU_WORK)
"""Groups of events in which a name is searched, one after another: a host annotation often appears
again on the GPU, and HTA counts both as instances."""

_RECORDING: Final = ((Kind.ANNOTATION, *_CALLS, *GPU_WORK),)

_ON_GPU: Final = KindSet((Kind.GPU_ANNOTATION, *GPU_WORK))
_SHOWN: Final = 8
_LONGEST: Final = 60


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
        """Find the path; see `TraceAnalysis.critical_path_analysis`."""
        (number,) = t.job.select_ranks([rank])
        patterns = tuple(data_load_events or ())
        for each in patterns:
            try:
                re.compile(each)
            except re.error as error:
                msg = f"data_load_events has the invalid regular expression {each!r} ({error})"
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
        """Mark the path in a copy of the trace: `TraceAnalysis.overlay_critical_path_analysis`.

        Parameters
        ----------
        t, rank, critical_path_graph, output_dir, only_show_critical_events, show_all_edges
            As for `TraceAnalysis`.
        edge_types_to_viz : collection of CPEdgeType, optional
            Types of the arrows to write; all by default.
        """
        (number,) = t.job.select_ranks([rank])
        if critical_path_graph.rank != number:
            msg = (
                f"critical_path_graph is of rank {critical_path_graph.rank}, not of rank {number}; "
                f"pass rank {critical_path_graph.rank}, or the graph of rank {number}"
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


def mark_of(rank: Rank, annotation: str, instance_id: InstanceId) -> Mark | None:
    """The stretch from the first to the last of the matching events; None if nothing is recorded.

    Parameters
    ----------
    rank : Rank
    annotation : str
        Part of their name; empty means the whole recording.
    instance_id : int, (first, last) or None
        Which instances, in time order; None means 0.

    Raises
    ------
    ParameterError
        If there are no such events.
    """
    rows = _rows_named(rank, annotation)
    if not rows.size:
        return None
    if annotation:
        first, last = _instances(annotation, instance_id, rows.size)
        rows = rows[first : last + 1]
    start_ns, end_ns = rank.trace.events.start_ns[rows], rank.trace.events.end_ns[rows]
    return Mark(
        first=int(rows[np.argmin(start_ns)]),
        last=int(rows[np.argmax(end_ns)]),
        start_ns=int(start_ns.min()),
        end_ns=int(end_ns.max()),
        on_gpu=bool(_ON_GPU.among(rank.trace.events.kind[rows]).all()),
    )


def _rows_named(rank: Rank, annotation: str) -> Int64Array:
    """Analysed events of one group whose name matches, in time order."""
    events = rank.trace.events
    fits = np.array([annotation in name for name in events.name.values], dtype=np.bool_)
    fitting = rank.analysed & np.append(fits, [False])[events.name.codes]
    for kinds in _SOUGHT if annotation else _RECORDING:
        rows = np.flatnonzero(fitting & KindSet(kinds).among(events.kind))
        if rows.size or not annotation:
            return rows
    marks = np.flatnonzero(rank.analysed & (events.kind == Kind.ANNOTATION))
    known = sorted(set(events.names_at(marks)))
    what = ", ".join(repr(cut_in_the_middle(name, _LONGEST)) for name in known[:_SHOWN])
    more = f" and {counted(len(known) - _SHOWN, 'other')}" if len(known) > _SHOWN else ""
    has = f"its annotations are {what}{more}" if known else "it has no annotations"
    left_out = np.append(fits, [False])[events.name.codes[events.kind == Kind.ANNOTATION]].any()
    hint = "include_last_profiler_step=True keeps the last step, or " if left_out else ""
    msg = (
        f"no analysed event on rank {rank.trace.rank} has {annotation!r} in its name; {has}; "
        f"{hint}annotation='' takes the whole recording"
    )
    raise ParameterError(msg)


def _instances(annotation: str, instance_id: InstanceId, count: int) -> tuple[int, int]:
    """Numbers of the first and the last instance."""
    asked = 0 if instance_id is None else instance_id
    several = asked if isinstance(asked, tuple) else (asked, asked)
    is_fitting = len(several) == 2 and all(isinstance(each, Integral) for each in several)  # noqa: PLR2004
    first, last = map(int, several) if is_fitting else (0, -1)
    if not 0 <= first <= last < count:
        allowed = "0" if count == 1 else f"0 to {count - 1}"
        msg = (
            f"{annotation!r} has {counted(count, 'analysed instance')}, so instance_id must be "
            f"{allowed} or (first, last) of these, got {instance_id!r}"
        )
        raise ParameterError(msg)
    return first, last
