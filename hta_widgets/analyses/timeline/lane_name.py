"""How a lane of a rank is called."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Drawn: TypeAlias = Literal["rank", "phases", "stream", "thread", "range", "curve", "path"]
"""What is drawn in a lane."""


class LaneName(NamedTuple):
    """A lane of a rank."""

    key: str
    """Unlike that of all other lanes of the rank."""
    kind: Drawn
    """What is drawn; a ``range`` is a named stretch of GPU work, a ``path`` what sets the time of
    the steps."""
    label: str
    """As on screen."""
    level: int = 0
    """Level of nesting, else 0."""
    unit: str = ""
    """Of curves: ``operations``, ``GB/s`` or ``bytes``; of a path ``ns``."""
    most: tuple[float, ...] = ()
    """Largest value of each curve; length of the whole path, of which a rank has a part."""
    words: tuple[str, ...] = ()
    """What each curve is, where there are several."""
