"""Search for events of a lane by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.timeline.tracks import Track
from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.intervals import Intervals
from hta_widgets.trace.model.events import Events


class Search(NamedTuple):
    """Which names are searched for."""

    text: str
    is_whole: bool = False
    """Whether the text is the whole name; otherwise it is a part of it, in any case."""

    def fits(self, name: str) -> bool:
        """Whether a name matches."""
        return name == self.text if self.is_whole else self.text.lower() in name.lower()

    def codes(self, events: Events) -> Mask:
        """Which names of a trace match, by code; the last item is for no name."""
        return np.array([*map(self.fits, events.name.values), False])


def found_time(tracks: Iterable[Track], events: Events, search: Search) -> Intervals:
    """Time of the segments whose events match."""
    fits, starts, ends = search.codes(events), [_NO_TIMES], [_NO_TIMES]
    for track in tracks:
        places = _places(track, events, fits)
        starts.append(track.start_ns[places])
        ends.append(starts[-1] + track.length_ns(places))
    return Intervals.union(np.concatenate(starts), np.concatenate(ends))


def next_row(tracks: Iterable[Track], events: Events, row: int, *, forward: bool) -> int | None:
    """Row of the next or previous event of the same name in a lane, by its start; None at the end.

    The event at `row`, from which the search starts, need not be in the lane.
    """
    name = events.name.values[events.name.codes[row]]
    fits = Search(name, is_whole=True).codes(events)
    found = [track.row[_places(track, events, fits)] for track in tracks]
    rows = np.unique(np.concatenate([_NO_TIMES, *found]))  # by start; parts of one event are one
    place = int(np.searchsorted(rows, row, side="right" if forward else "left"))
    place -= not forward
    return int(rows[place]) if 0 <= place < rows.size else None


class Found(NamedTuple):
    """A segment of a lane that is an event or part of one, on the clock of its rank."""

    start_ns: int
    row: int
    duration_ns: int


def first_found(tracks: Iterable[Track], time_ns: int, *, forward: bool) -> Found | None:
    """The first event of a lane that ends after a time, or the last that starts before it.

    Segments that are not events are skipped. None if there is no event.
    """
    found = []
    for track in tracks:
        events = np.flatnonzero(track.row >= 0)
        place = track.between(time_ns, time_ns + 1)[0] if forward else track.before(time_ns)
        here = int(np.searchsorted(events, place)) - (not forward)
        if 0 <= here < events.size:
            found.append(_found(track, events[here : here + 1]))
    if not found:
        return None
    return min(found) if forward else max(found)


def _found(track: Track, place: Int64Array) -> Found:
    columns = (track.start_ns[place], track.row[place], track.length_ns(place))
    return Found(*(int(column[0]) for column in columns))


def _places(track: Track, events: Events, fits: Mask) -> Int64Array:
    code = np.where(track.row >= 0, events.name.codes[track.row], -1)
    return np.flatnonzero(fits[code])


_NO_TIMES: Final = np.zeros(0, dtype=np.int64)
