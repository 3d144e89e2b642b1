"""Whether the values of a cached trace can be those of one, whatever wrote the file.

Names, types and lengths of columns are checked when the file is opened, which takes 1.7 ms for two
million events. To look at all values takes 6 ms more, so whoever uses the trace first does, and
reads them anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from numpy.typing import NDArray

from hta_widgets.trace.cache.trace_file import LoadedTrace
from hta_widgets.trace.model.events import Kind, TextColumn

_AT_ONCE: Final = 1 << 15
"""Values that stay in the processor's cache while they are looked at several times."""

_FARTHEST_NS: Final = 1 << 62


def is_sound(stored: LoadedTrace) -> bool:
    """Whether all codes and rows are in range, and events and rows in order."""
    events = stored.trace.events
    count = len(events)
    texts, edges_ns = [events.name], events.start_ns[[0, -1]] if count else events.start_ns
    for table in events.side.values():
        if not (_within(table.rows, 0, count) and _is_ascending(table.rows)):
            return False
        texts += [each for each in table.columns.values() if isinstance(each, TextColumn)]
    return (
        _within(events.kind, 0, len(Kind))
        and all(_within(each.codes, -1, len(each.values)) for each in texts)
        and all(_within(rows, -1, count) for rows in stored.links.values())
        and _within(events.duration_ns, 0, _FARTHEST_NS)
        and _within(edges_ns, -_FARTHEST_NS, _FARTHEST_NS)
        and _is_ascending(events.start_ns)
    )


def _within(values: NDArray[Any], least: int, end: int) -> bool:
    return all(part.min() >= least and part.max() < end for part in _parts(values, 0))


def _is_ascending(values: NDArray[Any]) -> bool:
    return all(bool((part[1:] >= part[:-1]).all()) for part in _parts(values, 1))


def _parts(values: NDArray[Any], beyond: int) -> Iterator[NDArray[Any]]:
    """Parts of an array: the number of values of the next one in each."""
    return (values[at : at + _AT_ONCE + beyond] for at in range(0, values.size, _AT_ONCE))
