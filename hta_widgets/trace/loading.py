"""Load ranks: from the cache where they are in it, several at a time in processes of their own."""

from __future__ import annotations

from hta_widgets.trace import cache
from hta_widgets.trace.arrow_file import StoredTrace
from hta_widgets.trace.links import launch_rows
from hta_widgets.trace.nesting import parent_rows
from hta_widgets.trace.rank_source import OnRead, RankSource

LAUNCHES = "launches"
PARENTS = "parents"


def load_rank(source: RankSource, rank: int, on_read: OnRead | None = None) -> StoredTrace:
    """Load one rank, with its links, and keep it in the cache.

    Parameters
    ----------
    source : RankSource
    rank : int
    on_read : callable, optional
        Called with the number of bytes read since the last call.
    """
    source = source.here()
    if not cache.wanted(source):
        return StoredTrace(source.load(rank, on_read), {})
    found = cache.stored(source, rank)
    if found is not None:
        if on_read:
            on_read(source.size)
        return found
    trace = source.load(rank, on_read)
    links = {LAUNCHES: launch_rows(trace.events), PARENTS: parent_rows(trace.events)}
    loaded = StoredTrace(trace, links)
    cache.store(source, rank, loaded)
    return loaded
