"""The common clock of a job's ranks.

A Kineto file counts its times from ``baseTimeNanoseconds``, which is written after the events. A
truncated file has lost it::

    rank 0   |base ........ |first event            recorded
    rank 1   ?    ........  |first event            truncated: takes the base of the other ranks
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from hta_widgets.trace.model.events import Trace
from hta_widgets.trace.model.notices import Notice
from hta_widgets.trace.ranks.rank import Rank

_BASE_OF_OTHERS: Final = Notice(
    "the truncated file has lost the zero of its times (baseTimeNanoseconds); "
    "that of the other ranks is used"
)


class ClockOrigin(NamedTuple):
    """Position of a rank's own times on the recording clock."""

    ns: int
    """Origin of the rank's times; counted from the base if that is lost."""
    has_events: bool
    base_ns: int | None
    """Zero of the file's times; None if the file is truncated before that value."""
    length_ns: int = 0
    """Time from the first event to the end of the last."""


def origin_of(rank: Rank) -> ClockOrigin:
    """Origin of the rank's times."""
    trace = rank.trace
    length_ns = int(trace.events.end_ns.max(initial=0))
    return ClockOrigin(trace.origin_ns, len(trace.events) > 0, trace.base_ns, length_ns)


class JobClock(NamedTuple):
    """The clock on which the ranks of a job are aligned."""

    origin_ns: int
    """Time of the first event of all ranks, on the recording clock."""
    lost_base_ns: int
    """Base for the ranks that have lost theirs."""

    @classmethod
    def of(cls, origins: Iterable[ClockOrigin]) -> JobClock:
        """Clock of all ranks; a lost base becomes the most common one, or 0 if there is none."""
        with_events = [each for each in origins if each.has_events]
        bases = Counter(each.base_ns for each in with_events if each.base_ns is not None)
        lost = max(bases, key=lambda base: (bases[base], -base), default=0)
        return cls(min((_place_ns(each, lost) for each in with_events), default=0), lost)

    def offset_of(self, origin: ClockOrigin) -> int:
        """Time (ns) to add to a rank's own times to align it with the others."""
        return _place_ns(origin, self.lost_base_ns) - self.origin_ns

    def offset_ns(self, trace: Trace) -> int:
        """Time (ns) to add to a trace's own times to align it with the others."""
        return self.offset_of(ClockOrigin(trace.origin_ns, len(trace.events) > 0, trace.base_ns))

    def notices(self, origin: ClockOrigin) -> tuple[Notice, ...]:
        """Notice for a rank that is aligned by the base of the others."""
        return (_BASE_OF_OTHERS,) if origin.base_ns is None and self.lost_base_ns else ()


def _place_ns(origin: ClockOrigin, lost_base_ns: int) -> int:
    return origin.ns + (lost_base_ns if origin.base_ns is None else 0)
