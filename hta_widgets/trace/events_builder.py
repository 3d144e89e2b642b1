"""Collect decoded events piece by piece into the columns of the events table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from hta_widgets.intervals import Times
from hta_widgets.trace.categories import kind_of
from hta_widgets.trace.columns import (
    ABSENT,
    Columns,
    GrowingColumns,
    Labels,
    Vocabulary,
    integers,
    places_in,
    streams,
)
from hta_widgets.trace.event_json import NO_ARGS, Event, decode_counters
from hta_widgets.trace.events import GPU_SIDE, GPU_WORK, LAUNCH_CALLS, Events, Kind, TextColumn
from hta_widgets.trace.notices import Notice
from hta_widgets.trace.side_tables import SideTablesBuilder
from hta_widgets.trace.timestamps import UNREADABLE, decimal_text_to_ns, durations_to_ns

_COUNTED = (Kind.PROFILER_RANGE, Kind.COUNTER)
_WITHOUT_DURATION = (Kind.INSTANT, Kind.COUNTER)
_NOT_AN_EVENT = -1
_HALF_AN_EVENT = -2

_PHASE_AND_CATEGORY = attrgetter("ph", "cat")
_NAME = attrgetter("name")

_HALVES_NOTICE = (
    "{} begin or end marks (phases B and E) are left out; only complete events are read"
)
_MENDED_NOTICE = "{} events that are not JSON are left out"
_UNCOUNTED_NOTICE = "{} pieces of text have counters that cannot be read"
_TIMELESS_NOTICE = "{} events without a readable time and duration are left out"


class EventsBuilder:
    """Columns of one trace under construction."""

    def __init__(self) -> None:
        self._columns = GrowingColumns()
        self._names = Vocabulary[str]()
        self._labels = Labels()
        self._side = SideTablesBuilder()
        self._kinds = _KindCodes()
        self._left_out: Counter[str] = Counter()
        self._seen = 0
        self._kept = 0

    def add(self, events: list[Event], unreadable: int, text: bytes) -> None:
        """Add the events of one piece of text.

        Parameters
        ----------
        events : list of Event
        unreadable : int
            Events of this piece that could not be decoded.
        text : bytes
            The piece itself, read again where arguments are counters.
        """
        kinds = np.fromiter(
            map(self._kinds.__getitem__, map(_PHASE_AND_CATEGORY, events)), np.int8, len(events)
        )
        self._left_out[_MENDED_NOTICE] += unreadable
        self._left_out[_HALVES_NOTICE] += int((kinds == _HALF_AN_EVENT).sum())
        positions = np.flatnonzero(kinds >= 0)
        start, duration = _times([events[i] for i in positions.tolist()], kinds[positions])
        readable = (start != UNREADABLE) & (duration >= 0)
        self._left_out[_TIMELESS_NOTICE] += int((~readable).sum())
        positions = positions[readable]
        kept = [events[i] for i in positions.tolist()]
        kind = kinds[positions]
        columns = {"start_ns": start[readable], "duration_ns": duration[readable], "kind": kind}
        columns |= self._identity(kept) | _placement(kept, kind)
        columns["index"] = positions + self._seen
        self._columns.append(columns)
        self._side.add(kept, kind, self._kept)
        if np.isin(kind, _COUNTED).any():
            self._add_counters(text, positions, kind, len(events))
        self._seen += len(events) + unreadable
        self._kept += len(kept)

    def finish(self) -> tuple[Events, int]:
        """Return the table in order of start, and the first start on the trace's own clock (ns)."""
        self.add([], 0, b"")
        starts = self._columns.pop("start_ns")
        first_ns = int(starts.min()) if starts.size else 0
        starts -= first_ns
        places = places_in(np.argsort(starts, kind="stable"))
        starts[places] = starts.copy()
        columns = {key: self._columns.pop(key, places) for key in self._columns.names()}
        name = TextColumn(columns.pop("name"), tuple(self._names))
        events = Events(
            start_ns=starts,
            name=name,
            labels=tuple(self._labels),
            side=self._side.finish(places),
            **columns,
        )
        return events, first_ns

    def notices(self) -> list[Notice]:
        """Say what was left out, and how often."""
        return [Notice(words, (count,)) for words, count in self._left_out.items() if count]

    def _identity(self, events: Sequence[Event]) -> Columns:
        return {
            "name": self._names.codes(_names(events), len(events)),
            "pid": integers([event.pid for event in events], self._labels),
            "tid": integers([event.tid for event in events], self._labels),
        }

    def _add_counters(
        self, text: bytes, positions: NDArray[np.int64], kind: NDArray[np.int8], count: int
    ) -> None:
        counted = decode_counters(text)
        if len(counted) != count:
            self._left_out[_UNCOUNTED_NOTICE] += 1
            return
        rows = np.flatnonzero(np.isin(kind, _COUNTED))
        arguments = [counted[i].args for i in positions[rows].tolist()]
        self._side.add_counters(arguments, rows + self._kept)


class _KindCodes(dict[tuple[str | None, str | None], int]):
    """Kind of each (phase, category) met, looked up once."""

    def __missing__(self, key: tuple[str | None, str | None]) -> int:
        kind = kind_of(*key)
        halves = _HALF_AN_EVENT if key[0] in ("B", "E") else _NOT_AN_EVENT
        code = self[key] = halves if kind is None else int(kind)
        return code


def _names(events: Sequence[Event]) -> list[str]:
    names = list(map(_NAME, events))
    return [name or "" for name in names] if None in names else names


def _times(events: Sequence[Event], kind: NDArray[np.int8]) -> tuple[Times, Times]:
    start = decimal_text_to_ns([event.ts for event in events])
    duration = np.zeros(len(events), dtype=np.int64)
    lasting = np.flatnonzero(~np.isin(kind, _WITHOUT_DURATION))
    duration[lasting] = durations_to_ns([events[i].dur for i in lasting.tolist()])
    return start, duration


def _placement(events: Sequence[Event], kind: NDArray[np.int8]) -> Columns:
    """Device, stream and correlation; Kineto gives GPU work its device as pid, stream as tid."""
    columns = {
        key: np.full(len(events), ABSENT, np.int64) for key in ("device", "stream", "correlation")
    }
    linked = np.flatnonzero(np.isin(kind, GPU_SIDE + LAUNCH_CALLS))
    arguments = [events[i].args or NO_ARGS for i in linked.tolist()]
    columns["correlation"][linked] = integers([args.correlation for args in arguments])
    on_gpu = np.flatnonzero(np.isin(kind, GPU_SIDE))
    arguments = [events[i].args or NO_ARGS for i in on_gpu.tolist()]
    columns["device"][on_gpu] = integers([args.device for args in arguments])
    columns["stream"][on_gpu] = streams([args.stream for args in arguments])
    work = np.isin(kind, GPU_WORK)
    elsewhere = np.flatnonzero(work & (columns["device"] == ABSENT))
    columns["device"][elsewhere] = integers([events[i].pid for i in elsewhere.tolist()])
    elsewhere = np.flatnonzero(work & (columns["stream"] == ABSENT))
    columns["stream"][elsewhere] = streams([events[i].tid for i in elsewhere.tolist()])
    return columns
