"""Load one rank, from the cache if it is cached."""

from __future__ import annotations

from pathlib import Path

from hta_widgets.errors import memory_errors_as_ours
from hta_widgets.progress import OnRead
from hta_widgets.trace.cache.trace_file import LoadedTrace
from hta_widgets.trace.loaders.freed_memory import reuse_freed_memory
from hta_widgets.trace.model.links import launch_rows
from hta_widgets.trace.model.nesting import parent_rows
from hta_widgets.trace.ranks import cache
from hta_widgets.trace.ranks.source import RankSource

LAUNCH_ROWS = "launches"
PARENT_ROWS = "parents"


def load_rank(
    source: RankSource,
    rank: int,
    on_read: OnRead | None = None,
    folder: Path | None = None,
) -> LoadedTrace:
    """Load one rank with its links, using the cache, or the given folder in its place if it exists.

    `on_read` is called with the number of bytes read since the last call. Raises `OutOfMemoryError`
    if memory runs out.
    """
    with memory_errors_as_ours(f"loading {source.name}"):
        reuse_freed_memory()
        folder = folder if folder is not None and folder.is_dir() else None
        if folder is None and not cache.should_cache(source):
            return LoadedTrace(source.load(rank, on_read), {})
        found = cache.load(source, rank, folder)
        if found is None:
            return read_again(source, rank, on_read, folder)
        if on_read:
            on_read(source.size)
        return found


def read_again(
    source: RankSource,
    rank: int,
    on_read: OnRead | None = None,
    folder: Path | None = None,
) -> LoadedTrace:
    """Load one rank with its links from its source, and overwrite the cached one."""
    source = source.fetch()
    linked = with_links(LoadedTrace(source.load(rank, on_read), {}))
    loaded = cache.store(source, rank, linked, folder)
    if loaded.derived is not None:
        source.drop_copy()
    return loaded


def with_links(loaded: LoadedTrace) -> LoadedTrace:
    """Return the trace with the launch and the parent of each event."""
    if loaded.links:
        return loaded
    events = loaded.trace.events
    return loaded._replace(
        links={LAUNCH_ROWS: launch_rows(events), PARENT_ROWS: parent_rows(events)}
    )
