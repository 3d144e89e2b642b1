"""Load one PyTorch-profiler (Kineto) trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from hta_widgets.trace.loaders.columns import whole_number
from hta_widgets.trace.loaders.garbage_collection import no_garbage_collection
from hta_widgets.trace.loaders.kineto.builder import EventsBuilder
from hta_widgets.trace.loaders.kineto.decode import decode_events
from hta_widgets.trace.loaders.kineto.text import EventText
from hta_widgets.trace.model.events import Events, Trace
from hta_widgets.trace.model.notices import Notice

BASE_TIME: Final = "baseTimeNanoseconds"
"""Where a file says from when its times count; behind the events, in most versions."""

_TRUNCATED: Final = "the file is truncated; its {} complete events are loaded"
_DAMAGED: Final = (
    "the gzip file is damaged (its checksum is wrong): copy it again; "
    "the {} events that were readable are loaded and may be wrong"
)


def load_kineto(path: Path, rank: int, on_read: Callable[[int], object] | None = None) -> Trace:
    """Load a ``.json`` or ``.json.gz`` trace, in the object or the bare-array form.

    Parameters
    ----------
    path : Path
    rank : int
        The rank of the trace.
    on_read : callable, optional
        Called with the number of bytes of the file read since the last call.

    Returns
    -------
    Trace

    Raises
    ------
    TraceFormatError
        If the file is not a JSON trace.
    """
    text = EventText(path, on_read)
    builder = EventsBuilder()
    with no_garbage_collection():
        for piece in text:
            events, unreadable = decode_events(piece, text.separator)
            builder.add(events, unreadable, piece)
            del events  # free them before the next ones are decoded
    metadata = text.metadata()
    table, first_ns = builder.finish()
    base = base_ns(metadata)
    is_lost = (text.truncated or text.damaged) and BASE_TIME not in metadata
    return Trace(
        rank=rank,
        source=str(path),
        events=table,
        origin_ns=first_ns + base,
        metadata=metadata,
        notices=(*_truncation_notice(text, table), *builder.notices()),
        base_ns=None if is_lost else base,
    )


def base_ns(metadata: Mapping[str, Any]) -> int:
    """Zero of the file's own clock, in ns since the Unix epoch; 0 if it is not recorded."""
    return whole_number(metadata.get(BASE_TIME)) or 0


def _truncation_notice(text: EventText, events: Events) -> list[Notice]:
    if text.damaged:
        return [Notice(_DAMAGED, (len(events),))]
    return [Notice(_TRUNCATED, (len(events),))] if text.truncated else []
