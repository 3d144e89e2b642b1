"""Cycles: repeated recordings of the same ranks, one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Final, NamedTuple

from hta_widgets.errors import UnknownCycleError
from hta_widgets.quantities import named_numbers
from hta_widgets.trace.ranks.source import RankSource

NEWEST: Final = -1

_SHOWN_AT_END: Final = 4


class Cycle(NamedTuple):
    """One recording of the ranks of a job."""

    sources: Mapping[int, RankSource]
    """Where the trace of each rank is."""
    time_ns: int | None = None
    """When it was recorded (ns since 1970), if the first bytes or the names say so."""
    step: int | None = None
    """Number of an early ProfilerStep."""
    stage: str = ""
    """What a server was doing, if the names say so."""

    @property
    def label(self) -> str:
        """When it was recorded, its step and its stage; empty if none of these is known.

        Examples
        --------
        >>> Cycle({}, 1_751_410_837_000_000_000, 4).label
        '2025-07-01 23:00:37 UTC, ProfilerStep 4'
        """
        step = "" if self.step is None else f"ProfilerStep {self.step}"
        return ", ".join(filter(None, [utc(self.time_ns), step, self.stage]))


def utc(time_ns: int | None) -> str:
    """A time in words; empty if it is unknown, or beyond the calendar.

    Examples
    --------
    >>> utc(0), utc(2**70)
    ('1970-01-01 00:00:00 UTC', '')
    """
    try:
        time = datetime.fromtimestamp((time_ns or 0) // 10**9, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return ""
    return "" if time_ns is None else f"{time:%Y-%m-%d %H:%M:%S} UTC"


def number_of_cycle(cycles: Sequence[Cycle], cycle: int) -> int:
    """Number of a cycle from 0, the oldest; negative numbers count back from -1, the newest.

    Raises `UnknownCycleError` if there is no such cycle.
    """
    count = len(cycles)
    if -count <= cycle < count:
        return cycle % count
    if count == 1:
        msg = f"there is no cycle {cycle}: the ranks were recorded once, which is cycle 0"
        raise UnknownCycleError(msg)
    every = _listed(descriptions(cycles))
    msg = f"there is no cycle {cycle}; there are {every}, and -1 is the newest"
    raise UnknownCycleError(msg)


def cycle_notice(cycles: Sequence[Cycle], number: int) -> list[str]:
    """Notice about the cycles that are not open; empty if there is only one."""
    if len(cycles) == 1:
        return []
    which = ", the newest" if number == len(cycles) - 1 else ""
    others = descriptions(cycles)
    del others[number]
    are = "the other is" if len(others) == 1 else "the others are"
    another = number - 1 if number else 1
    notice = (
        f"cycle {number} of {len(cycles)} is open{which}; {are} {_listed(others)}: "
        f"cycle={another} opens another, --cycle {another} in a shell"
    )
    return [notice]


def descriptions(cycles: Sequence[Cycle]) -> list[str]:
    """Each cycle in words: its number and label, and its ranks if they differ between cycles."""
    same = len({frozenset(each.sources) for each in cycles}) == 1
    return [_described(number, each, same=same) for number, each in enumerate(cycles)]


def _described(number: int, cycle: Cycle, *, same: bool) -> str:
    ranks = "" if same else named_numbers("rank", cycle.sources)
    details = ", ".join(filter(None, [cycle.label, ranks]))
    return f"cycle {number} ({details})" if details else f"cycle {number}"


def _listed(words: Sequence[str]) -> str:
    """A list in words; the middle of a long list is left out."""
    if len(words) > 2 * _SHOWN_AT_END:
        words = [*words[:_SHOWN_AT_END], "…", *words[-_SHOWN_AT_END:]]
    return ", ".join(words)
