"""Answers the requests of a browser about a timeline; a malformed one gets a message instead."""

from __future__ import annotations

import gzip
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

from hta_widgets.analyses.time.modules import MODULE
from hta_widgets.analyses.timeline.event import EventFacts
from hta_widgets.analyses.timeline.lanes_of_job import JobLanes, LaneAsked
from hta_widgets.analyses.timeline.search import Search
from hta_widgets.analyses.timeline.window import MOST_EVENTS, pixel_edges
from hta_widgets.errors import ParameterError, reason
from hta_widgets.names.shorten import distinct_names
from hta_widgets.panels.timeline.bands import band_window
from hta_widgets.panels.timeline.encoding import curve_bytes, window_bytes

MOST_LANES: Final = 256
MOST_PIXELS: Final = 16_384
MOST_EVENTS_IN_ALL: Final = 9_000
_LONGEST_ERROR: Final = 300
_FAST: Final = 1
_LABEL_WIDTH: Final = 40
_LONGEST_TEXT: Final = 100_000
_LIMIT_NS: Final = 2**53
"""Limit below which whole numbers are exact in a browser."""


class Answer(NamedTuple):
    """Content and buffers to send to the browser."""

    content: dict[str, Any]
    buffers: list[bytes]


def packed(given: Answer) -> Answer:
    """The same answer with its buffers compressed into one; `sizes` are their lengths."""
    if not given.buffers:
        return given
    sizes = [len(each) for each in given.buffers]
    together = gzip.compress(b"".join(given.buffers), _FAST, mtime=0)
    return Answer({**given.content, "sizes": sizes}, [together])


def answer(lanes: Callable[[], JobLanes], request: object) -> Answer | None:
    """Answer a browser's request, or say what is wrong with it or with the job."""
    if not isinstance(request, Mapping):
        return None
    number = request.get("id")
    try:
        content, buffers = _answering(request)(lanes(), request)
    except Exception as error:  # noqa: BLE001  # it is said in the panel
        content, buffers = {"kind": "refused", "error": reason(error)[:_LONGEST_ERROR]}, []
    return Answer({**content, "id": number if isinstance(number, int) else None}, buffers)


def _answering(request: Mapping[str, Any]) -> Callable[[JobLanes, Mapping[str, Any]], Answer]:
    kind = request.get("kind")
    if not isinstance(kind, str) or kind not in _ANSWERS:
        msg = f"a request must be one of {', '.join(_ANSWERS)}, got {kind!r:.80}"
        raise ParameterError(msg)
    return _ANSWERS[kind]


def _window(lanes: JobLanes, request: Mapping[str, Any]) -> Answer:
    asked = _lanes_asked(request.get("lanes"))
    start_ns, end_ns = (_whole(request, name) for name in ("start", "end"))
    pixels = min(_whole(request, "pixels"), MOST_PIXELS)
    most = min(MOST_EVENTS, MOST_EVENTS_IN_ALL // max(len(asked), 1))
    search = _search_asked(request)
    found = lanes.window(asked, start_ns, end_ns, pixels, most_events=most, search=search)
    edges = pixel_edges(start_ns, end_ns, pixels)
    told, buffers = window_bytes(found, edges)
    names, name_of = lanes.names_of(
        [(lane.rank, each) for lane, each in zip(asked, found, strict=True) if each is not None]
    )
    content = {
        "kind": "window",
        "start": start_ns,
        "end": end_ns,
        "bins": edges.size - 1,
        "lanes": told,
        "names": names,
        "labels": distinct_names([MODULE.sub("", name) for name in names], _LABEL_WIDTH),
    }
    return Answer(content, [*buffers, name_of.astype("int32").tobytes(), curve_bytes(found)])


def _bands(lanes: JobLanes, request: Mapping[str, Any]) -> Answer:
    ranks = request.get("ranks")
    if not isinstance(ranks, list) or not all(type(each) is int for each in ranks):
        msg = f"ranks must be whole numbers, got {ranks!r:.80}"
        raise ParameterError(msg)
    start_ns, end_ns, pixels = (_whole(request, name) for name in ("start", "end", "pixels"))
    told, bins, planes = band_window(lanes, ranks, start_ns, end_ns, pixels)
    where = {"start": start_ns, "end": end_ns, "bins": bins}
    return Answer({"kind": "bands", **where, "bands": told}, [planes])


def _lanes(lanes: JobLanes, request: Mapping[str, Any]) -> Answer:
    rank = _whole(request, "rank")
    names = [name._asdict() for name in lanes.of(rank).names]
    return Answer({"kind": "lanes", "rank": rank, "lanes": names}, [])


def _added(lanes: JobLanes, request: Mapping[str, Any]) -> Answer:
    rank, kinds = _whole(request, "rank"), known_kinds(request.get("lanes"), lanes.kinds)
    found = {kind: lanes.added(rank, kind) for kind in kinds}
    content = {
        "kind": "added",
        "rank": rank,
        "lanes": [name._asdict() for names in found.values() for name in names],
        "none": [lanes.why_none(rank, kind) for kind, names in found.items() if not names],
    }
    return Answer(content, [])


def _kinds(lanes: JobLanes, request: Mapping[str, Any]) -> Answer:  # noqa: ARG001
    why = lanes.kinds_without_lanes()
    kinds = [
        {"name": name, "label": each.label, "why_none": why.get(name, "")}
        for name, each in lanes.kinds.items()
    ]
    return Answer({"kind": "kinds", "kinds": kinds}, [])


def _event(lanes: JobLanes, request: Mapping[str, Any]) -> Answer:
    rank, row = _whole(request, "rank"), _whole(request, "row")
    return Answer({"kind": "event", "rank": rank, **lanes.event(rank, row)}, [])


def _next(lanes: JobLanes, request: Mapping[str, Any]) -> Answer:
    rank, row = _whole(request, "rank"), _whole(request, "row")
    key, forward = _direction(request)
    return _found(rank, lanes.next_event(rank, key, row, forward=forward))


def _first(lanes: JobLanes, request: Mapping[str, Any]) -> Answer:
    rank, time_ns = _whole(request, "rank"), _whole(request, "time")
    key, forward = _direction(request)
    return _found(rank, lanes.first_event(rank, key, time_ns, forward=forward))


def _direction(request: Mapping[str, Any]) -> tuple[str, bool]:
    key, forward = request.get("key"), request.get("forward")
    if not isinstance(key, str) or not isinstance(forward, bool):
        msg = f"key must be a text, and forward true or false, got {(key, forward)!r:.80}"
        raise ParameterError(msg)
    return key, forward


def _found(rank: int, found: EventFacts | None) -> Answer:
    return Answer({"kind": "event", "rank": rank, **found} if found else {"kind": "none"}, [])


_ANSWERS: Final = {
    "window": _window,
    "bands": _bands,
    "lanes": _lanes,
    "added": _added,
    "kinds": _kinds,
    "event": _event,
    "first": _first,
    "next": _next,
}


def known_kinds(value: object, kinds: Collection[str]) -> tuple[str, ...]:
    """The kinds of lanes that are asked for, each once and in the order of `kinds`.

    Raises a `ParameterError` if one is unknown.
    """
    given = value if isinstance(value, list | tuple) else [value]
    wrong = [each for each in given if not isinstance(each, str) or each not in kinds]
    if wrong:
        msg = f"lanes must be among {', '.join(kinds)}, got {wrong[0]!r:.80}"
        raise ParameterError(msg)
    return tuple(kind for kind in kinds if kind in given)


def _whole(request: Mapping[str, Any], name: str) -> int:
    value = request.get(name)
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or abs(number) > _LIMIT_NS:
        msg = f"{name} must be a whole number below 2**53, got {value!r:.80}"
        raise ParameterError(msg)
    return number


def _search_asked(request: Mapping[str, Any]) -> Search | None:
    text, is_whole = request.get("find", ""), request.get("whole", False)
    if not isinstance(text, str) or not isinstance(is_whole, bool) or len(text) > _LONGEST_TEXT:
        msg = f"find must be a text, and whole true or false, got {(text, is_whole)!r:.80}"
        raise ParameterError(msg)
    return Search(text, is_whole) if text else None


def _lanes_asked(value: object) -> list[LaneAsked]:
    given = value if isinstance(value, list) else [None]
    asked = [
        LaneAsked(*each)
        for each in given
        if isinstance(each, list)
        and [type(part) for part in each] == [int, str, int]
        and abs(each[2]) <= _LIMIT_NS
    ]
    if len(asked) != len(given) or len(asked) > MOST_LANES:
        msg = f"lanes must be at most {MOST_LANES} times (rank, key, shift), got {value!r:.80}"
        raise ParameterError(msg)
    return asked
