"""Load one PyTorch-profiler (Kineto) trace."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from hta_widgets.garbage_collection import no_garbage_collection
from hta_widgets.quantities import some_of
from hta_widgets.trace.loaders.columns import whole_number
from hta_widgets.trace.loaders.kineto.builder import EventsBuilder
from hta_widgets.trace.loaders.kineto.decode import decode_events
from hta_widgets.trace.loaders.kineto.text import EventText
from hta_widgets.trace.loaders.timestamps import FARTHEST_NS
from hta_widgets.trace.model.events import Events, Faults, Trace
from hta_widgets.trace.model.notices import Notice

BASE_TIME: Final = "baseTimeNanoseconds"
"""Key of the zero of a file's times; in most versions, it is after the events."""

_TRUNCATED: Final = "the file is truncated; its {} complete events are loaded"
_DAMAGED: Final = (
    "the compressed file is damaged (its checksum is wrong): copy it again; "
    "the {} events that were readable are loaded and may be wrong"
)
_UNREADABLE_END: Final = "the metadata after the events is not JSON and is not read"
_SURPLUS: Final = "{} bytes after the end of the trace in its file are not read"
_OTHER_LIST: Final = "{} events in another list of the same file (traceEvents) are not read"


_CATEGORIES: Final = 5
_CATEGORY_CHARACTERS: Final = 40

TOOLS: Final = {
    "JAX or TensorFlow": re.compile(rb'"name"\s*:\s*"/(?:device|host):'),
    "Ascend's profiler": re.compile(rb'"Ascend Hardware"'),
    "rocprof": re.compile(rb'"name"\s*:\s*"(?:CPU H(?:IP|SA) API|GPU\d+)"'),
    "the old autograd profiler": re.compile(rb'"pid"\s*:\s*"C(?:PU|UDA) functions"'),
    "Triton Inference Server": re.compile(rb'"name"\s*:\s*"(?:REQUEST|COMPUTE)_START"'),
}
"""What each tool calls the processes, or the events, in its traces."""


def load_kineto(path: Path, rank: int, on_read: Callable[[int], object] | None = None) -> Trace:
    """Load a ``.json`` trace, compressed or not, in the object or the bare-array form.

    `on_read` is called with the number of bytes of the file read since the last call. Raises
    `TraceFormatError` if the file is not a JSON trace.
    """
    text = EventText(path, on_read)
    builder = EventsBuilder()
    with no_garbage_collection():
        for piece in text:
            reading = decode_events(piece, text.separator, text.hold_back)
            builder.add(reading)
            del reading, piece  # free its events before the next ones are decoded
    metadata, others = text.metadata(), builder.categories_of_others()
    table, first_ns = builder.finish()
    base = base_ns(metadata)
    is_whole = not (text.truncated or text.damaged or text.ending.unreadable)
    return Trace(
        rank=rank,
        source=str(path),
        events=table,
        origin_ns=first_ns + base,
        metadata=metadata,
        notices=(
            *_notices_on_end(text, table),
            *builder.notices(),
            *([other_tool_notice(others, EventText(path))] if others else []),
        ),
        base_ns=base if is_whole or BASE_TIME in metadata else None,
        faults=Faults(is_cut=text.truncated or text.damaged),
    )


def base_ns(metadata: Mapping[str, Any]) -> int:
    """Zero of the file's own clock, in ns since the Unix epoch; 0 if it is not recorded."""
    return whole_number(metadata.get(BASE_TIME), FARTHEST_NS) or 0


def _notices_on_end(text: EventText, events: Events) -> list[Notice]:
    """Notices about what the end of the file lacks, and what it has that is not read."""
    ending = text.ending
    found = []
    if text.damaged:
        found.append(Notice(_DAMAGED, (len(events),)))
    elif text.truncated:
        found.append(Notice(_TRUNCATED, (len(events),)))
    if ending.unreadable:
        found.append(Notice(_UNREADABLE_END))
    counts = {_SURPLUS: ending.surplus_bytes, _OTHER_LIST: ending.surplus_events}
    return found + [Notice(words, (count,)) for words, count in counts.items() if count]


def other_tool_notice(categories: Sequence[str], pieces: Iterable[bytes]) -> Notice:
    """Notice that says what a trace holds instead of GPU work, and what is supported.

    Categories are those of its complete events that are not the PyTorch profiler's, sorted; empty
    for events without a category.
    """
    return Notice(
        "no event has a category of GPU work (kernel, gpu_memcpy, gpu_memset); there are events "
        f"{_described(categories)}. This looks like a trace of {tool_of(pieces)}, which is not "
        "supported; give a trace of torch.profiler or an export of Nsight Systems"
    )


def tool_of(pieces: Iterable[bytes]) -> str:
    """The tool that wrote a trace that is not the PyTorch profiler's."""
    named = (tool for piece in pieces for tool, says in TOOLS.items() if says.search(piece))
    return next(named, "another tool")


def _described(categories: Sequence[str]) -> str:
    named = [f"'{name[:_CATEGORY_CHARACTERS]}'" for name in categories if name]
    names = some_of(named, _CATEGORIES).replace("{", "(").replace("}", ")")
    said = ["without a category"] * ("" in categories)
    if named:
        noun = "categories" if len(named) > 1 else "category"
        said.append(f"of the {noun} {names}")
    return " and ".join(said)
