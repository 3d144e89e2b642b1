"""Put the calls that captured a CUDA graph back where the graph is replayed.

A replay is one host call, however many kernels it runs. The operators, modules and shapes of these
kernels are recorded only where the graph was captured::

    capture   aten::linear |--- aten::mm |-- launch --| ---|   no work of the GPU
    replay    cudaGraphLaunch |-----|
    GPU                         |= mm =||= … =|

A copy of the captured calls goes into each replay of the capture (`graph_identity`), at its start
and with length 0. Operators, modules and shapes are then found as for any other launch, and no host
time comes from the capture. A replay that fits no capture, and was launched outside operators, gets
one call per distinct graph: ``CUDA graph 1 (421 kernels)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.errors import HtaWidgetsError
from hta_widgets.grouping import grouped
from hta_widgets.trace.cache.trace_file import LoadedTrace
from hta_widgets.trace.model.captures import (
    Capture,
    Identity,
    Node,
    NodeType,
    captures_in,
    graph_identity,
)
from hta_widgets.trace.model.cut_forest import cut_forest
from hta_widgets.trace.model.details import DetailGroup
from hta_widgets.trace.model.events import Events, Kind, SideTable, TextColumn
from hta_widgets.trace.model.nesting import NO_PARENT, ancestors
from hta_widgets.trace.model.notices import Notice
from hta_widgets.trace.ranks.loading import LAUNCH_ROWS, PARENT_ROWS, load_rank
from hta_widgets.trace.ranks.rank import Rank

NOTHING: Final = np.empty(0, dtype=np.int64)
GRAPH_CALL: Final = re.compile(r"(?:CUDA|HIP) graph \d+ \(\d+ kernels?\)")
"""Pattern of the call that stands for a graph without a capture."""

_GRAPH_LAUNCH: Final = re.compile(r"GraphLaunch")
_NODES: Final = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)
_TYPES: Final[Mapping[int, NodeType]] = {
    Kind.KERNEL: "kernel",
    Kind.MEMCPY: "copy",
    Kind.MEMSET: "fill",
}
_COPY: Final = re.compile(r"Memcpy")
_FILL: Final = re.compile(r"Memset")
_SIZED: Final = re.compile(r"capture_(\d{1,9})_\w{1,40}", re.ASCII)
_SIZED_FILE: Final = re.compile(r"bs_(\d{1,9})_")

_JOINED: Final = (
    "{} of {} graph replays ({} kernels, copies and fills) have the operators of their captures"
)
_BY_ORDER: Final = "{} of these by order alone, because the capture has no kernel names"
_CUT: Final = "{} of these lack the last kernels of their captures: the recorder lost them"
_FITS_NONE: Final = (
    "{} of {} graph replays fit no opened capture: their kernels belong to no operator"
)
_NOT_CAPTURED: Final = (
    "{} of {} graph replays have no operators: these are recorded when the graphs are captured; "
    "record the capture, too (vLLM: --profiler-config.capture_torch_profiler=true, SGLang: "
    "--enable-profile-cuda-graph), and open the trace with captures=…"
)


class _Candidate(NamedTuple):
    """A capture that may belong to a replay."""

    rank: Rank
    """The recording of the capture."""
    capture: Capture
    nodes: tuple[Node, ...]
    size: int
    """Largest batch that the graph is for; -1 if not recorded."""


class _Replay(NamedTuple):
    """One replay."""

    launch: int
    """Row of the replaying call."""
    work: Int64Array
    """Rows of the work that it runs, by start."""
    step: int
    """Position of the step that launches it, -1 for none."""


class _Template(NamedTuple):
    """The calls of a capture that go into each of its replays."""

    rows: Int64Array
    """Rows in the recording of the capture; each call before the calls inside it."""
    parent: Int64Array
    """Position of the call around each, -1 for the outermost."""
    launch: Int64Array
    """Position of the call that launches each node."""


class RankWithReplayedCalls(NamedTuple):
    """A rank with the calls of the graphs that it replays."""

    rank: Rank
    """The same object if it replays nothing; otherwise other event rows, with the GPU work in the
    same order."""
    notices: tuple[Notice, ...] = ()
    replays: int = 0
    joined: int = 0
    """Number of replays that match a capture."""
    captured: Int64Array = NOTHING
    """Ascending rows of their GPU work, among the events without the calls of captures."""


def with_replayed_calls(rank: Rank) -> Rank:
    """The rank with the calls of captures inside the replays of their graphs.

    It is for analyses that attribute GPU work to calls. Its event rows differ, but its GPU work is
    the same in the same order, and no host time differs.
    """
    return rank.remember(_replayed).rank


def graph_replay_notices(rank: Rank) -> tuple[Notice, ...]:
    """Notices about how many replays match a capture, and what is missing for the others."""
    return rank.remember(_replayed).notices


def capture_notices(rank: Rank) -> tuple[Notice, ...]:
    """The same for a rank with its own captures; for other ranks, nothing more is read."""
    return graph_replay_notices(rank) if rank.captures else ()


def joined_replays(rank: Rank) -> tuple[int, int]:
    """Number of graph replays with the calls of captures next to the trace, and of all replays."""
    found = rank.remember(_replayed) if rank.captures else RankWithReplayedCalls(rank)
    return found.joined, found.replays


def captured_work(rank: Rank) -> Int64Array:
    """Rows of the GPU work whose operators are those of a capture, ascending."""
    return rank.remember(_replayed).captured


def _replayed(rank: Rank) -> RankWithReplayedCalls:
    replays = _replays(rank)
    if not replays:
        return RankWithReplayedCalls(rank)
    candidates, unreadable = _candidates(rank)
    chosen = _Choice(rank, candidates).of_all(replays)
    grafts = _Grafts(rank.trace.events)
    for replay, (candidate, _) in zip(replays, chosen, strict=True):
        if candidate is not None:
            grafts.add(replay, candidate)
    if (rank.trace.events.kind == Kind.CPU_OP).any():
        _add_graph_calls(rank, grafts, replays, [each for each, _ in chosen])
    notices = (*unreadable, *_notices(replays, chosen, has_captures=bool(candidates)))
    joined = [
        replay.work for replay, (found, _) in zip(replays, chosen, strict=True) if found is not None
    ]
    return RankWithReplayedCalls(
        grafts.rank(rank) if grafts.count else rank,
        notices,
        len(replays),
        len(joined),
        np.sort(np.concatenate([NOTHING, *joined])),
    )


def _replays(rank: Rank) -> list[_Replay]:
    events = rank.trace.events
    calls = np.flatnonzero(events.named(np.arange(len(events)), _GRAPH_LAUNCH))
    if not calls.size:
        return []
    work = events.rows_of(*_NODES)
    launch = rank.launches[work]
    is_node = np.isin(launch, calls)
    work, launch = work[is_node], launch[is_node].astype(np.int64)
    if not work.size:
        return []
    groups = grouped(launch)
    first = launch[groups.first]
    step = np.searchsorted(rank.steps.start_ns, events.start_ns[first], side="right") - 1
    return [
        _Replay(*each)
        for each in zip(
            first.tolist(), [work[part] for part in groups.parts], step.tolist(), strict=True
        )
    ]


def _candidates(rank: Rank) -> tuple[list[_Candidate], list[Notice]]:
    """Captures in the recording itself and in the files that belong to it, in order."""
    found, unreadable = [*_captured_in(rank)], []
    for source in rank.captures:
        try:
            loaded = load_rank(source, rank.trace.rank)
            other = Rank(loaded, source.format, rank.settings, source)
            found += _captured_in(other, _number(_SIZED_FILE.match(source.path.name)))
        except HtaWidgetsError as error:
            said = str(error).replace("{", "{{").replace("}", "}}")
            unreadable.append(Notice(f"a capture cannot be read: {said}"))
    return found, unreadable


def _number(found: re.Match[str] | None) -> int:
    return int(found[1]) if found else -1


def _captured_in(rank: Rank, size: int = -1) -> Iterator[_Candidate]:
    events = rank.trace.events
    captures = captures_in(events)
    if not captures:
        return
    kernels = _kernels_by_row(rank)
    marks = events.rows_of(Kind.ANNOTATION, Kind.CPU_OP)
    marks = marks[events.named(marks, _SIZED)]
    for capture in captures:
        names = events.names_at(capture.launches)
        nodes = tuple(
            Node(_type_of(name), kernels.get(row, ""))
            for row, name in zip(capture.launches.tolist(), names, strict=True)
        )
        at_ns = events.start_ns[capture.begin]
        around = marks[(events.start_ns[marks] <= at_ns) & (events.end_ns[marks] > at_ns)]
        said = [_number(_SIZED.fullmatch(name)) for name in events.names_at(around[-1:])]
        yield _Candidate(rank, capture, nodes, said[0] if said else size)


def _type_of(call: str) -> NodeType:
    if _COPY.search(call):
        return "copy"
    return "fill" if _FILL.search(call) else "kernel"


def _kernels_by_row(rank: Rank) -> dict[int, str]:
    """Name of the kernel that each call launches, if recorded."""
    table = rank.details(DetailGroup.LAUNCHED_KERNELS).table
    column = table.columns.get("kernel")
    if not isinstance(column, TextColumn):
        return {}
    names = [column.values[code] for code in column.codes.tolist()]
    return dict(zip(table.rows.tolist(), names, strict=True))


class _Choice:
    """Chooses the capture of each replay."""

    def __init__(self, rank: Rank, candidates: Sequence[_Candidate]) -> None:
        self._rank = rank
        self._candidates = candidates
        self._fits: dict[bytes, list[tuple[int, Identity]]] = {}

    def of_all(self, replays: Sequence[_Replay]) -> list[tuple[_Candidate | None, Identity]]:
        """Choose for all replays; if several fit, as equal layers do, the next one in each step."""
        found: list[tuple[_Candidate | None, Identity]] = []
        last, step = -1, None
        for replay in replays:
            last, step = last if replay.step == step else -1, replay.step
            fits = self._fitting(replay)
            if not fits:
                found.append((None, "refused"))
                continue
            place, identity = next((each for each in fits if each[0] > last), fits[0])
            last = place
            found.append((self._candidates[place], identity))
        return found

    def _fitting(self, replay: _Replay) -> list[tuple[int, Identity]]:
        events = self._rank.trace.events
        kinds, codes = events.kind[replay.work], events.name.codes[replay.work]
        key = kinds.tobytes() + codes.tobytes()
        if key not in self._fits:
            names = events.names_at(replay.work)
            nodes = [
                Node(_TYPES[kind], name) for kind, name in zip(kinds.tolist(), names, strict=True)
            ]
            found = [
                (place, graph_identity(each.nodes, nodes))
                for place, each in enumerate(self._candidates)
            ]
            on_one_stream = np.unique(events.stream[replay.work]).size == 1
            by_order = ("order",) if self._rank.captures_given and on_one_stream else ()
            by_identity = (
                [each for each in found if each[1] == identity]
                for identity in ("names", "prefix", *by_order)
            )
            self._fits[key] = next(filter(None, by_identity), [])  # only the most certain
        return self._of_size(replay, self._fits[key])

    def _of_size(
        self, replay: _Replay, fits: list[tuple[int, Identity]]
    ) -> list[tuple[int, Identity]]:
        """Captures for the step's batch; none if it is unknown and several graph sizes fit."""
        sizes = sorted({self._candidates[place].size for place, _ in fits})
        if len(sizes) < 2:  # noqa: PLR2004
            return fits
        batch = self._batch(replay)
        wanted = next((size for size in sizes if batch is not None and size >= batch), None)
        return [each for each in fits if self._candidates[each[0]].size == wanted]

    def _batch(self, replay: _Replay) -> int | None:
        """Tokens that a server step computes; None if not recorded."""
        spans = self._rank.server_steps.spans
        if not 0 <= replay.step < len(spans) or self._rank.steps.source != "server":
            return None
        span = spans[replay.step]
        tokens = (span.context_tokens or 0, span.generation_tokens or span.generation_requests)
        return None if tokens[1] is None else tokens[0] + tokens[1]


def _add_graph_calls(
    rank: Rank,
    grafts: _Grafts,
    replays: Sequence[_Replay],
    chosen: Sequence[_Candidate | None],
) -> None:
    """Add one call to each replay that has no capture and is launched by no operator."""
    events, names = rank.trace.events, dict[bytes, str]()
    for replay, candidate in zip(replays, chosen, strict=True):
        if candidate is not None or _is_in_operator(rank, replay.launch):
            continue
        key = events.name.codes[replay.work].tobytes()
        kernels = int(np.count_nonzero(events.kind[replay.work] == Kind.KERNEL))
        noun = "kernel" if kernels == 1 else "kernels"
        of = (
            "HIP"
            if events.name.values[events.name.codes[replay.launch]].startswith("hip")
            else "CUDA"
        )
        name = names.setdefault(key, f"{of} graph {len(names) + 1} ({kernels} {noun})")
        grafts.add_call(replay, name)


def _is_in_operator(rank: Rank, row: int) -> bool:
    kind = rank.trace.events.kind
    return any(kind[around] == Kind.CPU_OP for around in ancestors(rank.parents, row))


class _Grafts:
    """Calls to add to the events of a rank."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._names = {name: code for code, name in enumerate(events.name.values)}
        self._templates: dict[tuple[int, int], _Template] = {}
        self._sources: list[tuple[Events, Int64Array, Int64Array]] = []
        self._columns: dict[str, list[NDArray[Any]]] = {}
        self._of_work: list[tuple[Int64Array, Int64Array]] = []
        self.count = 0

    def add(self, replay: _Replay, candidate: _Candidate) -> None:
        """Put the calls of a capture into a replay."""
        template, events = self._template(candidate), candidate.rank.trace.events
        codes = events.name.codes[template.rows]
        used, which = np.unique(codes, return_inverse=True)
        names = [self._code(events.name.values[code]) for code in used.tolist()]
        first = len(self._events) + self.count
        parent = np.where(template.parent >= 0, template.parent + first, replay.launch)
        self._of_work.append((replay.work, template.launch[: replay.work.size] + first))
        self._append(replay, events, template.rows, parent, np.array(names)[which])

    def add_call(self, replay: _Replay, name: str) -> None:
        """Put a single operator into a replay."""
        row = len(self._events) + self.count
        self._of_work.append((replay.work, np.full(replay.work.size, row)))
        one = np.array([NO_PARENT])
        self._append(replay, None, one, np.array([replay.launch]), np.array([self._code(name)]))

    def _append(
        self,
        replay: _Replay,
        source: Events | None,
        rows: Int64Array,
        parent: Int64Array,
        name: NDArray[Any],
    ) -> None:
        size, events = rows.size, self._events
        kind = np.full(size, Kind.CPU_OP) if source is None else source.kind[rows]
        of_launch = {
            each: np.full(size, getattr(events, each)[replay.launch])
            for each in ("pid", "tid", "start_ns")
        }
        columns = {"kind": kind, "name": name, "parent": parent, **of_launch}
        for each, column in columns.items():
            self._columns.setdefault(each, []).append(column)
        if source is not None:
            self._sources.append((source, rows, np.arange(size) + self.count))
        self.count += size

    def _code(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names))

    def _template(self, candidate: _Candidate) -> _Template:
        key = id(candidate.rank), candidate.capture.begin
        if key not in self._templates:
            self._templates[key] = _template(candidate.rank, candidate.capture)
        return self._templates[key]

    def rank(self, rank: Rank) -> Rank:
        """The rank with the added calls."""
        added = {name: np.concatenate(parts) for name, parts in self._columns.items()}
        events, old = self._events, len(self._events)
        start_ns = np.concatenate((events.start_ns, added["start_ns"]))
        order = np.argsort(start_ns, kind="stable")
        row_of = np.append(np.empty_like(order), NO_PARENT)
        row_of[order] = np.arange(order.size)
        columns: dict[str, Any] = {
            each.name: np.concatenate(
                (column, added.get(each.name, np.full(self.count, _NONE.get(each.name, -1))))
            )[order].astype(column.dtype)
            for each in fields(events)
            if isinstance(column := getattr(events, each.name), np.ndarray)
        }
        codes = np.concatenate((events.name.codes, added["name"]))[order].astype(np.int32)
        launches = np.append(rank.launches, np.full(self.count, -1, dtype=np.int32))
        for work, calls in self._of_work:
            launches[work] = calls
        parents = np.append(rank.parents, added["parent"])
        links = {
            name: row_of[rows][order].astype(np.int32)
            for name, rows in ((LAUNCH_ROWS, launches), (PARENT_ROWS, parents))
        }
        side = {name: _moved(table, row_of) for name, table in events.side.items()}
        operators = self._operators(row_of[old:])
        if operators:
            side["operators"] = _stacked([*filter(None, [side.get("operators")]), *operators])
        grown = replace(events, **columns, name=TextColumn(codes, (*self._names,)), side=side)
        return rank.having(LoadedTrace(replace(rank.trace, events=grown), links))

    def _operators(self, row_of: Int64Array) -> list[SideTable]:
        """Operator fields from the captures, at the rows of the copies."""
        found = []
        for source, rows, number in self._sources:
            table = source.side.get("operators")
            if table is None:
                continue
            place = table.places_of(rows)
            has = place >= 0
            columns = {name: _take(each, place[has]) for name, each in table.columns.items()}
            found.append(SideTable(row_of[number[has]], columns))
        return found


_NONE: Final = {"duration_ns": 0}


def _template(rank: Rank, capture: Capture) -> _Template:
    """The launches of a capture, with the calls around each that start within the capture."""
    events = rank.trace.events
    forest = rank.remember(_forest)
    rows, parent = forest["rows"], forest["parent"]
    place_of = np.full(len(events), NO_PARENT, dtype=np.int64)
    place_of[rows] = np.arange(rows.size)
    launches = place_of[capture.launches]
    chosen: Mask = np.zeros(rows.size, dtype=np.bool_)
    begin_ns = events.start_ns[capture.begin]
    wanted = launches
    while wanted.size:
        chosen[wanted] = True
        wanted = np.unique(parent[wanted])
        wanted = wanted[wanted >= 0]
        wanted = wanted[~chosen[wanted] & (events.start_ns[rows[wanted]] >= begin_ns)]
    places = np.flatnonzero(chosen)
    position = np.full(rows.size + 1, NO_PARENT, dtype=np.int64)
    position[places] = np.arange(places.size)
    return _Template(rows[places], position[parent[places]], position[launches])


def _forest(rank: Rank) -> dict[str, NDArray[Any]]:
    return {**cut_forest(rank.trace.events, rank.parents, rank.names_of_marks)}


def _take(column: NDArray[Any] | TextColumn, places: Int64Array) -> NDArray[Any] | TextColumn:
    return column.take(places) if isinstance(column, TextColumn) else column[places]


def _moved(table: SideTable, row_of: Int64Array) -> SideTable:
    """The same fields at new event rows, which stay in order."""
    has_row = table.rows >= 0
    return SideTable(np.where(has_row, row_of[table.rows], table.rows), table.columns)


def _stacked(tables: Sequence[SideTable]) -> SideTable:
    """All rows of the tables, ascending; a column that a table lacks is empty for its rows."""
    rows = np.concatenate([table.rows for table in tables])
    order = np.argsort(rows, kind="stable")
    names = dict.fromkeys(name for table in tables for name in table.columns)
    columns = {name: _column(tables, name, order) for name in names}
    return SideTable(rows[order], columns)


def _column(tables: Sequence[SideTable], name: str, order: Int64Array) -> NDArray[Any] | TextColumn:
    each = [table.columns.get(name) for table in tables]
    if not any(isinstance(column, TextColumn) for column in each):
        parts = [
            np.full(table.rows.size, -1) if column is None else np.asarray(column)
            for table, column in zip(tables, each, strict=True)
        ]
        return np.concatenate(parts)[order]
    texts = [
        column if isinstance(column, TextColumn) else TextColumn(np.full(table.rows.size, -1), ())
        for table, column in zip(tables, each, strict=True)
    ]
    return TextColumn.joined(texts).take(order)


def _notices(
    replays: Sequence[_Replay],
    chosen: Sequence[tuple[_Candidate | None, Identity]],
    *,
    has_captures: bool,
) -> list[Notice]:
    """Notices about replays with the calls of a capture, and about the others."""
    pieces = [replay.work.size for replay in replays]
    joined = [size for size, (each, _) in zip(pieces, chosen, strict=True) if each is not None]
    identities = [identity for _, identity in chosen]
    others = len(replays) - len(joined)
    found = []
    if joined:
        found.append(Notice(_JOINED, (len(joined), len(replays), sum(joined))))
    found += [
        Notice(words, (identities.count(identity),))
        for words, identity in ((_BY_ORDER, "order"), (_CUT, "prefix"))
        if identity in identities
    ]
    if others and has_captures:
        found.append(Notice(_FITS_NONE, (others, len(replays))))
    elif others:
        found.append(Notice(_NOT_CAPTURED, (others, len(replays))))
    return found
