"""The schema that every loader produces and every analysis reads.

An events table has one row per event, sorted by start. Times are integer nanoseconds since the
trace's origin. Fields that only a few kinds have (bytes, collective fields, shapes, counters) are
in side tables, so that the main table stays narrow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from functools import lru_cache
from itertools import compress
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Int8Array, Int32Array, Int64Array, IntArray, Mask
from hta_widgets.grouping import distinct
from hta_widgets.intervals import Times
from hta_widgets.lazy_modules import pd
from hta_widgets.names.shorten import LONGEST_REMEMBERED, NAMES_REMEMBERED
from hta_widgets.trace.model.notices import Notice

_FIRST_LABEL = -2

IDS = ("pid", "tid", "device", "stream", "correlation")
"""Columns of ids, each in the narrowest type that holds them."""

RESOLUTION = "resolution_ns"
"""Metadata key for the step of the clock (ns) of a trace with rounded times."""


class Kind(IntEnum):
    """Kind of an event. It decides what is GPU work; having a stream does not."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2
    GRAPH = 3
    SYNC = 4
    GPU_ANNOTATION = 5
    CPU_OP = 6
    RUNTIME = 7
    DRIVER = 8
    ANNOTATION = 9
    PYTHON = 10
    PROFILER_RANGE = 11
    COUNTER = 12
    INSTANT = 13
    OVERHEAD = 14
    OTHER = 15
    BUSY = 16
    """Time in which kernels ran, in sources that do not record the kernels."""
    OS_CALL = 17
    """Call of the operating system's libraries, such as ``read`` or ``poll``."""


@lru_cache(maxsize=64)
def _table_of(kinds: frozenset[Kind]) -> bytes:
    return bytes(code in kinds for code in range(256))


class KindSet:
    """A set of kinds with fast membership tests for many events."""

    def __init__(self, kinds: Collection[Kind]) -> None:
        self._table = _table_of(frozenset(kinds))

    def among(self, kind: Int8Array) -> Mask:
        """Mask of the events of these kinds."""
        return np.frombuffer(kind.tobytes().translate(self._table), np.bool_)


GPU_WORK = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.GRAPH, Kind.BUSY)
LAUNCH_CALLS = (Kind.RUNTIME, Kind.DRIVER)
GPU_SIDE = (*GPU_WORK, Kind.SYNC, Kind.GPU_ANNOTATION, Kind.PROFILER_RANGE)


Fits: TypeAlias = Callable[[str], object]
"""Tells whether a name fits; most of these functions search for a pattern."""


@lru_cache(maxsize=128)
def _search(pattern: Fits) -> Fits:
    return lru_cache(maxsize=NAMES_REMEMBERED)(pattern)


def fitting(fits: Fits, names: Sequence[str], used: Sequence[int]) -> Mask:
    """Mask of the names in use that fit, by code; the last entry, for no name, is False.

    Ranks of a job share most names, so each name is searched once for all of them. Before, sixty
    patterns took a quarter of the time to diagnose 256 small ranks.
    """
    asked = [names[code] for code in used]
    is_pattern = isinstance(getattr(fits, "__self__", None), re.Pattern)
    if is_pattern and max(map(len, asked), default=0) <= LONGEST_REMEMBERED:
        fits = _search(fits)
    found = np.zeros(len(names) + 1, dtype=np.bool_)
    found[[*compress(used, map(fits, asked))]] = True
    return found


@dataclass(frozen=True, eq=False)
class TextColumn:
    """Dictionary-encoded text: ``values[codes[i]]``; code -1 is missing."""

    codes: IntArray
    values: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[str]) -> TextColumn:
        """Encode texts, numbering the distinct ones."""
        number: dict[str, int] = {}
        codes = [number.setdefault(text, len(number)) for text in texts]
        return cls(np.array(codes, dtype=np.int32), (*number,))

    @classmethod
    def joined(cls, columns: Sequence[TextColumn]) -> TextColumn:
        """The rows of several columns, with one code for each text."""
        number: dict[str, int] = {}
        known: dict[int, Int32Array] = {}  # of each list of texts, which columns may share
        for values in (each.values for each in columns):
            if id(values) not in known:
                codes = [number.setdefault(text, len(number)) for text in values]
                known[id(values)] = np.array([*codes, -1], dtype=np.int32)
        codes_of_all = [np.zeros(0, np.int32), *(known[id(c.values)][c.codes] for c in columns)]
        return cls(np.concatenate(codes_of_all), (*number,))

    def take(self, rows: Int64Array) -> TextColumn:
        """Keep the given rows, in the given order."""
        return TextColumn(self.codes[rows], self.values)

    def sharing(self, texts: dict[str, str]) -> TextColumn:
        """The same column with texts that are already known; new ones are added to these."""
        return TextColumn(self.codes, tuple(texts.setdefault(each, each) for each in self.values))

    def to_categorical(self) -> pd.Categorical:
        """Convert the column to pandas without decoding it."""
        return pd.Categorical.from_codes(self.codes, pd.Index(self.values, dtype=object))


@dataclass(frozen=True, eq=False)
class SideTable:
    """Fields that only some events have."""

    rows: IntArray
    """Ascending rows of the main table; ``columns[c][i]`` belongs to event ``rows[i]``."""
    columns: Mapping[str, NDArray[np.generic] | TextColumn]

    def places_of(self, rows: Int64Array) -> Int64Array:
        """Places in this table of rows of the main table, -1 for rows that it does not have."""
        if not self.rows.size:
            return np.full(rows.size, -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.rows, rows), self.rows.size - 1)
        return np.where(self.rows[at] == rows, at, -1)

    def texts_at(self, column: str, rows: Int64Array) -> tuple[Int64Array, tuple[str, ...]]:
        """Codes of a column at rows of the main table, -1 for no text, and the texts."""
        found = self.columns.get(column)
        if not isinstance(found, TextColumn):
            return np.full(rows.size, -1, dtype=np.int64), ()
        codes = np.append(found.codes, np.int32(-1))[self.places_of(rows)]
        return codes.astype(np.int64), found.values

    def sharing(self, texts: dict[str, str]) -> SideTable:
        """As `TextColumn.sharing`."""
        columns = {
            name: each.sharing(texts) if isinstance(each, TextColumn) else each
            for name, each in self.columns.items()
        }
        return SideTable(self.rows, columns)

    def having(self, is_kept: Mask) -> SideTable:
        """The fields of the kept rows of the main table, which are renumbered."""
        found = is_kept[self.rows] | (self.rows < 0)
        places = np.append(np.cumsum(is_kept) - 1, -1)
        columns = {
            name: column.take(np.flatnonzero(found))
            if isinstance(column, TextColumn)
            else column[found]
            for name, column in self.columns.items()
        }
        return SideTable(places[self.rows[found]].astype(self.rows.dtype), columns)

    def to_frame(self) -> pd.DataFrame:
        """Return the table as pandas, indexed by the event's row."""
        columns = {
            name: column.to_categorical() if isinstance(column, TextColumn) else column
            for name, column in self.columns.items()
        }
        return pd.DataFrame(columns, index=pd.Index(self.rows, name="event"))


NO_FIELDS: Final = SideTable(np.zeros(0, dtype=np.int64), {})
"""An empty side table, for fields that no event has."""


@dataclass(frozen=True, eq=False)
class Events:
    """One row per event, ascending by start."""

    start_ns: Times
    duration_ns: Times
    """Nanoseconds; starts count from the trace's origin."""
    kind: Int8Array
    """Values of `Kind`."""
    name: TextColumn
    pid: IntArray
    tid: IntArray
    """As in the trace; a label (old traces write ``"stream 7"``) is ``-2 - position`` in
    `labels`."""
    device: IntArray
    stream: IntArray
    correlation: IntArray
    """-1 where the event has none."""
    index: Int32Array
    """Position of the event in the source."""
    labels: tuple[str, ...] = ()
    side: Mapping[str, SideTable] = field(default_factory=dict)
    """Side tables by name. A trace has some of ``transfers``, ``collectives``, ``operators``,
    ``launches``, ``memory``, ``uncategorised_memory`` (of events without a row, so that its rows
    are -1), ``counters`` and ``mangled`` (kernel names before demangling)."""

    def __len__(self) -> int:
        """Number of events."""
        return int(self.start_ns.size)

    @property
    def end_ns(self) -> Times:
        """End of each event in ns since the trace's origin."""
        return self.start_ns + self.duration_ns

    def ends_of(self, rows: IntArray | int) -> Times:
        """End of the events in the given rows, which is faster than computing all `end_ns`."""
        return np.asarray(self.start_ns[rows] + self.duration_ns[rows])

    def having(self, is_kept: Mask) -> Events:
        """The kept rows only, with their fields."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        columns: dict[str, Any] = {
            name: x[is_kept] for name, x in values.items() if isinstance(x, np.ndarray)
        }
        name = self.name.take(np.flatnonzero(is_kept))
        side = {table: found.having(is_kept) for table, found in self.side.items()}
        return replace(self, **columns, name=name, side=side)

    def sharing(self, texts: dict[str, str]) -> Events:
        """As `TextColumn.sharing`: a short trace's texts need as much memory as all else."""
        side = {table: found.sharing(texts) for table, found in self.side.items()}
        return replace(self, name=self.name.sharing(texts), side=side)

    def rows_of(self, *kinds: Kind) -> Int64Array:
        """Rows of the events of the given kinds."""
        return np.flatnonzero(KindSet(kinds).among(self.kind))

    def named(self, rows: Int64Array, pattern: re.Pattern[str]) -> Mask:
        """Mask of the rows whose name contains a match of the pattern."""
        codes = self.name.codes[rows]
        used = [code for code in distinct(codes).tolist() if code >= 0]  # calls use few of them
        return fitting(pattern.search, self.name.values, used)[codes]

    def texts_at(
        self, table: str, column: str, rows: Int64Array
    ) -> tuple[Int64Array, tuple[str, ...]]:
        """Codes of a side table's column at the given rows, -1 for no text, and the texts."""
        return self.side.get(table, NO_FIELDS).texts_at(column, rows)

    def names_at(self, rows: Int64Array) -> list[str]:
        """Names of the events in the given rows."""
        return [self.name.values[code] for code in self.name.codes[rows].tolist()]

    def ids_in_source(self, ids: IntArray) -> Int64Array | NDArray[np.object_]:
        """Process or thread ids as in the source, in which labels are text."""
        if not self.labels or not np.any(ids <= _FIRST_LABEL):
            return ids.astype(np.int64)
        labels = dict(enumerate(self.labels))
        texts = [labels.get(_FIRST_LABEL - number, number) for number in ids.tolist()]
        return np.array(texts, dtype=object)

    def to_frame(self) -> pd.DataFrame:
        """Return the main table as pandas.

        ``index`` is the position in the source; times are int64 ns.
        """
        kinds = pd.Index([kind.name.lower() for kind in Kind], dtype=object)
        return pd.DataFrame(
            {
                "index": self.index,
                "kind": pd.Categorical.from_codes(self.kind, kinds),
                "name": self.name.to_categorical(),
                "start_ns": self.start_ns,
                "duration_ns": self.duration_ns,
                "pid": self.pid.astype(np.int64),
                "tid": self.tid.astype(np.int64),
                "device": self.device.astype(np.int64),
                "stream": self.stream.astype(np.int64),
                "correlation": self.correlation.astype(np.int64),
            }
        )


class Faults(NamedTuple):
    """Faults of a file that were found while loading it."""

    is_cut: bool = False
    """Whether the file is truncated or damaged."""
    repeated: int = 0
    impossible: int = 0
    """Number of events left out: duplicates, and GPU work at impossible times."""


@dataclass(frozen=True, eq=False)
class Trace:
    """The recorded trace of one rank."""

    rank: int
    source: str
    """Path or URL of the trace."""
    events: Events
    origin_ns: int
    """Time of the origin on the recording clock: ns since the Unix epoch if the trace records it
    (``baseTimeNanoseconds``, or full timestamps), or else on an arbitrary clock."""
    metadata: Mapping[str, object]
    """Everything in the file but the events."""
    notices: tuple[Notice, ...] = ()
    """What was dropped while loading."""
    base_ns: int | None = 0
    """Zero of the times in the source, on the recording clock. None if the source is truncated
    before that value; `origin_ns` then counts from the source's zero."""
    faults: Faults = field(default_factory=Faults)

    @property
    def resolution_ns(self) -> int:
        """Step of the clock of the written times; 0 if they are exact."""
        step = self.metadata.get(RESOLUTION)
        return step if isinstance(step, int) else 0
