"""HTA's `CPGraph`: the critical path of one rank, and everything else its events wait for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

import msgspec
import numpy as np

from hta_widgets.atomic_write import atomic_write
from hta_widgets.errors import PackageError, ParameterError, write_errors
from hta_widgets.hta_tables.critical_path import Graph, GraphEdge
from hta_widgets.hta_tables.critical_path_stretches import CPEdgeType
from hta_widgets.hta_trace.symbol_table import TraceSymbolTable
from hta_widgets.hta_trace.trace import Trace
from hta_widgets.lazy_modules import pd
from hta_widgets.names.shorten import plain_name
from hta_widgets.quantities import NS_PER_US
from hta_widgets.trace.remote.urls import PathLike

_NONE: Final = -1
_SAVED_AS: Final = "critical_path.json"


class CPNode(NamedTuple):
    """The start or the end of an event."""

    idx: int = _NONE
    """Number of the node."""
    ev_idx: int = _NONE
    """``index`` of the event."""
    ts: float = 0
    """Time in µs, like ``ts`` in the frames."""
    is_start: bool = False
    is_blocking: bool = False
    """Whether the event is a call that may wait for the GPU."""


class CPEdge(NamedTuple):
    """A connection from one node to another."""

    begin: int
    end: int
    """Numbers of its two nodes."""
    type: CPEdgeType
    weight: float = 0
    """Length in µs."""


class _Edges(dict[tuple[int, int], dict[str, Any]]):
    """Attributes of edges, by the numbers of both nodes."""

    def __call__(self, data: bool = False) -> list[Any]:  # noqa: FBT001, FBT002
        """All edges; with `data`, including their attributes."""
        return [(*pair, self[pair]) for pair in self] if data else [*self]


class _Nodes(dict[int, CPNode]):
    """Nodes by number."""

    def __call__(self, data: bool = False) -> list[Any]:  # noqa: FBT001, FBT002
        """All numbers; with `data`, including their nodes."""
        return [*self.items()] if data else [*self]


class CPGraph:
    """The critical path of one rank, and everything else its events wait for.

    It is not a ``DiGraph`` of networkx, but offers `nodes`, `edges`, `in_edges`, `out_edges`,
    `successors` and `predecessors` like one; `to_networkx` makes a real one.

    Attributes
    ----------
    rank : int
    critical_path_nodes : list of int
        Nodes on the path, in order.
    critical_path_events_set : set of int
        ``index`` of their events.
    critical_path_edges_set : set of CPEdge
        Edges between them.
    recorded : Graph
        All nodes and edges, as found.
    """

    def __init__(self, t: Trace, rank: int, graph: Graph) -> None:
        self.rank = rank
        self._trace, self.recorded = t, graph
        path = graph.edges[: graph.critical]
        self._follow([*(edge.begin for edge in path[:1]), *(edge.end for edge in path)])

    def __repr__(self) -> str:
        """Rank and sizes."""
        nodes, edges = len(self.recorded.nodes), len(self.recorded.edges)
        return f"CPGraph(rank {self.rank}, {nodes} nodes, {edges} edges)"

    def _follow(self, path: list[int]) -> None:
        """Set the path and what is derived from it."""
        self.critical_path_nodes = path
        self.critical_path_events_set = {self.recorded.nodes[each].event for each in path}
        self.critical_path_edges_set = set(self.critical_edges())

    def critical_edges(self) -> list[CPEdge]:
        """Edges of the path in time order."""
        path = self.critical_path_nodes
        return [self.edges[pair]["object"] for pair in pairwise(path)]

    @property
    def trace_df(self) -> pd.DataFrame:
        """The frame of the rank."""
        return self._trace.get_trace(self.rank)

    @property
    def symbol_table(self) -> TraceSymbolTable:
        """Numbers of names and categories."""
        return self._trace.symbol_table

    @cached_property
    def node_list(self) -> list[CPNode]:
        """All nodes by number."""
        offset_ns = self._trace.job.offset_ns(self.rank)
        return [
            CPNode(number, each.event, (each.time_ns + offset_ns) / NS_PER_US, *each[2:])
            for number, each in enumerate(self.recorded.nodes)
        ]

    @cached_property
    def nodes(self) -> _Nodes:
        """All nodes by number; iteration yields the numbers."""
        return _Nodes(enumerate(self.node_list))

    @cached_property
    def edges(self) -> _Edges:
        """Attributes of all edges by the numbers of both nodes; iteration yields these pairs.

        ``weight`` (µs; changing it changes what `critical_path` finds), ``object`` (`CPEdge`) and
        ``recorded`` (`GraphEdge`).
        """
        return _Edges({(edge.begin, edge.end): _attributes(edge) for edge in self.recorded.edges})

    @cached_property
    def _neighbours(self) -> tuple[list[list[int]], list[list[int]]]:
        """Numbers of the nodes after and before each."""
        after: list[list[int]] = [[] for _ in self.recorded.nodes]
        before: list[list[int]] = [[] for _ in self.recorded.nodes]
        for begin, end in self.edges:
            after[begin].append(end)
            before[end].append(begin)
        return after, before

    def successors(self, node: int) -> Iterator[int]:
        """Nodes that an edge leads to."""
        return iter(self._neighbours[0][node])

    def predecessors(self, node: int) -> Iterator[int]:
        """Nodes that an edge leads from."""
        return iter(self._neighbours[1][node])

    def out_edges(self, node: int, data: bool = False) -> list[Any]:  # noqa: FBT001, FBT002
        """Edges that lead from a node; with `data`, including their attributes."""
        return self._with_data([(node, each) for each in self.successors(node)], data=data)

    def in_edges(self, node: int, data: bool = False) -> list[Any]:  # noqa: FBT001, FBT002
        """Edges that lead to a node; with `data`, including their attributes."""
        return self._with_data([(each, node) for each in self.predecessors(node)], data=data)

    def _with_data(self, pairs: list[tuple[int, int]], *, data: bool) -> list[Any]:
        return [(*pair, self.edges[pair]) for pair in pairs] if data else pairs

    def number_of_nodes(self) -> int:
        """Return the number of nodes."""
        return len(self.recorded.nodes)

    def number_of_edges(self) -> int:
        """Return the number of edges."""
        return len(self.edges)

    def to_networkx(self) -> Any:  # noqa: ANN401
        """Make a networkx ``DiGraph``.

        Raises
        ------
        PackageError
            If networkx is not installed.
        """
        try:
            networkx = import_module("networkx")
        except ImportError as error:
            package = "networkx"
            raise PackageError.from_import(package, error) from error
        made = networkx.DiGraph()
        made.add_nodes_from(self.nodes)
        made.add_edges_from(self.edges(data=True))
        return made

    def get_nodes_for_event(self, ev_id: int) -> tuple[CPNode | None, CPNode | None]:
        """Nodes of the start and the end of an event; None if there is none."""
        return self._of_event.get((ev_id, True)), self._of_event.get((ev_id, False))

    @cached_property
    def _of_event(self) -> dict[tuple[int, bool], CPNode]:
        found: dict[tuple[int, bool], CPNode] = {}
        for node in self.node_list:
            found.setdefault((node.ev_idx, node.is_start), node)
        return found

    def get_events_for_edge(self, edge: CPEdge) -> tuple[int, int]:
        """``index`` of the events of both nodes."""
        return self.node_list[edge.begin].ev_idx, self.node_list[edge.end].ev_idx

    def get_event_attribution_for_edge(self, edge: CPEdge) -> int | None:
        """``index`` of the operation or call whose time an edge is; None if there is none."""
        found = self.edges.get((edge.begin, edge.end))
        event = _NONE if found is None else int(found["recorded"].event)
        return None if event == _NONE else event

    def get_edges_attributed_to_event(self, ev_idx: int) -> list[CPEdge]:
        """Edges that are the time of an event."""
        return [*self._of_attribution.get(ev_idx, [])]

    @cached_property
    def _of_attribution(self) -> dict[int, list[CPEdge]]:
        found: dict[int, list[CPEdge]] = {}
        for each in self.edges.values():
            if each["recorded"].event != _NONE:
                found.setdefault(each["recorded"].event, []).append(each["object"])
        return found

    def critical_path(self) -> bool:
        """Find the longest path again, using the current weights.

        Returns
        -------
        bool
            Whether there is one: a file that was edited may have cycles.
        """
        after, before = self._neighbours
        waiting = [len(each) for each in before]
        longest, source = [0] * len(waiting), [_NONE] * len(waiting)
        ready = [node for node, count in enumerate(waiting) if not count]
        weights = {pair: _in_ns(each["weight"]) for pair, each in self.edges.items()}
        for node in ready:
            for each in after[node]:
                time_ns = longest[node] + weights[node, each]
                if source[each] == _NONE or time_ns > longest[each]:
                    longest[each], source[each] = time_ns, node
                waiting[each] -= 1
                if not waiting[each]:
                    ready.append(each)
        if len(ready) < len(waiting):
            return False
        node = max(ready, key=longest.__getitem__)
        path = []
        while node != _NONE:
            path.append(node)
            node = source[node]
        self._follow(path[::-1])
        return True

    def get_critical_path_breakdown(self) -> pd.DataFrame:
        """The edges of the path in time order, each with the event whose time it is.

        Returns
        -------
        DataFrame
            ``event_idx`` (``index`` of the event, NaN for none), ``duration`` (µs), ``type`` (value
            of a `CPEdgeType`), ``s_name``, ``cat``, ``pid``, ``tid``, ``stream``, ``index`` (of the
            event, as in the frames), ``bound_by`` (value of a `BoundType`), ``rank``, ``slack_ns``
            (how much longer the edge could be without effect), ``drag_ns`` (time saved if the
            operation took no time; NaN for other edges).
        """
        path = self.critical_path_nodes
        weights = [self.edges[pair]["weight"] for pair in pairwise(path)]
        edges: list[GraphEdge] = [self.edges[pair]["recorded"] for pair in pairwise(path)]
        events = np.array([edge.event for edge in edges], dtype=np.int64)
        found = pd.DataFrame(
            {
                "event_idx": np.where(events == _NONE, np.nan, events),
                "duration": np.array(weights, dtype=np.float64),
                "type": [edge.type.value for edge in edges],
            }
        )
        of_events = self._event_columns(np.unique(events[events != _NONE]))
        found = found.merge(of_events, left_on="event_idx", right_on="index", how="left")
        return found.assign(
            bound_by=[edge.bound_by.value for edge in edges],
            rank=self.rank,
            slack_ns=np.array([edge.slack_ns for edge in edges], dtype=np.float64),
            drag_ns=np.array([edge.drag_ns for edge in edges], dtype=np.float64),
        )

    def _event_columns(self, index: np.ndarray[Any, np.dtype[np.int64]]) -> pd.DataFrame:
        """Columns of events, which may include events that are not analysed."""
        rank = self._trace.job.rank(self.rank)
        events = rank.trace.events
        by_index = np.argsort(events.index, kind="stable")
        rows = by_index[np.searchsorted(events.index[by_index], index)]
        names = len(events.name.values)
        codes = self._trace.codes_of(rank)
        return pd.DataFrame(
            {
                "s_name": [plain_name(name) or name for name in events.names_at(rows)],
                "cat": codes[names + events.kind[rows].astype(np.int64)],
                "pid": events.ids_in_source(events.pid[rows]),
                "tid": events.ids_in_source(events.tid[rows]),
                "stream": events.stream[rows].astype(np.int64),
                "index": index,
            }
        )

    def summary(self) -> pd.Series[float]:
        """Print a heading, and return the share (%) of the path by ``bound_by``."""
        found = self.get_critical_path_breakdown()
        print("Share of the critical path (%) by what bounds it")  # noqa: T201, as HTA does
        return found.groupby("bound_by")["duration"].sum() / found["duration"].sum() * 100

    def show_critical_path(self) -> None:
        """Print the nodes of the path."""
        for number in self.critical_path_nodes:
            print(self.node_list[number])  # noqa: T201, as HTA does

    def save(self, out_dir: PathLike) -> str:
        """Save the graph and its current weights as JSON in a zip file, for `restore_cpgraph`.

        Parameters
        ----------
        out_dir : path
            Path of the file, without the ending ``.zip``.

        Returns
        -------
        str
            The file written.
        """
        target = Path(f"{Path(out_dir).expanduser()}.zip")
        order = dict.fromkeys([*pairwise(self.critical_path_nodes), *self.edges])
        edges = [
            each["recorded"]._replace(weight_ns=_in_ns(each["weight"]))
            for each in map(self.edges.__getitem__, order)
        ]
        graph = Graph(self.recorded.nodes, edges, len(self.critical_path_nodes) - 1)
        with write_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(target) as partial, ZipFile(partial, "w", ZIP_DEFLATED) as archive:
                archive.writestr(_SAVED_AS, msgspec.json.encode(_Saved(self.rank, graph)))
        return str(target)


def _attributes(edge: GraphEdge) -> dict[str, Any]:
    weight = edge.weight_ns / NS_PER_US
    found = CPEdge(edge.begin, edge.end, edge.type, weight)
    return {"weight": weight, "object": found, "recorded": edge}


def _in_ns(weight: float) -> int:
    return round(weight * NS_PER_US)


class _Saved(msgspec.Struct):
    """What `CPGraph.save` writes."""

    rank: int
    graph: Graph
    version: Literal[1] = 1


def restore_cpgraph(zip_filename: PathLike, t_full: Trace, rank: int) -> CPGraph:
    """Read what `CPGraph.save` wrote.

    Parameters
    ----------
    zip_filename : path
    t_full : Trace
        The traces it was made from.
    rank : int

    Raises
    ------
    ParameterError
        If the file is not such a file, or belongs to another rank or trace.
    """
    file = Path(zip_filename).expanduser()
    try:
        with ZipFile(file) as archive:
            saved = msgspec.json.decode(archive.read(_SAVED_AS), type=_Saved)
    except (OSError, BadZipFile, KeyError, msgspec.MsgspecError) as error:
        msg = f"{file} is not a critical path written by CPGraph.save() ({error}); save it again"
        raise ParameterError(msg) from error
    graph, events = saved.graph, t_full.job.rank(rank).trace.events
    known = set(events.index.tolist())
    asked = {node.event for node in graph.nodes}
    asked |= {edge.event for edge in graph.edges} - {_NONE}
    numbers = {number for edge in graph.edges for number in edge[:2]}
    fits = saved.rank == rank and asked <= known and numbers <= {*range(len(graph.nodes))}
    if not fits or not _is_chain(graph):
        msg = (
            f"{file} is the critical path of rank {saved.rank} of a trace, but not of rank {rank} "
            "of this one; pass the traces and the rank that it was saved from"
        )
        raise ParameterError(msg)
    return CPGraph(t_full, rank, graph)


def _is_chain(graph: Graph) -> bool:
    path = graph.edges[: graph.critical]
    return bool(path) and all(edge.end == after.begin for edge, after in pairwise(path))
