"""What ``hta-widgets cache`` says: what the cache holds, or how much of it was removed."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from hta_widgets.quantities import data_size
from hta_widgets.trace.cache.files import (
    OFF,
    SIZE_VARIABLE,
    VARIABLE,
    CacheEntry,
    clear,
    entries,
    size_limit,
)
from hta_widgets.trace.ranks.cache import describe_entry

SHOWN_AT_MOST = 10

_IS_OFF = f"The cache is off ({VARIABLE}={OFF}): nothing is read from it or written to it.\n"


def shown(folder: Path | None) -> str:
    """Say where the cache is, how large, and what was used last.

    Parameters
    ----------
    folder : Path or None
        None where the cache is off.
    """
    if folder is None:
        return _IS_OFF
    found = entries(folder)
    total = sum(entry.size for entry in found)
    size = f"{data_size(total)} of at most {data_size(size_limit())}"
    lines = [
        f"folder  {_printable(str(folder))}  ({VARIABLE})",
        f"traces  {len(found)}",
        f"size    {size}  ({SIZE_VARIABLE})",
    ]
    if found:
        lines += ["", f"{'last used':<16}  {'size':>11}  trace", *map(_line, found[:SHOWN_AT_MOST])]
    if len(found) > SHOWN_AT_MOST:
        lines.append(f"and {len(found) - SHOWN_AT_MOST} more, used earlier")
    return "\n".join(lines) + "\n"


def cleared(folder: Path | None) -> str:
    """Clear the cache, and say how much was removed."""
    if folder is None:
        return _IS_OFF
    there = len(entries(folder))
    removed = clear(folder)
    left = len(entries(folder))
    words = f"removed {_traces(there - left)} ({data_size(removed)}) from {folder}"
    if left:
        words += f"; {left} could not be removed (in use, or no permission)"
    return _printable(words) + "\n"


def _traces(count: int) -> str:
    return f"{count} trace" if count == 1 else f"{count} traces"


def _line(entry: CacheEntry) -> str:
    used = datetime.fromtimestamp(entry.used_s).astimezone()
    trace = _printable(describe_entry(entry))
    return f"{used:%Y-%m-%d %H:%M}  {data_size(entry.size):>11}  {trace}"


def _printable(text: str) -> str:
    """Text without what would move the cursor of a terminal."""
    return "".join(char if char.isprintable() else "?" for char in text)
