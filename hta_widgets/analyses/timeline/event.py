"""One event of a rank, and the events that its launch ties it to."""

from __future__ import annotations

from typing import Final, Literal, TypedDict

import numpy as np

from hta_widgets.analyses.time.calls import calls_of, captured_operators
from hta_widgets.analyses.time.modules import NO_MODULE, module_paths
from hta_widgets.analyses.timeline.lanes import RankLanes, shown_levels
from hta_widgets.trace.model.events import GPU_SIDE, GPU_WORK, Kind, KindSet
from hta_widgets.trace.model.nesting import CPU_CALLS
from hta_widgets.trace.ranks.rank import Rank

MOST_LAUNCHED: Final = 64
"""Most pieces of work listed for one call; a graph launches thousands."""


class EventPlace(TypedDict):
    """Where an event is drawn: its lane and time (ns since the first event of all ranks)."""

    row: int
    key: str
    name: str
    start: int
    duration: int


class EventPick(TypedDict):
    """What a click on an event selects: a field of the selection, and the item selected in it."""

    field: Literal["operators", "modules", "kernel"]
    item: str


class EventFacts(TypedDict):
    """An event, with the call that launched it and the first of the work that it launched.

    For work that a graph replays, `captured` is its operator in the capture of the graph.
    """

    event: EventPlace
    launch: EventPlace | None
    launched: list[EventPlace]
    captured: str
    pick: EventPick | None


def event_facts(lanes: RankLanes, row: int, offset_ns: int) -> EventFacts:
    """Look up an event of a rank by its row; `offset_ns` is added to the rank's own time."""
    rank = lanes.rank
    lanes.check_row(row)
    launch = int(rank.launches[row])
    launched = np.flatnonzero(rank.launches == row)[:MOST_LAUNCHED].tolist()
    return {
        "event": _place(rank, row, offset_ns),
        "launch": _place(rank, launch, offset_ns) if launch >= 0 else None,
        "launched": [_place(rank, each, offset_ns) for each in launched],
        "captured": _captured(rank, row),
        "pick": _pick(rank, row),
    }


def drawn_at(facts: EventFacts, key: str, start_ns: int, duration_ns: int) -> EventFacts:
    """The event as a lane draws it: itself, or in a lane of other things, what is drawn there.

    A run of kernels has the row of the call of its module, which is drawn in the lane of a thread.
    """
    event = facts["event"]
    if event["key"] == key:
        return facts
    there: EventPlace = {**event, "key": key, "start": start_ns, "duration": duration_ns}
    return {"event": there, "launch": None, "launched": [], "captured": "", "pick": facts["pick"]}


def _captured(rank: Rank, row: int) -> str:
    if not rank.captures:
        return ""  # without captures, hovering does not pay for the search below
    place = np.flatnonzero(rank.gpu_work.rows == row)
    return str(captured_operators(rank)[place[0]]) if place.size else ""


def _place(rank: Rank, row: int, offset_ns: int) -> EventPlace:
    events = rank.trace.events
    return {
        "row": row,
        "key": _key(rank, row),
        "name": events.name.values[events.name.codes[row]],
        "start": int(events.start_ns[row]) + offset_ns,
        "duration": int(events.duration_ns[row]),
    }


def _pick(rank: Rank, row: int) -> EventPick | None:
    events = rank.trace.events
    if events.kind[row] == Kind.CPU_OP:
        return {"field": "operators", "item": events.name.values[events.name.codes[row]]}
    if KindSet(GPU_WORK).among(events.kind[row : row + 1])[0]:
        return {"field": "kernel", "item": events.name.values[events.name.codes[row]]}
    if events.kind[row] != Kind.PYTHON:
        return None
    paths = module_paths(rank)
    [code] = paths.at(calls_of(rank).places_of(np.array([row]))).tolist()
    return None if code == NO_MODULE else {"field": "modules", "item": paths.paths[code]}


def _key(rank: Rank, row: int) -> str:
    """Key of the lane that an event is drawn in; empty if it is not drawn."""
    events, kind = rank.trace.events, rank.trace.events.kind[row : row + 1]
    if KindSet(GPU_SIDE).among(kind)[0]:
        return f"stream {events.device[row]} {events.stream[row]}"
    if not KindSet(CPU_CALLS).among(kind)[0]:
        return ""
    calls = calls_of(rank)
    place = np.flatnonzero(calls.forest.rows == row)
    if not place.size:
        return ""
    return f"thread {calls.thread_of(place)[0]} {shown_levels(rank)[place[0]]}"
