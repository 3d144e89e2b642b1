"""What a job wants to know of each rank, whatever is analysed."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from hta_widgets.trace.model.notices import Notice
from hta_widgets.trace.ranks.rank import Lacks, Rank


class Origin(NamedTuple):
    """Place of a rank's own times on the recording clock, and whether it has any."""

    ns: int
    has_events: bool


def origin_of(rank: Rank) -> Origin:
    """Time from which the rank's times count."""
    return Origin(rank.trace.origin_ns, len(rank.trace.events) > 0)


def notices_of(rank: Rank) -> tuple[Notice, ...]:
    """What was left out or not matched on the rank."""
    return rank.notices


def lacks_of(rank: Rank) -> Lacks:
    """What the rank does not hold, since its format does not."""
    return rank.lacks


STANDING: Final = MappingProxyType[str, Callable[[Rank], Any]](
    {"origin": origin_of, "notices": notices_of, "lacks": lacks_of}
)
"""Asked along with the first question about a rank, so that it is not loaded again for them."""
