"""The name of a lane of a rank."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Drawn: TypeAlias = Literal["rank", "phases", "stream", "thread", "range", "curve", "path"]
"""What is drawn in a lane."""


class LaneName(NamedTuple):
    """The name and kind of a lane of a rank."""

    key: str
    """Unique among the lanes of the rank."""
    kind: Drawn
    """What is drawn; a ``range`` is a named stretch of GPU work, a ``path`` what sets the time of
    the steps."""
    label: str
    """Name on screen."""
    level: int = 0
    """Level of nesting, or 0."""
    unit: str = ""
    """Unit of curves: ``operations``, ``GB/s`` or ``bytes``; of a path, ``ns``."""
    most: tuple[float, ...] = ()
    """Largest value of each curve; for a path, the length of all of it over all ranks."""
    words: tuple[str, ...] = ()
    """What each curve shows, if there are several."""
