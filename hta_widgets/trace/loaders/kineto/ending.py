"""The end of a file's text: its last events, and the metadata after them."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from hta_widgets.trace.loaders.kineto.brackets import WHITE, closing_bracket, whole_until

EVENTS_KEY: Final = "traceEvents"
_BEHIND_EVENTS: Final = re.compile(rb'\]\s*(?:,\s*"[^"\\]*"\s*:|\}\s*$|[\[{])')
_TRIES: Final = 64
_DECODER: Final = json.JSONDecoder(strict=False)


class Ending(NamedTuple):
    """What the last text of a file consists of."""

    events: bytes
    """The text before the bracket that closes the list of events, or without such a bracket, the
    complete events."""
    tail: bytes = b""
    """The usable text after that bracket: head, bracket and tail together are JSON."""
    truncated: bool = False
    """Whether the text ends before the document does."""
    unreadable: bool = False
    """Whether the metadata after the events is not JSON."""
    surplus_bytes: int = 0
    """Number of bytes after the end of the document."""
    surplus_events: int = 0
    """Number of events in further lists under the same key."""

    @property
    def is_sound(self) -> bool:
        """Whether the document ends exactly where its text ends."""
        return not (self.truncated or self.unreadable or self.surplus_bytes)


def ending_of(head: bytes, text: bytes) -> Ending:
    """Find the end of the events in a text that runs from some event to the end of the file.

    The head is the text before the events, with the bracket that opens their list.
    """
    is_bare = head.lstrip(WHITE).startswith(b"[")
    closing = closing_bracket(text, depth=1)
    if closing is None:
        tail = b"" if is_bare else b"}"
        return Ending(text[: whole_until(text)], tail, truncated=True)
    events, tail = text[: closing - 1], text[closing:]
    if is_bare:
        return Ending(events, surplus_bytes=len(tail.strip(WHITE)))
    return _ending_of_object(head, events, tail)


def end_of_list(text: bytes) -> int | None:
    """Position of the bracket that closes the list of events, in a text that starts at an event."""
    closing = closing_bracket(text, depth=1)
    is_end = closing is not None and _BEHIND_EVENTS.match(text, closing - 1)
    return closing - 1 if closing is not None and is_end else None


def metadata_in(head: bytes, tail: bytes) -> dict[str, Any]:
    """Everything in a file but the events, given the usable text around them."""
    text = (head + b"]" + tail).decode("utf-8", "replace")
    try:
        parsed = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(parsed, dict):
        return {}
    return {key: value for key, value in parsed.items() if key != EVENTS_KEY}


def _ending_of_object(head: bytes, events: bytes, tail: bytes) -> Ending:
    parsed, rest = _parse(head + b"]" + tail)
    if isinstance(parsed, dict):
        others = parsed.get(EVENTS_KEY)
        return Ending(
            events,
            tail[: len(tail) - len(rest)],
            surplus_bytes=len(rest.strip(WHITE)),
            surplus_events=len(others) if isinstance(others, list) else 0,
        )
    is_cut = closing_bracket(head + b"]" + tail, depth=0) is None
    return Ending(events, _usable(head, tail), truncated=is_cut, unreadable=not is_cut)


def _usable(head: bytes, tail: bytes) -> bytes:
    """As much of the metadata after the events as is JSON."""
    end = len(tail)
    for _ in range(_TRIES):
        end = tail.rfind(b",", 0, end)
        if end < 0:
            break
        usable = tail[:end] + b"}"
        parsed, rest = _parse(head + b"]" + usable)
        if isinstance(parsed, dict) and not rest:
            return usable
    return b"}"


def _parse(text: bytes) -> tuple[object, bytes]:
    """The first JSON document in a text, and what follows it; None if there is none."""
    decoded = text.decode("utf-8", "surrogateescape")
    try:
        parsed, end = _DECODER.raw_decode(decoded.lstrip())
    except (ValueError, RecursionError):
        return None, text
    rest = decoded.lstrip()[end:]
    return parsed, rest.encode("utf-8", "surrogateescape")
