"""Convert the rows of an Nsight Systems export to events, table by table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache

import numpy as np

from hta_widgets.arrays import Int8Array, Int64Array, Mask
from hta_widgets.names.shorten import api_name
from hta_widgets.trace.loaders.columns import ABSENT, NO_STREAM, ColumnBlock
from hta_widgets.trace.loaders.event_blocks import EventBlocks, Values, transfer_columns
from hta_widgets.trace.loaders.nsys.tables import (
    CALLS,
    COPIES,
    GRAPHS,
    KERNELS,
    MEMSETS,
    MISSING,
    OS_CALLS,
    RANGES,
    SYNCS,
    owner_column,
    process_of,
)
from hta_widgets.trace.model.events import Events, Kind
from hta_widgets.trace.model.notices import Notice

TABLES_IN_ORDER = (GRAPHS, CALLS, OS_CALLS, RANGES, KERNELS, COPIES, MEMSETS, SYNCS)
"""Graphs come first, because the work in the other tables decides whether they count. CUDA calls
come before operating-system calls, which count only between them."""

_PROCESS_BITS = _THREAD_BITS = 0xFFFFFF
_CORRELATION_SHIFT = 24
FARTHEST_NS = 2**61
_RUNTIME_CALL, _DRIVER_CALL = 0, 1
_MARK, _PUSH_POP, _START_END = 34, 59, 60

_OF_THREAD = ("start", "end", "globalTid")
_NO_CALLS = np.empty(0, np.int64), np.empty(0, np.int64)

_UNOWNED = "{} rows without a process id are left out"
_UNTIMED = "{} rows without a valid start and end are left out"
_NOT_CALLS = "{} rows of the CUDA API table that are not calls (such as backtraces) are left out"
_OPEN = "{} NVTX ranges still open at the end of the recording are left out"
_UNNAMED = "{} kernels and calls have no name in the export"
_WHOLE = (
    "{} CUDA graph launches are recorded as a whole: whether they compute, communicate or copy is "
    "not known (nsys profile --cuda-graph-trace=node records the kernels inside)"
)
_TWICE = "{} CUDA graph launches are left out because the work inside them is recorded individually"

Strings = Callable[[Iterable[int]], Mapping[int, str]]


_COPY = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
    11: "HtoD",
    12: "DtoH",
    13: "DtoD",
}
_UNIFIED = (11, 12, 13)
"""Copies that unified memory makes by itself."""

_MEMORY = {
    0: "Pageable",
    1: "Pinned",
    2: "Device",
    3: "Array",
    4: "Managed",
    5: "Device Static",
    6: "Managed Static",
    7: "Unknown",
}

_SYNC = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}

_DRIVER_NAME = re.compile(r"cu[A-Z]")
"""Start of the calls of the driver API; those of the runtime API start with ``cuda``."""
_OPERATOR_FIELDS = re.compile(r", (?:(?:op_id|seq) = -?\d|sizes = \[)")
_BARE_OPERATOR = re.compile(r"(?:aten|c10d)::\w+(?:\.\w+)?")


class NsysEvents:
    """Events of one export, or one process of it, under construction; `strings` looks up texts.

    With a process, rows without a process id are left out.
    """

    def __init__(self, strings: Strings, process: int | None = None) -> None:
        self._strings = strings
        self._known = {MISSING: ""}
        self._process = process
        self._blocks = EventBlocks()
        self._counts: Counter[str] = Counter()
        self._graphs: list[ColumnBlock] = []
        self._calls: list[ColumnBlock] = []
        self._graph_launches = np.empty(0, np.int64)
        self._expanded_launches: set[int] = set()
        self._adders: dict[str, Callable[[ColumnBlock], None]] = {
            GRAPHS: self._collect_graphs,
            CALLS: self._add_calls,
            OS_CALLS: self._add_os_calls,
            RANGES: self._add_ranges,
            KERNELS: self._add_kernels,
            COPIES: self._add_copies,
            MEMSETS: self._add_memsets,
            SYNCS: self._add_syncs,
        }

    def add(self, table: str, rows: ColumnBlock) -> None:
        """Add rows of a table; the tables come in the order of `TABLES_IN_ORDER`."""
        if self._process is not None:
            rows = self._keep(rows, rows[owner_column(table)] != MISSING, _UNOWNED)
        self._adders[table](rows)

    def finish(self) -> tuple[Events, int]:
        """Return the events, and the first start (ns since the start of the session)."""
        for graphs in self._graphs:
            twice = np.isin(_launches(graphs), list(self._expanded_launches))
            kept = self._keep(graphs, ~twice, _TWICE)
            self._counts[_WHOLE] += kept["start"].size
            self._add_on_gpu(Kind.GRAPH, kept, map(graph_name, kept["graphId"].tolist()))
        return self._blocks.finish()

    def notices(self) -> list[Notice]:
        """Notices about what was left out or not recorded, with counts."""
        return [Notice(words, (count,)) for words, count in self._counts.items() if count]

    def _collect_graphs(self, rows: ColumnBlock) -> None:
        """Collect launches of whole graphs until it is known which were recorded node by node.

        All work that a call launches has the correlation id of the call. If such work is recorded,
        the record of the whole graph would count the same time twice.
        """
        graphs = self._timed(rows)
        self._graphs.append(graphs)
        launches = _launches(graphs)
        launches = launches[graphs["correlationId"] > 0]
        self._graph_launches = np.union1d(self._graph_launches, launches)

    def _add_kernels(self, rows: ColumnBlock) -> None:
        kernels = self._timed(rows)
        mangled = kernels["mangledName"]
        ids = kernels["demangledName"]
        for fallback in (kernels["shortName"], mangled):
            ids = np.where(ids == MISSING, fallback, ids)
        has_mangled = bool((mangled != MISSING).any())
        side = {"mangled": {"mangled": self._texts(mangled)}} if has_mangled else {}
        self._add_work(Kind.KERNEL, kernels, self._names(ids), side)

    def _add_copies(self, rows: ColumnBlock) -> None:
        copies = self._timed(rows)
        kinds = (copies[column].tolist() for column in ("copyKind", "srcKind", "dstKind"))
        self._add_work(Kind.MEMCPY, copies, map(copy_name, *kinds), _transfer_side(copies))

    def _add_memsets(self, rows: ColumnBlock) -> None:
        memsets = self._timed(rows)
        names = map(memset_name, memsets["memKind"].tolist())
        self._add_work(Kind.MEMSET, memsets, names, _transfer_side(memsets))

    def _add_syncs(self, rows: ColumnBlock) -> None:
        syncs = self._timed(rows)
        names = (_SYNC.get(each, "Unknown Sync") for each in syncs["syncType"].tolist())
        self._add_on_gpu(Kind.SYNC, syncs, names)

    def _add_calls(self, rows: ColumnBlock) -> None:
        is_call = np.isin(rows["eventClass"], (_RUNTIME_CALL, _DRIVER_CALL, MISSING))
        calls = self._timed(self._keep(rows, is_call, _NOT_CALLS))
        texts = self._names(calls["nameId"])
        without_version = {text: api_name(text) for text in set(texts)}
        names = [without_version[text] for text in texts]
        is_driver = calls["eventClass"] == _DRIVER_CALL
        for row in np.flatnonzero(calls["eventClass"] == MISSING).tolist():
            is_driver[row] = _DRIVER_NAME.match(names[row]) is not None
        kind = np.where(is_driver, Kind.DRIVER, Kind.RUNTIME).astype(np.int8)
        self._add_on_cpu(kind, calls, names, ids(calls["correlationId"]))
        self._calls.append({name: calls[name] for name in _OF_THREAD})

    def _add_os_calls(self, rows: ColumnBlock) -> None:
        """Add the operating-system calls that threads make between their CUDA calls.

        A call inside a CUDA call is part of it. Threads without CUDA calls sleep, or belong to the
        profiler: in one program, they made 11,600 of the 12,492 calls.
        """
        calls = self._timed(rows)
        between = np.zeros(calls["start"].size, np.bool_)
        for thread in np.unique(calls["globalTid"]).tolist():
            of_thread = np.flatnonzero(calls["globalTid"] == thread)
            start, end = self._cuda_calls.get(thread, _NO_CALLS)
            place = np.searchsorted(start, calls["start"][of_thread], side="right")
            amid = (place > 0) & (place < start.size)
            of_thread, place = of_thread[amid], place[amid]
            between[of_thread] = calls["start"][of_thread] >= end[place - 1]
        calls = _select(calls, between)
        kind = np.full(calls["start"].size, Kind.OS_CALL, np.int8)
        self._add_on_cpu(kind, calls, self._names(calls["nameId"]))

    @cached_property
    def _cuda_calls(self) -> dict[int, tuple[Int64Array, Int64Array]]:
        """Sorted starts of each thread's CUDA calls, and the latest end up to each."""
        if not self._calls:
            return {}
        start, end, owner = (
            np.concatenate([calls[name] for calls in self._calls]) for name in _OF_THREAD
        )
        found = {}
        for thread in np.unique(owner).tolist():
            rows = np.flatnonzero(owner == thread)
            rows = rows[np.argsort(start[rows], kind="stable")]
            found[thread] = start[rows], np.maximum.accumulate(end[rows])
        return found

    def _add_ranges(self, rows: ColumnBlock) -> None:
        is_mark = rows["eventType"] == _MARK
        is_range = np.isin(rows["eventType"], (_PUSH_POP, _START_END, MISSING))
        is_open = is_range & (rows["end"] == MISSING)
        self._counts[_OPEN] += int(is_open.sum())
        rows = rows | {"end": np.where(is_mark, rows["start"], rows["end"])}
        ranges = self._timed(_select(rows, is_mark | (is_range & ~is_open)))
        by_id = self._texts(ranges["textId"])
        pairs = zip(ranges["text"].tolist(), by_id, strict=True)
        texts = [other if text is None else text for text, other in pairs]
        operators = [operator_name(text) for text in texts]
        is_operator = np.array([name is not None for name in operators], bool)
        kind = np.where(is_operator, Kind.CPU_OP, Kind.ANNOTATION).astype(np.int8)
        kind[ranges["eventType"] == _MARK] = Kind.INSTANT
        pairs = zip(operators, texts, strict=True)
        self._add_on_cpu(kind, ranges, [text if name is None else name for name, text in pairs])

    def _add_work(
        self,
        kind: Kind,
        rows: ColumnBlock,
        names: Iterable[str],
        side: Mapping[str, Mapping[str, Values]],
    ) -> None:
        if self._graph_launches.size:
            inside = np.intersect1d(self._graph_launches, _launches(rows))
            self._expanded_launches.update(inside.tolist())
        self._add_on_gpu(kind, rows, names, side)

    def _add_on_gpu(
        self,
        kind: Kind,
        rows: ColumnBlock,
        names: Iterable[str],
        side: Mapping[str, Mapping[str, Values]] | None = None,
    ) -> None:
        stream = ids(rows["streamId"])
        self._blocks.add(
            kind,
            rows["start"],
            rows["end"] - rows["start"],
            names,
            side=side,
            pid=processes_of(rows["globalPid"]),
            device=ids(rows["deviceId"]),
            stream=np.where(stream == NO_STREAM, ABSENT, stream),
            correlation=ids(rows["correlationId"]),
        )

    def _add_on_cpu(
        self,
        kind: Int8Array,
        rows: ColumnBlock,
        names: Iterable[str],
        correlation: Int64Array | int = ABSENT,
    ) -> None:
        owner = rows["globalTid"]
        self._blocks.add(
            kind,
            rows["start"],
            rows["end"] - rows["start"],
            names,
            pid=processes_of(owner),
            tid=threads_of(owner),
            correlation=correlation,
        )

    def _timed(self, rows: ColumnBlock) -> ColumnBlock:
        start, end = rows["start"], rows["end"]
        is_timed = (start > -FARTHEST_NS) & (end >= start) & (end < FARTHEST_NS)
        return self._keep(rows, is_timed, _UNTIMED)

    def _keep(self, rows: ColumnBlock, kept: Mask, words: str) -> ColumnBlock:
        """Keep some rows, and count the others under the words of a notice."""
        self._counts[words] += int((~kept).sum())
        return _select(rows, kept)

    def _names(self, ids: Int64Array) -> list[str]:
        names = self._texts(ids)
        self._counts[_UNNAMED] += names.count("")
        return names

    def _texts(self, ids: Int64Array) -> list[str]:
        numbers = ids.tolist()
        new = set(numbers) - self._known.keys()
        if new:
            found = self._strings(sorted(new))
            self._known.update((number, found.get(number, "")) for number in new)
        return [self._known[number] for number in numbers]


def _select(rows: ColumnBlock, mask: Mask) -> ColumnBlock:
    if mask.all():
        return rows
    return {name: values[mask] for name, values in rows.items()}


def ids(values: Int64Array) -> Int64Array:
    """Ids as in the events table: `ABSENT` where the export has none."""
    return np.where(values == MISSING, ABSENT, values)


def processes_of(owner: Int64Array) -> Int64Array:
    """Process ids of values of an owner column."""
    return np.where(owner == MISSING, ABSENT, process_of(owner) & _PROCESS_BITS)


def threads_of(owner: Int64Array) -> Int64Array:
    """Thread ids of values of a column ``globalTid``."""
    return np.where(owner == MISSING, ABSENT, owner & _THREAD_BITS)


def _launches(rows: ColumnBlock) -> Int64Array:
    """Combine process and correlation id into one number per launch call."""
    process = process_of(rows["globalPid"]) & _PROCESS_BITS
    return (rows["correlationId"] << _CORRELATION_SHIFT) | process


def _transfer_side(rows: ColumnBlock) -> dict[str, dict[str, Values]]:
    return {"transfers": transfer_columns(rows["bytes"], rows["end"] - rows["start"])}


@lru_cache
def copy_name(copy_kind: int, source: int, target: int) -> str:
    """Name of a copy between two kinds of memory.

    Examples
    --------
    >>> copy_name(1, 0, 2), copy_name(11, MISSING, MISSING)
    ('Memcpy HtoD (Pageable -> Device)', 'Memcpy HtoD (Unified)')
    """
    name = f"Memcpy {_COPY.get(copy_kind, 'Unknown')}"
    if copy_kind in _UNIFIED:
        return f"{name} (Unified)"
    if MISSING in (source, target):
        return name
    return f"{name} ({_MEMORY.get(source, 'Unknown')} -> {_MEMORY.get(target, 'Unknown')})"


def memset_name(memory: int) -> str:
    """Name of a memset of one kind of memory.

    Examples
    --------
    >>> memset_name(2), memset_name(MISSING)
    ('Memset (Device)', 'Memset')
    """
    return "Memset" if memory == MISSING else f"Memset ({_MEMORY.get(memory, 'Unknown')})"


def graph_name(number: int) -> str:
    """Name of a CUDA graph that was recorded as a whole."""
    return "CUDA graph" if number == MISSING else f"CUDA graph {number}"


def operator_name(text: str) -> str | None:
    """Operator of a range made by ``torch.autograd.profiler.emit_nvtx``; None for other ranges.

    PyTorch leaves the fields out if it knows neither the sequence number nor the operation.

    Examples
    --------
    >>> operator_name("aten::mul, op_id = 322567"), operator_name("aten::mul")
    ('aten::mul', 'aten::mul')
    >>> operator_name("forward")
    """
    found = _OPERATOR_FIELDS.search(text)
    if found:
        return text[: found.start()]
    return text if _BARE_OPERATOR.fullmatch(text) else None
