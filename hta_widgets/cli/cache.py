"""Output of ``hta-widgets cache``: what the cache holds, or how much was removed from it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from hta_widgets.quantities import counted, data_size
from hta_widgets.terminal import printable
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

MAX_ENTRIES = 10

_IS_OFF = f"The cache is off ({VARIABLE}={OFF}): nothing is read from it or written to it.\n"


def describe_cache(folder: Path | None) -> str:
    """Describe the cache: its folder, unless it is off, its size and the traces used last."""
    if folder is None:
        return _IS_OFF
    found = entries(folder)
    total = sum(entry.size for entry in found)
    size = f"{data_size(total)} of at most {data_size(size_limit())}"
    lines = [
        f"folder  {printable(str(folder))}  ({VARIABLE})",
        f"traces  {len(found)}",
        f"size    {size}  ({SIZE_VARIABLE})",
    ]
    if found:
        lines += ["", f"{'last used':<16}  {'size':>11}  trace", *map(_line, found[:MAX_ENTRIES])]
    if len(found) > MAX_ENTRIES:
        lines.append(f"and {len(found) - MAX_ENTRIES} more, used earlier")
    return "\n".join(lines) + "\n"


def clear_cache(folder: Path | None) -> str:
    """Clear the cache and report how much was removed."""
    if folder is None:
        return _IS_OFF
    before = len(entries(folder))
    removed = clear(folder)
    left = len(entries(folder))
    words = f"removed {counted(before - left, 'trace')} ({data_size(removed)}) from {folder}"
    if left:
        words += f"; {left} could not be removed (in use, or no permission)"
    return printable(words) + "\n"


def _line(entry: CacheEntry) -> str:
    used = datetime.fromtimestamp(entry.used_s).astimezone()
    trace = printable(describe_entry(entry))
    return f"{used:%Y-%m-%d %H:%M}  {data_size(entry.size):>11}  {trace}"
