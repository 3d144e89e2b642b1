"""What a saved timeline answers by itself: the lanes of the first ranks, and their events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hta_widgets.analyses.timeline.lanes_of_job import JobLanes
from hta_widgets.panels.timeline.requests import answer

MOST_BYTES: Final = 1_500_000
"""Of all recorded arrays, which a report packs to about a third."""

MOST_RANKS: Final = 32
_PIXELS: Final = 1_200
_FIRST: Final = ("curve", "range", "phases", "stream", "thread")
"""Kinds of lanes, those first that matter most."""


def recorded(
    lanes: JobLanes, layout: Mapping[str, Any], added: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Answers about the lanes of ranks, those of added kinds first, as long as there is room.

    Returns
    -------
    list of dict
        ``rank``, ``lanes`` (the answer to a question for its lanes) and ``windows``: of each lane
        its ``key``, and ``content`` and ``buffers`` of the answer about all of the analysed time.
    """
    ranks = [row["rank"] for row in layout.get("ranks", [])[:MOST_RANKS]]
    start, end = layout.get("home", (0, 0))
    found = {rank: _lanes_of(lanes, rank, added) for rank in ranks}
    windows: dict[int, list[dict[str, Any]]] = {rank: [] for rank in ranks}
    left = MOST_BYTES
    for rank, key in _by_importance(found):
        request = {"kind": "window", "lanes": [[rank, key, 0]], "start": start, "end": end}
        got = answer(lambda: lanes, {**request, "pixels": _PIXELS, "id": 0})
        if got is None or got.content["kind"] != "window":
            continue
        left -= sum(map(len, got.buffers))
        if left < 0:
            break
        windows[rank].append({"key": key, "content": got.content, "buffers": got.buffers})
    return [{"rank": rank, "lanes": found[rank], "windows": windows[rank]} for rank in ranks]


def _lanes_of(lanes: JobLanes, rank: int, added: Sequence[str]) -> list[dict[str, Any]]:
    asked = ({"kind": "added", "lanes": [*added]}, {"kind": "lanes"})
    got = [answer(lambda: lanes, {**each, "rank": rank, "id": 0}) for each in asked]
    return [lane for each in got if each for lane in each.content.get("lanes", [])]


def _by_importance(found: Mapping[int, list[dict[str, Any]]]) -> Iterator[tuple[int, str]]:
    """The same lanes of all ranks before the next ones."""
    for kind in _FIRST:
        of_kind = {
            rank: [each["key"] for each in lanes if each["kind"] == kind]
            for rank, lanes in found.items()
        }
        for place in range(max(map(len, of_kind.values()), default=0)):
            yield from ((rank, keys[place]) for rank, keys in of_kind.items() if place < len(keys))
