"""Tracks of a written trace, on which no two slices cross.

Perfetto takes what is on one track (a process and a thread) for a stack of calls. Since its version
51 it drops a slice that starts inside another and ends after it, as two kernels of one stream
sometimes do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Final, NamedTuple

_LARGEST_ID: Final = 2**31
"""Perfetto reads ids of 32 bits, and all others as 0; half of them are left for new tracks."""


class Line(NamedTuple):
    """Where a slice is in the source.

    Attributes
    ----------
    pid, tid : int or str
        As in the source.
    device : int
        -1 for what is not on a GPU. Exports have one process for several devices.
    """

    pid: int | str
    tid: int | str
    device: int


@dataclass
class Track:
    """A line of the written trace.

    Attributes
    ----------
    pid : int or str
    tid : int
    name : str, optional
        What to call it, where its number does not say it.
    """

    pid: int | str
    tid: int
    name: str | None
    _open_ends: list[int] = field(default_factory=list)

    def takes(self, start_ns: int, end_ns: int) -> bool:
        """Whether a slice crosses none before it on this track; if so, it is on this track."""
        ends = self._open_ends
        while ends and ends[-1] <= start_ns:
            ends.pop()
        fits = not ends or end_ns <= ends[-1]
        if fits:
            ends.append(end_ns)
        return fits


class Tracks:
    """Puts each slice on the first track of its line where it crosses no other.

    Parameters
    ----------
    own_ids : collection of int
        Thread ids of the source, which no further track gets.

    Examples
    --------
    >>> tracks, stream = Tracks({7}), Line(0, 7, 0)
    >>> [tracks.place(stream, *slice).tid for slice in [(0, 10), (5, 12), (6, 9), (12, 20)]]
    [7, 8, 7, 7]
    >>> [track.name for track in tracks]
    ['stream 7', 'stream 7 (2)']
    """

    def __init__(self, own_ids: Collection[int]) -> None:
        self._of_line: dict[Line, list[Track]] = {}
        self._reserved = set(own_ids)
        self._used: set[tuple[int | str, int]] = set()

    def __iter__(self) -> Iterator[Track]:
        """All tracks, those of one line together."""
        return (track for tracks in self._of_line.values() for track in tracks)

    def place(self, line: Line, start_ns: int, end_ns: int) -> Track:
        """Track of a slice; slices come by start, and longer ones before shorter ones."""
        tracks = self._of_line.setdefault(line, [])
        for track in tracks:
            if track.takes(start_ns, end_ns):
                return track
        tracks.append(self._track(line, len(tracks) + 1))
        tracks[-1].takes(start_ns, end_ns)
        return tracks[-1]

    def _track(self, line: Line, number: int) -> Track:
        tid = line.tid if isinstance(line.tid, int) and 0 <= line.tid < _LARGEST_ID else 0
        # Perfetto takes thread 0 of process 5 for thread 5.
        is_readable = tid == line.tid and (tid > 0 or line.pid == 0)
        if number > 1 or not is_readable or (line.pid, tid) in self._used:
            tid = next(each for each in count(tid + 1) if each not in self._reserved)
            self._reserved.add(tid)
        self._used.add((line.pid, tid))
        return Track(line.pid, tid, _name(line, number, is_renamed=tid != line.tid))


def _name(line: Line, number: int, *, is_renamed: bool) -> str | None:
    """Name of a track; the number of a CPU thread is its name already."""
    which = f" ({number})" if number > 1 else ""
    if line.device >= 0 and isinstance(line.tid, int):
        return f"stream {line.tid}{which}"
    if isinstance(line.tid, str):
        return f"{line.tid}{which}"
    return f"thread {line.tid}{which}" if is_renamed else None
